"""Helpers for this case."""


def scale(grad: Tensor, factor, *, inverse=False) -> Tensor:
    raise AssertionError("a helper ran while code was generated")


def both(grad, other) -> tuple[Tensor, Tensor]:
    raise AssertionError("a helper ran while code was generated")
