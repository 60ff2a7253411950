"""Random operators, with the numbers of PyTorch's CPU generator for the same seed."""
