"""Derivative helpers that are too long for a YAML line, by family; they use differentiable operators only."""
