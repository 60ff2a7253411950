"""How autocast casts the arguments of an operator.

Note [Autocast]
Within a region, the bit AUTOCAST of the thread's flags makes the wrapper of an operator whose YAML entry has the key
`autocast` hand its call over (Note [Interception]). `answer` casts the floating arguments by the entry's rule, with an
operator that records it, so that gradients come back in the dtypes of what was cast, and passes the call on without the
bit: what the operator is made of casts nothing. Only the operator itself is cast, not its in-place and out variants.

A parameter is cast once in a region: the cast of a leaf that requires grad is kept until the outermost region ends, and
all uses share its node, so that its gradient is summed in lower precision before it is cast back. It is recorded even
where the first use is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..autograd.grad_mode import enable_grad
from ..dispatch import _operators as ops
from ..dispatch.interception import CASTS, Call, register
from ..dispatch.state import AUTOCAST, INFERENCE, state
from ..types.dtype import dtype as DType, float32, float64
from .settings import Settings, settings


def answer(call: Call) -> Any:
    """What autocast says to an intercepted call; NotImplemented if it casts nothing in it."""
    flags = state.flags
    if not flags & AUTOCAST or call.out is not None:
        return NotImplemented
    rule = rule_of(call.wrapper)
    if rule is None:
        return NotImplemented
    state.flags = flags & ~AUTOCAST
    try:
        return call.with_args(cast_by(rule, call.args)).below(CASTS)
    finally:
        state.flags = flags


register(CASTS, answer)


def rule_of(wrapper: Any) -> str | None:
    """What the key `autocast` of an operator's entry says; None without it, and for operators of gradloom.library,
    which cast for themselves.

    Args:
        wrapper: the operator's generated function.
    """
    rules = getattr(wrapper, "__globals__", {}).get("AUTOCAST_RULES", {})
    return rules.get(wrapper.__name__) if rules else None


def cast_by(rule: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an operator, cast by a rule of the YAML key `autocast`.

    Args:
        rule: "lower_precision", "fp32" or "promote".
        args: any values; the floating tensors among them and in lists are cast, those in double precision are not.

    Raises:
        RuntimeError: if the rule is to promote, and an argument has the lower precision that the region has not.
    """
    found = settings()
    lower = found.dtypes["cpu"]
    if rule == "lower_precision":
        dtype = lower
    else:
        dtype = float32 if rule == "fp32" else widest(lower, args)
    return tuple([_cast(value, dtype, lower, found) for value in args])


def widest(lower: DType, args: tuple[Any, ...]) -> DType:
    """The widest floating dtype among the tensors of some arguments, at least the region's.

    Raises:
        RuntimeError: if one is of another 16-bit dtype than the region's: neither holds the other's values.
    """
    found = {t.dtype for t in _tensors(args) if _is_floating(t)}
    for dtype in found:
        if dtype not in (lower, float32, float64):
            raise RuntimeError(
                f"Unexpected floating ScalarType: autocast to {lower} was given a tensor of {dtype}, "
                "and neither dtype holds the values of the other. Cast the tensor first, such as by "
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
    """A tensor in the dtype, or a list of them; any other value, and what is not to be cast, as it is."""
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
