"""How tensors and storages are pickled for other processes; see tensors/sharing.py."""

from __future__ import annotations

from ..tensors.sharing import (
    rebuild_storage as rebuild_storage,
    rebuild_tensor as rebuild_tensor,
    reduce_storage as reduce_storage,
    reduce_tensor as reduce_tensor,
    register as register,
)
