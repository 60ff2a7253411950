"""Autocast: the settings of each thread, and the casting of an operator's arguments.

Note [Autocast]
Within a region, the AUTOCAST bit of the thread's flags makes the wrapper of every operator whose YAML entry has the key
`autocast` intercept its call (Note [Interception]). `handle_call` casts the floating-point arguments by the entry's
rule (by `lower_result`, the result) and passes the call on with the bit cleared, so that the operators inside it cast
nothing. The cast is a recorded operator: gradients come back in the dtypes of the original arguments. In-place and out
variants are not cast.

A parameter is cast once per region. The cast of a leaf that requires grad is kept until the outermost region ends, and
all uses share its node, so the gradient is summed in lower precision before it is cast back. The cast is recorded even
if its first use is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..autograd.grad_mode import enable_grad
from ..dispatch import _operators as ops
from ..dispatch.interception import CASTS, Call, register
from ..dispatch.state import AUTOCAST, INFERENCE, state
from ..types.dtype import bfloat16, dtype as DType, float16, float32, float64

# Device types that have autocast -> the dtype of a region that names none.
DEFAULT_DTYPES: dict[str, DType] = {
    "cpu": bfloat16,
    "cuda": float16,
    "mps": float16,
    "xpu": float16,
    "ipu": float16,
    "mtia": float16,
    "xla": bfloat16,
    "hpu": bfloat16,
    "maia": bfloat16,
}


class Settings:
    """Autocast settings of one thread. For the CPU, "enabled" is the AUTOCAST bit of the thread's flags.

    Attributes:
        dtypes: device type -> dtype of lower precision.
        others: device types other than the CPU that have autocast enabled.
        nesting: number of open regions.
        caches: whether casts of parameters are kept until the outermost region ends.
        casts: (id of a parameter, dtype) -> (the parameter, its cast). The cast's history keeps the parameter alive,
            so the id stays valid until the outermost region ends.
    """

    def __init__(self) -> None:
        self.dtypes: dict[str, DType] = dict(DEFAULT_DTYPES)
        self.others: set[str] = set()
        self.nesting = 0
        self.caches = True
        self.casts: dict[tuple[int, DType], tuple[Any, Any]] = {}


def settings() -> Settings:
    """Return this thread's settings."""
    found = state.autocast
    if found is None:
        found = state.autocast = Settings()
    return found


def handle_call(call: Call) -> Any:
    """Cast the arguments of an intercepted call and run it; NotImplemented if there is nothing to cast."""
    flags = state.flags
    if not flags & AUTOCAST or call.out is not None:
        return NotImplemented
    rule = rule_of(call.wrapper)
    if rule is None:
        return NotImplemented
    state.flags = flags & ~AUTOCAST
    try:
        if rule == "lower_result":
            found = settings()
            return _cast(call.below(CASTS), found.dtypes["cpu"], found.dtypes["cpu"], found)
        return call.with_args(cast_by(rule, call.args)).below(CASTS)
    finally:
        state.flags = flags


register(CASTS, handle_call)


def rule_of(wrapper: Any) -> str | None:
    """Return the `autocast` key of an operator's entry, or None. Operators of gradloom.library cast for themselves."""
    rules = getattr(wrapper, "__globals__", {}).get("AUTOCAST_RULES", {})
    return rules.get(wrapper.__name__) if rules else None


def cast_by(rule: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cast an operator's arguments by a rule of the YAML key `autocast`.

    Args:
        rule: "lower_precision", "fp32" or "promote".
        args: any values. Floating-point tensors, also those in lists, are cast; float64 tensors are not.

    Raises:
        RuntimeError: for "promote", if an argument has the 16-bit dtype that is not the region's.
    """
    found = settings()
    lower = found.dtypes["cpu"]
    if rule == "lower_precision":
        dtype = lower
    else:
        dtype = float32 if rule == "fp32" else widest(lower, args)
    return tuple([_cast(value, dtype, lower, found) for value in args])


def widest(lower: DType, args: tuple[Any, ...]) -> DType:
    """Return the widest floating dtype among `lower` and the tensors in `args`.

    Raises:
        RuntimeError: if a tensor has the other 16-bit dtype, which cannot represent the values of `lower`.
    """
    found = {t.dtype for t in _tensors(args) if _is_floating(t)}
    for dtype in found:
        if dtype not in (lower, float32, float64):
            raise RuntimeError(
                f"Unexpected floating ScalarType: autocast to {lower} got a tensor of {dtype}, "
                "and neither dtype can represent the values of the other. Cast the tensor first, for example with "
                f".to({lower})."
            )
    return next((dtype for dtype in (float64, float32) if dtype in found), lower)


def _tensors(args: Iterable[Any]) -> Iterable[Any]:
    for value in args:
        if isinstance(value, ops.Tensor):
            yield value
        elif value.__class__ in (tuple, list):
            yield from (t for t in value if isinstance(t, ops.Tensor))


def _is_floating(tensor: Any) -> bool:
    return tensor._array.dtype.kind in "fV"


def _cast(value: Any, dtype: DType, lower: DType, found: Settings) -> Any:
    """Return a tensor, or a list of tensors, in `dtype`; return anything else unchanged."""
    if not isinstance(value, ops.Tensor):
        if value.__class__ in (tuple, list):
            return type(value)([_cast(v, dtype, lower, found) for v in value])
        return value
    given = value.dtype
    if given is dtype or given is float64 or not _is_floating(value):
        return value
    if (
        dtype is not lower
        or given is not float32
        or not found.caches
        or state.flags & INFERENCE
        or not value.requires_grad
        or not value.is_leaf
        or value._is_view()
    ):
        return ops._to_copy(value, dtype=dtype)
    kept = found.casts.get((id(value), dtype))
    if kept is None:
        with enable_grad():
            kept = found.casts[id(value), dtype] = value, ops._to_copy(value, dtype=dtype)
    return kept[1]
