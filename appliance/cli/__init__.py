"""The command line, one file per group. Handlers return the exit status."""
