"""Products made of others: matmul for all ranks, linear."""

from __future__ import annotations

from .. import _operators as ops


def matmul(self, other):
    """The product of two tensors by their ranks.

    Vectors give their dot product; a vector and a matrix are treated as a row or a column; of tensors with more
    dimensions, the last two are matrices and those before broadcast. Where only one side has a batch, it is folded into
    the rows of one matrix, which is one product instead of many and does not copy the other side.

    Raises:
        RuntimeError: for a 0-dim argument, or sizes that do not fit.
    """
    n, m = self._array.ndim, other._array.ndim
    if n == 2 and m == 2:
        return ops.mm(self, other)
    if n == 0 or m == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == 1 and m == 1:
        return ops.dot(self, other)
    if n == 2 and m == 1:
        return ops.mv(self, other)
    if n == 1 and m == 2:
        return self.unsqueeze(0).mm(other).squeeze([0])
    if n >= 3 and m <= 2:
        return _folded(self, other)
    if m >= 3 and n <= 2:
        return _folded_right(self, other)
    return _batched(self, other)


def _folded(batch, other):
    """batch (..., n, k) times a matrix (k, m) or a vector (k,)."""
    shape = batch.shape
    rows = batch.reshape(_rows(shape), shape[-1])
    if other._array.ndim == 1:
        return ops._unsafe_view(rows.mv(other), shape[:-1])
    return ops._unsafe_view(rows.mm(other), (*shape[:-1], other.shape[1]))


def _folded_right(self, batch):
    """A matrix (n, k) or vector (k,) times batch (..., k, m), by way of the transposes."""
    found = _folded(batch.transpose(-1, -2), self if self._array.ndim == 1 else self.t())
    return found if self._array.ndim == 1 else found.transpose(-1, -2).contiguous()


def _batched(self, other):
    a, b = self.shape, other.shape
    batch = _broadcast(a[:-2], b[:-2])
    count = 1
    for size in batch:
        count *= size
    left = self.expand((*batch, *a[-2:])).reshape(count, a[-2], a[-1])
    right = other.expand((*batch, *b[-2:])).reshape(count, b[-2], b[-1])
    return ops._unsafe_view(left.bmm(right), (*batch, a[-2], b[-1]))


def _broadcast(a, b) -> tuple:
    out = []
    for d in range(-max(len(a), len(b)), 0):
        n, m = a[d] if -d <= len(a) else 1, b[d] if -d <= len(b) else 1
        if n != m and n != 1 and m != 1:
            raise RuntimeError(f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton "
                               f"dimension {max(len(a), len(b)) + d}")
        out.append(m if n == 1 else n)
    return tuple(out)


def _rows(shape) -> int:
    count = 1
    for size in shape[:-1]:
        count *= size
    return count


def linear(input, weight, bias=None):
    """input @ weight.T + bias for the last dimension of `input`.

    Args:
        input: (..., in).
        weight: (out, in) or (in,).
        bias: (out,), or None.
    """
    n, w = input._array.ndim, weight._array.ndim
    if n == 0 or w == 0:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {n}D and {w}D")
    if bias is None:
        return ops.matmul(input, weight.t())
    if n == 2:
        return ops.addmm(bias, input, weight.t())
    if input._array.flags.c_contiguous and w == 2 and bias._array.ndim < 2:
        shape = input.shape
        rows = ops.addmm(bias, input.view((_rows(shape), shape[-1])), weight.t())
        return rows.view((*shape[:-1], weight.shape[0]))
    return ops.add(ops.matmul(input, weight.t()), bias)
