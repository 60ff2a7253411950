"""vmap under the name that it had first, for programs that still use that."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .batching.mapping import vmap as _mapped
from .core.tensor import Tensor

in_dims_t = int | tuple
out_dims_t = int | tuple[int, ...]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """Deprecated: use `gradloom.vmap`."""
    import warnings

    warnings.warn("Please use `gradloom.vmap` instead of `gradloom._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """Return a function that applies `func` to all elements of a batch at once.

    Args:
        func: returns a Tensor or a tuple of Tensors.
        in_dims, out_dims: see `gradloom.vmap`; they must not be negative.
        allow_none_pass_through: return None in the places where `func` returns None in a tuple.

    Raises:
        ValueError: see `gradloom.vmap`.
    """
    name = _get_name(func)

    @wraps(func)
    def wrapped(*args: Any) -> Any:
        _check_out_dims_is_int_or_int_tuple(out_dims, func)
        single = False
        missing: list[int] = []

        def present(*given: Any) -> tuple[Any, ...]:
            nonlocal single
            found = func(*given)
            single = isinstance(found, Tensor)
            if not isinstance(found, (Tensor, tuple)):
                raise ValueError(
                    f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(found)} as the return."
                )
            found = _as_tuple(found)
            for i, value in enumerate(found):
                if value is None and allow_none_pass_through:
                    missing.append(i)
                elif not isinstance(value, Tensor):
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)} for return {i}."
                    )
            if isinstance(out_dims, tuple) and len(out_dims) != len(found):
                raise ValueError(
                    f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must have one dim per output "
                    f"(got {len(found)} outputs) of {name}."
                )
            return tuple([value for value in found if value is not None])

        wraps(func)(present)
        found = list(_mapped(present, in_dims)(*args))
        for i in missing:
            found.insert(i, None)
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(found)
        placed = [value if value is None else value.movedim(0, dim) for value, dim in zip(found, dims, strict=True)]
        return placed[0] if single else tuple(placed)

    return wrapped


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _check_out_dims_is_int_or_int_tuple(out_dims: Any, func: Any) -> None:
    if not isinstance(out_dims, int) and not (
        isinstance(out_dims, tuple) and all(isinstance(dim, int) for dim in out_dims)
    ):
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int "
            "representing where in the outputs the vmapped dimension should appear."
        )


def _get_name(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)
