"""A family of two files."""
