"""Derivative helpers of shape operators."""

from __future__ import annotations

from ..core.gradient_checks import sum_to
from ..dispatch import _operators as ops


def to_copy_backward(grad, dtype):
    """Convert the gradient back to the input's dtype; a real input gets the real part."""
    return ops._to_copy(_of_type(grad, dtype), dtype=dtype)


def _of_type(grad, dtype):
    """Return a gradient for an input of that dtype: the real part of a complex gradient for a real input."""
    if grad.is_complex() and not dtype.is_complex:
        return ops.real(grad)
    return grad


def permute_backward(grad, dims):
    """Return the gradient of a permutation: `grad` permuted by the inverse."""
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d] = i
    return ops.permute(grad, tuple(inverse))


def unsqueeze_to(grad, sizes, dims=None):
    """Return the gradient of `squeeze`: `grad` with the dimensions of size 1 restored.

    Args:
        sizes: the input's shape.
        dims: the squeezed dimension or dimensions; None for all.
    """
    ndim = len(sizes)
    if dims is None:
        chosen = range(ndim)
    elif not ndim:
        return grad
    else:
        chosen = sorted(d % ndim for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    for d in chosen:
        if sizes[d] == 1:
            grad = ops.unsqueeze(grad, d)
    return grad


def slice_backward_of(grad, sizes, dim, start, end, step):
    """Return the gradient of `slice`; missing bounds are the ends of the dimension."""
    return ops.slice_backward(grad, sizes, dim, 0 if start is None else start, sizes[dim] if end is None else end, step)


def narrow_backward(grad, sizes, dim, start, length):
    """Return the gradient of `narrow_copy`: `grad` padded with zeros."""
    if start < 0:
        start += sizes[dim]
    return ops.slice_backward(grad, sizes, dim, start, start + length, 1)


def unbind_backward(grads, dim):
    """Return the gradient of `unbind`: the outputs' gradients stacked, zeros where one is undefined."""
    known = next(g for g in grads if g is not None)
    return ops.stack([ops.new_zeros(known, known.shape) if g is None else g for g in grads], dim)


def split_backward(grads, sizes, split_size, dim):
    """Return the gradient of `split`: the gradients of the parts, concatenated."""
    total = sizes[dim]
    lengths = [min(split_size, total - i) for i in range(0, max(total, 1), split_size or 1)]
    return split_with_sizes_backward(grads, sizes, lengths, dim)


def split_with_sizes_backward(grads, sizes, split_sizes, dim):
    """Return the gradient of `split_with_sizes`: those of the parts, concatenated; zeros where one is undefined."""
    known = next(g for g in grads if g is not None)
    dim %= len(sizes)
    parts = [
        ops.new_zeros(known, (*sizes[:dim], n, *sizes[dim + 1 :])) if g is None else g
        for g, n in zip(grads, split_sizes, strict=True)
    ]
    return ops.cat(parts, dim)


def cat_backward(grad, shapes, dtypes, dim):
    """Return the gradients of `cat`: slices of the result's gradient; empty 1-d inputs get an empty one."""
    dim %= grad.dim()
    out, start = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        if len(shape) == 1 and shape[0] == 0:
            out.append(ops.new_zeros(grad, (0,)))
            continue
        out.append(_of_type(ops.narrow(grad, dim, start, shape[dim]), dtype))
        start += shape[dim]
    return tuple(out)


def stack_backward(grad, dim, dtypes):
    """Return the gradients of `stack`: the parts along the new dimension."""
    return tuple([_of_type(ops.select(grad, dim, i), dtype) for i, dtype in enumerate(dtypes)])


def block_diag_backward(grad, shapes, dtypes):
    """Return the gradients of `block_diag`: the blocks of the gradient on the diagonal."""
    out, row, column = [], 0, 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        rows = shape[0] if len(shape) == 2 else 1
        columns = shape[-1] if shape else 1
        block = ops.narrow(ops.narrow(grad, 0, row, rows), 1, column, columns)
        out.append(_of_type(ops.reshape(block, shape), dtype))
        row, column = row + rows, column + columns
    return tuple(out)


def repeat_backward(grad, repeats, sizes):
    """Return the gradient of `repeat`: the sum over the repetitions."""
    if 0 in repeats:
        return ops.new_zeros(grad, sizes)
    lead = len(repeats) - len(sizes)
    shape, summed = [], []
    for i, r in enumerate(repeats):
        if r != 1 or i < lead:
            summed.append(len(shape))
            shape.append(r)
        if i >= lead:
            shape.append(sizes[i - lead])
    return ops.sum(ops.reshape(grad, shape), summed) if summed else grad


def roll_backward(grad, shifts, dims):
    """Return the gradient of `roll`: `grad` rolled back."""
    return ops.roll(grad, [-s for s in shifts], dims)


# Note [Strided derivatives]
# as_strided reads memory, regardless of which elements belong to the tensor. Its derivatives therefore model memory as
# a flat tensor that covers the elements of the input and of the view: values are written with one geometry and read
# with the other. Where several elements of the view share a place, their gradients add up there; where several elements
# of the input share a place, each gets an equal share of its gradient.


def as_strided_backward(grad, sizes, strides, offset, view_sizes, view_strides, view_offset):
    """Return the gradient of `as_strided`. See Note [Strided derivatives].

    Args:
        sizes, strides, offset: geometry of the input.
        view_sizes, view_strides, view_offset: geometry of the view; an offset of None is the input's.
    """
    view_offset = offset if view_offset is None else view_offset
    if 0 in sizes or 0 in view_sizes:
        return ops.new_zeros(grad, sizes)
    expanded = [d for d, (n, s) in enumerate(zip(view_sizes, view_strides, strict=True)) if s == 0 and n > 1]
    if expanded:
        grad = ops.sum(grad, expanded, True)
        view_sizes = [1 if d in expanded else n for d, n in enumerate(view_sizes)]
    start, length = _memory((sizes, strides, offset), (view_sizes, view_strides, view_offset))
    if _may_overlap(view_sizes, view_strides):
        memory = _added(grad, view_sizes, view_strides, view_offset - start, length)
    else:
        memory = _put(grad, view_sizes, view_strides, view_offset - start, length)
    if _may_overlap(sizes, strides):
        shares = _added(ops.new_ones(grad, sizes), sizes, strides, offset - start, length)
        memory = ops.div(memory, ops.masked_fill(shares, ops.eq(shares, 0), 1))
    return ops.as_strided(memory, sizes, strides, offset - start)


def as_strided_tangent(tangent, primal, view_sizes, view_strides, view_offset):
    """Return the tangent of `as_strided`: a view of the tangent's memory, which is laid out like the primal's."""
    offset, strides = primal.storage_offset(), primal.stride()
    if tangent.stride() == strides and tangent.storage_offset() == offset:
        return ops.as_strided(tangent, view_sizes, view_strides, view_offset)
    view_offset = offset if view_offset is None else view_offset
    start, length = _memory((primal.shape, strides, offset), (view_sizes, view_strides, view_offset))
    memory = _put(tangent, primal.shape, strides, offset - start, length)
    return ops.as_strided(memory, view_sizes, view_strides, view_offset - start)


def as_strided_scatter_backward(grad, sizes, strides, offset, view_sizes, view_strides, view_offset):
    """Return the gradient of `as_strided_scatter` for `self`: zeros where `src` was written."""
    zeros = ops.new_zeros(grad, view_sizes)
    return _with_region(grad, zeros, sizes, strides, offset, view_sizes, view_strides, view_offset)


def as_strided_scatter_src_backward(grad, sizes, strides, offset, view_sizes, view_strides, view_offset):
    """Return the gradient of `as_strided_scatter` for `src`: the elements at the place where it was written."""
    view_offset = offset if view_offset is None else view_offset
    start, length = _memory((sizes, strides, offset), (view_sizes, view_strides, view_offset))
    memory = _put(grad, sizes, strides, offset - start, length)
    return ops.as_strided(memory, view_sizes, view_strides, view_offset - start)


def as_strided_scatter_tangent(tangent, src_tangent, primal, view_sizes, view_strides, view_offset):
    """Return the tangent of `as_strided_scatter`: the tangent of `src` written into that of `self`."""
    geometry = primal.shape, primal.stride(), primal.storage_offset()
    return _with_region(tangent, src_tangent, *geometry, view_sizes, view_strides, view_offset)


def _with_region(values, region, sizes, strides, offset, view_sizes, view_strides, view_offset):
    view_offset = offset if view_offset is None else view_offset
    start, length = _memory((sizes, strides, offset), (view_sizes, view_strides, view_offset))
    memory = _put(values, sizes, strides, offset - start, length)
    memory = ops.as_strided_scatter(memory, region, view_sizes, view_strides, view_offset - start)
    return ops.as_strided(memory, sizes, strides, offset - start)


def _memory(*geometries):
    """Return the start and the number of elements of the memory that covers all the geometries."""
    start = min(offset for _, _, offset in geometries)
    end = max(
        offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1
        for sizes, strides, offset in geometries
    )
    return start, max(end - start, 0)


def _put(values, sizes, strides, offset, length):
    """Return zeros with `values` written at a geometry whose elements do not overlap (or are equal where they do)."""
    memory = ops.new_zeros(values, (length,))
    if 0 in sizes:
        return memory
    return ops.as_strided_scatter(memory, values, sizes, strides, offset)


def _added(values, sizes, strides, offset, length):
    """Return zeros to which `values` are added at a geometry."""
    places = ops.reshape(ops.as_strided(ops.arange(length, device=values.device), sizes, strides, offset), (-1,))
    return ops.index_add(ops.new_zeros(values, (length,)), 0, places, ops.reshape(values, (-1,)))


def _may_overlap(sizes, strides):
    """Return whether two elements of a geometry may share a place; may return True where none do."""
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1):
        if s <= reach:
            return True
        reach += (n - 1) * s
    return False


def summed_to(grad, sizes):
    """Sum the gradient over the dimensions along which a tensor of these sizes was expanded."""
    return sum_to(grad, sizes)
