"""Derivatives of an operator in both libraries: reverse mode, twice, and forward mode, with one cotangent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .case import Case, Reject
from .compare import difference, loosened
from .excuses import excused
from .library import Library
from .records import TensorRecord, dtype_name

_FIRST = loosened(10.0)
_SECOND = loosened(100.0)


def backward(case: Case, result: Any) -> str | None:
    """Gradients of all inputs that require one."""
    return compare_gradients(case)


def double_backward(case: Case, result: Any) -> str | None:
    """Gradients of the gradients, with respect to the inputs and to the first cotangents."""
    if not case.op.supports_gradgrad:
        raise Reject("no double backward in PyTorch")
    return compare_gradients(case, twice=True)


def compare_gradients(
    case: Case, functions: tuple[Callable | None, Callable | None] = (None, None), twice: bool = False
) -> str | None:
    """Reverse mode in both libraries; `functions` (reference's, candidate's) replace the operator itself."""
    flags, cotangents, expected = case.sure(lambda: _reference_gradients(case, functions[0], twice))
    candidate, raised = case.attempt(lambda: _Pass(case, case.candidate, functions[1]))
    if raised:
        return raised
    if candidate.flags() != flags:
        return f"outputs require grad: {flags} expected, got {candidate.flags()}"
    actual, raised = case.attempt(lambda: candidate.gradients(cotangents, twice))
    if raised:
        return raised
    reason = _compare(case, expected, actual, twice)
    tolerances = _SECOND if twice else _FIRST
    if reason and excused(
        case, expected, actual, tolerances, lambda wide: _reference_gradients(wide, functions[0], twice)[2]
    ):
        return None
    return reason


def _reference_gradients(
    case: Case, function: Callable | None, twice: bool
) -> tuple[list[bool], list[TensorRecord], list[Any]]:
    """Which of PyTorch's outputs require grad, cotangents for those that do, and the gradients."""
    side = _Pass(case, case.reference, function)
    flags = side.flags()
    if not side.inputs or not any(flags):
        raise Reject("nothing to differentiate")
    cotangents = [
        case.random(tuple(output.shape), dtype_name(output.dtype), f"cotangent {index}", twice)
        for index, output in enumerate(side.outputs)
        if output.requires_grad
    ]
    return flags, cotangents, side.gradients(cotangents, twice)


class _Pass:
    """One library's forward pass of a case, with the inputs and outputs that reverse mode runs between."""

    def __init__(self, case: Case, library: Library, function: Callable | None) -> None:
        self.case, self.library = case, library
        self.inputs: list[Any] = []
        values = case.values(library, self._collect)
        case.reseed()
        self.outputs = case.tensors(case.processed(case.call(library, values, function), library), library)
        self.inputs += case.further_inputs(library)

    def _collect(self, record: TensorRecord, tensor: Any) -> Any:
        if record.requires_grad:
            self.inputs.append(tensor)
        return tensor

    def flags(self) -> list[bool]:
        return [bool(output.requires_grad) for output in self.outputs]

    def gradients(self, cotangents: list[TensorRecord], twice: bool) -> list[Any]:
        return self._twice(cotangents) if twice else self._once(cotangents)

    def _once(self, cotangents: list[TensorRecord]) -> list[Any]:
        """Gradients of the inputs."""
        return self._grad(self._differentiable(), self.inputs, self.library.build(cotangents), False)

    def _twice(self, cotangents: list[TensorRecord]) -> list[Any]:
        """Gradients of the inputs and cotangents for a random combination of the gradients; Reject where it
        is constant. A gradient that is constant in one library only shows as a different number of terms."""
        built = self.library.build(cotangents)
        first = self._grad(self._differentiable(), self.inputs, built, True)
        terms = [(index, grad) for index, grad in enumerate(first) if grad is not None and grad.requires_grad]
        if not terms:
            raise Reject("gradients that depend on nothing")
        seconds = [
            self.case.random(tuple(grad.shape), dtype_name(grad.dtype), f"second cotangent {index}")
            for index, grad in terms
        ]
        return self._grad([grad for _, grad in terms], [*self.inputs, *built], self.library.build(seconds), False)

    def _differentiable(self) -> list[Any]:
        return [output for output in self.outputs if output.requires_grad]

    def _grad(self, outputs: list[Any], inputs: list[Any], cotangents: list[Any], create_graph: bool) -> list[Any]:
        grad = self.library.find("autograd.grad")
        return list(grad(outputs, inputs, grad_outputs=cotangents, create_graph=create_graph, allow_unused=True))


def _compare(case: Case, expected: list[Any], actual: list[Any], twice: bool) -> str | None:
    """The first gradient that differs. A first derivative that PyTorch leaves undefined has to be None, as
    `x.grad` shows it; in the second, zeros and None are one, being a matter of how the first was computed."""
    what = "double gradient" if twice else "gradient"
    for index, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
        if wanted is not None and found is not None:
            reason = difference(wanted, found, case.reference, case.candidate, _SECOND if twice else _FIRST)
        elif (wanted is None) == (found is None) or (twice and _is_zero(case, wanted, found)):
            reason = None
        else:
            reason = f"{_presence(wanted)} expected, got {_presence(found)}"
        if reason:
            return f"{what} {index}: {reason}"
    return None


def _is_zero(case: Case, wanted: Any, found: Any) -> bool:
    """Whether the one of the two that is there is zero."""
    array = case.reference.array(wanted) if found is None else case.candidate.array(found)
    return not (array != 0).any()


def _presence(value: Any) -> str:
    return "None" if value is None else "a tensor"


def forward_mode(case: Case, result: Any) -> str | None:
    """Tangents of the outputs for a random tangent of every input. No tangent and zeros are equal."""
    if not case.op.supports_forward_ad:
        raise Reject("no forward mode in PyTorch")
    expected = case.sure(lambda: _tangents(case, case.reference))
    if all(tangent is None for tangent in expected):
        raise Reject("no tangent")
    actual, raised = case.attempt(lambda: _tangents(case, case.candidate))
    if raised:
        return raised
    if len(expected) != len(actual):
        return f"{len(expected)} outputs expected, got {len(actual)}"
    for index, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
        reason = _tangent_difference(case, wanted, found)
        if reason:
            right = excused(case, expected, actual, _FIRST, lambda wide: _tangents(wide, wide.reference))
            return None if right else f"tangent {index}: {reason}"
    return None


def _tangent_difference(case: Case, wanted: Any, found: Any) -> str | None:
    if wanted is not None and found is not None:
        return difference(wanted, found, case.reference, case.candidate, _FIRST)
    if (wanted is None and found is None) or _is_zero(case, wanted, found):
        return None
    return f"{_presence(wanted)} expected, got {_presence(found)}"


def _tangents(case: Case, library: Library) -> list[Any]:
    """The tangent of every output tensor, None where there is none."""
    forward_ad = library.find("autograd.forward_ad")
    made: list[Any] = []

    def dual(record: TensorRecord, tensor: Any) -> Any:
        if not record.requires_grad:
            return tensor
        tangent = library.build(case.random(record.shape, record.dtype, f"tangent {len(made)}"))
        made.append(forward_ad.make_dual(tensor.detach(), tangent))
        return made[-1]

    with forward_ad.dual_level():
        values = case.values(library, dual)
        case.reseed()
        outputs = case.tensors(case.processed(case.call(library, values), library), library)
        tangents = [forward_ad.unpack_dual(output).tangent for output in outputs]
        return [None if tangent is None else tangent.detach() for tangent in tangents]
