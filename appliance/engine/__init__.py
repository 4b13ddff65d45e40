"""The process that runs models, a worker's child. It may die; the worker lives."""
