"""HTTP in, work items out, and back. The request exists here only."""
