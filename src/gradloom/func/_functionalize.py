"""Functions without writes to their inputs' views, as a tracer would see them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gradloom.core.tensor import Tensor
from gradloom.types.device import strided
from gradloom.utils._pytree import tree_map

__all__ = ["functionalize"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function with the results of `func`; none of them is an argument or a view of one.

    For PyTorch's tracers it also replaces in-place operators and views by others. Nothing is traced here, so `func`
    runs as it is, and what it writes to its arguments is written.

    Args:
        func: takes and returns tensors, or containers of tensors.
        remove: "mutations", or "mutations_and_views".

    Raises:
        RuntimeError: for another `remove`.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced "
            "with their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, all "
            "aliasing operators {view} will be replaced with their non-aliasing counterparts, {view}_copy."
        )

    @wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = func(*args, **kwargs)
        memory = set()
        tree_map(lambda x: memory.add(_storage(x)) if isinstance(x, Tensor) else None, (args, kwargs))
        return tree_map(lambda x: x.clone() if isinstance(x, Tensor) and _storage(x) in memory else x, found)

    return wrapped


def _storage(tensor):
    return tensor.untyped_storage().data_ptr() if tensor.layout == strided else id(tensor)
