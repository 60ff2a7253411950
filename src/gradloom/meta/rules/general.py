"""Rules that follow from other keys of most entries: views, and results whose sizes are sizes of the arguments."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch.interception import call_wrapper
from ...dispatch.records import ArgumentName
from ..arrays import seen, unseen, wrap_any
from ..runs import Run
from ..tensor import wrap_meta


def view(run: Run, values: dict[str, Any]) -> Any:
    """Views of the first argument, by the operator's own kernel on memory that does not exist."""
    source, *rest = run.call.args
    found = run.below(lambda: call_wrapper(run.call.wrapper, (wrap_any(seen(source._array)), *rest)))
    if isinstance(found, Tensor):
        return wrap_meta(unseen(found._array, source._array))
    return [wrap_meta(unseen(t._array, source._array)) for t in found]


def restrided(run: Run, values: dict[str, Any]) -> Any:
    """The first argument, whose shape and strides the operator changes in place."""
    target, *rest = run.call.args
    own = wrap_any(seen(target._array))
    run.below(lambda: call_wrapper(run.call.wrapper, (own, *rest)))
    target._array = unseen(own._array, target._array)
    return target


def same(run: Run, values: dict[str, Any]) -> Any:
    """Results whose sizes are sizes of the arguments, or 1."""
    return run.of_small_sizes()


def pointwise(run: Run, values: dict[str, Any]) -> Any:
    """The same for an operator on elements: ones are in most domains."""
    run.fills = ("ones", "data", "zeros")
    return run.of_small_sizes()


def pivots(run: Run, values: dict[str, Any]) -> Any:
    """The same for an operator on matrices, whose integers LAPACK trusts to be pivots."""
    run.fills = ("pivots",)
    return run.of_small_sizes()


def of_size(run: Run, values: dict[str, Any], size: ArgumentName) -> Any:
    """A result of the size that an argument gives."""
    return run.made(values[size])
