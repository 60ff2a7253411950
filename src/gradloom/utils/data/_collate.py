"""Batches from lists of examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

import gradloom as gl

from ...core.tensor import wrap
from ...tensors.sharing import new_shared
from ._worker import get_worker_info


def default_collate(batch: Sequence[Any]) -> Any:
    """Make one batch from a list of examples: stack tensors, convert numbers to a tensor, and recurse into containers.

    Args:
        batch: examples of one kind: tensors, arrays, numbers, strings, or mappings and sequences of these.

    Raises:
        TypeError: for examples of another type.
        RuntimeError: if tensors or sequences differ in size.
    """
    first = batch[0]
    kind = type(first)
    if isinstance(first, gl.Tensor):
        return _stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)):
        if first.dtype.kind in "SUO":
            raise _unknown(first.dtype)
        return (
            _stack([gl.as_tensor(part) for part in batch])
            if isinstance(first, np.ndarray)
            else gl.as_tensor(np.asarray(batch))
        )
    if isinstance(first, float):
        return gl.tensor(batch, dtype=gl.float64)
    if isinstance(first, int):
        return gl.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: default_collate([example[key] for example in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(example) != len(first) for example in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return kind(*parts)
        return parts if isinstance(first, tuple) else _like_sequence(first, parts)
    raise _unknown(kind)


def default_convert(data: Any) -> Any:
    """Convert the arrays within an example to tensors, for examples that are not batched.

    Args:
        data: any value; mappings and sequences are searched.
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else gl.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        parts = [default_convert(part) for part in data]
        if hasattr(data, "_fields"):
            return type(data)(*parts)
        return parts if isinstance(data, tuple) else _like_sequence(data, parts)
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


def _like_mapping(example: Any, parts: dict[Any, Any]) -> Any:
    """Return a mapping of the example's type, if that can be copied or made from a dict."""
    try:
        if hasattr(example, "update") and type(example) is not dict:
            out = copy(example)
            out.update(parts)
            return out
        return type(example)(parts)
    except TypeError:
        return parts


def _like_sequence(example: Any, parts: list[Any]) -> Any:
    try:
        return type(example)(parts)
    except TypeError:
        return parts
