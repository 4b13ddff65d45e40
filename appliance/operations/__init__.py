"""What can be asked of a model: token ids of a batch to tensors, and tensors to one output per input."""
