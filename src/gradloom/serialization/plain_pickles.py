"""Plain pickles of tensors, outside of files of `save`, as PyTorch writes them: each library reads the other's.

A pickle names its functions by module. Only `gradloom.as_torch` makes PyTorch's names gradloom's, so it calls
`reduce_tensor` for pickles; without it pickles name gradloom's own functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..storage import TypedStorage, UntypedStorage
from ..tensors.construction import warn_of_lost_hooks
from ..types.dtype import dtype as dtype_class
from ._reduction import Reduction
from ._unpickling import STORAGE_NAMES

_PLACES = {"Tensor": "gradloom", "_rebuild_from_type_v2": "gradloom._tensor"}


class _Plain(Reduction):
    def name(self, name: str) -> Any:
        return getattr(import_module(_PLACES.get(name, "gradloom._utils")), name)

    def stored(self, array: np.ndarray, kind: dtype_class) -> Any:
        return TypedStorage._of(array, kind) if kind in STORAGE_NAMES else UntypedStorage._of(array)


def reduce_tensor(source: Tensor) -> tuple[Any, ...]:
    """Return the pickle of a tensor: a function of PyTorch's, a storage, and the tensor's place in it."""
    warn_of_lost_hooks(source)
    return _Plain().tensor(source)
