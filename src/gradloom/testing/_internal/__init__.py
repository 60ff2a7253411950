"""The part of PyTorch's own test helpers that tests of other packages use."""
