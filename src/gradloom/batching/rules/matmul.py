"""Rules of products of matrices and vectors: all call `matmul`, which broadcasts the batch."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from ..tensor import expanded
from ._loop import loop


def _sides(call: Call, ranks: tuple[int, int], names: list[str]) -> tuple[Tensor, Tensor]:
    """Return the two factors, physical if batched.

    Raises RuntimeError by the operator itself, for ranks or sizes that do not match.
    """
    a, b = (call.values[n]._array for n in names)
    fits = a.ndim == ranks[0] and b.ndim == ranks[1]
    if not fits or a.shape[-1] != b.shape[-2 if ranks[1] > 1 else -1] or a.dtype != b.dtype:
        call.invoke({n: _zeros(call.values[n]) for n in call.tensors})
    return call.bare(names[0]), call.bare(names[1])


def _zeros(tensor: Tensor) -> Tensor:
    """Return zeros like one batch element, for the operator to raise its error about."""
    import numpy as np

    from ...core.tensor import wrap

    return wrap(np.zeros(tensor._array.shape, tensor._array.dtype))


def mm(call: Call) -> Any:
    return call.wrap(ops.matmul(*_sides(call, (2, 2), call.tensors)))


def bmm(call: Call) -> Any:
    a, b = _sides(call, (3, 3), call.tensors)
    return call.wrap(ops.matmul(a, b))


def mv(call: Call) -> Any:
    return call.wrap(_mv(*_sides(call, (2, 1), call.tensors)))


def _mv(matrix: Tensor, vector: Tensor) -> Tensor:
    if vector._array.ndim == 1:
        return ops.matmul(matrix, vector)
    if matrix._array.ndim == 2:
        return ops.matmul(vector, ops.t(matrix))
    return ops.squeeze_dim(ops.matmul(matrix, ops.unsqueeze(vector, -1)), -1)


def dot(call: Call) -> Any:
    a, b = _sides(call, (1, 1), call.tensors)
    return call.wrap(_dot(a, b))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    if a._array.ndim == b._array.ndim:
        found = ops.matmul(ops.unsqueeze(a, 1), ops.unsqueeze(b, 2))
        return ops.reshape(found, (found.shape[0],))
    return ops.mv(a, b) if a._array.ndim == 2 else ops.mv(b, a)


def vdot(call: Call) -> Any:
    a, b = _sides(call, (1, 1), call.tensors)
    return call.wrap(_dot(ops.conj(a), b))


def _added(call: Call, product: Any, rank: int) -> Any:
    """Return beta * self + alpha * product; beta = 0 ignores self, also its nan and inf."""
    from .general import padded

    beta, alpha = call["beta"], call["alpha"]
    if product._array.dtype.kind not in "fcV" and (alpha, beta) != (1, 1):
        return loop(call)  # integers truncate alpha and beta, and bools have no products
    if alpha == 0:
        product = ops.zeros_like(product)  # nan and inf times zero would be nan
    elif alpha != 1:
        product = product * alpha
    if beta == 0:
        return call.wrap(product if product._array.ndim > rank else expanded(product, call.level))
    bias = padded(call.bare(call.first), rank) if call.is_batched(call.first) else call.values[call.first]
    return call.wrap(bias * beta + product if beta != 1 else bias + product)


def _checked(call: Call, shape: tuple[int, ...]) -> None:
    """Let the operator raise for a `self` that does not expand to the product's shape."""
    own = call.values[call.first]._array.shape
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(reversed(own), reversed(shape), strict=False)):
        call.invoke({n: _zeros(call.values[n]) for n in call.tensors})


def addmm(call: Call) -> Any:
    _, a, b = call.tensors
    found = ops.matmul(*_sides(call, (2, 2), [a, b]))
    _checked(call, found._array.shape[-2:])
    return _added(call, found, 2)


def baddbmm(call: Call) -> Any:
    _, a, b = call.tensors
    found = ops.matmul(*_sides(call, (3, 3), [a, b]))
    _checked(call, found._array.shape[-3:])
    return _added(call, found, 3)


def addbmm(call: Call) -> Any:
    _, a, b = call.tensors
    found = ops.sum(ops.matmul(*_sides(call, (3, 3), [a, b])), -3)
    _checked(call, found._array.shape[-2:])
    return _added(call, found, 2)


def addmv(call: Call) -> Any:
    _, a, b = call.tensors
    found = _mv(*_sides(call, (2, 1), [a, b]))
    _checked(call, found._array.shape[-1:])
    return _added(call, found, 1)


def addr(call: Call) -> Any:
    call.values.update(call.promoted())
    _, a, b = call.tensors
    found = ops.unsqueeze(call.bare(a), -1) * ops.unsqueeze(call.bare(b), -2)
    _checked(call, found._array.shape[-2:])
    return _added(call, found, 2)


def trilinear(call: Call) -> Any:
    """Sum products of three tensors, each unsqueezed at the given dimensions."""
    factors = []
    for name, where in zip(call.tensors, ("expand1", "expand2", "expand3"), strict=True):
        factor = call.physical(name)
        for d in sorted(call[where]):
            factor = ops.unsqueeze(factor, d + 1)
        factors.append(factor)
    product = factors[0] * factors[1] * factors[2]
    dims = tuple([d + 1 for d in call["sumdim"]])
    return call.wrap(ops.sum_dim_IntList(product, dims, False, None) if dims else product)


def cross(call: Call) -> Any:
    from .general import padded, shifted

    rank = call.rank(call.first)
    if rank != call.rank(call.tensors[1]):
        call.invoke({n: _zeros(call.values[n]) for n in call.tensors})
    found = {n: padded(call.physical(n), rank) for n in call.tensors}
    return call.wrap(call.invoke({**found, "dim": shifted(call.values.get("dim", -1), rank)}))


def dist(call: Call) -> Any:
    from .general import align

    a, b = align(call).values()
    p = call.values.get("p", 2)
    found = ops.linalg_vector_norm(ops.reshape(a - b, (call.size, -1)), p, (1,))
    return call.wrap(found)
