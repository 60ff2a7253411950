"""Reductions and sorting as users of the main namespace call them, where that is more than an operator:
norms by name, and results that are left out unless they were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from . import _operators

if TYPE_CHECKING:
    from typing import Any, Literal

    from .tensor import Tensor
    from .types import DType, IntList

__all__ = ["cdist", "norm", "unique", "unique_consecutive"]

_MODES = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | IntList | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of a tensor: of all elements as one vector, or over dimensions.

    Args:
        input: floating or complex.
        p: the order of a vector norm (a number, or "fro" for 2), or "nuc", the sum of a matrix's singular values.
        dim: int, sequence of ints, or None for all.
        dtype: of the computation.
        keepdim: whether reduced dimensions stay, with size 1.
        out: a Tensor that the result is written to.

    Returns:
        Tensor, real.

    Raises:
        RuntimeError: for another name, or integers.
    """
    if isinstance(dim, int):
        dim = (dim,)
    keywords = {} if out is None else {"out": out}
    if p == "nuc":
        if dtype is not None:
            raise ValueError("dtype argument is not supported in nuclear norm")
        if not hasattr(_operators, "linalg_matrix_norm"):
            raise NotImplementedError("gradloom has no nuclear norm yet: it needs the singular value decomposition")
        return _operators.linalg_matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, **keywords)
    if isinstance(p, str):
        if p != "fro":
            raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
        p = 2
    return _operators.linalg_vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype, **keywords)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The p-norm distance of each row of `x1` to each row of `x2`.

    Args:
        x1, x2: (..., P, M) and (..., R, M), floating; the batches broadcast.
        compute_mode: when to take the distances for p = 2 from a matrix product, by PyTorch's names.

    Returns:
        Tensor (..., P, R)

    Raises:
        ValueError: for an unknown mode.
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _operators.cdist(x1, x2, p, _MODES[compute_mode])


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements of a tensor in order, or its different slices along `dim`.

    Args:
        sorted: accepted; the elements are always in order.

    Returns:
        The elements; a tuple of them, for each element of `input` its index in them if `return_inverse`, and how often
        each occurs if `return_counts`.
    """
    if dim is None:
        found = _operators._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _operators.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None
) -> Tensor: ...


@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None
) -> tuple[Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any: ...


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements of a tensor, or its slices along `dim`, that differ from the one before them.

    Args:
        input: a Tensor.
        return_inverse: also return, for each element, its index in the result.
        return_counts: also return how long each run is.

    Returns:
        As `unique`.
    """
    found = _operators.unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found, return_inverse, return_counts):
    values, inverse, counts = found
    if not (return_inverse or return_counts):
        return values
    return (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))


def _norm_method(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The norm of the tensor; see `norm`."""
    return norm(self, p, dim, keepdim, dtype=dtype)


def bind(tensor_class: Any) -> None:
    """Make these functions methods of Tensor."""
    tensor_class.norm = _norm_method
    _norm_method.__name__ = "norm"
    tensor_class.unique = unique
    tensor_class.unique_consecutive = unique_consecutive
