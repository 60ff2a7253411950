"""Samples of PyTorch's database taken apart, so that they can be built anew in any library with its API.

A sample is first *recorded*: every tensor becomes a `TensorRecord` (the bytes of its storage and how the
tensor lies in it), every dtype, device, layout or torch function a `Symbol` (its dotted name), every
generator a `GeneratorRecord`. `Library.build` makes values of a recorded sample as often as needed, in
PyTorch and in the candidate alike, so both sides always start from equal and fresh tensors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .names import NAMES

#: torch dtypes that NumPy has under the same name, and bfloat16, which ml_dtypes adds.
_NUMPY_DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
).split()


class Unconvertible(Exception):
    """A value of PyTorch that has no NumPy form: sparse, quantized and nested tensors, complex32, float8."""


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype for a torch dtype name such as "float32"; raises Unconvertible where there is none."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    if name not in _NUMPY_DTYPES:
        raise Unconvertible(f"dtype {name}")
    return np.dtype(name)


def dtype_name(dtype: Any) -> str:
    """`float32` for torch.float32, and for any library's dtype object that prints as <module>.float32."""
    return str(dtype).rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Symbol:
    """A named constant or function of the library: `float32`, `contiguous_format`, `nn.functional.relu`."""

    name: str


@dataclass(frozen=True)
class DeviceRecord:
    name: str


@dataclass(frozen=True)
class OptionsRecord:
    """An options object, a dataclass of the library: its public name and its fields."""

    name: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class GeneratorRecord:
    seed: int


@dataclass(frozen=True)
class MetaRecord:
    """A tensor on the meta device."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool


@dataclass(eq=False)
class ModuleRecord:
    """A module with parameters: the full name of its class, and what it holds, without the constructor's arguments."""

    name: str
    parameters: dict[str, Any]
    buffers: dict[str, Any]
    modules: dict[str, Any]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class ForeignFunction:
    """A callable argument without a public name: a lambda over PyTorch functions, or a module instance."""

    function: Callable


@dataclass(eq=False)
class TensorRecord:
    """A tensor's storage as a flat array, and the tensor's place in it (sizes and strides in elements)."""

    flat: np.ndarray
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    requires_grad: bool = False

    def array(self) -> np.ndarray:
        """A fresh, writable array with this record's strides over its own copy of the storage."""
        if not self.flat[self.offset :].size or 0 in self.shape:
            return np.empty(self.shape, self.flat.dtype)
        width = self.flat.itemsize
        steps = tuple(stride * width for stride in self.strides)
        # Not as_strided, which hides the storage behind an object that is no array.
        return np.ndarray(self.shape, self.flat.dtype, self.flat.copy(), self.offset * width, steps)

    def owns_storage(self) -> bool:
        """Whether the tensor is contiguous and the whole of its storage."""
        return self.flat.size == int(np.prod(self.shape)) and self.strides == contiguous_strides(self.shape)

    @classmethod
    def of_array(cls, array: np.ndarray, dtype: str, requires_grad: bool = False) -> TensorRecord:
        flat = np.ascontiguousarray(array).reshape(-1)
        return cls(flat, dtype, array.shape, contiguous_strides(array.shape), 0, requires_grad)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major tensor as PyTorch gives them: a size of zero counts as one."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def map_leaves(fn: Callable[[Any], Any], value: Any) -> Any:
    """Rebuild nested tuples, named tuples, lists, dicts and slices with `fn` applied to everything else."""
    rebuild = functools.partial(map_leaves, fn)
    if isinstance(value, (torch.Size, str)):
        return fn(value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(map(rebuild, value))
    if isinstance(value, tuple):
        return tuple(map(rebuild, value))
    if isinstance(value, list):
        return list(map(rebuild, value))
    if isinstance(value, dict):
        return {key: rebuild(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(rebuild(value.start), rebuild(value.stop), rebuild(value.step))
    return fn(value)


def leaves(value: Any) -> Iterator[Any]:
    """Everything in nested tuples, lists and dicts, in order."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        for item in value:
            yield from leaves(item)
    else:
        yield value


class Recorder:
    """Turns PyTorch values into records; the same tensor twice in one sample stays one tensor."""

    def __init__(self) -> None:
        self._seen: dict[int, TensorRecord] = {}
        self._keep: list[torch.Tensor] = []

    def record(self, value: Any) -> Any:
        return map_leaves(self._leaf, value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return Symbol(str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return DeviceRecord(str(value))
        if isinstance(value, torch.Generator):
            return GeneratorRecord(value.initial_seed())
        if isinstance(value, torch.Size):
            return tuple(value)
        if isinstance(value, torch.nn.LinearCrossEntropyOptions):
            fields = {field.name: self.record(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return OptionsRecord("nn.LinearCrossEntropyOptions", fields)
        if isinstance(value, torch.nn.Module) and any(True for _ in value.parameters()):
            return self._module(value)
        if callable(value) and not isinstance(value, type):
            names = NAMES.of(value)
            return Symbol(names[0]) if names else ForeignFunction(value)
        return value

    def _module(self, module: torch.nn.Module) -> Any:
        space, _, name = f"{type(module).__module__}.{type(module).__qualname__}".partition(".")
        if space != "torch":
            raise Unconvertible(f"a module of {space} as an argument")
        inner = {key: None if part is None else self._module(part) for key, part in module._modules.items()}
        own = set(vars(torch.nn.Module())) - {"training"}
        plain = {key: self.record(value) for key, value in vars(module).items() if key not in own}
        tensors = [self.record(dict(part)) for part in (module._parameters, module._buffers)]
        return ModuleRecord(name, *tensors, inner, plain)

    def _tensor(self, tensor: torch.Tensor) -> TensorRecord | MetaRecord:
        if tensor.device.type == "meta":
            return MetaRecord(
                dtype_name(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad
            )
        known = self._seen.get(id(tensor))
        if known is None:
            known = self._seen[id(tensor)] = record_tensor(tensor)
            self._keep.append(tensor)
        return known


def record_tensor(tensor: torch.Tensor) -> TensorRecord:
    """A torch tensor's bytes, sizes and strides. Raises Unconvertible for all but strided CPU tensors."""
    if tensor.layout != torch.strided or tensor.is_nested:
        raise Unconvertible(f"layout {tensor.layout}")
    if tensor.is_quantized or tensor.device.type != "cpu":
        raise Unconvertible("a quantized tensor" if tensor.is_quantized else f"device {tensor.device}")
    kind = numpy_dtype(dtype_name(tensor.dtype))
    plain = tensor.detach().resolve_conj().resolve_neg()
    length = plain.untyped_storage().nbytes() // plain.element_size()
    flat = plain.as_strided((length,), (1,), 0)
    bits = flat.view(torch.int16) if plain.dtype is torch.bfloat16 else flat
    return TensorRecord(
        bits.numpy().view(kind).copy(),
        dtype_name(tensor.dtype),
        tuple(plain.shape),
        tuple(plain.stride()),
        plain.storage_offset(),
        tensor.requires_grad,
    )
