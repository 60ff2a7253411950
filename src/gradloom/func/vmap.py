"""`gradloom.func.vmap`; see gradloom.batching for how it works."""

from __future__ import annotations

from ..batching.mapping import vmap
from ..batching.tensor import batched_at_all_levels

__all__ = ["batched_at_all_levels", "vmap"]
