"""Operators written in terms of other operators, by family; differentiable by composition."""
