"""First derivatives of one call: reverse and forward mode against finite differences, complex steps and one another."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

import gradloom
from gradloom.autograd.gradcheck import _undefined
from gradloom.core.tensor import wrap

from .case import Case, is_float
from .findings import BACKWARD, ENTRY, FORWARD, MISSING, WRONG, Comparison, Fault, close, said, scale
from .jacobians import EVERY, Array, Detail, Function, WrongShape, coordinates, from_real, uneven

# Tolerances for finite differences. What differs by the rough ones is computed again, more exactly.
ROUGH_RTOL, ROUGH_ATOL = 1e-5, 1e-6
FINE_RTOL, FINE_ATOL = 1e-6, 1e-7
# Tolerances for two methods that are exact except for rounding.
EXACT_RTOL, EXACT_ATOL = 1e-8, 1e-10

_DIGITS = "a constant with too few digits, or something computed in low precision"


class FirstOrder:
    """The checks of first derivatives of one call; `counts` holds the names of those that were made."""

    def __init__(self, case: Case, detail: Detail) -> None:
        self.case, self.operator = case, case.operator
        self.counts: set[str] = set()
        self.function = Function(case.call, case.inputs(), detail)
        self.inputs = range(len(case.places))
        self._numerical: dict[int, list[Array]] = {}
        self._fine: dict[int, list[Array]] = {}
        self.wrong: set[tuple[int, int]] = set()

    def faults(self) -> Iterator[Fault]:
        if not self.function.kept:
            yield from self.constant()
            return
        if self.case.is_varied and self.agrees():
            yield from self.linear()
            return
        reverse = yield from self.reverse()
        forward = yield from self.forward()
        yield from self.linear()
        if reverse is not None:
            if not self.case.is_varied:
                yield from self.complex_step(reverse)
            yield from self.dot_product(reverse, forward)
            if self.case.is_varied:
                return
            if len(self.function.kept) > 1 or not self.wrong:
                yield from self.undefined()
            if self.wrong:
                return
            yield from self.repeated()
            yield from self.partial()
        if forward and not self.wrong:
            yield from self.together(forward)

    def agrees(self) -> bool:
        """Return whether both modes agree with finite differences along one direction."""
        operator = self.operator
        has_forward = operator.by_composition or operator.joined.info is None or bool(operator.joined.info.forward)
        try:
            if not self.function.agrees(ROUGH_RTOL, ROUGH_ATOL, has_forward):
                return False
        except Exception:
            return False
        self.counts |= {"reverse", "forward", "dot product"} if has_forward else {"reverse"}
        return True

    # What is compared with

    def numerical(self, i: int) -> list[Array]:
        if i not in self._numerical:
            self._numerical[i] = self.function.numerical(i)
        return self._numerical[i]

    def fine(self, i: int) -> list[Array]:
        if i not in self._fine:
            self._fine[i] = self.function.extrapolated(i)
        return self._fine[i]

    def differs(self, i: int, n: int, found: Array, project: Array | None) -> bool:
        """Return whether a derivative by input `i` of the n-th differentiable output differs from the numerical one.

        Args:
            found: [direction of the input, direction of the output, or output].
            project: the directions of the output, if `found` has those.
        """
        size = scale(self.function.outputs[self.function.kept[n]])
        for numerical, rtol, atol in ((self.numerical, ROUGH_RTOL, ROUGH_ATOL), (self.fine, FINE_RTOL, FINE_ATOL)):
            expected = numerical(i)[n]
            expected = expected if project is None else expected @ project.T
            if close(found, expected, rtol, atol * max(size, scale(expected))):
                return False
        if self.case.is_varied:  # see Note [Variations]
            usable = ~self.function.kinks(i)[n] & np.isfinite(expected).all(1)
            return not close(found[usable], expected[usable], FINE_RTOL, FINE_ATOL * max(size, scale(expected)))
        return True

    def comparison(self, i: int, n: int, mode: str) -> Comparison:
        """Return both Jacobians, entry by entry."""
        function = self.function
        k = function.kept[n]
        if len(function.by_input[i]) < coordinates(function.arrays[i]) or len(function.by_output[k]) < coordinates(
            function.outputs[k]
        ):
            function = Function(self.case.call, self.case.inputs(), EVERY)
        found = function.reverse()[n][i] if mode == "reverse" else function.forward(i)[n]
        return Comparison(function.extrapolated(i)[n], found, function.arrays[i], function.outputs[k])

    # The checks

    def constant(self) -> Iterator[Fault]:
        """Check, if no output requires a gradient, that none depends on an input with a formula."""
        if self.operator.joined.strategy != "formula" or not self.function.arrays:
            return
        for i in self.inputs:
            rows = self.function.numerical(i)
            if any(np.abs(r).max(initial=0.0) > 1e-5 for r in rows):
                message = "the output depends on the input but requires no gradient"
                yield Fault(self.case, "reverse", message, BACKWARD, self.case.places[i])

    def reverse(self) -> Generator[Fault, None, list[list[Array]] | None]:
        """Yield faults; return the Jacobians by reverse mode, or None if they could not be computed."""
        self.counts.add("reverse")
        try:
            found = self.function.reverse()
        except Exception as error:
            yield self.raised(error)
            return None
        for n, k in enumerate(self.function.kept):
            for i in self.inputs:
                block = self.function.by_input[i] @ found[n][i]
                if self.differs(i, n, block, self.function.by_output[k]):
                    self.wrong.add((n, i))
                    place = self.case.places[i]
                    message = f"the gradient of `{place.name}` is wrong"
                    comparison = self.comparison(i, n, "reverse")
                    yield Fault(self.case, "reverse", message, BACKWARD, place, k, comparison)
        return found

    def raised(self, error: Exception) -> Fault:
        """Return a fault for an exception in backward, with the input whose formula raised."""
        place, first = None, error
        for position, candidate in enumerate(self.case.places):
            try:
                self.alone(position)
            except Exception as one:
                place, first = candidate, one
                break
        if isinstance(first, WrongShape):
            place = self.case.places[first.position] if place is None else place
        severity = MISSING if isinstance(first, NotImplementedError) else WRONG
        what = f"the gradient of `{place.name}`" if place is not None else "backward"
        message = f"{what} is not implemented: {first}" if severity == MISSING else f"{what} raises {said(first)}"
        return Fault(self.case, "reverse", message, BACKWARD if place is not None else ENTRY, place, severity=severity)

    def alone(self, position: int) -> None:
        """Run backward to one input only."""
        leaves = [x.detach().requires_grad_(i == position) for i, x in enumerate(self.case.inputs())]
        outputs = self.case.call(*leaves)
        for k in self.function.kept:
            if not outputs[k].requires_grad:
                continue
            cotangent = gradloom.ones_like(outputs[k])
            (found,) = gradloom.autograd.grad(
                outputs[k], [leaves[position]], cotangent, retain_graph=True, allow_unused=True
            )
            if found is not None and found.shape != leaves[position].shape:
                raise WrongShape(position, tuple(found.shape), tuple(leaves[position].shape))

    def forward(self) -> Generator[Fault, None, dict[int, list[Array]]]:
        """Yield faults; return {input: Jacobians by forward mode} for those that could be computed."""
        found: dict[int, list[Array]] = {}
        info = self.operator.joined.info
        if not self.operator.by_composition and info is not None and not info.forward:
            yield Fault(self.case, "forward", "there is no forward-mode formula (`result:`)", ENTRY, severity=MISSING)
            return found
        self.counts.add("forward")
        for i in self.inputs:
            place = self.case.places[i]
            try:
                found[i] = self.function.forward(i)
            except Exception as error:
                missing = isinstance(error, NotImplementedError)
                message = (
                    f"the tangent is not implemented: {error}"
                    if missing
                    else f"the tangent of `{place.name}` raises {said(error)}"
                )
                yield Fault(self.case, "forward", message, FORWARD, place, 0, severity=MISSING if missing else WRONG)
                continue
            for n, k in enumerate(self.function.kept):
                if self.differs(i, n, found[i][n], None):
                    message = f"the tangent for that of `{place.name}` is wrong"
                    yield Fault(self.case, "forward", message, FORWARD, place, k, self.comparison(i, n, "forward"))
                    self.wrong.add((n, i))
        return found

    def linear(self) -> Iterator[Fault]:
        """Check that an operator whose forward formula is `auto_linear` is linear in the inputs that it names."""
        info = self.operator.joined.info
        for formula in info.forward if info is not None else ():
            if formula.kind != "auto_linear":
                continue
            names = {t.input for t in formula.tangents}
            moved = [i for i in self.inputs if self.case.places[i].name in names]
            arrays = self.function.arrays
            random = np.random.default_rng(17)
            others = [from_real(random.uniform(-1.5, 1.5, coordinates(a)), a) for a in arrays]
            points = [
                [
                    np.asarray(p * a + q * b, a.dtype) if i in moved else a
                    for i, (a, b) in enumerate(zip(arrays, others, strict=True))
                ]
                for p, q in ((1, 0), (0, 1), (2, -3))
            ]
            try:
                one, two, both = (self.function.values(p) for p in points)
            except Exception:
                return  # it does not take these numbers
            for k, a, b, c in zip(self.function.kept, one, two, both, strict=True):
                expected = 2 * a - 3 * b
                if np.isfinite(expected).all() and not close(c, expected, 1e-8, 1e-10 * scale(a, b, c)):
                    message = "`auto_linear`, but the operator is not linear in its differentiable inputs"
                    yield Fault(self.case, "forward", message, FORWARD, None, k, expected=expected, found=c)
                    return

    def dot_product(self, reverse: list[list[Array]], forward: dict[int, list[Array]]) -> Iterator[Fault]:
        """Check (u, J v) = (J^T u, v) up to rounding, which is sharper than finite differences."""
        for i, tangents in forward.items():
            self.counts.add("dot product")
            for n, k in enumerate(self.function.kept):
                if (n, i) in self.wrong:
                    continue
                a = self.function.by_input[i] @ reverse[n][i]
                b = tangents[n] @ self.function.by_output[k].T
                if not close(a, b, EXACT_RTOL, EXACT_ATOL * scale(a, b, *self.function.outputs)):
                    self.wrong.add((n, i))
                    place = self.case.places[i]
                    message = (
                        f"forward and reverse mode disagree in the derivative for `{place.name}`, by "
                        f"{_relative(a, b):.0e} of it"
                    )
                    yield Fault(self.case, "dot product", message, FORWARD, place, k, causes=(_DIGITS,))

    def complex_step(self, reverse: list[list[Array]]) -> Iterator[Fault]:
        for i in self.inputs:
            steps = self.function.complex_step(i)
            if steps is None:
                return
            for n, k in enumerate(self.function.kept):
                rough = self.numerical(i)[n]
                if not close(steps[n], rough, 1e-4, 1e-5 * scale(rough)):
                    continue  # the function is not holomorphic, or its kernel not as exact for complex numbers
                self.counts.add("complex step")
                a, b = self.function.by_input[i] @ reverse[n][i], steps[n] @ self.function.by_output[k].T
                if (n, i) not in self.wrong and not close(
                    a, b, EXACT_RTOL, EXACT_ATOL * scale(a, b, *self.function.outputs)
                ):
                    place = self.case.places[i]
                    self.wrong.add((n, i))
                    message = (
                        f"the gradient of `{place.name}` agrees with a complex step only to {_relative(a, b):.0e} of it"
                    )
                    yield Fault(self.case, "complex step", message, BACKWARD, place, k, causes=(_DIGITS,))

    def repeated(self) -> Iterator[Fault]:
        """Check that backward gives the same again and with create_graph=True, and has the input's dtype."""
        leaves, outputs = self.function.graph()
        for k in self.function.kept:
            cotangent = wrap(uneven(self.function.outputs[k]))
            runs = [
                gradloom.autograd.grad(
                    outputs[k], leaves, cotangent, retain_graph=True, allow_unused=True, create_graph=graph
                )
                for graph in (False, False, True)
            ]
            for place, x, first, again, recorded in zip(self.case.places, leaves, *runs, strict=True):
                if first is None:
                    continue
                if first.dtype is not x.dtype:
                    message = f"the gradient of `{place.name}` has dtype {first.dtype}, the input {x.dtype}"
                    yield Fault(self.case, "reverse", message, BACKWARD, place, k)
                a = first._array
                for other, what in ((again, "at the second time"), (recorded, "while its graph is recorded")):
                    b = np.zeros_like(a) if other is None else other.detach()._array
                    if not close(a, b, 1e-10, 1e-12 * scale(a)):
                        message = f"backward gives another gradient of `{place.name}` {what}"
                        yield Fault(self.case, "reverse", message, BACKWARD, place, k, expected=a, found=b)
                        break

    def partial(self) -> Iterator[Fault]:
        """Check the gradient of each input when only that input requires one, since nodes save tensors conditionally;
        and gradients for cotangents that are not contiguous or have stride 0."""
        leaves, outputs = self.function.graph()
        arrays = self.function.outputs
        cotangents = [wrap(np.full_like(arrays[k], 1.5)) for k in self.function.kept]
        try:
            every = gradloom.autograd.grad(
                [outputs[k] for k in self.function.kept], leaves, cotangents, allow_unused=True
            )
        except Exception:
            return
        for what, given in (
            ("for a gradient of stride 0", [_expanded(c) for c in cotangents]),
            ("for a gradient that is not contiguous", [_spread(c) for c in cotangents]),
        ):
            yield from self.compared(every, range(len(leaves)), given, what)
        for i in self.inputs if len(leaves) > 1 else ():
            yield from self.compared(every, [i], cotangents, "when no other input needs one")

    def compared(
        self, every: Sequence[Any], positions: Sequence[int], cotangents: list[Any], what: str
    ) -> Iterator[Fault]:
        """Compare the gradients of the inputs at some positions, when only those require one, with `every`."""
        leaves = [x.requires_grad_(i in positions) for i, x in enumerate(wrap(a.copy()) for a in self.function.arrays)]
        blamed = self.case.places[positions[0]] if len(positions) == 1 else None
        try:
            outputs = [o for o in self.case.call(*leaves) if is_float(o)]
            used = [
                (outputs[k], c) for k, c in zip(self.function.kept, cotangents, strict=True) if outputs[k].requires_grad
            ]
            found = (
                gradloom.autograd.grad(
                    [o for o, _ in used], [leaves[i] for i in positions], [c for _, c in used], allow_unused=True
                )
                if used
                else [None]
            )
        except Exception as error:
            name = f"the gradient of `{blamed.name}`" if blamed else "backward"
            yield Fault(
                self.case, "reverse", f"{name} raises {what}: {said(error)}", BACKWARD if blamed else ENTRY, blamed
            )
            return
        for i, one in zip(positions, found, strict=True):
            place, array = self.case.places[i], self.function.arrays[i]
            a, b = (np.zeros_like(array) if g is None else g._array for g in (every[i], one))
            if not close(b, a, EXACT_RTOL, EXACT_ATOL * scale(a)):
                message = f"the gradient of `{place.name}` differs {what}"
                yield Fault(self.case, "reverse", message, BACKWARD, place, expected=a, found=b)

    def together(self, forward: dict[int, list[Array]]) -> Iterator[Fault]:
        """Check that tangents of all inputs at once, while a graph is recorded, are the sum of those for each."""
        if any(not len(self.function.by_input[i]) for i in forward):
            return  # nothing to add up
        directions = {i: self.function.by_input[i].sum(0) for i in forward}
        try:
            found = self.function.pushed(directions, is_recorded=True)
        except Exception as error:
            message = f"the tangents of all inputs raise {said(error)} while a graph is recorded"
            yield Fault(self.case, "forward", message, FORWARD, None, 0)
            return
        for n, k in enumerate(self.function.kept):
            expected = sum(forward[i][n].sum(0) for i in forward)
            if not close(found[n], expected, EXACT_RTOL, EXACT_ATOL * scale(expected, *self.function.outputs)):
                message = "the tangents of several inputs do not add up to their sum"
                if len(forward) == 1:
                    message = "the tangent differs while a graph is recorded"
                yield Fault(self.case, "forward", message, FORWARD, None, k, expected=expected, found=found[n])

    def undefined(self) -> Iterator[Fault]:
        """Check that undefined gradients of some or all outputs count as zeros."""
        self.counts.add("undefined")
        kept = self.function.kept
        patterns = [set(kept)] + [{k} for k in kept if len(kept) > 1]
        if 2 < len(kept) < 5:
            patterns += [set(two) for two in combinations(kept, 2)]
        for pattern in patterns:
            runs = []
            for hide in (False, True):
                leaves, outputs = self.function.graph()
                cotangents = [
                    wrap(np.zeros_like(self.function.outputs[k]) if k in pattern else uneven(self.function.outputs[k]))
                    for k in kept
                ]
                hidden = [_undefined(outputs[k]) if hide and k in pattern else outputs[k] for k in kept]
                try:
                    runs.append(gradloom.autograd.grad(hidden, leaves, cotangents, allow_unused=True))
                except Exception as error:
                    if hide:
                        names = _outputs(pattern)
                        message = f"backward raises where the gradient of {names} is undefined: {said(error)}"
                        causes = ("the formula computes with a gradient that may be None",)
                        yield Fault(self.case, "undefined", message, ENTRY, causes=causes)
                    break
            if len(runs) < 2:
                return
            for place, zeros, undefined in zip(self.case.places, *runs, strict=True):
                a = 0.0 if zeros is None else zeros._array
                b = 0.0 if undefined is None else undefined._array
                if not np.allclose(a, b, 1e-6, 1e-9, equal_nan=True):
                    message = (
                        f"where the gradient of {_outputs(pattern)} is undefined, that of `{place.name}` is not "
                        "what zeros give"
                    )
                    a, b = np.asarray(a), np.asarray(b)
                    causes = ("the formula asks whether a gradient is None and does something else than with zeros",)
                    yield Fault(self.case, "undefined", message, BACKWARD, place, expected=a, found=b, causes=causes)
                    return


def _outputs(numbers: set[int]) -> str:
    return "output " + " and ".join(map(str, sorted(numbers)))


def _relative(a: Array, b: Array) -> float:
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(b)), 1e-300)
    return float(worst)


def _expanded(cotangent: Any) -> Any:
    """Return the same numbers with stride 0, as `sum().backward()` passes them on."""
    array = cotangent._array
    return wrap(np.broadcast_to(array.reshape(-1)[0] if array.size else array, array.shape))


def _spread(cotangent: Any) -> Any:
    """Return the same numbers in an array with gaps and reversed dimension order."""
    array = cotangent._array
    if not array.ndim:
        return cotangent
    wide = np.zeros((*array.shape[::-1], 2), array.dtype)[..., 0].T
    wide[...] = array
    return wrap(wide)
