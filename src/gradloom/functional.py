"""Functions of the main namespace that take any number of tensors, or none at all: `meshgrid(x, y)`."""

from __future__ import annotations

from . import _operators
from .size import Size
from .tensor import Tensor

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
           "cartesian_prod", "meshgrid"]


def _listed(tensors):
    """What was passed one by one, or as one list."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors


def broadcast_tensors(*tensors):
    """The tensors, each expanded to their common shape.

    Returns:
        A tuple of views.

    Raises:
        RuntimeError: if the shapes do not broadcast.
    """
    return _operators.broadcast_tensors(_listed(tensors))


def broadcast_shapes(*shapes) -> Size:
    """The shape that tensors of these shapes (sequences of int, or single ints) have together.

    Raises:
        RuntimeError: if they do not broadcast, or a size is negative.
    """
    found: list[int] = []
    for position, shape in enumerate(shapes):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if min(shape, default=0) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension ({min(shape)}): ({min(shape)})")
        found[:0] = [1] * (len(shape) - len(found))
        for i in range(-1, -len(shape) - 1, -1):
            if shape[i] in (1, found[i]):
                continue
            if found[i] != 1:
                raise RuntimeError(f"Attempting to broadcast a dimension of length {shape[i]} at {i}! Mismatching "
                                   f"argument at index {position} had {shape}; but expected shape should be "
                                   f"broadcastable to {found}")
            found[i] = shape[i]
    return Size(found)


def meshgrid(*tensors, indexing=None):
    """Coordinates of the grid that vectors span.

    Args:
        tensors: of one dimension or none, and of one dtype.
        indexing: "ij" (the default, with a warning), or "xy", which swaps the first two dimensions.

    Returns:
        A tuple with one view per vector, each of the grid's shape.
    """
    tensors = _listed(tensors)
    if indexing is None:
        return _operators.meshgrid(tensors)
    return _operators.meshgrid(tensors, indexing=indexing)


def cartesian_prod(*tensors):
    """All combinations of one element of each vector: a matrix with a row for each; one vector comes back as it is."""
    return _operators.cartesian_prod(_listed(tensors))


def block_diag(*tensors):
    """The matrix with these matrices on its diagonal and zeros elsewhere; vectors are rows."""
    return _operators.block_diag(_listed(tensors))


def _at_least(name):
    def function(*tensors):
        given = _listed(tensors)
        found = getattr(_operators, name)
        return found(given[0]) if len(tensors) == 1 and isinstance(tensors[0], Tensor) else found(given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (f"The tensor, or each of several, with at least {name[-2]} dimension(s); what has them already "
                        "is returned as it is.")
    return function


atleast_1d, atleast_2d, atleast_3d = (_at_least(f"atleast_{n}d") for n in (1, 2, 3))
