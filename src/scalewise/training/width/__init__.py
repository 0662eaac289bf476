"""Training by gradients at order 1/n: what algorithms weigh tensors with, and all of it for few samples."""
