"""Products made of others: matmul for all ranks, linear layers, outer and inner products, contractions, chains."""

from __future__ import annotations

import math

from ...core.user_stack import warn_once
from ...dispatch import _operators as ops
from ...kernels._common.errors import CPP_TYPES
from ...types.dtype import scalar_type_name


def matmul(self, other):
    """Return the product of two tensors by their ranks.

    Two vectors give their dot product. Beside a matrix, a vector is a row or a column. Tensors with more dimensions are
    batches of matrices, whose batch dimensions broadcast. If only one side has a batch, it is folded into the rows of
    one matrix: one product replaces many, and the other side is not copied. Raises RuntimeError for a 0-dim argument,
    or sizes that do not fit.
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
        return self.unsqueeze(0).mm(other).squeeze_(0)
    if n == m == 3 and (self.shape[0] == 1) != (other.shape[0] == 1):
        # A batch of one matrix is used as a matrix if a gradient would have to be summed over the batch.
        if self.shape[0] == 1 and self.requires_grad:
            self, n = self.squeeze(0), 2
        elif other.shape[0] == 1 and other.requires_grad:
            other, m = other.squeeze(0), 2
    if m <= 2 and _should_fold(self, other):
        return _folded(self, other)
    if n <= 2:
        batch = other.transpose(-1, -2)
        left = self if n == 1 else self.t()
        if left.requires_grad or n == 1 and _should_fold(batch, left):  # the product of a matrix would be transposed
            found = _folded(batch, left)
            return found if n == 1 else found.transpose(-1, -2).contiguous()
    left = self.unsqueeze(0) if n == 1 else self
    right = other.unsqueeze(1) if m == 1 else other
    return _batched(left, right, (left.shape[-2],) * (n > 1) + (right.shape[-1],) * (m > 1))


def _should_fold(batch, other) -> bool:
    """Return whether to fold the batch into one product. Folding saves a sum over the batch in the gradient of the
    matrix, and costs a copy if the batch is not contiguous up to its rows."""
    if other.requires_grad:
        return True
    shape, strides = batch.shape, batch.stride()
    return all(strides[d] == strides[d + 1] * shape[d + 1] for d in range(len(shape) - 2))


def _folded(batch, other):
    """Multiply a batch (..., n, k) by a matrix (k, m) or a vector (k,), as one product."""
    shape = batch.shape
    rows = batch.reshape(_rows(shape), shape[-1])
    if other._array.ndim == 1:
        return ops._unsafe_view(rows.mv(other), shape[:-1])
    return ops._unsafe_view(rows.mm(other), (*shape[:-1], other.shape[1]))


def _batched(self, other, sizes):
    """Return the products of matrices; `sizes` is the shape of a product, without the dimension that a vector lacks."""
    a, b = self.shape, other.shape
    batch = _broadcast(a[:-2], b[:-2])
    count = math.prod(batch)
    left = self.expand((*batch, *a[-2:])).reshape(count, a[-2], a[-1])
    right = other.expand((*batch, *b[-2:])).reshape(count, b[-2], b[-1])
    return ops._unsafe_view(left.bmm(right), (*batch, *sizes))


def _broadcast(a, b) -> tuple:
    out = []
    for d in range(-max(len(a), len(b)), 0):
        n, m = a[d] if -d <= len(a) else 1, b[d] if -d <= len(b) else 1
        if n != m and n != 1 and m != 1:
            raise RuntimeError(
                f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton "
                f"dimension {max(len(a), len(b)) + d}"
            )
        out.append(m if n == 1 else n)
    return tuple(out)


def _rows(shape) -> int:
    return math.prod(shape[:-1])


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
        return ops._unsafe_view(rows, (*shape[:-1], weight.shape[0]))
    return ops.add(ops.matmul(input, weight.t()), bias)


def bilinear(input1, input2, weight, bias=None):
    """sum_jk input1[..., j] * weight[o, j, k] * input2[..., k] + bias[o]. Raises RuntimeError if sizes do not fit.

    Args:
        input1, input2: (..., in1) and (..., in2).
        weight: (out, in1, in2).
        bias: (out,), or None.
    """
    if input1.dim() != input2.dim():
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}")
    for d, (n, m) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if n != m:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {d}: got {n} and {m}")
    for d, given in ((1, input1), (2, input2)):
        if given.shape[-1] != weight.shape[d]:
            raise RuntimeError(
                f"bilinear(): input{d} size does not match weight size: got {given.shape[-1]} but expected "
                f"{weight.shape[d]}"
            )
    if not input1.dtype is input2.dtype is weight.dtype:
        kinds = [CPP_TYPES.get(t._array.dtype.name, t.dtype) for t in (input1, input2, weight)]
        raise RuntimeError(
            f"All tensors must have the same dtype, got input1: {kinds[0]}, input2: {kinds[1]}, weight: {kinds[2]}"
        )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )
    shape = input1.shape[:-1]
    left, right = input1.reshape(-1, input1.shape[-1]), input2.reshape(-1, input2.shape[-1])
    found = ops._trilinear(left, weight, right, (1, 3), (0,), (1, 2), (2, 3), 1).reshape((*shape, weight.shape[0]))
    return found if bias is None else found + bias


def outer(self, vec2):
    """Return all products of elements of two vectors: (n,) and (m,) give (n, m)."""
    array = self._array
    if not array.ndim == vec2._array.ndim == 1:
        name, vector = ("self", self) if array.ndim != 1 else ("vec2", vec2)
        raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector.dim()}-D")
    return ops.exact.reshape(self, (array.size, 1)) * vec2


def inner(self, other):
    """Return sums of products over the last dimensions: (..., n) and (___, n) give (..., ___)."""
    if self._array.ndim == 0 or other._array.ndim == 0:
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(self.shape)} and {list(other.shape)}"
        )
    return tensordot(self, other, (-1,), (-1,))


def tensordot(self, other, dims_self, dims_other):
    """Contract dimensions of one tensor with those of another; the others remain, self's first."""
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self.dtype is not other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    first, second = _wrapped(dims_self, self.dim()), _wrapped(dims_other, other.dim())
    for n, m, d, e in zip(first, second, dims_self, dims_other, strict=True):
        a, b = self.shape[n], other.shape[m]
        if b == 1:
            self = self.sum([n], True, dtype=self.dtype)
        elif a == 1:
            other = other.sum([m], True, dtype=other.dtype)
        elif a != b:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a} in dim {d} and second has "
                f"size {b} in dim {e}"
            )
    free_self = [d for d in range(self.dim()) if d not in first]
    free_other = [d for d in range(other.dim()) if d not in second]
    shape = (*(self.shape[d] for d in free_self), *(other.shape[d] for d in free_other))
    contracted = math.prod(self.shape[d] for d in first)
    rows, columns = math.prod(self.shape[d] for d in free_self), math.prod(other.shape[d] for d in free_other)
    left = self.permute((*free_self, *dims_self))
    if rows == columns == 1:
        right = other.permute((*dims_other, *free_other))
        if left.is_contiguous() and right.is_contiguous():
            if right.dim() != 1:
                right = right.reshape(contracted)
            if left.dim() != 1:
                left = left.reshape(contracted)
            return left.dot(right).reshape(shape)
        right = right.squeeze()
        return (left.squeeze() * right).sum(dtype=self.dtype).reshape(shape)
    left = left.reshape(rows, contracted)
    right = other.permute((*dims_other, *free_other)).reshape(contracted, columns)
    return left.mm(right).reshape(shape)


