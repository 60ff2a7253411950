"""Reductions made of other operators."""
