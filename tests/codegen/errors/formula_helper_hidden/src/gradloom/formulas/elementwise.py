"""Helpers for this case."""


def result(grad):
    return grad
