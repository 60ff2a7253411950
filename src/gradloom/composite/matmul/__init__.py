"""Products made of other operators."""
