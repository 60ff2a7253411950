"""Conformance of a library with PyTorch's API: PyTorch's own operator, module and optimizer databases, run on both."""
