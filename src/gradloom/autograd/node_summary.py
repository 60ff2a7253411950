"""What a node holds, in a few words each: for people who look at graphs. Nothing is unpacked and no hook is run."""

from __future__ import annotations

from typing import Any

from ..core.accumulate_grad import AccumulateGrad
from ..core.node import Node
from ..core.saved_variable import RELEASED
from ..types.dtype import TYPE_OF


def held(node: Node) -> list[tuple[str, str]]:
    """(field, what it holds) for each public field of a node: shapes and dtypes of tensors, other values in full."""
    if isinstance(node, AccumulateGrad):
        return [("variable", describe(node.variable))]
    found = [(name, describe(getattr(node, f"saved_{name}", None))) for name in node._saved_fields]
    if not found and getattr(node, "_released", False):
        return [("saved tensors", "released by an earlier backward pass")]
    if not found and getattr(node, "_saved", ()):  # a custom Function's
        found = [(f"tensor {i}", describe(value)) for i, value in enumerate(node._saved)]
    return found


def describe(value: Any) -> str:
    """A saved value in a few words: `2x3 float32` for a tensor."""
    if value is None:
        return "None: no formula will ask for it"
    if value is RELEASED:
        return "released by an earlier backward pass"
    if isinstance(value, (tuple, list)) and value and any(array_of(v) is not None for v in value):
        return f"[{', '.join(map(describe, value))}]"
    array = array_of(value)
    if array is not None:
        return described(array.shape, array.dtype)
    if getattr(value, "unpack_hook", None) is not None:
        return "packed by a saved tensor hook"
    text = repr(tuple(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def described(shape: tuple[int, ...], dtype: Any) -> str:
    """`2x3 float32`; `scalar float32` without dimensions."""
    sizes = "x".join(map(str, shape)) or "scalar"
    return f"{sizes} {str(TYPE_OF[dtype]).removeprefix('torch.')}"


def array_of(value: Any) -> Any:
    """The array of a tensor or of a saved variable that was not packed; else None."""
    array = getattr(value, "_array", None)
    if array is None and hasattr(value, "array"):
        tensor = getattr(value, "tensor", None)
        array = tensor._array if tensor is not None else value.array
    return array
