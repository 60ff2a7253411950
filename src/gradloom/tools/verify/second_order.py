"""Check second derivatives of one call in all four compositions: differentiate its vector-Jacobian product and its
Jacobian-vector product by both modes, and compare with finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradloom
from gradloom.autograd import forward_ad
from gradloom.core.tensor import wrap

from .case import Case, Place, is_float
from .findings import BACKWARD, COMPOSITIONS, ENTRY, FORWARD, MISSING, WRONG, Comparison, Fault, close, said, scale
from .first_order import FINE_ATOL, FINE_RTOL, ROUGH_ATOL, ROUGH_RTOL
from .jacobians import Array, Detail, Function, coordinates, uneven

BRIEF = Detail(0, 1)
_WITHOUT_HISTORY = (
    "a value that depends on it enters the formula without history: detach(), item(), a number, or an operator that is "
    "not differentiable"
)


def _with_history(tensor: Any) -> Any:
    return tensor if tensor.requires_grad else tensor + gradloom.zeros_like(tensor).requires_grad_()


class SecondOrder:
    """Derivatives of the vector-Jacobian product (reverse over reverse, forward over reverse) and of the
    Jacobian-vector product (reverse over forward, forward over forward).

    Args:
        function: the operator at the call's inputs.
        detail: how closely they are examined.
        quick: whether to try one direction of all inputs together first.
    """

    def __init__(self, case: Case, function: Function, detail: Detail, quick: bool = False) -> None:
        self.case, self.detail, self.quick = case, detail, quick
        self.counts: set[str] = set()
        self.leaves = case.inputs()
        self.vectors = [wrap(uneven(function.outputs[k])) for k in function.kept]
        self.reached: list[int] | None = None  # input numbers with a gradient, known after the first pullback
        self.names = [
            *map(str, case.places),
            *(f"grad of output {n}" if len(function.kept) > 1 else "grad" for n in range(len(function.kept))),
        ]

    def faults(self) -> Iterator[Fault]:
        gradients = Function(self.pullback, (*self.leaves, *self.vectors), self.detail, is_recorded=True)
        if not self.reached:
            return
        yield from self.compared(gradients, "reverse", self.names)
        if self.has_forward and (not self.case.is_varied or self.case.label.startswith("other numbers")):
            tangents = [wrap(uneven(x._array, 5 + i)) for i, x in enumerate(self.leaves)]
            pushed = Function(self.pushforward, (*self.leaves, *tangents), BRIEF)
            if pushed.kept:
                names = [*map(str, self.case.places), *(f"{place}_t" for place in self.case.places)]
                yield from self.compared(pushed, "forward", names)

    def compared(self, function: Function, inner: str, names: list[str]) -> Iterator[Fault]:
        """Compare the derivatives of a first derivative, by both modes, with its finite differences.

        Args:
            function: the gradients or the tangents, as a function of inputs and of cotangents or tangents.
            inner: the mode of the first derivative.
            names: those of the function's inputs.
        """
        outer = ("reverse", "forward") if self.has_forward else ("reverse",)
        self.counts |= {COMPOSITIONS[f"{mode} over {inner}"] for mode in outer}
        if self.quick:
            try:
                if function.agrees(ROUGH_RTOL, ROUGH_ATOL, self.has_forward):
                    return
            except Exception:
                pass  # the mode that raises is found below
        modes: dict[str, Any] = {}
        for mode in outer:
            try:
                modes[mode] = (
                    function.reverse() if mode == "reverse" else [function.forward(i) for i in self.inputs(function)]
                )
            except Exception as error:
                yield self.raised(error, f"{mode} over {inner}")
        for i in self.inputs(function) if modes else ():
            numerical = function.numerical(i)
            for (n, k), mode in itertools.product(enumerate(function.kept), outer):
                if mode not in modes:
                    continue
                is_reverse = mode == "reverse"
                block = function.by_input[i] @ modes[mode][n][i] if is_reverse else modes[mode][i][n]
                project = function.by_output[k] if is_reverse else None
                if self.differs(function, i, n, block, numerical[n], project):
                    fine = function.extrapolated(i)[n]
                    fine = fine if project is None else fine @ project.T
                    yield self.fault(f"{mode} over {inner}", names[i], i, k, function, block, fine)
                    del modes[mode]  # one fault of each is enough

    @staticmethod
    def inputs(function: Function) -> range:
        return range(len(function.arrays))

    def pullback(self, *args: Any) -> tuple[Any, ...]:
        """Return the gradients as a function of the inputs and of the cotangents."""
        count = len(self.leaves)
        with gradloom.enable_grad():
            xs = [x if x.requires_grad else x.detach().requires_grad_() for x in args[:count]]
            outputs = [o for o in self.case.call(*xs) if o.requires_grad]
            found = gradloom.autograd.grad(outputs, xs, args[count:], create_graph=True, allow_unused=True)
            if self.reached is None:
                self.reached = [i for i, g in enumerate(found) if g is not None]
            # A gradient without history is compared, too: it gets one, of zeros.
            return tuple(
                _with_history(gradloom.zeros_like(xs[i]) if found[i] is None else found[i]) for i in self.reached
            )

    @property
    def has_forward(self) -> bool:
        """Whether the operator has a forward formula, or needs none; that it has none is said elsewhere."""
        operator = self.case.operator
        return operator.by_composition or operator.joined.info is None or bool(operator.joined.info.forward)

    def differs(
        self, function: Function, i: int, n: int, found: Array, numerical: Array, project: Array | None
    ) -> bool:
        """Return whether a derivative of the n-th gradient by input `i` differs from the numerical one."""
        rough = numerical if project is None else numerical @ project.T
        if close(found, rough, ROUGH_RTOL, ROUGH_ATOL * scale(numerical, *function.outputs)):
            return False
        fine = function.extrapolated(i)[n]
        usable = np.isfinite(fine).all(1)
        fine = fine if project is None else fine @ project.T
        if close(found, fine, FINE_RTOL, FINE_ATOL * scale(fine, *function.outputs)):
            return False
        usable &= ~function.kinks(i)[n]
        return not close(found[usable], fine[usable], FINE_RTOL, FINE_ATOL * scale(fine, *function.outputs))

    def pushforward(self, *args: Any) -> tuple[Any, ...]:
        """Return the tangents as a function of the inputs and of their tangents."""
        xs, ts = args[: len(self.leaves)], args[len(self.leaves) :]
        with gradloom.enable_grad():
            if forward_ad.is_level_open():  # dual numbers do not nest
                return gradloom.func.jvp(self.case.call, xs, ts)[1]
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(x, t) for x, t in zip(xs, ts, strict=True)]
                outputs = [o for o in self.case.call(*duals) if is_float(o)]
                found = [forward_ad.unpack_dual(o).tangent for o in outputs]
                return tuple(
                    _with_history(gradloom.zeros_like(o.detach()) if t is None else t)
                    for o, t in zip(outputs, found, strict=True)
                )

    def fault(self, mode: str, by: str, i: int, k: int, function: Function, found: Array, expected: Array) -> Fault:
        place: Place | None = None
        output: int | None = k
        if mode.endswith("reverse"):
            assert self.reached is not None
            place, output = self.case.places[self.reached[k]], None
        what = "the tangent" if place is None else f"the gradient of `{place.name}`"
        message = f"the second derivative ({mode}) is wrong: {what} differentiated by `{by}`"
        causes = []
        if not np.any(found) and np.any(expected):
            causes.append(_WITHOUT_HISTORY)
        comparison = None
        if (
            place is not None
            and len(function.by_input[i]) == coordinates(function.arrays[i])
            and len(function.by_output[k]) == coordinates(function.outputs[k])
        ):
            comparison = Comparison(expected, found, function.arrays[i], function.outputs[k])
        blame = FORWARD if place is None else BACKWARD
        return Fault(self.case, COMPOSITIONS[mode], message, blame, place, output, comparison, causes=tuple(causes))

    def raised(self, error: Exception, mode: str) -> Fault:
        missing = isinstance(error, NotImplementedError)
        what = f"is not implemented: {error}" if missing else f"raises {said(error)}"
        severity = MISSING if missing else WRONG
        return Fault(self.case, COMPOSITIONS[mode], f"the second derivative ({mode}) {what}", ENTRY, severity=severity)
