"""The in-place and the out variant of an operator against the functional one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gradloom

from .case import Case, tensors
from .faults import ENTRY, Fault, close, said, scale
from .jacobians import Function, coordinates


def check_variants(case: Case) -> Iterator[Fault]:
    """The in-place and the out variant against the functional one, in value and in gradient."""
    operator = case.operator
    expected = case.plain()
    if operator.has_out:
        yield from _check_out(case, expected)
    if operator.inplace is not None and isinstance(expected, gradloom.Tensor):
        args, kwargs = case.detached()
        target = args[0]
        if target.shape != expected.shape or target.dtype is not expected.dtype:
            return
        before = target._version
        try:
            result = case.seeded(operator.inplace)(*args, **kwargs)
        except Exception as error:
            yield Fault(case, "variants", f"the in-place variant raises {said(error)}", ENTRY)
            return
        if result is not target or target._version <= before:
            what = "does not return its tensor" if result is not target else "does not raise the tensor's version"
            yield Fault(case, "variants", f"the in-place variant {what}", ENTRY)
        yield from equal(case, "variants", "the in-place variant", target, expected)
        if operator.joined.strategy != "not_implemented":
            yield from _check_inplace_gradient(case)


def _check_out(case: Case, expected: Any) -> Iterator[Fault]:
    several = not isinstance(expected, gradloom.Tensor)
    wanted = tensors(expected)
    if not wanted or (several and len(wanted) != len(expected)):
        return
    args, kwargs = case.detached()
    targets = [gradloom.empty((0,), dtype=e.dtype) for e in wanted]
    try:
        case.seeded(case.operator.call)(*args, **kwargs, out=tuple(targets) if several else targets[0])
    except Exception as error:
        yield Fault(case, "variants", f"the out variant raises {said(error)}", ENTRY)
        return
    for target, want in zip(targets, wanted, strict=True):
        yield from equal(case, "variants", "the out variant", target, want)
    if case.places and case.operator.differentiable:
        yield from _check_out_refuses(case, targets if several else targets[0])


def _check_out_refuses(case: Case, out: Any) -> Iterator[Fault]:
    """An out variant is not differentiable: it says so instead of giving a result without history."""
    inputs = case.inputs()
    if not any(o.requires_grad for o in case.call(*inputs)):
        return
    args, kwargs = case.with_inputs(case.inputs())
    try:
        case.seeded(case.operator.call)(*args, **kwargs, out=tuple(out) if isinstance(out, list) else out)
    except RuntimeError:
        return
    yield Fault(case, "variants", "the out variant takes tensors that require a gradient, which it loses", ENTRY)


def _check_inplace_tangent(case: Case) -> Iterator[Fault]:
    """The in-place variant carries the tangent that the functional one does."""
    function = Function(case.call, case.inputs())
    if 0 not in function.kept:
        return
    ones = {i: np.ones(coordinates(a)) for i, a in enumerate(function.arrays)}
    try:
        expected = function.pushed(ones)[0]
    except Exception:
        return  # the checks of derivatives tell

    def written(*inputs: Any) -> tuple[Any, ...]:
        args, kwargs = case.with_inputs(inputs)
        return (case.seeded(case.operator.inplace)(args[0].clone(), *args[1:], **kwargs),)

    try:
        found = Function(written, case.inputs()).pushed(ones)[0]
    except Exception as error:
        yield Fault(case, "variants", f"the tangent of the in-place variant raises {said(error)}", ENTRY)
        return
    if not close(found, expected, 1e-7, 1e-10 * scale(expected)):
        yield Fault(
            case, "variants", "the in-place variant gives another tangent", ENTRY, expected=expected, found=found
        )


def _check_inplace_gradient(case: Case) -> Iterator[Fault]:
    inplace = case.seeded(case.operator.inplace)
    inputs = case.inputs()
    if not inputs or (case.places[0].name, case.places[0].index) != (case.names[0], None):
        return
    plain = case.call(*inputs)
    if not plain or not plain[0].requires_grad:
        return
    cotangent = gradloom.ones_like(plain[0])
    try:
        want = gradloom.autograd.grad(plain[0], inputs, cotangent, allow_unused=True)
    except Exception:
        return  # the checks of derivatives tell
    fresh = case.inputs()
    args, kwargs = case.with_inputs(fresh)
    try:
        written = inplace(args[0].clone(), *args[1:], **kwargs)
        found = gradloom.autograd.grad(written, fresh, cotangent, allow_unused=True)
    except Exception as error:
        yield Fault(case, "variants", f"the gradient of the in-place variant raises {said(error)}", ENTRY)
        return
    for place, a, b in zip(case.places, want, found, strict=True):
        if a is not None and b is None:
            yield Fault(case, "variants", f"the in-place variant has no gradient for `{place}`", ENTRY, place)
        elif a is not None:
            yield from equal(case, "variants", f"in the gradient of `{place}`, the in-place variant", b, a)
    yield from _check_inplace_tangent(case)


def equal(case: Case, check: str, what: str, found: Any, expected: Any, rtol: float = 1e-7) -> Iterator[Fault]:
    """A fault, if two tensors differ in shape, dtype or value; `what` is the one that was found."""
    a, b = found.detach()._array, expected.detach()._array
    if a.shape != b.shape or found.dtype is not expected.dtype:
        message = (
            f"{what} gives {found.dtype} {list(found.shape)}, the operator {expected.dtype} {list(expected.shape)}"
        )
        yield Fault(case, check, message, ENTRY)
    elif not close(_comparable(a), _comparable(b), rtol, 1e-12 * scale(_comparable(b))):
        yield Fault(case, check, f"{what} gives other values", ENTRY, expected=b, found=a)


def _comparable(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind in "Vbiu" else array
