"""Kernels: functions from NumPy arrays to NumPy arrays (SciPy is imported lazily). A family is a file or a folder."""
