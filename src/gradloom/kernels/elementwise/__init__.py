"""Elementwise kernels. The wrappers promote the inputs to a common dtype where needed; NumPy broadcasts them."""
