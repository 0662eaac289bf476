"""Training by gradients at order 1/n for hundreds of samples: tensors tile by tile."""
