"""Legacy classes of sparse tensors: `sparse.FloatTensor(indices, values, size)`, and `isinstance` with them."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch import _operators as _ops
from ..types.dtype import ALL, dtype, int64, legacy_type_name
from ..types.size import Size
from .construction import sparse_coo_tensor

_NAMES = frozenset(
    f"{kind}Tensor" for kind in ("BFloat16", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
)


class _SparseTensorType(type):
    """Metaclass of the classes: calling one makes a sparse tensor, which is then an instance of it."""

    dtype: dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if args and isinstance(args[0], Tensor):
            indices, values, *size = args
            found: Tensor = sparse_coo_tensor(indices, values, *size)
            return found
        sizes = args[0] if len(args) == 1 and isinstance(args[0], (Size, tuple, list)) else args or (0,)
        indices = _ops.zeros((len(sizes), 0), dtype=int64)
        return sparse_coo_tensor(indices, _ops.zeros((0,), dtype=cls.dtype), tuple(sizes))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.is_sparse and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


def sparse_type(name: str) -> Any:
    """Return the legacy class with this name, such as "FloatTensor"; None if there is none."""
    for found in ALL if name in _NAMES else ():
        if legacy_type_name(found) == f"torch.{name}":
            doc = f"Makes sparse tensors of type {found}."
            return _SparseTensorType(name, (), {"dtype": found, "__module__": "gradloom.sparse", "__doc__": doc})
    return None
