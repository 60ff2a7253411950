"""A library with PyTorch's API: names are looked up in it, tensors are built in it and read from it."""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .records import (
    DeviceRecord,
    ForeignFunction,
    GeneratorRecord,
    MetaRecord,
    ModuleRecord,
    OptionsRecord,
    Symbol,
    TensorRecord,
    Unconvertible,
    dtype_name,
    map_leaves,
    numpy_dtype,
)

#: What gradloom says where it has a Python function but not the operator under it.
_NO_OPERATOR = re.compile(r"has no operator '([\w.]+)'")


class Absent(Exception):
    """The candidate has nothing under the name that a sample needs. The argument is the dotted name."""


@dataclass(eq=False)
class Library:
    """PyTorch or a candidate: a module with PyTorch's names, through which every access to it goes."""

    module: Any
    name: str = ""
    adapt_function: Callable[[Callable], Callable] = lambda function: function  # for arguments that are PyTorch code

    def __post_init__(self) -> None:
        self.name = self.name or self.module.__name__

    @property
    def Tensor(self) -> type:
        return self.module.Tensor

    def find(self, dotted: str) -> Any:
        """The object under a name such as "linalg.det" or "Tensor.add_"; Absent where a part is missing."""
        found = self.module
        for index, part in enumerate(dotted.split(".")):
            if not self._has(found, part):
                path = ".".join([self.module.__name__, *dotted.split(".")[: index + 1]])
                if not isinstance(found, types.ModuleType) or not _importable(path):
                    raise Absent(dotted)
            found = getattr(found, part)
        return found

    def _has(self, owner: Any, name: str) -> bool:
        if isinstance(owner, type):  # not what a class has from its metaclass, such as type.__or__
            return any(name in vars(kind) for kind in owner.__mro__ if kind is not object)
        try:
            return hasattr(owner, name)
        except (NotImplementedError, ImportError) as error:  # looked up late, in a module's __getattr__
            self.check_absence(error)
            raise

    def check_absence(self, error: Exception) -> None:
        """Raise Absent if an exception of this library says that it lacks a name which PyTorch has."""
        operator = _NO_OPERATOR.search(str(error)) if isinstance(error, NotImplementedError) else None
        if operator:
            raise Absent(operator[1]) from error
        name, owner = getattr(error, "name", None), getattr(error, "obj", None)
        if isinstance(error, ModuleNotFoundError) and str(name).partition(".")[0] == self.module.__name__:
            raise Absent(str(name).partition(".")[2]) from error
        if not isinstance(error, AttributeError) or not name:
            return
        if (self.is_tensor(owner) or owner is self.Tensor) and hasattr(torch.Tensor, name):
            raise Absent(f"Tensor.{name}") from error
        inside, _, space = getattr(owner, "__name__", "").partition(".")
        if not isinstance(owner, types.ModuleType) or inside != self.module.__name__:
            return
        for place in (space, ""):  # also what a private module of the library should pass on
            if _pytorch_has(place, name):
                raise Absent(f"{place}.{name}".lstrip(".")) from error

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.Tensor)

    def build(self, recorded: Any, adapt: Callable[[TensorRecord, Any], Any] | None = None) -> Any:
        """Values of this library for a recorded tree; `adapt(record, tensor)` may replace each tensor."""
        made: dict[int, Any] = {}

        def leaf(value: Any) -> Any:
            if isinstance(value, TensorRecord):
                if id(value) not in made:
                    tensor = self.tensor(value)
                    made[id(value)] = tensor if adapt is None else adapt(value, tensor)
                return made[id(value)]
            if isinstance(value, Symbol):
                return self.find(value.name)
            if isinstance(value, ForeignFunction):
                return self.adapt_function(value.function)
            if isinstance(value, DeviceRecord):
                return self.find("device")(value.name)
            if isinstance(value, OptionsRecord):
                return self.find(value.name)(**map_leaves(leaf, value.fields))
            if isinstance(value, MetaRecord):
                placed = {"dtype": self.find(value.dtype), "device": "meta", "requires_grad": value.requires_grad}
                return self.find("empty_strided")(value.shape, value.strides, **placed)
            if isinstance(value, ModuleRecord):
                return self.module_of(value, leaf)
            if isinstance(value, GeneratorRecord):
                generator = self.find("Generator")()
                generator.manual_seed(value.seed)
                return generator
            return value

        return map_leaves(leaf, recorded)

    def module_of(self, record: ModuleRecord, leaf: Callable[[Any], Any]) -> Any:
        """A module of this library's class of the same name that holds what the record does."""
        kind = self.find(record.name)
        module = kind.__new__(kind)
        self.find("nn.Module").__init__(module)
        for name, value in map_leaves(leaf, record.attributes).items():
            setattr(module, name, value)
        for name, value in map_leaves(leaf, record.parameters).items():
            flag = value is not None and value.requires_grad
            module.register_parameter(
                name, None if value is None else self.find("nn.Parameter")(value.detach(), requires_grad=flag)
            )
        for name, value in map_leaves(leaf, record.buffers).items():
            module.register_buffer(name, value)
        for name, value in map_leaves(leaf, record.modules).items():
            module.add_module(name, value)
        return module

    def tensor(self, record: TensorRecord) -> Any:
        """A new tensor with the record's values, dtype, strides, storage and requires_grad flag."""
        if record.owns_storage():
            # Memory borrowed from NumPy cannot be resized, a copy's can.
            tensor = self._from_numpy(record.array(), record.dtype).clone()
        elif hasattr(self.Tensor, "as_strided"):
            storage = self._from_numpy(record.flat.copy(), record.dtype)
            tensor = storage.as_strided(record.shape, record.strides, record.offset)
        else:
            tensor = self._from_numpy(record.array(), record.dtype)
        return tensor.requires_grad_() if record.requires_grad else tensor

    def _from_numpy(self, array: np.ndarray, dtype: str) -> Any:
        try:
            return self.module.from_numpy(array)
        except TypeError:
            if dtype != "bfloat16":
                raise
            # A library that does not know ml_dtypes' type gets the same bits as int16.
            return self.module.from_numpy(array.view(np.int16)).view(self.module.bfloat16)

    def array(self, tensor: Any) -> np.ndarray:
        """A tensor's values as an array of the NumPy dtype of the same name."""
        kind = numpy_dtype(dtype_name(tensor.dtype))
        plain = tensor.detach()
        if not str(plain.layout).endswith("strided"):
            raise Unconvertible(f"layout {plain.layout}")
        if getattr(plain, "_is_zerotensor", bool)():
            return np.zeros(tuple(plain.shape), kind)
        for resolve in ("resolve_conj", "resolve_neg"):
            plain = getattr(plain, resolve)() if hasattr(plain, resolve) else plain
        try:
            return np.asarray(plain.numpy())
        except TypeError:
            if kind.name != "bfloat16":
                raise
            return plain.contiguous().view(self.module.int16).numpy().view(kind)

    def seed(self, value: int) -> None:
        """Seed the library's default generator; Absent if it has none."""
        if self.module.__name__ == "torch":  # quicker than torch.manual_seed, which also sees to every accelerator
            torch.default_generator.manual_seed(value)
        else:
            self.find("manual_seed")(value)


def _pytorch_has(space: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(f"torch.{space}".rstrip(".")), name)
    except ImportError:
        return False


def _importable(path: str) -> bool:
    try:
        importlib.import_module(path)
    except ImportError:
        return False
    return True


PYTORCH = Library(torch, "torch")
