"""Child processes: start, watch, restart with back-off, drain and stop under one deadline."""
