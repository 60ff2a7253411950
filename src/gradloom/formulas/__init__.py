"""Derivative helpers that are too long for a YAML line, by family; made of differentiable operators."""
