"""Rules of linear algebra whose batches are not leading dimensions of one tensor."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from .general import padded


def lstsq(call: Call) -> Any:
    """Solve a batch of least squares problems. A result that is empty, because the driver does not compute it, gets the
    batch as its first dimension."""
    name, other = call.tensors
    rank, rank_b = call.rank(name), call.rank(other)
    a, b = call.physical(name), call.physical(other)
    vectors = rank_b == 1 or (rank - 1 == rank_b and a.shape[1:-1] == b.shape[1:])
    if rank < 2 or rank_b < 1 or not 0 <= rank - rank_b <= 1:
        call.invoke({name: ops.select(a, 0, 0), other: ops.select(b, 0, 0)})  # which raises
    if vectors:
        b, rank_b = ops.unsqueeze(b, -1), rank_b + 1
    common = max(rank, rank_b)
    found = call.invoke({name: padded(a, common), other: padded(b, common)})
    values = [_with_batch(each, call.size) for each in found]
    if vectors:
        values[0] = ops.squeeze(values[0], -1)
    return call.wrap(found.__class__(tuple(values)))


def _with_batch(tensor: Tensor, size: int) -> Tensor:
    return tensor.new_empty((size, 0)) if tensor.shape == (0,) else tensor


def pinv(call: Call) -> Any:
    """Invert a batch of matrices; tolerances broadcast against the batch dimensions of each element."""
    rank = call.rank(call.first)
    if rank < 2:
        call.invoke({call.first: ops.select(call.physical(call.first), 0, 0)})  # which raises
    changes = {call.first: call.physical(call.first)}
    for name in ("atol", "rtol"):
        if call[name] is not None:
            changes[name] = padded(call.physical(name), rank - 2)
    return call.wrap(call.invoke(changes))


def _matrices(call: Call, matrix: str, vectors: tuple[str, ...], other: str, other_rank: int) -> dict[str, Tensor]:
    """Return the physical arguments, padded so that matrices and what belongs to them broadcast against `other`."""
    rank = max(call.rank(matrix), other_rank)
    changes = {matrix: padded(call.physical(matrix), rank), other: padded(call.physical(other), rank)}
    for name in vectors:
        changes[name] = padded(call.physical(name), rank - 1)
    return changes


def solve(call: Call) -> Any:
    """Solve systems of equations. Vectors as right-hand sides become matrices."""
    name, other = call.tensors
    rank, rank_b = call.rank(name), call.rank(other)
    a, b = call.physical(name), call.physical(other)
    if rank < 2 or rank_b < 1:
        call.invoke({name: ops.select(a, 0, 0), other: ops.select(b, 0, 0)})  # which raises
    vector = rank_b == 1 or (rank - 1 == rank_b and a.shape[1:-1] == b.shape[1:])
    if not vector:
        return call.wrap(call.invoke(_matrices(call, name, (), other, rank_b)))
    found = call.invoke({name: a, other: padded(ops.unsqueeze(b, -1), rank)})
    return call.wrap(found.__class__((ops.squeeze(found[0], -1), *found[1:])))


def _factored(call: Call) -> Any:
    factors, pivots, other = call.tensors
    return call.wrap(call.invoke(_matrices(call, factors, (pivots,), other, call.rank(other))))


def lu_solve(call: Call) -> Any:
    """Solve by LU factorizations, with the pivots of each element beside its matrix."""
    return _factored(call)


def ldl_solve(call: Call) -> Any:
    """Solve by LDL factorizations, with the pivots of each element beside its matrix."""
    return _factored(call)


def lu_unpack(call: Call) -> Any:
    """Unpack LU factorizations. A result that was not asked for is empty, for each element."""
    found = call.invoke({name: call.physical(name) for name in call.tensors})
    return call.wrap(found.__class__(tuple([_with_batch(each, call.size) for each in found])))
