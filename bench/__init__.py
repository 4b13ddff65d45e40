"""The benchmark: what the appliance reaches, each figure beside the best that its machine can do. See README.md."""
