"""What travels between processes: frozen dataclasses, each with its codec and a version."""
