"""Kernels: arrays in, arrays out, with NumPy (SciPy imported lazily). A family is a file or a folder of files."""
