"""The shared queue: the only place that imports nats."""
