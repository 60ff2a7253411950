"""Helpers that programs and pickles look for in PyTorch's private module of this name.

A pickle of PyTorch's that is no file of `torch.save` names the functions `_rebuild_*` and holds storages; see
`serialization.plain_pickles` for the way out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import gradloom as torch

from .core.tensor import Tensor
from .serialization import _rebuilding
from .types.device import device
from .utils._exceptions import ExceptionWrapper as ExceptionWrapper, KeyErrorMessage as KeyErrorMessage

# --- what pickles call ------------------------------------------------------------------------------------------------


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """Return a tensor on a storage; offset and strides count elements."""
    return _rebuild_tensor_v2(storage, storage_offset, size, stride, False, None)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor on a storage, with its hooks; `metadata` tells the conjugate and negative bits."""
    return _rebuild_tensor_v3(
        storage, storage_offset, size, stride, requires_grad, backward_hooks, getattr(storage, "dtype", None), metadata
    )


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor of a dtype on a storage of bytes."""
    out: Tensor = _rebuilding.rebuild_tensor(
        storage, storage_offset, size, stride, requires_grad, None, metadata, dtype
    )
    if backward_hooks:
        out._backward_hooks = backward_hooks
    return out


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    """Return a parameter, with its hooks."""
    out: Tensor = _rebuilding.rebuild_parameter(data, requires_grad, None)
    if backward_hooks:
        out._backward_hooks = backward_hooks
    return out


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Tensor:
    """Return a parameter with attributes."""
    out: Tensor = _rebuilding.with_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)
    return out


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Tensor:
    """Return a sparse tensor from (indices, values, size, whether it is coalesced)."""
    out: Tensor = _rebuilding.rebuild_sparse_tensor(layout, data)
    return out


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """Return a tensor of the meta device."""
    out: Tensor = _rebuilding.rebuild_meta_tensor(dtype, size, stride, requires_grad)
    return out


def _rebuild_wrapper_subclass(
    cls: type, dtype: Any, size: Any, stride: Any, storage_offset: int, layout: Any, device: Any, requires_grad: bool
) -> Tensor:
    """Return a tensor without values of a subclass."""
    out: Tensor = _rebuilding.rebuild_wrapper_subclass(
        cls, dtype, size, stride, storage_offset, layout, device, requires_grad
    )
    return out


def _element_size(dtype: torch.dtype) -> int:
    """Return the bytes of one element. Raises RuntimeError for what is no dtype."""
    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _import_dotted_name(name: str) -> Any:
    """Return what a dotted name stands for, of which the first part is a module."""
    first, *rest = name.split(".")
    return reduce(getattr, rest, import_module(first))


# --- many tensors as one ----------------------------------------------------------------------------------------------


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """Return the elements of tensors of one dtype, one tensor after the other: (sum of their sizes,)."""
    return torch.ops.aten.flatten_dense_tensors(tuple(tensors))


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return views of a flat tensor, with the sizes of the tensors that it was made of."""
    return tuple(torch.ops.aten.unflatten_dense_tensors(flat, tuple(tensors)))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Yield lists of tensors of one type, each of which a tensor closes that brings it to `size_limit` bytes."""
    waiting: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        kind = tensor.type()
        size = sum(one.nbytes for one in waiting[kind]) + tensor.nbytes
        if size > size_limit and waiting[kind]:
            yield waiting[kind]
            waiting[kind] = []
        waiting[kind].append(tensor)
    yield from filter(None, waiting.values())


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return tensors in the order in which others have their types; those of one type keep their order."""
    by_type: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        by_type[tensor.type()].append(tensor)
    each = {kind: iter(members) for kind, members in by_type.items()}
    return tuple(next(each[tensor.type()]) for tensor in ordered_tensors)


# --- devices, of which there is one -----------------------------------------------------------------------------------


def _get_device_module(device_type: str) -> Any:
    """Return the module of a kind of devices, such as `torch.cpu`. Raises RuntimeError if there is none."""
    found = getattr(torch, device_type, None)
    if found is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return found


def _get_available_device_type() -> str | None:
    """Return None: there is no accelerator."""
    return None


def _get_all_device_indices() -> None:
    """Return None: there is no accelerator."""
    return


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """Return the number of a device; -1 for the CPU, with `allow_cpu`.

    Args:
        device: a device, its name or number.
        optional: return the current accelerator's number, which is None here, for None and a device without number.
        allow_cpu: accept the CPU.

    Raises:
        ValueError: for the CPU without `allow_cpu`, and for what has no number without `optional`.
    """
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, int):
        return device
    if isinstance(device, _device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.type == "cpu" or device.index is not None:
            return -1 if device.type == "cpu" else device.index
    if optional and not isinstance(device, int):
        return None
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")


_device = device  # which an argument hides


class classproperty:
    """A property of a class: a decorator of a method that takes the class."""

    def __init__(self, func: Any) -> None:
        self.fget = func.__func__ if isinstance(func, (classmethod, staticmethod)) else func

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget(type(instance) if owner is None else owner)


def is_compiling() -> bool:
    """Return whether `torch.compile` is tracing the program."""
    compiling: bool = import_module("gradloom.compiler").is_compiling()
    return compiling
