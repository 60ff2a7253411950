"""Helpers for this case."""


def scale(grad, factor):
    raise AssertionError("a helper ran while code was generated")
