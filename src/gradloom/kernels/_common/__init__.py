"""What kernels of several families share: errors, dimensions, memory layout, dtypes, threads, sliding windows."""
