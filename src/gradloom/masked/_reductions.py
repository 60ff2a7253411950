"""Reductions of the elements that a mask selects."""

from __future__ import annotations

import gradloom
from gradloom import Tensor, dtype as DType
from gradloom.types import IntList

from ._masks import _canonical_dim, _input_mask, filled

Dims = int | IntList | None


def _sum_type(input: Tensor) -> DType:
    """Return the dtype of a sum: int64 for bools and short integers, else the input's."""
    short = (gradloom.bool, gradloom.uint8, gradloom.int8, gradloom.int16, gradloom.int32)
    return gradloom.int64 if input.dtype in short else input.dtype


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the sum of the elements that count.

    Args:
        input: any shape.
        dim: the dimensions to reduce; None for all.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the sum, by default the input's, or int64 for integers.
        mask: bools that broadcast to the input.
    """
    dtype = _sum_type(input) if dtype is None else dtype
    dims = _canonical_dim(dim, input.ndim)
    return gradloom.sum(filled("sum", input, mask), dims, bool(keepdim), dtype=dtype)


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the product of the elements that count. The arguments are those of `sum`."""
    dtype = _sum_type(input) if dtype is None else dtype
    result = filled("prod", input, mask).to(dtype=dtype)
    for d in reversed(_canonical_dim(dim, input.ndim)):
        result = result.prod(dim=d, keepdim=bool(keepdim))
    return result


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the greatest element that counts. The arguments are those of `sum`."""
    dims = _canonical_dim(dim, input.ndim)
    return _converted(gradloom.amax(filled("amax", input, mask), dims, bool(keepdim)), input, dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the least element that counts. The arguments are those of `sum`."""
    dims = _canonical_dim(dim, input.ndim)
    return _converted(gradloom.amin(filled("amin", input, mask), dims, bool(keepdim)), input, dtype)


def _converted(result: Tensor, input: Tensor, dtype: DType | None) -> Tensor:
    return result.to(dtype=input.dtype if dtype is None else dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the greatest element that counts, in the input's dtype, as PyTorch does.

    Args:
        dim: the dimension to reduce; None for all, and the index among all elements.
        keepdim, dtype, mask: as for `sum`.
    """
    return _converted(gradloom.argmax(filled("argmax", input, mask), dim, bool(keepdim)), input, dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the least element that counts, in the input's dtype. The arguments are those of `argmax`."""
    return _converted(gradloom.argmin(filled("argmin", input, mask), dim, bool(keepdim)), input, dtype)


def _counts(input: Tensor, dim: Dims, keepdim: bool | None, mask: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """Return the mask in the input's shape and how many elements count."""
    if mask is None:
        ones = gradloom.ones(input.shape, dtype=gradloom.int64, device=input.device)
        return None, sum(ones, dim, keepdim=keepdim)
    whole = _input_mask(input, mask=mask)
    return whole, whole.sum(dim=dim, keepdim=bool(keepdim))


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the mean of the elements that count; nan where there are none. The arguments are those of `sum`.

    Raises:
        ValueError: unless the dtype is floating or complex.
    """
    source, dtype = ("Input", input.dtype) if dtype is None else ("Optional", dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}"
        )
    whole, count = _counts(input, dim, keepdim, mask)
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=whole) / count


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return the median, the lower one of two, of the elements that count; nan where there are none.

    Args:
        dim: the dimension to reduce.
        keepdim, dtype, mask: as for `sum`; `dtype` is for integers.

    Raises:
        ValueError: if no element of integers counts in a row.
    """
    found = _canonical_dim(dim, input.ndim)[0]
    is_float = input.is_floating_point()
    numbers = input if is_float else input.to(dtype=gradloom.float)
    result = gradloom.nanmedian(filled("median", numbers, mask), found, keepdim).values
    if is_float:
        return result
    if gradloom.isnan(result).any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return _converted(result, input, dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return log(sum(exp(x))) of the elements that count. The arguments are those of `sum`."""
    dims = _canonical_dim(dim, input.ndim)
    return _converted(gradloom.logsumexp(filled("logsumexp", input, mask), dims, keepdim=keepdim), input, dtype)


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of the elements that count.

    Args:
        ord: the norm's order.
        dim, keepdim, dtype, mask: as for `sum`.
    """
    numbers = filled("norm", input, mask, ord)
    dims = _canonical_dim(dim, input.ndim)
    return gradloom.linalg.vector_norm(numbers, ord, dims, bool(keepdim), dtype=input.dtype if dtype is None else dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the elements that count; nan where there are too few.

    Args:
        dim: the dimensions to reduce; None for all.
        unbiased: whether `correction` is 1, the default, or 0.
        correction: number subtracted from the count of elements that the sum of squares is divided by.
        keepdim, dtype, mask: as for `sum`.

    Raises:
        AssertionError: if `unbiased` and `correction` are both given.
    """
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = float(correction) if correction is not None else 0.0 if unbiased is False else 1.0

    def computed_in(dtype: DType) -> DType:
        return dtype if dtype.is_floating_point or dtype.is_complex else gradloom.float32

    dtype = computed_in(input.dtype) if dtype is None else dtype
    compute_dtype = computed_in(dtype)
    whole, count = _counts(input, dim, True, mask)
    centered = gradloom.subtract(input, gradloom.divide(sum(input, dim, keepdim=True, dtype=dtype, mask=whole), count))
    total = sum(centered * centered.conj(), dim, keepdim=keepdim, dtype=compute_dtype, mask=whole)
    if not keepdim:
        count = count.reshape(total.shape)
    if less:
        count = gradloom.subtract(count.to(compute_dtype.to_real()), less)
        count = gradloom.maximum(count, count.new_zeros([]))
    return gradloom.divide(total, count).to(dtype=dtype)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation of the elements that count. The arguments are those of `var`."""
    return gradloom.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))
