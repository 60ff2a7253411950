"""Samples whose tensors lie in memory in other ways, and what is compared of where results lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .case import Case
from .library import Library
from .records import TensorRecord, contiguous_strides, dtype_name, leaves, map_leaves

Way = Callable[[TensorRecord, int], TensorRecord]


def laid(record: TensorRecord, order: Sequence[int] | None = None, step: int = 1, offset: int = 0) -> TensorRecord:
    """The same values with the dimensions in an order in memory (outermost first), with gaps, from an offset."""
    values = record.array()
    order = range(values.ndim) if order is None else order
    strides = [0] * values.ndim
    for d, stride in zip(order, contiguous_strides(tuple(values.shape[d] for d in order)), strict=True):
        strides[d] = stride * step
    flat = np.zeros(values.size * step + offset, values.dtype)
    if values.size:
        width = values.itemsize
        np.ndarray(values.shape, values.dtype, flat, offset * width, [s * width for s in strides])[...] = values
    return replace(record, flat=flat, strides=tuple(strides), offset=offset, shape=values.shape)


def _transposed(record: TensorRecord, index: int = 0) -> TensorRecord:
    return laid(record, range(len(record.shape))[::-1])


def _swapped(record: TensorRecord, index: int) -> TensorRecord:
    n = len(record.shape)
    return laid(record, [*range(n - 2), n - 1, n - 2] if n > 1 else None)


def _channels_last(record: TensorRecord, index: int) -> TensorRecord:
    n = len(record.shape)
    return laid(record, [0, *range(2, n), 1] if n in (4, 5) else None)


def _expanded(record: TensorRecord, index: int) -> TensorRecord:
    """The first part along the first dimension, expanded. That changes the values, so indices stay as they are."""
    if not record.shape or 0 in record.shape or record.flat.dtype.kind not in "fc":
        return laid(record)
    flat = np.ascontiguousarray(record.array()[0]).reshape(-1).copy()
    return replace(record, flat=flat, strides=(0, *contiguous_strides(record.shape[1:])), offset=0)


#: How the tensors of a sample are laid out; the number is the tensor's place among them.
WAYS: dict[str, Way] = {
    "contiguous": lambda record, index: laid(record),
    "transposed": _transposed,
    "swapped": _swapped,
    "rotated": lambda record, index: laid(record, [*range(1, len(record.shape)), 0] if record.shape else None),
    "channels last": _channels_last,
    "every second": lambda record, index: laid(record, None, 2, 3),
    "expanded": _expanded,
    "the first transposed": lambda record, index: laid(record) if index else _transposed(record),
    "all but the first transposed": lambda record, index: _transposed(record) if index else laid(record),
    "the first channels last": lambda record, index: laid(record) if index else _channels_last(record, index),
}


def variants(case: Case) -> list[tuple[str, Case]]:
    """The case with its tensors laid out in each way, leaving out what is the same again."""
    found, met = [], set()
    for name, way in WAYS.items():
        made: dict[int, TensorRecord] = {}

        def leaf(value: Any, made=made, way=way) -> Any:
            if not isinstance(value, TensorRecord):
                return value
            if id(value) not in made:
                made[id(value)] = way(value, len(made))
            return made[id(value)]

        first, args, kwargs = map_leaves(leaf, (case.input, case.args, case.kwargs))
        key = tuple((r.shape, r.strides, r.offset) for r in made.values())
        if key not in met:
            met.add(key)
            found.append((name, replace(case, input=first, args=args, kwargs=kwargs)))
    return found


def layout(tensor: Any) -> dict[str, Any]:
    """Where the elements lie; the strides of dimensions of size 1, which nothing is reached by, are left out."""
    if not tensor.numel():
        return {"shape": tuple(tensor.shape)}
    strides = [s if n > 1 else None for n, s in zip(tensor.shape, tensor.stride(), strict=True)]
    return {"shape": tuple(tensor.shape), "strides": strides, "is_contiguous": tensor.is_contiguous()}


def sharing(tensor: Any, inputs: Sequence[Any], library: Library) -> dict[str, Any]:
    """Which inputs a result shares memory, history of writes and place with."""
    if not tensor.numel():
        return {}
    place = tensor.untyped_storage().data_ptr()
    base = tensor._base
    shared = [i for i, x in enumerate(inputs) if x.numel() and x.untyped_storage().data_ptr() == place]
    found = {
        "offset": tensor.storage_offset(),
        "is": [i for i, x in enumerate(inputs) if x is tensor],
        "shares": shared,
        "view": tensor._is_view(),
        "base": base is not None and [i for i, x in enumerate(inputs) if x is base],
    }
    if shared:
        before = tensor._version
        library.find("autograd.graph.increment_version")(inputs[shared[0]])
        found["version"] = tensor._version != before
    return found


def observed(case: Case, library: Library, backward: bool) -> list[dict[str, Any]]:
    """What is seen of the results, and with `backward` of the `.grad` of the inputs instead."""
    inputs: list[Any] = []

    def collect(record: TensorRecord, tensor: Any) -> Any:
        inputs.append(tensor.detach().requires_grad_(record.requires_grad))
        return inputs[-1]

    case.reseed()
    values = case.values(library, collect)
    results = [r for r in leaves(case.call(library, values)) if library.is_tensor(r)]
    if not backward:
        return [{**layout(r), **sharing(r, inputs, library)} for r in results]
    results = [r for r in results if r.requires_grad]
    cotangents = [case.random(tuple(r.shape), dtype_name(r.dtype), f"cotangent {i}") for i, r in enumerate(results)]
    library.find("autograd.backward")(results, library.build(cotangents))
    return [{} if x.grad is None else layout(x.grad) for x in inputs]
