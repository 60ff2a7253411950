"""Names that packages look for in PyTorch's private package of this name."""
