"""Tensors beside computing: construction, indexing, printing, conversion and exchange."""
