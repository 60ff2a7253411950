"""What the pickle of a tensor holds: PyTorch's functions that rebuild it, and their arguments."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..memory.ownership import offset_in_elements
from ..types.dtype import dtype as dtype_class
from ._unpickling import STORAGE_NAMES


class Reduction:
    """Reduces tensors; files of `save` and plain pickles differ in how they name functions and hold storages."""

    def name(self, name: str) -> Any:
        """Return what stands for a function or class of PyTorch's, such as "_rebuild_tensor_v2"."""
        raise NotImplementedError

    def stored(self, array: np.ndarray, kind: dtype_class) -> Any:
        """Return what stands for the storage of an array of elements of a dtype."""
        raise NotImplementedError

    def tensor(self, obj: Tensor) -> tuple:
        from ..memory.metadata import Metadata
        from ..nn.parameter import Parameter

        extra = {n: v for n, v in obj.__dict__.items() if n not in Tensor.__dict__}
        if issubclass(type(obj), Parameter):
            args = (obj.data, obj.requires_grad, OrderedDict())
            if extra:
                return self.name("_rebuild_parameter_with_state"), (*args, extra)
            return self.name("_rebuild_parameter"), args
        if obj.is_sparse:
            return self.sparse(obj, extra)
        if obj.is_meta:
            return self.name("_rebuild_meta_tensor_no_storage"), (
                obj.dtype,
                tuple(obj.shape),
                obj.stride(),
                obj.requires_grad,
            )
        function, args = self.without_values(obj) if isinstance(obj._array, Metadata) else self.plain(obj)
        if type(obj) is not Tensor:  # a user-defined subclass, which must be importable when the file is loaded
            return self.name("_rebuild_from_type_v2"), (function, type(obj), args, extra)
        if extra:
            return self.name("_rebuild_from_type_v2"), (function, self.name("Tensor"), args, extra)
        return function, args

    def sparse(self, obj: Tensor, extra: dict[str, Any]) -> tuple:
        components = (obj._indices(), obj._values(), obj.size(), obj.is_coalesced())
        args = obj.layout, components
        if extra := {n: v for n, v in extra.items() if not hasattr(type(obj), n)}:
            rebuild, cls = self.name("_rebuild_sparse_tensor"), self.name("Tensor")
            return self.name("_rebuild_from_type_v2"), (rebuild, cls, args, extra)
        return self.name("_rebuild_sparse_tensor"), args

    def without_values(self, obj: Tensor) -> tuple:
        """Return a wrapper subclass from its shape; its attributes hold the tensors that it wraps."""
        args = (type(obj), obj.dtype, tuple(obj.shape), obj.stride(), 0, obj.layout, obj.device, obj.requires_grad)
        return self.name("_rebuild_wrapper_subclass"), args

    def plain(self, obj: Tensor) -> tuple:
        array, kind = obj._array, obj.dtype
        stored = self.stored(array, kind)
        args = (stored, offset_in_elements(array), tuple(array.shape), obj.stride(), obj.requires_grad, OrderedDict())
        bits = {name: True for name, is_set in (("conj", obj.is_conj()), ("neg", obj.is_neg())) if is_set}
        metadata = (bits,) if bits else ()
        if kind in STORAGE_NAMES:
            return self.name("_rebuild_tensor_v2"), (*args, *metadata)
        return self.name("_rebuild_tensor_v3"), (*args, kind, *metadata)
