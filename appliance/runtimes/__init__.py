"""What executes models. Knows arrays and files; no HTTP, no queue, no catalogue."""
