"""Jacobians of a function at a point, by finite differences, by reverse mode and by forward mode, for gradcheck; see
its Note [What is compared]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dispatch import _operators
from ..types.dtype import TYPE_OF
from ..types.size import Size
from .passes import grad

__all__ = ["GradcheckError", "Jacobians", "as_tuple", "is_differentiable"]


_AXES = (1.0, 1j)


class GradcheckError(RuntimeError):
    """A derivative is wrong, or gradcheck cannot check its arguments."""

    __module__ = f"{__package__}.gradcheck"  # PyTorch's module


def as_tuple(value) -> tuple:
    if isinstance(value, _operators.Tensor):
        return (value,)
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def is_differentiable(value) -> bool:
    return isinstance(value, _operators.Tensor) and value._array.dtype.kind in "fcV" and value.requires_grad


def check_inputs(inputs: tuple) -> None:
    """Raise ValueError if no input requires grad."""
    if not any(is_differentiable(x) for x in inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


def check_outputs(outputs: tuple) -> None:
    """Raise AttributeError for an output that is not a tensor, ValueError for a sparse one."""
    if any(getattr(output, "is_sparse", False) for output in outputs):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )
    for i, output in enumerate(outputs):
        if not isinstance(output, _operators.Tensor):
            raise AttributeError(
                f"'{type(output).__name__}' object has no attribute 'requires_grad': output {i} of "
                "the checked function is not a tensor"
            )


class Jacobians:
    """The Jacobians of a function at its inputs.

    Attributes:
        positions: the positions of the inputs to differentiate with respect to.
        kept: the numbers of the floating outputs that depend on these inputs.
        shapes: the shapes of all floating outputs, once they are known.
    """

    def __init__(self, func, inputs, eps):
        self.func, self.inputs, self.eps = func, inputs, eps
        self.kept: list[int] | None = None
        self.shapes: list[tuple[int, ...]] | None = None
        check_inputs(inputs)
        self.positions: list[int] = [i for i, x in enumerate(inputs) if is_differentiable(x)]
        for i in self.positions:
            self._check_input(i, inputs[i])
        self.random = np.random.default_rng(0)

    def _check_input(self, i, x):
        if x._array.dtype not in (np.float64, np.complex128):
            import warnings

            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ",
                stacklevel=4,
            )
        array = x._array
        if array.size and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                "are non-overlapping to be able to compute the numerical gradients correctly. You "
                "should call .contiguous on the input before passing it to gradcheck."
            )

    def outputs(self) -> list:
        """Return the differentiable outputs, with their history.

        Raises:
            AttributeError: for an output that is not a tensor.
        """
        found = as_tuple(self.func(*self.inputs))
        check_outputs(found)
        return [o for o in found if is_differentiable(o)]

    def values(self) -> list[np.ndarray]:
        """Return the arrays of the outputs that may be differentiable, copied."""
        found = [o for o in as_tuple(self.func(*self.inputs)) if isinstance(o, _operators.Tensor)]
        return [np.array(o._array) for o in found if o._array.dtype.kind in "fcV"]

    def unit(self, array):
        v = self.random.standard_normal(array.shape)
        if array.dtype.kind == "c":
            v = v + 1j * self.random.standard_normal(array.shape)
        norm = np.linalg.norm(v)
        return (v / norm if norm else v).astype(array.dtype)

    def step(self, array, direction, index=None):
        """Return the central difference of all outputs along a direction of an input.

        Raises AssertionError if a shape or dtype of the outputs depends on the step, or their number in fast mode;
        RuntimeError if a shape differs from that at the point.
        """
        before = array.copy() if index is None else array[index]
        at = ... if index is None else index
        array[at] = before - self.eps * direction
        minus = self.values()
        array[at] = before + self.eps * direction
        plus = self.values()
        array[at] = before
        where = "" if index is None else f" on index {index}"
        for low, high in zip(minus, plus, strict=True):
            for what, of in (("shape", lambda a: Size(a.shape)), ("dtype", lambda a: TYPE_OF[a.dtype])):
                if of(low) != of(high):
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed{where} by "
                        f"{self.eps}, but got: {what}s {of(low)} and {of(high)}."
                    )
        self._check_shapes(plus, index is None)
        with np.errstate(all="ignore"):
            return [(p - m) / (2 * self.eps) for p, m in zip(plus, minus, strict=True)]

    def _check_shapes(self, found, fast):
        """Compare outputs near the point with those at it, and their number in fast mode."""
        if self.shapes is None:
            return
        if fast and len(found) != len(self.shapes):
            raise AssertionError(
                f"Expected all_Ju and func_out to have the same length, but got {len(found)} and {len(self.shapes)}"
            )
        for array, shape in zip(found, self.shapes, strict=False):
            if array.shape != shape:
                raise RuntimeError(f"an output has size {list(shape)} at the inputs, but {list(array.shape)} near them")

    def columns(self, i, x):
        """Yield the derivatives of all outputs for each element of input `i`, and for both axes of each if it is
        complex."""
        array = x._array
        axes = _AXES if array.dtype.kind == "c" else _AXES[:1]
        for index in np.ndindex(array.shape):
            for axis in axes:
                found = self.step(array, axis, index)
                yield [found[k] for k in self.kept] if self.kept is not None else found

    def numerical_jacobian(self, i, x, outputs, of_inputs: bool):
        """Return the Jacobians [part, input, output] of all outputs by finite differences.

        Args:
            i, x: the input's number, and the input.
            outputs: the differentiable outputs.
            of_inputs: whether the real and imaginary parts are those of the input, as in forward mode, or of each
                output, as in reverse mode.
        """
        complex_input = x._array.dtype.kind == "c"
        types = [o._array.dtype if of_inputs else x._array.dtype for o in outputs]
        found = [
            np.zeros((2, x._array.size, o._array.size), np.complex128 if t.kind == "c" else np.float64)
            for o, t in zip(outputs, types, strict=True)
        ]
        for position, column in enumerate(self.columns(i, x)):
            row, axis = divmod(position, 2) if complex_input else (position, 0)
            for jacobian, c in zip(found, column, strict=True):
                if of_inputs:
                    jacobian[axis, row] = c.reshape(-1)
                else:
                    jacobian[0, row] += _AXES[axis] * c.real.reshape(-1)
                    jacobian[1, row] += _AXES[axis] * c.imag.reshape(-1)
        return found

    def vjp(self, outputs, k, cotangent):
        """Return the gradients of all checked inputs for one cotangent of output `k`; zeros where there is none."""
        xs = [self.inputs[i] for i in self.positions]
        found = grad(outputs[k], xs, _operators.wrap(cotangent), retain_graph=True, allow_unused=True)
        for x, g in zip(xs, found, strict=True):
            if g is not None and g._array.shape != x._array.shape:
                raise GradcheckError(f"grad has shape {list(g.shape)}, its input {list(x.shape)}")
        return [
            np.zeros(x._array.shape, x._array.dtype) if g is None else g._array for x, g in zip(xs, found, strict=True)
        ]

    def backward_jacobians(self, outputs, k):
        """Return, per input, the Jacobian [part, input, output] of output `k` by reverse mode."""
        array = outputs[k]._array
        parts = _AXES if array.dtype.kind == "c" else _AXES[:1]
        rows = [
            np.zeros((2, self.inputs[i]._array.size, array.size), self.inputs[i]._array.dtype) for i in self.positions
        ]
        for part, unit in enumerate(parts):
            for m in range(array.size):
                cotangent = np.zeros(array.size, array.dtype)
                cotangent[m] = unit
                for jacobian, g in zip(rows, self.vjp(outputs, k, cotangent.reshape(array.shape)), strict=True):
                    jacobian[part, :, m] = g.reshape(-1)
        return rows

    def tangents_along(self, i, tangent):
        """Return the tangents of the differentiable outputs for a tangent of input `i`, a Tensor; zeros where there is
        none. The tangents of the other inputs are zeros."""
        from . import forward_ad

        with forward_ad.dual_level():
            inputs = list(self.inputs)
            for n in self.positions:
                point = inputs[n].detach()
                inputs[n] = forward_ad.make_dual(
                    point.requires_grad_(), tangent if n == i else _operators.zeros_like(point)
                )
            found = [
                o
                for o in as_tuple(self.func(*inputs))
                if isinstance(o, _operators.Tensor) and o._array.dtype.kind in "fcV"
            ]
            return tuple(
                [
                    _operators.zeros_like(found[k]).detach()
                    if found[k]._tangent is None
                    else found[k]._tangent.detach()
                    for k in self.kept
                ]
            )

    def jvp(self, i, tangent):
        """Return the tangents as arrays, for a tangent that is an array."""
        return [np.array(t._array) for t in self.tangents_along(i, _operators.wrap(tangent))]

    def forward_jacobians(self, i, x):
        """Return the Jacobians [part of the input, input, output] of all outputs for input `i` by forward mode."""
        array = x._array
        found = None
        for part, axis in enumerate(_AXES if array.dtype.kind == "c" else _AXES[:1]):
            for row in range(array.size):
                tangent = np.zeros(array.size, array.dtype)
                tangent[row] = axis
                columns = self.jvp(i, tangent.reshape(array.shape))
                if found is None:
                    found = [np.zeros((2, array.size, c.size), c.dtype) for c in columns]
                for jacobian, c in zip(found, columns, strict=True):
                    jacobian[part, row] = c.reshape(-1)
        return found


class Place(NamedTuple):
    """The identity of a Jacobian: output `k`, input `i`, forward or reverse mode.

    `part` is None, or 0 or 1 for the real or imaginary part of complex inputs (forward mode) or outputs (reverse mode).
    """

    k: int
    output: Any
    i: int
    input: Any
    forward: bool
    part: int | None


def close(found, expected, rtol: float, atol: float) -> bool:
    """Return whether two Jacobians, or projections of them, agree; NaN never agrees."""
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, expected, rtol, atol))


def slow_report(place: Place, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """Describe both Jacobians [input, output], and the entry in which they differ most."""
    row, column = _largest(found, expected)
    entry = tuple(map(int, np.unravel_index(row, place.input._array.shape)))
    of = tuple(map(int, np.unravel_index(column, place.output._array.shape)))
    return (
        f"{_head(place)}numerical:{_shown(expected)}\nanalytical:{_shown(found)}\n"
        f"The largest difference is in the derivative of output {place.k}{list(of) if of else ''} with respect to "
        f"input {place.i}{list(entry) if entry else ''}: {expected[row, column]} expected, {found[row, column]} "
        "found.\n"
    )


def fast_report(
    place: Place,
    found: Any,
    expected: Any,
    analytical: np.ndarray[Any, Any],
    numerical: np.ndarray[Any, Any],
    agree: bool,
) -> str:
    """Describe the projections that differ, and the Jacobians themselves, which may agree."""
    text = (
        f"{_head(place)}numerical:{expected}\nanalytical:{found}\n"
        "These are projections of the Jacobians on random vectors, as fast mode compares them. "
    )
    if agree:
        return text + "In slow mode, all entries are close: pass fast_mode=False."
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(analytical - numerical))
    return (
        f"{text}The Jacobians in slow mode:\n{slow_report(place, analytical, numerical)}"
        f"The max per-element difference (slow mode) is: {largest}.\n"
    )


def _head(place: Place) -> str:
    prefix = ""
    if place.part is not None:
        prefix = (
            f"While considering the {('real', 'imaginary')[place.part]} part of complex "
            f"{'inputs' if place.forward else 'outputs'} only, "
        )
    what = "computed with forward mode " if place.forward else ""
    return f"{prefix}Jacobian {what}mismatch for output {place.k} with respect to input {place.i},\n"


def _largest(found, expected) -> tuple[int, int]:
    with np.errstate(all="ignore"):
        difference = np.nan_to_num(np.abs(found - expected), nan=np.inf)
    row, column = np.unravel_index(np.argmax(difference), found.shape)
    return int(row), int(column)


def _shown(jacobian) -> str:
    return repr(_operators.wrap(jacobian))
