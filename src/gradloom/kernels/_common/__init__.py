"""Helpers shared by kernels of several families: errors, dimensions, memory layout, dtypes, threads, sliding
windows."""
