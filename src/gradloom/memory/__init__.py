"""Memory of arrays: who owns it, and arrays whose values are conjugated or negated as they are read."""