def _wrapped(dims, ndim) -> list:
    found = []
    for d in dims:
        if not -ndim <= d < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
        if d % ndim in found:
            raise RuntimeError(f"dim {d % ndim} appears multiple times in the list of dims")
        found.append(d % ndim)
    return found


def kron(self, other):
    """Return the Kronecker product: blocks other * self[i, j, ...]; the shorter shape is extended by leading ones."""
    ndim = max(self.dim(), other.dim())
    a = (1,) * (ndim - self.dim()) + tuple(self.shape)
    b = (1,) * (ndim - other.dim()) + tuple(other.shape)
    left = ops._unsafe_view(self, [n for size in a for n in (size, 1)])
    right = ops._unsafe_view(other, [n for size in b for n in (1, size)])
    product, shape = left * right, [n * m for n, m in zip(a, b, strict=True)]
    try:
        return ops._unsafe_view(product, shape)
    except RuntimeError:  # no view of it has the shape
        return ops._unsafe_view(product.contiguous(), shape)


def cross(self, other, dim=None):
    """Return the cross product along `dim`, or along the first dimension of size 3."""
    if dim is None:
        warn_once(
            "cross without dim",
            "Using torch.cross without specifying the dim arg is deprecated.\n"
            "Write dim, or call torch.linalg.cross, which takes the last dimension.",
        )
        dim = next((d for d, n in enumerate(self.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return ops.linalg_cross(self, other, dim=dim)


def linalg_vecdot(x, y, dim=-1):
    """sum(conj(x) * y) along a dimension; shapes broadcast."""
    if not (x.is_floating_point() or x.is_complex()):
        raise NotImplementedError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {scalar_type_name(x.dtype)}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{scalar_type_name(x.dtype)} and y of type {scalar_type_name(y.dtype)} instead"
        )
    if x._array.ndim == y._array.ndim == 1:
        return x.vdot(y)
    return (x.conj() * y).sum([dim])


def linalg_multi_dot(tensors):
    """Return the product of a chain of matrices, in the order with the fewest multiplications. `tensors` is two or
    more; the first may be a row (n,), the last a column (n,)."""
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    chain = list(tensors)
    shape = []
    for index, what in ((0, "first"), (-1, "last")):
        ndim = chain[index].dim()
        if ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {what} tensor must be 1D or 2D but got {ndim}D")
        if ndim == 2:
            shape.append(chain[index].shape[index])
        else:
            chain[index] = chain[index].unsqueeze(index)
    _check_chain(chain)
    return _chain_product(chain).view(shape)


def _check_chain(chain) -> None:
    for i, matrix in enumerate(chain):
        if matrix.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {matrix.dim()}D")
        if matrix.dtype is not chain[0].dtype:
            names = [
                str(m.dtype)[6:].replace("float32", "float").replace("float64", "double") for m in (chain[0], matrix)
            ]
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {names[0]} and "
                f"tensor {i} {names[1]}"
            )
        if i and chain[i - 1].shape[1] != matrix.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(chain[i - 1].shape)} and "
                f"{list(matrix.shape)} cannot be multiplied"
            )


def _chain_product(chain):
    """Choose the order by dynamic programming over intervals (Cormen et al., Introduction to Algorithms, 14.2)."""
    sizes = [chain[0].shape[0], *(m.shape[1] for m in chain)]
    count = len(chain)
    cost = [[0] * count for _ in chain]
    cut = [[0] * count for _ in chain]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i][j] = min(costs)
            cut[i][j] = i + costs.index(cost[i][j])
    if count == 3 and cost[0][2] == cost[0][1] + sizes[0] * sizes[2] * sizes[3]:
        cut[0][2] = 1  # as in PyTorch, of three matrices the first two unless that costs more

    def product(i, j):
        if i == j:
            return chain[i]
        right = product(cut[i][j] + 1, j)
        return product(i, cut[i][j]).mm(right)

    return product(0, count - 1)


def chain_matmul(matrices):
    """Return the product of one or more matrices; see `linalg_multi_dot`."""
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    return matrices[0] if len(matrices) == 1 else linalg_multi_dot(matrices)
