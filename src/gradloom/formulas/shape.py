"""Derivative helpers of shape operators."""

from __future__ import annotations

from .. import _operators as ops


def to_copy_backward(grad, dtype):
    """The gradient of a conversion: converted back; of a real input, the real part."""
    return ops._to_copy(grad, dtype=dtype)


def permute_backward(grad, dims):
    """The gradient of a permutation: permuted by its inverse."""
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d] = i
    return ops.permute(grad, tuple(inverse))


def unsqueeze_to(grad, sizes, dims=None):
    """The gradient of `squeeze`: with the dimensions of size 1 back in their places.

    Args:
        sizes: the input's shape.
        dims: the dimension or dimensions that were asked for; None for all.
    """
    return ops.reshape(grad, sizes)


def slice_backward_of(grad, sizes, dim, start, end, step):
    """The gradient of `slice`, whose missing bounds are the ends of the dimension."""
    return ops.slice_backward(grad, sizes, dim, 0 if start is None else start, sizes[dim] if end is None else end, step)


def unbind_backward(grads, sizes, dim):
    """The gradient of `unbind`: the outputs' gradients stacked, zeros where one is undefined."""
    known = next(g for g in grads if g is not None)
    return ops.stack([_zeros(known, known.shape) if g is None else g for g in grads], dim)


def split_backward(grads, sizes, split_size, dim):
    """The gradient of `split`: the parts' gradients put together."""
    total = sizes[dim]
    lengths = [min(split_size, total - i) for i in range(0, max(total, 1), split_size or 1)]
    return split_with_sizes_backward(grads, sizes, lengths, dim)


def split_with_sizes_backward(grads, sizes, split_sizes, dim):
    """The gradient of `split_with_sizes`: the parts' gradients put together, zeros where one is undefined."""
    known = next(g for g in grads if g is not None)
    dim %= len(sizes)
    parts = [_zeros(known, (*sizes[:dim], n, *sizes[dim + 1:])) if g is None else g
             for g, n in zip(grads, split_sizes, strict=True)]
    return ops.cat(parts, dim)


def _zeros(like, shape):
    return ops.new_zeros(like, shape)


def cat_backward(grad, shapes, dtypes, dim):
    """The gradients of `cat`: the slices of the result's gradient; empty 1-d inputs have none of it."""
    dim %= grad.dim()
    out, start = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        if len(shape) == 1 and shape[0] == 0:
            out.append(ops.new_zeros(grad, (0,)))
            continue
        part = ops.narrow(grad, dim, start, shape[dim])
        out.append(_as_type(part, dtype))
        start += shape[dim]
    return tuple(out)


def stack_backward(grad, dim, dtypes):
    """The gradients of `stack`: the parts along the new dimension."""
    return tuple([_as_type(g, dtype) for g, dtype in zip(ops.unbind(grad, dim), dtypes, strict=True)])


def _as_type(grad, dtype):
    """A gradient for an input of that dtype: of a complex one, only the real part reaches a real input."""
    if grad.is_complex() and not dtype.is_complex:
        return ops.real(grad)
    return grad


def as_strided_backward(grad, sizes, strides, offset, view_size, view_stride, view_offset):
    raise NotImplementedError
