"""gradcheck and gradgradcheck: derivatives against finite differences.

Note [What is compared]
For output y and input x, with real numbers, the Jacobian J[k, m] = dy_m / dx_k. A complex input counts as two real ones
and a complex output as two real ones: with the convention of conjugate Wirtinger derivatives the gradient of a real
part u is du/d(Re x) + i du/d(Im x). So a complex output is checked once for its real part (cotangent 1) and once for
its imaginary part (cotangent i), and the numerical side is assembled from steps along both axes of x.

Slow mode compares every entry. Fast mode compares u^T J v for random unit vectors, one pair per input and output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .. import _operators
from ..dispatch import FORWARD_AD, GRAD_OFF, state
from . import grad
from .edge import gradient_edge
from .node import UndefinedGrad, next_sequence_nr

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative is wrong, or gradcheck was given something that it cannot check."""


def gradcheck(func: Callable, inputs, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked=None) -> bool:
    """Compare the derivatives of `func` at `inputs` with central finite differences.

    Args:
        func: takes the inputs and returns a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple; those that are double (or complex) and require grad are checked.
        eps: the step of the finite differences.
        atol, rtol: tolerances of the comparison.
        raise_exception: raise on a mismatch; else return False.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: that undefined gradients of outputs count as zeros.
        check_grad_dtypes: that gradients have the dtype of their inputs.
        check_batched_grad, check_batched_forward_grad: that derivatives of several vectors at once agree with those of
            each vector.
        check_forward_ad: check forward mode as well.
        check_backward_ad: check reverse mode.
        fast_mode: compare random projections of the Jacobians instead of all entries.
        masked: accepted for compatibility; there are no sparse tensors.

    Returns:
        True if everything agrees.

    Raises:
        GradcheckError: naming the output and the input that disagree, with both Jacobians.
        ValueError: if there is nothing to check.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    try:
        check = _Check(func, _tuple(inputs), eps, atol, rtol, fast_mode)
        check.run(check_forward_ad, check_backward_ad, nondet_tol, check_undefined_grad, check_grad_dtypes,
                  check_batched_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _tuple(value) -> tuple:
    if isinstance(value, _operators.Tensor):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else (value,)


def _differentiable(value) -> bool:
    return isinstance(value, _operators.Tensor) and value._array.dtype.kind in "fcV" and value.requires_grad


class _Check:
    """One call of gradcheck."""

    def __init__(self, func, inputs, eps, atol, rtol, fast):
        self.func, self.inputs, self.eps, self.atol, self.rtol, self.fast = func, inputs, eps, atol, rtol, fast
        self.positions = [i for i, x in enumerate(inputs) if _differentiable(x)]
        if not self.positions:
            raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them "
                             "have requires_grad=True.")
        for i in self.positions:
            self._check_input(i, inputs[i])
        self.random = np.random.default_rng(0)

    def _check_input(self, i, x):
        if x._array.dtype not in (np.float64, np.complex128):
            import warnings
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                          "check will likely fail if all the inputs are not of double precision floating point or "
                          "complex. ", stacklevel=4)
        array = x._array
        if array.size and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                               "are non-overlapping to be able to compute the numerical gradients correctly. You "
                               "should call .contiguous on the input before passing it to gradcheck.")

    def outputs(self) -> list:
        """The differentiable outputs, with their history."""
        return [o for o in _tuple(self.func(*self.inputs)) if _differentiable(o)]

    def values(self) -> list[np.ndarray]:
        """The arrays of the outputs that may be differentiable, copied."""
        found = [o for o in _tuple(self.func(*self.inputs)) if isinstance(o, _operators.Tensor)]
        return [np.array(o._array) for o in found if o._array.dtype.kind in "fcV"]

    def run(self, forward, backward, nondet_tol, undefined, dtypes, batched):
        outputs = self.outputs()
        if not outputs:
            self._expect_constant()
            return
        every = [o for o in _tuple(self.func(*self.inputs)) if isinstance(o, _operators.Tensor)
                 and o._array.dtype.kind in "fcV"]
        self.kept = [k for k, o in enumerate(every) if _differentiable(o)]
        compare = self._compare_fast if self.fast else self._compare_slow
        if forward:
            compare(self._forward_column, "forward")
        if backward:
            compare(None, "backward")
            self._check_deterministic(nondet_tol)
            if dtypes:
                self._check_dtypes()
            if batched:
                self._check_batched()
            if undefined:
                self._check_undefined()

    def _expect_constant(self):
        for i in self.positions:
            for column in self._numerical(i, self.inputs[i]):
                if any(np.abs(c).max(initial=0.0) > self.atol for c in column):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    # --- numerical ------------------------------------------------------------------------------------------------

    def _step(self, array, direction, index=None):
        """Central difference of all outputs along a direction of an input."""
        before = array.copy() if index is None else array[index]
        at = ... if index is None else index
        array[at] = before + self.eps * direction
        plus = self.values()
        array[at] = before - self.eps * direction
        minus = self.values()
        array[at] = before
        return [(p - m) / (2 * self.eps) for p, m in zip(plus, minus, strict=True)]

    def _numerical(self, i, x):
        """For each element of input `i`, and each of its axes if complex, the derivatives of all outputs."""
        array = x._array
        axes = (1.0, 1j) if array.dtype.kind == "c" else (1.0,)
        for index in np.ndindex(array.shape):
            for axis in axes:
                found = self._step(array, axis, index)
                yield [found[k] for k in self.kept] if hasattr(self, "kept") else found

    def _numerical_jacobian(self, i, x, outputs):
        """Jacobians [input, output] for the real and the imaginary part of each output."""
        array = x._array
        complex_input = array.dtype.kind == "c"
        size = array.size
        found = [np.zeros((2, size, o._array.size), np.complex128 if complex_input else np.float64) for o in outputs]
        for position, column in enumerate(self._numerical(i, x)):
            row, factor = (position // 2, (1.0, 1j)[position % 2]) if complex_input else (position, 1.0)
            for jacobian, c in zip(found, column, strict=True):
                jacobian[0, row] += factor * c.real.reshape(-1)
                jacobian[1, row] += factor * c.imag.reshape(-1)
        return found

    # --- analytical -------------------------------------------------------------------------------------------------

    def _vjp(self, outputs, k, cotangent):
        """Gradients of all checked inputs for one cotangent of output `k`; zeros where there is none."""
        xs = [self.inputs[i] for i in self.positions]
        found = grad(outputs[k], xs, _operators.wrap(cotangent), retain_graph=True, allow_unused=True)
        for x, g in zip(xs, found, strict=True):
            if g is not None and g._array.shape != x._array.shape:
                raise GradcheckError(f"grad has shape {list(g.shape)}, its input {list(x.shape)}")
        return [np.zeros(x._array.shape, x._array.dtype) if g is None else g._array
                for x, g in zip(xs, found, strict=True)]

    def _backward_jacobians(self, outputs, k):
        """Per input, the Jacobian [part, input, output] of output `k` by reverse mode."""
        array = outputs[k]._array
        parts = (1.0, 1j) if array.dtype.kind == "c" else (1.0,)
        rows = [np.zeros((2, self.inputs[i]._array.size, array.size), self.inputs[i]._array.dtype)
                for i in self.positions]
        for part, unit in enumerate(parts):
            for m in range(array.size):
                cotangent = np.zeros(array.size, array.dtype)
                cotangent[m] = unit
                for jacobian, g in zip(rows, self._vjp(outputs, k, cotangent.reshape(array.shape)), strict=True):
                    jacobian[part, :, m] = g.reshape(-1)
        return rows

    def _jvp(self, i, tangent):
        """Tangents of the differentiable outputs for a tangent of input `i`; zeros where there is none."""
        from . import forward_ad

        with forward_ad.dual_level():
            inputs = list(self.inputs)
            inputs[i] = forward_ad.make_dual(inputs[i].detach().requires_grad_(), _operators.wrap(tangent))
            found = [o for o in _tuple(self.func(*inputs)) if isinstance(o, _operators.Tensor)
                     and o._array.dtype.kind in "fcV"]
            return [np.zeros(found[k]._array.shape, found[k]._array.dtype) if found[k]._tangent is None
                    else np.array(found[k]._tangent._array) for k in self.kept]

    def _forward_column(self, i, x):
        """Jacobians of all outputs with respect to input `i`, by forward mode."""
        array = x._array
        axes = (1.0, 1j) if array.dtype.kind == "c" else (1.0,)
        found = None
        for row in range(array.size):
            for axis in axes:
                tangent = np.zeros(array.size, array.dtype)
                tangent[row] = axis
                columns = self._jvp(i, tangent.reshape(array.shape))
                if found is None:
                    found = [np.zeros((2, array.size, c.size), array.dtype) for c in columns]
                for jacobian, c in zip(found, columns, strict=True):
                    jacobian[0, row] += axis * c.real.reshape(-1)
                    jacobian[1, row] += axis * c.imag.reshape(-1)
        return found

    # --- comparison ---------------------------------------------------------------------------------------------------

    def _compare_slow(self, forward, mode):
        outputs = self.outputs()
        by_output = None if forward else [self._backward_jacobians(outputs, k) for k in range(len(outputs))]
        for n, i in enumerate(self.positions):
            x = self.inputs[i]
            numerical = self._numerical_jacobian(i, x, outputs)
            analytical = forward(i, x) if forward else [rows[n] for rows in by_output]
            if analytical is None:
                continue
            for k, (a, b) in enumerate(zip(analytical, numerical, strict=True)):
                self._expect_close(a, b, k, i, mode)

    def _expect_close(self, analytical, numerical, k, i, mode):
        with np.errstate(all="ignore"):
            close = np.allclose(analytical, numerical, self.rtol, self.atol, equal_nan=True)
        if not close:
            what = "" if mode == "backward" else " computed with forward mode"
            part = 0 if not np.allclose(analytical[0], numerical[0], self.rtol, self.atol, equal_nan=True) else 1
            raise GradcheckError(
                f"Jacobian{what} mismatch for output {k} with respect to input {i},\n"
                f"{'the imaginary part of the output, ' if part else ''}"
                f"numerical:{numerical[part]}\nanalytical:{analytical[part]}\n")

    def _unit(self, array):
        v = self.random.standard_normal(array.shape)
        if array.dtype.kind == "c":
            v = v + 1j * self.random.standard_normal(array.shape)
        norm = np.linalg.norm(v)
        return (v / norm if norm else v).astype(array.dtype)

    def _compare_fast(self, forward, mode):
        outputs = self.outputs()
        for i in self.positions:
            x = self.inputs[i]
            v = self._unit(x._array)
            numerical = [found for n, found in enumerate(self._step(x._array, v)) if n in self.kept]
            tangents = self._jvp(i, v) if forward else None
            for k, output in enumerate(outputs):
                u = self._unit(output._array)
                expected = np.vdot(u, numerical[k]).real
                if forward:
                    found = np.vdot(u, tangents[k]).real
                else:
                    g = self._vjp(outputs, k, u)[self.positions.index(i)]
                    found = np.vdot(g, v).real
                if not np.allclose(found, expected, self.rtol, max(self.atol, 1e-5), equal_nan=True):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {k} with respect to input {i} ({mode} mode),\n"
                        f"numerical:{expected}\nanalytical:{found}\n"
                        "The above quantities relating the numerical and analytical jacobians are computed in fast "
                        "mode. Rerun with fast_mode=False to see the jacobians themselves.")

    def _check_deterministic(self, tolerance):
        for k in range(len(self.outputs())):
            outputs = self.outputs()
            u = self._unit(outputs[k]._array)
            for n, (a, b) in enumerate(zip(self._vjp(outputs, k, u), self._vjp(outputs, k, u), strict=True)):
                if not np.allclose(a, b, 0.0, tolerance, equal_nan=True):
                    raise GradcheckError(
                        f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                        f"times gives different values, although analytical gradient matches numerical gradient. The "
                        f"tolerance for nondeterminism was {tolerance}. It is input {self.positions[n]} of output {k}.")

    def _check_dtypes(self):
        outputs = self.outputs()
        xs = [self.inputs[i] for i in self.positions]
        for output in outputs:
            found = grad(output, xs, _operators.ones_like(output), retain_graph=True, allow_unused=True)
            for i, x, g in zip(self.positions, xs, found, strict=True):
                if g is not None and g.dtype is not x.dtype:
                    raise GradcheckError(f"grad of input {i} has dtype {g.dtype}, the input {x.dtype}")

    def _check_batched(self):
        outputs = self.outputs()
        xs = [self.inputs[i] for i in self.positions]
        for k, output in enumerate(outputs):
            vectors = np.stack([self._unit(output._array) for _ in range(2)])
            found = grad(output, xs, _operators.wrap(vectors), retain_graph=True, allow_unused=True,
                         is_grads_batched=True)
            for n, g in enumerate(found):
                for row in range(2):
                    expected = self._vjp(outputs, k, vectors[row])[n]
                    if g is not None and not np.allclose(g._array[row], expected, self.rtol, self.atol):
                        raise GradcheckError(f"For output {k} and input {self.positions[n]}: the batched gradient "
                                             "differs from the gradient of each vector")

    def _check_undefined(self):
        """Undefined gradients of some or all outputs must count as zeros."""
        count = len(self.outputs())
        patterns = [range(count)] if count == 1 else [range(count), *[[k] for k in range(count)]]
        xs = [self.inputs[i] for i in self.positions]
        for pattern in patterns:
            outputs = self.outputs()
            zeros = [np.zeros(o._array.shape, o._array.dtype) if k in pattern else self._unit(o._array)
                     for k, o in enumerate(outputs)]
            expected = grad(outputs, xs, [_operators.wrap(z) for z in zeros], retain_graph=True, allow_unused=True)
            hidden = [_undefined(o) if k in pattern else o for k, o in enumerate(outputs)]
            try:
                found = grad(hidden, xs, [_operators.wrap(z) for z in zeros], allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError("Expected backward function to handle undefined output grads. Please look at "
                                     "\"Notes about undefined output gradients\" in \"tools/autograd/derivatives.yaml\""
                                     f" ({error})") from error
            for i, e, f in zip(self.positions, expected, found, strict=True):
                a = 0.0 if e is None else e._array
                b = 0.0 if f is None else f._array
                if not np.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                    raise GradcheckError(f"With undefined gradients for outputs {list(pattern)}, the gradient of input "
                                         f"{i} is not what zeros give")


def _undefined(output):
    """The output behind a node that swallows its gradient."""
    node = object.__new__(UndefinedGrad)
    node.next_edges = (output._edge or gradient_edge(output),)
    node.sequence_nr = next_sequence_nr()
    node.hooks = None
    node.input_metadata = (output._array.shape, output._array.dtype)
    alias = output._detached_alias()
    alias._edge = (node, 0)
    return alias


def gradgradcheck(func: Callable, inputs, grad_outputs=None, *, eps: float = 1e-6, atol: float = 1e-5,
                  rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
                  nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
                  check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
                  fast_mode: bool = False, masked=None) -> bool:
    """Compare second derivatives of `func` with finite differences of its first: gradcheck of its vector-Jacobian
    product, with respect to the inputs and to `grad_outputs`.

    Args:
        grad_outputs: the vectors; random ones by default.
        gen_non_contig_grad_outputs: make random ones that are not contiguous.
        check_fwd_over_rev: forward mode over reverse mode.
        check_rev_over_rev: reverse mode over reverse mode.
        others: as for gradcheck.
    """
    inputs = _tuple(inputs)
    if grad_outputs is None:
        random = np.random.default_rng(1)
        grad_outputs = [_random_like(o, random, gen_non_contig_grad_outputs) for o in _tuple(func(*inputs))
                        if isinstance(o, _operators.Tensor) and _differentiable(o)]
    grad_outputs = _tuple(grad_outputs)
    count = len(grad_outputs)
    if not count:
        return True

    def vjp(*args):
        xs, vectors = args[:-count], args[-count:]
        flags = state.flags
        state.flags = flags & ~GRAD_OFF
        try:
            wanted = [x for x in xs if _differentiable(x)]
            outputs = [o for o in _tuple(func(*xs)) if _differentiable(o)]
            found = grad(outputs, wanted, vectors, create_graph=True, allow_unused=True)
        finally:
            state.flags = flags | (state.flags & FORWARD_AD)
        return tuple([g for g in found if g is not None])

    return gradcheck(vjp, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad, fast_mode=fast_mode,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev)


def _random_like(output, random, gaps):
    array = output._array
    values = random.standard_normal((*array.shape, 2))
    if array.dtype.kind == "c":
        values = values + 1j * random.standard_normal((*array.shape, 2))
    values = values.astype(array.dtype)
    out = _operators.wrap(values[..., 0] if gaps else np.array(values[..., 0]))
    out.requires_grad = True
    return out
