"""Between tensors, of any strides, and the contiguous arrays that engines take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gradloom as gl

__all__ = ["Targets", "flat_parts", "source"]


def source(tensor: Any) -> np.ndarray:
    """Return a tensor's values as a contiguous array: its own, if it is.

    Raises:
        RuntimeError: if it has no values of its own (sparse and meta tensors).
    """
    array = tensor._array
    if array.__class__ is not np.ndarray:
        if tensor.is_sparse or tensor.is_meta or not (tensor.is_conj() or tensor.is_neg()):
            kind = "sparse" if tensor.is_sparse else "meta" if tensor.is_meta else type(tensor).__name__
            raise RuntimeError(f"Collectives take dense tensors with values, not {kind} tensors")
        array = np.asarray(array)
    return np.asarray(array, order="C")


class Targets:
    """Arrays into which an engine writes, and the tensors that get the values of those that are not their own."""

    def __init__(self) -> None:
        self._copies: list[tuple[Any, np.ndarray]] = []

    def array(self, tensor: Any) -> np.ndarray:
        """Return a contiguous array with a tensor's values, which `store` will write back."""
        array = source(tensor)
        if array is not tensor._array or not array.flags.writeable:
            if array is tensor._array:
                array = array.copy()
            self._copies.append((tensor, array))
        return array

    def arrays(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        """Return an array for each tensor."""
        return [self.array(tensor) for tensor in tensors]

    def store(self) -> None:
        """Copy values into the tensors that are not contiguous."""
        for tensor, array in self._copies:
            if tensor._array.__class__ is np.ndarray:
                tensor._array[...] = array
            else:
                with gl.no_grad():
                    tensor.copy_(gl.from_numpy(array))  # complex, since it has a conjugate or negative bit


def flat_parts(array: np.ndarray, count: int) -> list[np.ndarray]:
    """Return `count` equal parts of a contiguous array, as views, one after the other in memory.

    Raises:
        RuntimeError: if it cannot be split so.
    """
    flat = array.reshape(-1)
    if flat.size % count:
        raise RuntimeError(f"{flat.size} elements cannot be split into {count} equal parts")
    size = flat.size // count
    return [flat[index * size : (index + 1) * size] for index in range(count)]
