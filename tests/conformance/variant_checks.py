"""The other ways to call an operator: in place, with out=, as a method or an alias, and wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd_checks import compare_gradients
from .case import Case, Reject, describe, same_error_class
from .library import Absent, Library
from .records import TensorRecord, dtype_name


def errors(case: Case, result: Any) -> str | None:
    """The candidate refuses an input with PyTorch's class of exception; messages are only noted."""
    expected = _raised(case, case.reference, None)
    if expected is None:
        raise Reject("PyTorch accepts it on the CPU")
    return _same_refusal(case, expected, _raised(case, case.candidate, None), result)


def _raised(case: Case, library: Library, function: Callable | None, **extra: Any) -> Exception | None:
    return case.raised(library, lambda: case.call(library, case.values(library), function, **extra))


def _same_refusal(case: Case, expected: Exception, actual: Exception | None, result: Any) -> str | None:
    if actual is None:
        return f"{type(expected).__name__} expected, nothing raised"
    if not same_error_class(expected, actual):
        return f"{type(expected).__name__} expected, {describe(actual)}"
    wanted, found = (str(error).split("\n")[0] for error in (expected, actual))
    if wanted != found:
        result.note(f"{case.where}: message {wanted[:120]!r} expected, got {found[:120]!r}")
    return None


def inplace(case: Case, result: Any) -> str | None:
    """The in-place variant: returns its input, leaves PyTorch's value in it, refuses what PyTorch refuses."""
    variant = case.op.inplace_variant
    if variant is None or not isinstance(case.input, TensorRecord):
        raise Reject("no in-place variant")
    expected, refused = _run_inplace(case, case.reference, variant)
    mine = case.on_candidate(variant)
    actual, raised = _run_inplace(case, case.candidate, mine)
    if refused is not None:
        return _same_refusal(case, refused, raised, result)
    if raised is not None:
        return describe(raised)
    if (expected[0] is expected[1]) and actual[0] is not actual[1]:
        return "does not return its input"
    return case.difference(expected[1], actual[1]) or _inplace_gradient(case, variant, mine)


def _run_inplace(case: Case, library: Library, function: Callable) -> tuple[Any, Exception | None]:
    """((returned, input afterwards), None), or (None, the exception)."""
    case.reseed()
    first, args, kwargs = case.values(library, lambda record, tensor: tensor.detach())
    returned = []
    error = case.raised(library, lambda: returned.append(function(first, *args, **kwargs)))
    return (None, error) if error else ((returned[0], first), None)


def _inplace_gradient(case: Case, variant: Callable, mine: Callable) -> str | None:
    """Gradients through a copy that is changed in place."""
    if not case.op.supports_inplace_autograd or not case.input.requires_grad:
        return None

    def through_copy(function: Callable, library: Library) -> Callable:
        clone = library.find("Tensor.clone")
        return lambda first, *args, **kwargs: function(clone(first), *args, **kwargs)

    functions = through_copy(variant, case.reference), through_copy(mine, case.candidate)
    try:
        return compare_gradients(case, functions)
    except Reject:  # nothing to differentiate; the value was compared
        return None


def out(case: Case, result: Any) -> str | None:
    """out= fills given tensors, of the right size or empty, returns them, and is not differentiable."""
    if not case.op.supports_out:
        raise Reject("no out= variant")
    plain = case.sure(lambda: _without_grad(case, case.reference))
    outputs = case.tensors(plain, case.reference)
    if not outputs or not (case.reference.is_tensor(plain) or isinstance(plain, tuple)):
        raise Reject("no tensor to write")
    right = [_out_record(case, output, False) for output in outputs]
    empty = [_out_record(case, output, True) for output in outputs]
    return (
        _filled_out(case, right, "out") or _filled_out(case, empty, "resized out") or _differentiated_out(case, right)
    )


def _filled_out(case: Case, records: list[TensorRecord], what: str) -> str | None:
    expected = case.sure(lambda: _with_out(case, case.reference, records))
    actual, raised = case.attempt(lambda: _with_out(case, case.candidate, records))
    reason = raised or _compare_out(case, expected, actual)
    return f"{what}: {reason}" if reason else None


def _differentiated_out(case: Case, records: list[TensorRecord]) -> str | None:
    """Inputs that require grad are refused with out=, as in PyTorch."""

    def raised(library: Library) -> Exception | None:
        given = library.build(records)
        return _raised(case, library, None, out=given[0] if len(given) == 1 else tuple(given))

    expected = raised(case.reference)
    if expected is None:
        return None
    actual = raised(case.candidate)
    if actual is None:
        return f"out= with inputs that require grad: {type(expected).__name__} expected, nothing raised"
    return None if same_error_class(expected, actual) else f"{type(expected).__name__} expected, {describe(actual)}"


def _without_grad(case: Case, library: Library) -> Any:
    case.reseed()
    return case.call(library, case.values(library, lambda record, tensor: tensor.detach()))


def _out_record(case: Case, output: Any, resized: bool) -> TensorRecord:
    """A tensor to be overwritten: recognisable values, or no elements at all."""
    array = case.reference.array(output)
    shape = (0,) if resized else array.shape
    return TensorRecord.of_array(np.full(shape, 1, array.dtype), dtype_name(output.dtype))


def _with_out(case: Case, library: Library, records: list[TensorRecord]) -> tuple[Any, list[Any]]:
    """(what the call returned, the tensors given as out=)."""
    case.reseed()
    given = library.build(records)
    values = case.values(library, lambda record, tensor: tensor.detach())
    return case.call(library, values, out=given[0] if len(given) == 1 else tuple(given)), given


def _compare_out(case: Case, expected: tuple[Any, list[Any]], actual: tuple[Any, list[Any]]) -> str | None:
    reason = case.difference(tuple(expected[1]), tuple(actual[1]))
    if reason:
        return reason.removeprefix("output 0: ") if len(expected[1]) == 1 else reason
    returned = case.tensors(expected[0], case.reference), case.tensors(actual[0], case.candidate)
    for wanted, found, mine, given in zip(*returned, actual[1], expected[1], strict=False):
        if wanted is given and found is not mine:
            return "does not return the tensor given as out="
    return None


def variants(case: Case, result: Any) -> str | None:
    """The method, the Python operator and the aliases give what the function gives."""
    op = case.op
    ways = [("method", op.method_variant), ("operator", op.operator_variant)]
    ways += [(f"alias {alias.name}", alias.op) for alias in op.aliases]
    checked = False
    for what, function in ways:
        if function is None or function is op.op:
            continue
        try:
            reason = _variant(case, what, function, result)
        except Reject:  # a keyword that the method does not take
            continue
        if reason:
            return f"{what}: {reason}"
        checked = True
    if not checked:
        raise Reject("no other way to call it")
    return None


def _variant(case: Case, what: str, function: Callable, result: Any) -> str | None:
    case.reseed()
    expected = case.sure(lambda: case.call(case.reference, case.values(case.reference), function))
    try:
        mine = function if what == "operator" else case.on_candidate(function)
    except Absent as absent:
        if what.startswith("alias"):
            result.note(f"{what} is absent")
            return None
        return f"{absent} is absent"
    case.reseed()
    actual, raised = case.attempt(lambda: case.call(case.candidate, case.values(case.candidate), mine))
    return raised or case.difference(expected, actual)
