"""Elementwise kernels. The wrappers bring inputs to a common dtype where that is needed; NumPy broadcasts them."""
