"""Operators on the values of sparse tensors: what the words `values` and `stored_values` of the key `sparse:` mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor, wrap
from ..types.silence import silence
from .differentiable import coalesce
from .tensor import SparseTensor, components, make


def sizes(tensor: Tensor) -> str:
    """Return the sizes for messages."""
    return str(list(tensor._array.shape))


def coalesced(self: SparseTensor) -> SparseTensor:
    """Return the coalesced tensor without history; the tensor itself if it is coalesced."""
    return self if self._coalesced else coalesce(self.detach())


def _plain(value: Any) -> Any:
    """Return a dense tensor without its history; anything else as it is."""
    if not isinstance(value, Tensor) or value._wrapped_number is not None:
        return value
    return wrap(value._array)


def on_values(operator: Callable[..., Any], self: SparseTensor, *args: Any) -> SparseTensor:
    """Apply a dense operator to the stored values."""
    indices, values, _ = components(self)
    found = operator(wrap(values), *[_plain(a) for a in args])
    return make(indices, found._array, self._array.shape, self._coalesced)


def on_coalesced(operator: Callable[..., Any], self: SparseTensor, *args: Any) -> SparseTensor:
    """Apply a dense operator that leaves zero at zero to the values of the coalesced tensor."""
    return on_values(operator, coalesced(self), *args)


silence(globals())
