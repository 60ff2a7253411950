"""Random operators, which draw the numbers of PyTorch's CPU generator for the same seed."""
