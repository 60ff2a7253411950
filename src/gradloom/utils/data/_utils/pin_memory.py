"""Batches in pinned memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....core.tensor import Tensor
from .collate import like_mapping, like_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return a batch with the tensors in it pinned.

    Args:
        data: any value; mappings and sequences are searched, and objects with a method `pin_memory` are asked.
        device: accepted for compatibility.

    Raises RuntimeError for a tensor: there is no accelerator that memory could be pinned for. A DataLoader with
    `pin_memory=True` warns and leaves its batches as they are.
    """
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return like_mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, Sequence):
        parts = [pin_memory(part, device) for part in data]
        if hasattr(data, "_fields"):
            return type(data)(*parts)
        return parts if isinstance(data, tuple) else like_sequence(data, parts)
    return data.pin_memory() if hasattr(data, "pin_memory") else data
