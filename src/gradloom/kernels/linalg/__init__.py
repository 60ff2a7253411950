"""Kernels of linear algebra: factorizations, solutions, and spectra of batches of matrices."""
