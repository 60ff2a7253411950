"""Linear algebra in terms of other operators."""
