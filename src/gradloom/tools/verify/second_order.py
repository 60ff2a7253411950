"""Check second derivatives of one call: differentiate its vector-Jacobian product by both modes, and compare with
finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gradloom
from gradloom.core.tensor import wrap

from .case import Case, Place
from .findings import BACKWARD, ENTRY, MISSING, WRONG, Comparison, Fault, close, said, scale
from .first_order import FINE_ATOL, FINE_RTOL, ROUGH_ATOL, ROUGH_RTOL
from .jacobians import Array, Detail, Function, coordinates, uneven


class SecondOrder:
    """Derivatives of the vector-Jacobian product: reverse over reverse and forward over reverse."""

    def __init__(self, case: Case, detail: Detail) -> None:
        self.case = case
        self.counts: set[str] = set()
        inputs = case.inputs()
        outputs = [o for o in case.call(*inputs) if o.requires_grad]
        self.outputs = len(outputs)
        self.vectors = [wrap(uneven(o._array)).requires_grad_() for o in outputs]
        self.reached: list[int] = []
        if outputs:
            found = gradloom.autograd.grad(outputs, inputs, self.vectors, create_graph=True, allow_unused=True)
            self.reached = [i for i, g in enumerate(found) if g is not None]
        self.detail = detail
        self.leaves = inputs
        self.names = [
            *map(str, case.places),
            *(f"grad of output {k}" if self.outputs > 1 else "grad" for k in range(self.outputs)),
        ]

    def pullback(self, *args: Any) -> tuple[Any, ...]:
        """Return the gradients as a function of the inputs and of the cotangents."""
        count = len(self.leaves)
        with gradloom.enable_grad():
            xs = [x if x.requires_grad else x.detach().requires_grad_() for x in args[:count]]
            outputs = [o for o in self.case.call(*xs) if o.requires_grad]
            found = gradloom.autograd.grad(outputs, xs, args[count:], create_graph=True, allow_unused=True)
        return tuple(gradloom.zeros_like(xs[i]) if found[i] is None else found[i] for i in self.reached)

    def faults(self) -> Iterator[Fault]:
        if not self.reached:
            return
        self.counts.add("second")
        function = Function(self.pullback, (*self.leaves, *self.vectors), self.detail)
        try:
            reverse = function.reverse()
        except Exception as error:
            yield self.raised(error, "reverse over reverse")
            reverse = None
        for i in range(len(function.arrays)):
            numerical = function.numerical(i)
            try:
                tangents = function.forward(i)
            except Exception as error:
                yield self.raised(error, "forward over reverse")
                return
            for n, k in enumerate(function.kept):
                expected = numerical[n]
                wrong = []
                if reverse is not None:
                    wrong.append(
                        (
                            "reverse over reverse",
                            function.by_input[i] @ reverse[n][i],
                            lambda block, k=k: block @ function.by_output[k].T,
                        )
                    )
                wrong.append(("forward over reverse", tangents[n], lambda block: block))
                for mode, found, project in wrong:
                    if close(found, project(expected), ROUGH_RTOL, ROUGH_ATOL * scale(expected, *function.outputs)):
                        continue
                    fine = project(function.extrapolated(i)[n])
                    if not close(found, fine, FINE_RTOL, FINE_ATOL * scale(fine, *function.outputs)):
                        yield self.fault(mode, i, k, function, found, fine)
                        return

    def fault(self, mode: str, i: int, k: int, function: Function, found: Array, expected: Array) -> Fault:
        place: Place = self.case.places[self.reached[k]]
        message = (
            f"the second derivative ({mode}) is wrong: the gradient of `{place.name}` differentiated by "
            f"`{self.names[i]}`"
        )
        causes = []
        if not np.any(found) and np.any(expected):
            causes.append(
                "a value that depends on it enters the formula without history: detach(), item(), a number, "
                "or an operator that is not differentiable"
            )
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
