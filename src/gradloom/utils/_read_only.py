"""Tensors for export only: `utils.dlpack.ReadOnlyTensorWrapper`. A class that overrides functions costs something from
its definition on, so this one has a module of its own."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch.state import disabled_torch_function


class ReadOnlyTensorWrapper(Tensor):
    """A tensor on the same memory whose DLPack capsules are read-only; it can do nothing else.

    Args:
        tensor: the tensor.
    """

    __module__ = "gradloom.utils.dlpack"

    @staticmethod
    def __new__(cls, tensor: Tensor) -> ReadOnlyTensorWrapper:
        return tensor.as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse everything but the export."""
        if func in (Tensor.__dlpack__, Tensor.__dlpack_device__):
            return disabled_torch_function(func, types, args, kwargs or {})
        raise RuntimeError(
            f"{cls.__name__} only supports DLPack export; '{getattr(func, '__name__', func)}' is not allowed. Unwrap "
            "the tensor to operate on its data."
        )

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
        return super().__dlpack__(max_version=max_version or (1, 0), read_only=True, **options)
