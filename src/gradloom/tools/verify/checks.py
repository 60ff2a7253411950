"""What is checked of every operator, for one sample."""

from __future__ import annotations

import numpy as np

import gradloom
from gradloom.autograd import gradcheck, gradgradcheck

# Finite differences of a Jacobian with this many entries are compared entry by entry; larger ones by projections.
FULL_JACOBIAN = 40


def _is_float(value) -> bool:
    return isinstance(value, gradloom.Tensor) and value._array.dtype.kind in "fc"


def _tensors(value):
    if isinstance(value, gradloom.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (tuple, list)) else []


class Sample:
    """A call whose floating-point tensors have been pulled out, so that they can be given anew."""

    def __init__(self, operator, args, kwargs):
        self.operator, self.args, self.kwargs = operator, args, kwargs
        differentiable = operator.differentiable_names
        names = [a.python_name for a in operator.schema.inputs if not a.kwarg_only]
        self.places = []
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            if name not in differentiable:
                continue
            if _is_float(value):
                self.places.append((name, None))
            elif isinstance(value, (list, tuple)):
                self.places += [(name, i) for i, v in enumerate(value) if _is_float(v)]
        self.names = names

    def inputs(self):
        """Fresh leaves that require grad, one for each floating-point tensor."""
        return tuple(self._read(place).detach().clone().requires_grad_() for place in self.places)

    def _read(self, place):
        name, index = place
        value = self.kwargs[name] if name in self.kwargs else self.args[self.names.index(name)]
        return value if index is None else value[index]

    def with_inputs(self, inputs):
        """The arguments with these tensors in the places of its own."""
        args, kwargs = [list(a) if isinstance(a, (list, tuple)) and _tensors(a) else a for a in self.args], {
            k: list(v) if isinstance(v, (list, tuple)) and _tensors(v) else v for k, v in self.kwargs.items()}
        for (name, index), tensor in zip(self.places, inputs, strict=True):
            holder, key = (kwargs, name) if name in kwargs else (args, self.names.index(name))
            if index is None:
                holder[key] = tensor
            else:
                holder[key][index] = tensor
        return args, kwargs

    def call(self, *inputs):
        """The operator at these inputs; only floating-point outputs."""
        args, kwargs = self.with_inputs(inputs)
        if self.operator.is_random:
            gradloom.manual_seed(0)
        found = self.operator.call(*args, **kwargs)
        outputs = [o for o in _tensors(found) if _is_float(o)]
        return tuple(outputs)


def check_first_order(sample) -> None:
    """Reverse and forward mode against finite differences, and against undefined gradients."""
    inputs = sample.inputs()
    if not inputs or not any(o.requires_grad for o in sample.call(*inputs)):
        return
    has_forward = sample.operator.joined.strategy == "composition" or bool(sample.operator.joined.info.forward)
    assert has_forward, f"{sample.operator.name} has no forward-mode formula (`result:`)"
    gradcheck(sample.call, inputs, check_forward_ad=True, fast_mode=_large(sample, inputs), check_grad_dtypes=True,
              nondet_tol=1e-12)


def check_second_order(sample) -> None:
    """Reverse over reverse and forward over reverse against finite differences of the first derivative."""
    inputs = sample.inputs()
    if not inputs or not any(o.requires_grad for o in sample.call(*inputs)):
        return
    gradgradcheck(sample.call, inputs, check_fwd_over_rev=True, fast_mode=_large(sample, inputs), atol=1e-4,
                  nondet_tol=1e-12, check_undefined_grad=False)


def _large(sample, inputs) -> bool:
    outputs = sum(o.numel() for o in sample.call(*inputs))
    return sum(x.numel() for x in inputs) * max(outputs, 1) > FULL_JACOBIAN


def check_variants(sample) -> None:
    """The in-place and the out variant against the functional one, in value and in gradient."""
    operator = sample.operator
    call = _seeded(operator, operator.call)
    inplace = operator.inplace and _seeded(operator, operator.inplace)
    args, kwargs = sample.with_inputs(sample.inputs())
    args = [a.detach() if isinstance(a, gradloom.Tensor) else
            [t if t is None else t.detach() for t in a] if isinstance(a, list) and _tensors(a) else a for a in args]
    kwargs = {k: v.detach() if isinstance(v, gradloom.Tensor) else v for k, v in kwargs.items()}
    expected = call(*args, **kwargs)
    if operator.has_out and isinstance(expected, gradloom.Tensor):
        target = gradloom.empty((0,), dtype=expected.dtype)
        call(*args, **kwargs, out=target)
        _same(target, expected, "out=")
    if inplace is not None and args[0].shape == expected.shape and args[0].dtype is expected.dtype:
        target = args[0].clone()
        before = target._version
        assert inplace(target, *args[1:], **kwargs) is target
        assert target._version > before, "the in-place variant did not bump the version"
        _same(target, expected, "in place")
        if operator.joined.strategy != "not_implemented":
            _check_inplace_gradient(sample, inplace)


def _seeded(operator, function):
    """The function of a random operator as one that draws the same numbers at every call."""
    if not operator.is_random:
        return function

    def call(*args, **kwargs):
        gradloom.manual_seed(0)
        return function(*args, **kwargs)
    return call


def _check_inplace_gradient(sample, inplace) -> None:
    inputs = sample.inputs()
    if not inputs or sample.places[0] != (sample.names[0], None):
        return
    plain = sample.call(*inputs)
    if not plain or not plain[0].requires_grad:
        return

    def written(*xs):
        args, kwargs = sample.with_inputs(xs)
        return inplace(args[0].clone(), *args[1:], **kwargs)

    fresh = sample.inputs()
    cotangent = gradloom.ones_like(plain[0])
    want = gradloom.autograd.grad(plain[0], inputs, cotangent, allow_unused=True)
    got = gradloom.autograd.grad(written(*fresh), fresh, cotangent, allow_unused=True)
    for a, b in zip(want, got, strict=True):
        if a is not None:
            _same(b, a, "gradient in place")


def _same(found, expected, what) -> None:
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype is expected.dtype, f"{what}: dtype {found.dtype}, expected {expected.dtype}"
    np.testing.assert_allclose(found.detach()._array, expected.detach()._array, err_msg=what)
