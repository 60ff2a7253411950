"""Check second derivatives of one call: differentiate its vector-Jacobian product by both modes, and compare with
finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gradloom
from gradloom.autograd import forward_ad
from gradloom.core.tensor import wrap

from .case import Case, Place, is_float
from .findings import BACKWARD, ENTRY, FORWARD, MISSING, WRONG, Comparison, Fault, close, said, scale
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
    """Derivatives of the vector-Jacobian product: reverse over reverse and forward over reverse.

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

    def faults(self) -> Iterator[Fault]:
        function = Function(self.pullback, (*self.leaves, *self.vectors), self.detail, is_recorded=True)
        if not self.reached:
            return
        self.counts.add("second")
        if self.quick:
            try:
                right = function.agrees(ROUGH_RTOL, ROUGH_ATOL, self.has_forward)
            except Exception:
                right = False
            if right:
                if self.has_forward and not self.case.is_varied:
                    yield from self.of_tangents()
                return
        try:
            reverse = function.reverse()
        except Exception as error:
            yield self.raised(error, "reverse over reverse")
            reverse = None
        has_forward = self.has_forward
        for i in range(len(function.arrays)):
            numerical = function.numerical(i)
            tangents = None
            if has_forward:
                try:
                    tangents = function.forward(i)
                except Exception as error:
                    yield self.raised(error, "forward over reverse")
                    has_forward = False
            for n, k in enumerate(function.kept):
                found = []
                if reverse is not None:
                    found.append(("reverse over reverse", function.by_input[i] @ reverse[n][i], function.by_output[k]))
                if tangents is not None:
                    found.append(("forward over reverse", tangents[n], None))
                for mode, block, project in found:
                    if self.differs(function, i, n, block, numerical[n], project):
                        fine = function.extrapolated(i)[n]
                        fine = fine if project is None else fine @ project.T
                        yield self.fault(mode, i, k, function, block, fine)
                        return
        if has_forward and not self.case.is_varied:
            yield from self.of_tangents()

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
        usable = np.isfinite(fine).all(1) & np.isfinite(found).all(1)
        fine = fine if project is None else fine @ project.T
        if close(found, fine, FINE_RTOL, FINE_ATOL * scale(fine, *function.outputs)):
            return False
        usable &= ~function.kinks(i)[n]
        return not close(found[usable], fine[usable], FINE_RTOL, FINE_ATOL * scale(fine, *function.outputs))

    def pushforward(self, *args: Any) -> tuple[Any, ...]:
        """Return the tangents as a function of the inputs and of their tangents."""
        count = len(self.leaves)
        with gradloom.enable_grad(), forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(args[:count], args[count:], strict=True)]
            outputs = [o for o in self.case.call(*duals) if is_float(o)]
            found = [forward_ad.unpack_dual(o).tangent for o in outputs]
            return tuple(
                _with_history(gradloom.zeros_like(o.detach()) if t is None else t)
                for o, t in zip(outputs, found, strict=True)
            )

    def of_tangents(self) -> Iterator[Fault]:
        """Check the derivatives of the tangents by reverse mode."""
        tangents = [wrap(uneven(x._array, 5 + i)) for i, x in enumerate(self.leaves)]
        function = Function(self.pushforward, (*self.leaves, *tangents), BRIEF)
        if not function.kept:
            return
        try:
            if function.agrees(ROUGH_RTOL, ROUGH_ATOL, forward=False):
                return
            reverse = function.reverse()
        except Exception as error:
            yield self.raised(error, "reverse over forward")
            return
        names = [*map(str, self.case.places), *(f"{place}_t" for place in self.case.places)]
        for i in range(len(function.arrays)):
            numerical = function.numerical(i)
            for n, k in enumerate(function.kept):
                block = function.by_input[i] @ reverse[n][i]
                if not np.isfinite(block).all():
                    continue  # as where a branch that is not taken gives NaN
                if self.differs(function, i, n, block, numerical[n], function.by_output[k]):
                    message = (
                        f"the second derivative (reverse over forward) is wrong: the tangent differentiated by "
                        f"`{names[i]}`"
                    )
                    causes = () if np.any(block) else (_WITHOUT_HISTORY,)
                    yield Fault(self.case, "second", message, FORWARD, None, k, causes=causes)
                    return

    def fault(self, mode: str, i: int, k: int, function: Function, found: Array, expected: Array) -> Fault:
        assert self.reached is not None
        place: Place = self.case.places[self.reached[k]]
        message = (
            f"the second derivative ({mode}) is wrong: the gradient of `{place.name}` differentiated by "
            f"`{self.names[i]}`"
        )
        causes = []
        if not np.any(found) and np.any(expected):
            causes.append(_WITHOUT_HISTORY)
        comparison = None
        if len(function.by_input[i]) == coordinates(function.arrays[i]) and len(function.by_output[k]) == coordinates(
            function.outputs[k]
        ):
            comparison = Comparison(expected, found, function.arrays[i], function.outputs[k])
        return Fault(self.case, "second", message, BACKWARD, place, None, comparison, causes=tuple(causes))

    def raised(self, error: Exception, mode: str) -> Fault:
        missing = isinstance(error, NotImplementedError)
        what = f"is not implemented: {error}" if missing else f"raises {said(error)}"
        return Fault(
            self.case, "second", f"the second derivative ({mode}) {what}", ENTRY, severity=MISSING if missing else WRONG
        )
