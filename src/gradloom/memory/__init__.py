"""Memory of arrays: its owner, and arrays whose values are conjugated or negated when read."""
