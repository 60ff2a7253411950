"""Arguments and results of the functions in `functional`: one Tensor, or a tuple of them. Packages import the names."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """Return whether `inp` is a tuple, and itself as a tuple of Tensors; without names the tuple alone, unchecked.

    Args:
        inp: a Tensor or a tuple of Tensors.
        arg_name: what it is, for the error.
        fn_name: the function that it is given to.

    Raises TypeError for anything else, if there are names.
    """
    several = isinstance(inp, tuple)
    found = inp if several else (inp,)
    if arg_name is None and fn_name is None:
        return found
    for i, item in enumerate(found):
        if not isinstance(item, Tensor):
            which = f"value at index {i}" if several else f"given {arg_name}"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the {which} has "
                f"type {type(item)}."
            )
    return several, found


def _tuple_postprocess(res: tuple[Any, ...], to_unpack: bool | tuple[bool, ...]) -> Any:
    """Return a result as the caller gave the inputs: the tuple, or its only element.

    Args:
        res: the result; for two nested tuples, `to_unpack` has the answer for the outer and the inner one.
        to_unpack: whether a tuple was given.
    """
    if isinstance(to_unpack, tuple):
        outer, inner = to_unpack
        found = res if inner else tuple([row[0] for row in res])
        return found if outer else found[0]
    return res if to_unpack else res[0]


def _grad_postprocess(inputs: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """Return tensors, or tuples of tensors, without their graph unless `create_graph`."""
    if create_graph:
        return inputs
    return tuple([t.detach() if isinstance(t, Tensor) else _grad_postprocess(t, False) for t in inputs])
