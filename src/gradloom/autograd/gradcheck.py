"""gradcheck and gradgradcheck: compare derivatives with finite differences.

Note [What is compared]
For output y and input x, with real numbers, the Jacobian J[k, m] = dy_m / dx_k. A complex input or output counts as two
real ones: by the convention of conjugate Wirtinger derivatives, the gradient of a real part u is du/d(Re x) + i du/d(Im
x). So a complex output is checked once for its real part (cotangent 1) and once for its imaginary part (cotangent i);
the numerical Jacobian is assembled from steps along both axes of x.

Slow mode compares every entry. Fast mode compares u^T J v for random unit vectors, one pair per input and output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import late
from ..core.edge import gradient_edge
from ..core.node import UndefinedGrad, next_sequence_nr
from ..core.tensor import Tensor  # noqa: F401 - TensorOrTensors names it
from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, GRAD_OFF, state
from ..types import TensorOrTensors
from .jacobians import (
    GradcheckError,
    Jacobians,
    Place,
    as_tuple,
    check_inputs,
    check_outputs,
    close,
    fast_report,
    is_differentiable,
    slow_report,
)
from .passes import grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_BATCHED = (
    "While computing batched gradients, got: {}\n\ngradcheck or gradgradcheck failed while testing batched "
    "gradient computation: backward must be made of operators that vmap can batch. `check_batched_grad=False` "
    "leaves this check out."
)
_ALL_UNDEFINED = "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
_BATCHED_FORWARD = (
    "While computing batched gradients, got: {}\n\ngradcheck failed while testing batched gradient "
    "computation with forward-mode AD: jvp must be made of operators that vmap can batch. "
    "`check_batched_forward_grad=False` leaves this check out."
)


def gradcheck(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of `func` at `inputs` with central finite differences.

    Args:
        func: takes the inputs and returns a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple; those that are double (or complex) and require grad are checked.
        eps: the step of the finite differences.
        atol, rtol: tolerances of the comparison.
        raise_exception: raise on a mismatch; else return False.
        nondet_tol: tolerated difference between two runs of the same backward.
        check_undefined_grad: check that undefined gradients of outputs count as zeros.
        check_grad_dtypes: check that gradients have the dtype of their inputs.
        check_batched_grad: check that gradients for a batch of vectors equal those for each vector.
        check_batched_forward_grad: check that tangents for a batch of vectors equal those for each vector.
        check_forward_ad: check forward mode as well.
        check_backward_ad: check reverse mode.
        fast_mode: compare random projections of the Jacobians instead of all entries.
        masked: step along the entries of sparse inputs only, else along all elements.

    Returns:
        True if everything agrees.

    Raises:
        GradcheckError: naming the output and the input that disagree, the entry of the Jacobian that differs most, and
            both Jacobians.
        ValueError: if there is nothing to check, or an output is sparse.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    inputs = as_tuple(inputs)
    if any(getattr(x, "is_sparse", False) for x in inputs):
        func, inputs = _of_dense(func, inputs, bool(masked))
    try:
        check = _Check(func, inputs, eps, atol, rtol, fast_mode)
        if check.has_outputs():
            if check_backward_ad:
                check.backward(nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad)
            if check_forward_ad:
                check.forward(check_undefined_grad, check_grad_dtypes, check_batched_forward_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _of_dense(func, inputs, masked):
    """Return a function that takes dense inputs in place of the sparse ones, and these inputs.

    It makes them sparse, with the entries of the given ones if `masked`, else with those that are not zero. The dense
    inputs get the gradients of the sparse ones.
    """
    from .function import Function

    class ToSparse(Function):
        @staticmethod
        def forward(ctx, dense, entries):
            return dense.sparse_mask(entries) if masked else dense.to_sparse(entries.sparse_dim())

        @staticmethod
        def backward(ctx, found):
            return (found.to_dense() if found.is_sparse else found), None

    given = [x.detach().coalesce() if getattr(x, "is_sparse", False) else None for x in inputs]

    def of_dense(*args):
        return func(*[a if s is None else ToSparse.apply(a, s) for a, s in zip(args, given, strict=True)])

    leaves = [
        x if s is None else s.to_dense().requires_grad_(x.requires_grad) for x, s in zip(inputs, given, strict=True)
    ]
    return of_dense, tuple(leaves)


class _Check(Jacobians):
    """One call of gradcheck."""

    def __init__(self, func, inputs, eps, atol, rtol, fast) -> None:
        super().__init__(func, inputs, eps)
        self.atol, self.rtol, self.fast = atol, rtol, fast

    def has_outputs(self) -> bool:
        """Return whether some output depends on the inputs; if none does, check that the differences are zero."""
        outputs = self.outputs()
        if not outputs:
            self._expect_constant()
            return False
        every = [
            o
            for o in as_tuple(self.func(*self.inputs))
            if isinstance(o, _operators.Tensor) and o._array.dtype.kind in "fcV"
        ]
        self.shapes = [o._array.shape for o in every]
        self.kept = [k for k, o in enumerate(every) if is_differentiable(o)]
        return True

    def forward(self, undefined, dtypes, batched) -> None:
        """Check forward mode."""
        (self._compare_fast if self.fast else self._compare_slow)("forward")
        if dtypes:
            self._check_tangent_dtypes()
        if undefined:
            self._check_undefined_tangents()
        if batched:
            self._check_batched_tangents()

    def backward(self, nondet_tol, undefined, dtypes, batched) -> None:
        """Check reverse mode."""
        (self._compare_fast if self.fast else self._compare_slow)("backward")
        self._check_deterministic(nondet_tol)
        self._check_multiplied()
        if dtypes:
            self._check_dtypes()
        if batched:
            self._check_batched()
        if undefined:
            self._check_undefined()

    def _expect_constant(self):
        for i in self.positions:
            for column in self.columns(i, self.inputs[i]):
                if any(np.abs(c).max(initial=0.0) > self.atol for c in column):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    def _compare_slow(self, mode):
        outputs = self.outputs()
        forward = mode == "forward"
        numerical = [self.numerical_jacobian(i, self.inputs[i], outputs, forward) for i in self.positions]
        analytical = self._jacobians(mode, outputs)
        for part in (1, 0):
            for k, output in enumerate(outputs):
                for n, i in enumerate(self.positions):
                    split = (self.inputs[i] if forward else output).is_complex()
                    if part and not split:
                        continue
                    found, expected = analytical[n][k][part], numerical[n][k][part]
                    if not close(found, expected, self.rtol, self.atol):
                        raise GradcheckError(
                            slow_report(
                                Place(k, output, i, self.inputs[i], forward, part if split else None), found, expected
                            )
                        )

    def _jacobians(self, mode, outputs) -> list:
        """Return, for each input, the Jacobians of all outputs."""
        if mode == "forward":
            return [self.forward_jacobians(i, self.inputs[i]) for i in self.positions]
        by_output = [self.backward_jacobians(outputs, k) for k in range(len(outputs))]
        return [[rows[n] for rows in by_output] for n in range(len(self.positions))]

    def _compare_fast(self, mode):
        """Compare u^T J v. With real u and v, the parts of J are those of the values that the factor 1 or i multiplies:
        the tangent in forward mode, else the cotangent."""
        outputs = self.outputs()
        forward = mode == "forward"
        units = [self.unit(np.empty(o._array.shape)) for o in outputs]
        for part in (1, 0):
            for i in self.positions:
                x = self.inputs[i]
                if forward:
                    if part and not x.is_complex():
                        continue
                    v = self.unit(np.empty(x._array.shape)).astype(x._array.dtype) * (1j if part else 1)
                    tangents = self.jvp(i, v)
                else:
                    v, tangents = self.unit(x._array), None
                numerical = [found for n, found in enumerate(self.step(x._array, v)) if n in self.kept]
                for k, (output, u) in enumerate(zip(outputs, units, strict=True)):
                    split = (x if forward else output).is_complex()
                    if part and not split:
                        continue
                    expected = np.vdot(u, numerical[k])
                    if forward:
                        found = np.vdot(u, tangents[k])
                    else:
                        expected = expected.imag if part else expected.real
                        cotangent = u.astype(output._array.dtype) * (1j if part else 1)
                        found = np.vdot(self.vjp(outputs, k, cotangent)[self.positions.index(i)], v).real
                    if not close(found, expected, self.rtol, max(self.atol, 1e-5)):
                        place = Place(k, output, i, x, forward, part if split else None)
                        raise GradcheckError(self._fast_report(place, found, expected, outputs))

    def _fast_report(self, place, found, expected, outputs) -> str:
        n, part = self.positions.index(place.i), place.part or 0
        numerical = self.numerical_jacobian(place.i, place.input, outputs, place.forward)[place.k][part]
        analytical = self._jacobians("forward" if place.forward else "backward", outputs)[n][place.k][part]
        agree = close(analytical, numerical, self.rtol, self.atol)
        return fast_report(place, found, expected, analytical, numerical, agree)

    def _check_deterministic(self, tolerance):
        for k in range(len(self.outputs())):
            outputs = self.outputs()
            u = self.unit(outputs[k]._array)
            for n, (a, b) in enumerate(zip(self.vjp(outputs, k, u), self.vjp(outputs, k, u), strict=True)):
                if not np.allclose(a, b, 0.0, tolerance, equal_nan=True):
                    raise GradcheckError(
                        f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                        f"times gives different values, although analytical gradient matches numerical gradient. The "
                        f"tolerance for nondeterminism was {tolerance}. It is input {self.positions[n]} of output {k}."
                    )

    def _check_multiplied(self):
        """Check that gradients of zero give gradients of zero."""
        outputs = self.outputs()
        xs = [self.inputs[i] for i in self.positions]
        zeros = [_operators.wrap(np.zeros(o._array.shape, o._array.dtype)) for o in outputs]
        for i, g in zip(self.positions, grad(outputs, xs, zeros, retain_graph=True, allow_unused=True), strict=True):
            if g is not None and not np.all(g._array == 0):
                raise GradcheckError(
                    "backward not multiplied by grad_output: for gradients of zero, the gradient of "
                    f"input {i} is not zero"
                )

    def _check_dtypes(self):
        outputs = self.outputs()
        xs = [self.inputs[i] for i in self.positions]
        for output in outputs:
            found = grad(output, xs, _operators.ones_like(output), retain_graph=True, allow_unused=True)
            for i, x, g in zip(self.positions, xs, found, strict=True):
                if g is not None and g.dtype is not x.dtype:
                    raise GradcheckError(
                        f"Gradient has dtype mismatch: the gradient of input {i} has dtype {g.dtype}, "
                        f"the input {x.dtype}"
                    )

    def _tangents(self, given) -> list:
        """Return (output, tangent) of the differentiable outputs, for a list with a tangent or None for each input."""
        from . import forward_ad

        with forward_ad.dual_level():
            inputs = [
                x if t is None else forward_ad.make_dual(x.detach().requires_grad_(), t)
                for x, t in zip(self.inputs, given, strict=True)
            ]
            found = [
                o
                for o in as_tuple(self.func(*inputs))
                if isinstance(o, _operators.Tensor) and o._array.dtype.kind in "fcV"
            ]
            return [(found[k], forward_ad.tangent_of(found[k])) for k in self.kept]

    def _random_tangent(self, i):
        return _operators.wrap(self.unit(self.inputs[i]._array))

    def _check_tangent_dtypes(self):
        for i in self.positions:
            given = [self._random_tangent(i) if n == i else None for n in range(len(self.inputs))]
            for k, (output, tangent) in enumerate(self._tangents(given)):
                if tangent is not None and tangent.dtype is not output.dtype:
                    raise GradcheckError(
                        f"Forward AD gradient has dtype mismatch: the tangent of output {k} has dtype "
                        f"{tangent.dtype}, the output {output.dtype}"
                    )

    def _check_undefined_tangents(self):
        """Check that an input without a tangent counts as one whose tangent is zero."""
        if len(self.positions) < 2:
            return
        for i in self.positions:
            others: list = [None] * len(self.inputs)
            for n in self.positions:
                others[n] = None if n == i else self._random_tangent(n)
            zeros = list(others)
            zeros[i] = _operators.wrap(np.zeros(self.inputs[i]._array.shape, self.inputs[i]._array.dtype))
            pairs = zip(self._tangents(others), self._tangents(zeros), strict=True)
            for k, ((_, found), (_, expected)) in enumerate(pairs):
                a = 0.0 if found is None else found._array
                b = 0.0 if expected is None else expected._array
                if not np.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                    raise GradcheckError(
                        f"Mismatch in tangent values for output with index: {k} when input {i} has an undefined "
                        f"tangent value. Got: {b} but expected: {a}"
                    )

    def _check_batched_tangents(self):
        """Compare tangents for a batch of two vectors, by vmap, with those for each vector."""
        for i in self.positions:
            vectors = [self._random_tangent(i) for _ in range(2)]
            expected = [self.jvp(i, v._array) for v in vectors]
            try:
                found = late.vmap(lambda v, i=i: self.tangents_along(i, v), randomness="same")(
                    _operators.stack(vectors, 0)
                )
            except Exception as error:
                raise GradcheckError(_BATCHED_FORWARD.format(error)) from error
            for k, both in enumerate(found):
                for row in range(2):
                    if not np.allclose(both._array[row], expected[row][k], self.rtol, self.atol, equal_nan=True):
                        raise GradcheckError(
                            f"For output {k} and input {i}: the batched tangent differs from the "
                            "tangent for each vector"
                        )

    def _check_batched(self):
        """Compare gradients for a batch of two vectors, by vmap, with those for each vector."""
        outputs = self.outputs()
        xs = [self.inputs[i] for i in self.positions]
        for k, output in enumerate(outputs):
            vectors = np.stack([self.unit(output._array) for _ in range(2)])
            expected = [self.vjp(outputs, k, vector) for vector in vectors]
            try:
                found = grad(
                    output, xs, _operators.wrap(vectors), retain_graph=True, allow_unused=True, is_grads_batched=True
                )
            except Exception as error:
                raise GradcheckError(_BATCHED.format(error)) from error
            for n, g in enumerate(found):
                for row in range(2):
                    if g is not None and not np.allclose(g._array[row], expected[row][n], self.rtol, self.atol):
                        raise GradcheckError(
                            f"For output {k} and input {self.positions[n]}: the batched gradient "
                            "differs from the gradient of each vector"
                        )

    def _check_undefined(self):
        """Check that undefined gradients of some or all outputs count as zeros."""
        count = len(self.outputs())
        patterns = [range(count)] if count == 1 else [range(count), *[[k] for k in range(count)]]
        xs = [self.inputs[i] for i in self.positions]
        for pattern in patterns:
            outputs = self.outputs()
            zeros = [
                np.zeros(o._array.shape, o._array.dtype) if k in pattern else self.unit(o._array)
                for k, o in enumerate(outputs)
            ]
            expected = grad(outputs, xs, [_operators.wrap(z) for z in zeros], retain_graph=True, allow_unused=True)
            hidden = [_undefined(o) if k in pattern else o for k, o in enumerate(outputs)]
            try:
                found = grad(hidden, xs, [_operators.wrap(z) for z in zeros], allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads. Where the gradients of outputs "
                    f"{list(pattern)} are undefined, it raises {error!r}. A formula of a custom Function gets None "
                    "for them unless it asks for zeros (ctx.set_materialize_grads)."
                ) from error
            for i, e, f in zip(self.positions, expected, found, strict=True):
                a = 0.0 if e is None else e._array
                b = 0.0 if f is None else f._array
                if not np.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                    raise GradcheckError(
                        _ALL_UNDEFINED
                        * (len(pattern) == count)
                        + f"With undefined gradients for outputs {list(pattern)}, the gradient of input {i} is not "
                        "what zeros give."
                    )


def _undefined(output):
    """Return the output behind a node that discards its gradient."""
    node = object.__new__(UndefinedGrad)
    node.next_edges = (output._edge or gradient_edge(output),)
    node.sequence_nr = next_sequence_nr()
    node.hooks = None
    node.input_metadata = (output._array.shape, output._array.dtype)
    alias = output._detached_alias()
    alias._edge = node
    return alias


def gradgradcheck(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    grad_outputs: TensorOrTensors | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare second derivatives of `func` with finite differences of its first derivatives: apply gradcheck to its
    vector-Jacobian product, as a function of the inputs and `grad_outputs`.

    Args:
        grad_outputs: the vectors; random ones by default.
        gen_non_contig_grad_outputs: make random ones that are not contiguous.
        check_fwd_over_rev: forward mode over reverse mode.
        check_rev_over_rev: reverse mode over reverse mode.
        func, inputs, eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes,
            check_batched_grad, fast_mode, masked: as for gradcheck.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    inputs = as_tuple(inputs)
    check_inputs(inputs)
    if grad_outputs is None:
        random = np.random.default_rng(1)
        outputs = as_tuple(func(*inputs))
        check_outputs(outputs)
        grad_outputs = [_random_like(o, random, gen_non_contig_grad_outputs) for o in outputs if is_differentiable(o)]
    grad_outputs = as_tuple(grad_outputs)
    count = len(grad_outputs)
    if not count:
        return True

    def vjp(*args):
        xs, vectors = args[:-count], args[-count:]
        flags = state.flags
        state.flags = flags & ~GRAD_OFF
        try:
            wanted = [x for x in xs if is_differentiable(x)]
            outputs = [o for o in as_tuple(func(*xs)) if is_differentiable(o)]
            found = grad(outputs, wanted, vectors, create_graph=True, allow_unused=True)
        finally:
            state.flags = flags | (state.flags & FORWARD_AD)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        vjp,
        inputs + grad_outputs,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        masked=masked,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Any, ...]:
    """Deprecated: return the Jacobians of the first output by finite differences.

    Args:
        fn: called as `fn(inputs)`.
        inputs: a Tensor or a tuple of them; those that require grad are differentiated with respect to.
        target: differentiate with respect to these inputs only.
        eps: the step.
        grad_out: must be 1.0.

    Returns:
        For each such input a matrix, a row for each of its elements.

    Raises:
        ValueError: for another `grad_out`.
    """
    _deprecated("get_numerical_jacobian", grad_out)
    found = Jacobians(lambda *_: fn(inputs), as_tuple(inputs if target is None else target), eps)
    found.kept = [0]
    outputs = found.outputs()[:1]
    return tuple(
        [_operators.wrap(found.numerical_jacobian(i, found.inputs[i], outputs, False)[0][0]) for i in found.positions]
    )


def get_analytical_jacobian(
    inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Any, ...], bool, bool, bool]:
    """Deprecated: return the Jacobians of an output by reverse mode.

    Args:
        inputs: a Tensor or a tuple of them; those that require grad are differentiated with respect to.
        output: a Tensor.
        nondet_tol: tolerated difference between two runs of backward.
        grad_out: must be 1.0.

    Returns:
        (jacobians, reentrant, correct_grad_sizes, correct_grad_types): for each such input a matrix, a row for each of
        its elements; whether two runs agree, and gradients have the sizes and dtypes of the inputs.

    Raises:
        ValueError: for another `grad_out`.
    """
    _deprecated("get_analytical_jacobian", grad_out)
    found = Jacobians(lambda *_: output, as_tuple(inputs), 0.0)
    first, second = (found.backward_jacobians([output], 0) for _ in range(2))
    agree = all(np.allclose(a[0], b[0], 0.0, nondet_tol) for a, b in zip(first, second, strict=True))
    return tuple([_operators.wrap(jacobian[0]) for jacobian in first]), agree, True, True


def _deprecated(name, grad_out):
    import warnings

    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will be "
        "removed in a future version of PyTorch. If you have a specific use for this or feature request for this to be "
        "a stable API, please file us an issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")


def _random_like(output, random, gaps):
    array = output._array
    values = random.standard_normal((*array.shape, 2))
    if array.dtype.kind == "c":
        values = values + 1j * random.standard_normal((*array.shape, 2))
    values = values.astype(array.dtype)
    out = _operators.wrap(values[..., 0] if gaps else np.array(values[..., 0]))
    out.requires_grad = True
    return out
