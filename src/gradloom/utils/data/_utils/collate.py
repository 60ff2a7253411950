"""Batches from lists of examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

import gradloom as gl

from ....core.tensor import wrap
from ....tensors.sharing import new_shared
from .worker import get_worker_info

np_str_obj_array_pattern = re.compile("[SaUO]")  # in names of NumPy's types: no numbers
FunctionMap = dict[type | tuple[type, ...], Callable[..., Any]]


def default_collate(batch: Sequence[Any]) -> Any:
    """Make one batch from a list of examples: stack tensors, convert numbers to a tensor, and recurse into containers.

    Args:
        batch: examples of one kind: tensors, arrays, numbers, strings, or mappings and sequences of these.

    Raises:
        TypeError: for examples of another type.
        RuntimeError: if tensors or sequences differ in size.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> Any:
    """Make one batch as `default_collate` does, with functions of your own for some types.

    Args:
        batch: examples of one kind.
        collate_fn_map: {type or tuple of types: function(batch, *, collate_fn_map)}. The function of an example's own
            type is preferred to that of a base. Mappings and sequences that have none are searched.

    Raises:
        TypeError: for a type without a function.
        RuntimeError: if sequences differ in size.
    """
    first = batch[0]
    kind = type(first)
    functions = collate_fn_map or {}
    function = functions.get(kind) or next((f for k, f in functions.items() if isinstance(first, k)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        parts = {key: collate([one[key] for one in batch], collate_fn_map=collate_fn_map) for key in first}
        return like_mapping(first, parts)
    if isinstance(first, Sequence):
        if any(len(example) != len(first) for example in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return kind(*columns)
        return columns if isinstance(first, tuple) else like_sequence(first, columns)
    raise _unknown(kind)


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> gl.Tensor:
    """Stack tensors of one shape."""
    return _stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> gl.Tensor:
    """Stack arrays of one shape. Raises TypeError for arrays of strings and objects."""
    if batch[0].dtype.kind in "SUO":
        raise _unknown(batch[0].dtype)
    return _stack([gl.as_tensor(part) for part in batch])


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> gl.Tensor:
    """Make a tensor of NumPy's scalars, of their dtype. Raises TypeError for strings."""
    if batch[0].dtype.kind in "SUO":
        raise _unknown(batch[0].dtype)
    return gl.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> gl.Tensor:
    """Make a float64 tensor of numbers."""
    return gl.tensor(batch, dtype=gl.float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> gl.Tensor:
    """Make an int64 or bool tensor of numbers."""
    return gl.tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: FunctionMap | None = None) -> Sequence[Any]:
    """Return the batch itself."""
    return batch


default_collate_fn_map: FunctionMap = {
    gl.Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    np.generic: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_convert(data: Any) -> Any:
    """Convert the arrays within an example to tensors, for examples that are not batched.

    Args:
        data: any value; mappings and sequences are searched.
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else gl.as_tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        parts = [default_convert(part) for part in data]
        if hasattr(data, "_fields"):
            return type(data)(*parts)
        return parts if isinstance(data, tuple) else like_sequence(data, parts)
    return data


def _stack(tensors: list[gl.Tensor]) -> gl.Tensor:
    """Stack tensors; in a worker process, directly in shared memory, where the batch will travel."""
    first = tensors[0]
    shape, dtype = first.shape, first.dtype
    if get_worker_info() is None or not all(
        type(t) is gl.Tensor and t.shape == shape and t.dtype is dtype and not t.requires_grad for t in tensors
    ):
        return gl.stack(tensors)
    memory = new_shared(len(tensors) * first.nbytes)
    arrays = [tensor._array for tensor in tensors]
    out = memory.view(arrays[0].dtype).reshape(len(tensors), *shape)
    np.stack(arrays, out=out)
    return wrap(out)


def _unknown(kind: Any) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"
    )


def like_mapping(example: Any, parts: dict[Any, Any]) -> Any:
    """Return a mapping of the example's type, if that can be copied or made from a dict."""
    try:
        if hasattr(example, "update") and type(example) is not dict:
            out = copy(example)
            out.update(parts)
            return out
        return type(example)(parts)
    except TypeError:
        return parts


def like_sequence(example: Any, parts: list[Any]) -> Any:
    try:
        return type(example)(parts)
    except TypeError:
        return parts
