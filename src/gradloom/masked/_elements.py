"""Functions of the elements that a mask selects, with results of the input's shape."""

from __future__ import annotations

import gradloom
from gradloom import Tensor, dtype as DType

from ._masks import _canonical_dim, filled
from ._reductions import norm


def _only(dim: int, input: Tensor, dtype: DType | None) -> tuple[int, DType]:
    return _canonical_dim(dim, input.ndim)[0], input.dtype if dtype is None else dtype


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Return running sums of the elements that count.

    Args:
        input: any shape.
        dim: the dimension along which to add.
        dtype: dtype of the result, by default the input's.
        mask: bools that broadcast to the input.
    """
    dim, dtype = _only(dim, input, dtype)
    return gradloom.cumsum(filled("sum", input, mask), dim, dtype=dtype).to(dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Return running products of the elements that count. The arguments are those of `cumsum`."""
    dim, dtype = _only(dim, input, dtype)
    return gradloom.cumprod(filled("prod", input, mask), dim, dtype=dtype).to(dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax over the elements that count; 0 for the others, nan where there are none. The arguments are
    those of `cumsum`."""
    dim, dtype = _only(dim, input, dtype)
    return gradloom.nn.functional.softmax(filled("amax", input, mask), dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the logarithm of `softmax`."""
    dim, dtype = _only(dim, input, dtype)
    return gradloom.nn.functional.log_softmax(filled("amax", input, mask), dim, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of -x over the elements that count. The arguments are those of `cumsum`."""
    dim, dtype = _only(dim, input, dtype)
    return gradloom.nn.functional.softmin(filled("amin", input, mask), dim, dtype=dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return the elements that count over their vector norm, and 0 for the others.

    Args:
        ord: the norm's order.
        dim: the dimension along which the norm is taken.
        eps: the least divisor.
        dtype: dtype of the norm, by default the input's.
        mask: bools that broadcast to the input.
    """
    numbers = filled("sum", input, mask)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return gradloom.divide(numbers, gradloom.maximum(length, length.new_full([], eps)))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return log(exp(input) + exp(other)) of the elements that count, those that `input_mask` and `other_mask` select;
    -inf where none does."""
    first, second = filled("logaddexp", input, input_mask), filled("logaddexp", other, other_mask)
    return gradloom.logaddexp(first, second).to(dtype=input.dtype if dtype is None else dtype)
