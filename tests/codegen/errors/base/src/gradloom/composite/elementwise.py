"""Composites that the broken files may name; they are read, never run."""


def square(self):
    raise AssertionError("a composite ran while code was generated")
