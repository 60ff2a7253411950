"""Jacobians are made of products with the rows of an identity matrix; here is how those are computed.

Note [Unit vectors]
`jacrev` and `jacfwd` are vmap over unit vectors. What the function computes does not depend on them: only cotangents
and tangents are batched, never a value. So the function runs as without vmap, once, and may look at its values
(`if x > 0`): for forward mode a tensor that is not batched carries a tangent that is. Other vmaps may batch any value,
and what is differentiated there has to be made one for each example (Note [One graph]).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ..batching.mapping import vmap
from ..dispatch import _operators as ops
from ..dispatch.state import state
from ._level import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.tensor import Tensor


def over_basis(
    product: Callable[[list[Tensor]], list[Tensor]],
    like: Sequence[Tensor],
    *,
    randomness: str,
    chunk_size: int | None = None,
) -> list[Tensor]:
    """A linear function of several tensors, for all unit vectors of the space of their elements.

    Args:
        product: takes tensors shaped as `like`; returns tensors.
        like: give the shapes and dtypes; together they have N elements.
        randomness: "error", "same" or "different": what random operators do that are called for every vector.
        chunk_size: how many vectors are computed at once; None for all.

    Returns:
        What `product` returns, with a new first dimension of size N; or of size 1, for a vector of zeros, if N is 0.
    """
    total = sum([t.numel() for t in like])
    if not total:
        return [ops.stack([p]) for p in product([ops.zeros_like(t).detach() for t in like])]
    step = total if chunk_size is None else min(chunk_size, total)
    chunks = [
        _mapped(product, _units(like, start, min(start + step, total)), randomness) for start in range(0, total, step)
    ]
    return chunks[0] if len(chunks) == 1 else [ops.cat(parts, 0) for parts in zip(*chunks, strict=True)]


def _units(like, start, stop):
    """Rows `start` to `stop` of the identity matrix over the elements of some tensors, cut into one part for each."""
    found = []
    for tensor, end in zip(like, accumulate(t.numel() for t in like), strict=True):
        size = tensor.numel()
        part = np.zeros((stop - start, size), tensor._array.dtype)
        first = end - size
        for row in range(max(start, first), min(stop, end)):
            part[row - start, row - first] = 1
        found.append(ops.wrap(part.reshape(stop - start, *tensor.shape)))
    return found


def _mapped(product, units, randomness):
    """`product` for each of the vectors that stand below each other in `units`."""

    def for_all(*rows):
        number = state.batching[-1].number
        if randomness != "different":  # other numbers for each vector are values that are batched
            UNITS.add(number)
        try:
            return tuple(product(list(rows)))
        finally:
            UNITS.discard(number)

    return list(vmap(for_all, randomness=randomness)(*units))
