"""The norm of all elements of several tensors, some of them distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradloom as gl

from ._dtensor import DTensor
from ._spec import DTensorSpec, TensorMeta
from .placement_types import Placement, Replicate, _NormPartial

__all__ = ["norm_of_all"]


def norm_of_all(tensors: Sequence[Any], norm_type: float) -> Any:
    """Return the norm of all elements of tensors together. All processes of their meshes call this.

    Args:
        tensors: at least one; distributed ones may have different meshes.
        norm_type: order of the norm.

    Returns:
        a tensor without dimensions: a DTensor, of which each process has the norm of its parts, if all tensors are
        distributed over the same dimensions of one mesh.
    """
    norm = gl.linalg.vector_norm
    if norm_type <= 0:  # not the norm of norms
        return norm(gl.cat([_whole(one).flatten() for one in tensors]), norm_type)
    by_place: dict[Any, list[Any]] = {}
    for one in tensors:
        if not isinstance(one, DTensor):
            by_place.setdefault(None, []).append(norm(one, norm_type))
            continue
        if any(placement.is_partial() for placement in one.placements):
            kept = [Replicate() if placement.is_partial() else placement for placement in one.placements]
            one = one.redistribute(placements=kept)
        shares: tuple[Placement, ...] = tuple(
            [_NormPartial("norm", norm_type) if placement.is_shard() else Replicate() for placement in one.placements]
        )
        by_place.setdefault((one.device_mesh, shares), []).append(norm(one._local_tensor, norm_type))
    found = []
    for place, norms in by_place.items():
        total = norm(gl.stack(norms), norm_type)
        found.append(total if place is None else DTensor(total, DTensorSpec(place[0], place[1], TensorMeta.of(total))))
    return found[0] if len(found) == 1 else norm(gl.stack([_whole(one) for one in found]), norm_type)


def _whole(tensor: Any) -> Any:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
