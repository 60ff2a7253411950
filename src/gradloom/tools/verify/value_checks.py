"""Checks of the values of one call: memory, variants, and the same numbers in another layout, shape or dtype.

A check that has nothing to compare for a call returns SKIPPED.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

import gradloom
from gradloom.autograd import forward_ad
from gradloom.core.tensor import wrap

from .case import Case, Place, is_float, tensors
from .findings import BACKWARD, ENTRY, FORWARD, KERNEL, Fault, close, said, scale
from .jacobians import Function, coordinates

Check = Generator[Fault, None, object]
SKIPPED = object()
NARROW = {"float64": gradloom.float32, "complex128": gradloom.complex64}
# type_promotion -> dtype of the result for integers.
PROMOTED = {"default": gradloom.int64, "int_to_float": gradloom.float32, "always_bool": gradloom.bool}


def check_call(case: Case) -> Iterator[Fault]:
    """Check that a functional operator writes to no argument, and shares memory only as its schema declares."""
    args, kwargs = case.detached()
    given = [t for a in (*args, *kwargs.values()) for t in tensors(a)]
    before = [t._array.copy() for t in given]
    found = case.seeded(case.operator.call)(*args, **kwargs)
    if case.operator.schema.kind != "functional":
        return
    for tensor, old in zip(given, before, strict=True):
        if tensor._array.shape != old.shape or not np.array_equal(tensor._array, old, equal_nan=old.dtype.kind in "fc"):
            message = "the operator writes to one of its arguments"
            yield Fault(case, "call", message, KERNEL, expected=old, found=tensor._array)
            return
    schema = case.operator.schema
    free = not any(r.annotation for r in schema.returns) and "maybe_aliasing_or_mutating" not in case.operator.tags
    if free and case.operator.joined.function.kernel is not None:
        outputs = tensors(found)
        for nr, output in enumerate(outputs):
            if any(np.shares_memory(output._array, t._array) for t in given):
                message = "the result shares memory with an argument, which the schema does not say"
                yield Fault(case, "call", message, KERNEL)
                return
            memory = output.untyped_storage().data_ptr()
            if memory and any(memory == o.untyped_storage().data_ptr() for o in outputs[:nr]):
                yield Fault(case, "call", f"result {nr} shares the memory of an earlier result", KERNEL)
                return


def sees_memory(case: Case) -> bool:
    """Return whether the result depends on the memory layout of arguments: the operator takes strides, or a dtype to
    reinterpret the memory."""
    names = {a.name for a in case.operator.schema.inputs}
    schema = case.operator.schema
    sees_dtype = (schema.is_view or schema.name.base.endswith("view_copy")) and "dtype" in names
    return {"size", "stride"} <= names or sees_dtype or "replayed" in case.operator.tags


def check_layout(case: Case) -> Check:
    """Check that tensors that are not contiguous give the same results."""
    if is_undetermined(case) or sees_memory(case) or not case.floats:
        return SKIPPED
    other = case.changed(_strided, "not contiguous")
    expected = tensors(case.plain())
    try:
        found = tensors(other.plain())
    except Exception as error:
        if case.operator.schema.is_view:
            return SKIPPED  # such memory may not have this view
        yield Fault(other, "layout", f"raises {said(error)} for tensors that are not contiguous", KERNEL)
        return None
    for a, b in zip(found, expected, strict=True):
        if a.dtype.is_floating_point or a.dtype.is_complex or a._array.dtype.kind in "biu":
            for fault in equal(other, "layout", "a call with tensors that are not contiguous", a, b, 1e-6):
                yield fault
                return None
    yield from _check_derivatives(case, other, "layout", "tensors that are not contiguous", _equal_but_for_rounding)
    return None


def check_bits(case: Case) -> Check:
    """Check that tensors with the conjugate or negative bit give the same results."""
    if is_undetermined(case) or sees_memory(case) or not case.floats:
        return SKIPPED
    expected = tensors(case.plain())
    for change, bit in ((_conjugate, "conjugate"), (_negative, "negative")):
        other = case.changed(change, f"with the {bit} bit")
        try:
            found = tensors(other.plain())
        except Exception as error:
            yield Fault(other, "layout", f"raises {said(error)} for tensors with the {bit} bit", KERNEL)
            return None
        for a, b in zip(found, expected, strict=True):
            for fault in equal(other, "layout", f"a call with tensors that have the {bit} bit", a, b, 1e-6):
                yield fault
                return None
    return None


def _conjugate(tensor: Any) -> Any:
    return tensor.conj().resolve_conj().conj() if tensor.is_complex() else tensor


def _negative(tensor: Any) -> Any:
    """Return the same values with the negative bit; as it is without, if the dtype cannot be negated, as float8."""
    return tensor.neg()._neg_view() if is_float(tensor) and tensor.itemsize > 1 else tensor


def _strided(tensor: Any) -> Any:
    """Return the same values in an array with reversed dimension order and gaps."""
    array = tensor._array
    if array.ndim == 0:
        return tensor
    wide = np.zeros((*array.shape[::-1], 2), array.dtype)[..., 0]
    spread = wide.T
    spread[...] = array
    return wrap(spread)


def check_broadcast(case: Case) -> Check:
    """Check that a pointwise operator gives the same for broadcast and for expanded arguments."""
    if not case.operator.is_pointwise or case.operator.is_random or len(case.floats) < 2:
        return SKIPPED
    values = [case.read(p)._array for p in case.floats]
    try:
        shape = np.broadcast_shapes(*(v.shape for v in values))
    except ValueError:
        return SKIPPED
    if not shape or 0 in shape:
        return SKIPPED
    for position, place in enumerate(case.floats):
        if case.operator.schema.kind == "inplace" and position == 0:
            continue
        small = [np.broadcast_to(v, shape).copy() for v in values]
        small[position] = small[position][:1]
        large = [np.broadcast_to(v, shape).copy() for v in small]
        both = []
        for arrays in (small, large):
            inputs = tuple(wrap(a) for a in arrays)
            args, kwargs = case.with_inputs(inputs, case.floats)
            both.append(Case(case.operator, tuple(args), kwargs, f"`{place}` broadcast"))
        try:
            expected = tensors(both[1].plain())
        except Exception:
            return SKIPPED  # other arguments do not broadcast
        try:
            found = tensors(both[0].plain())
        except Exception as error:
            yield Fault(both[0], "broadcast", f"raises {said(error)} where `{place}` is broadcast", KERNEL)
            return None
        for a, b in zip(found, expected, strict=True):
            yield from equal(both[0], "broadcast", f"a call with `{place}` broadcast", a, b)
    return None


def narrowed(case: Case) -> Case | None:
    """Return the call in single precision; None unless all its floating-point tensors are in double precision."""
    if any(case.read(p).dtype not in (gradloom.float64, gradloom.complex128) for p in case.floats) or not case.floats:
        return None
    if any(isinstance(v, gradloom.dtype) for _, v in case.arguments()):
        return None

    def narrow(tensor: Any) -> Any:
        return tensor.to(NARROW[_name(tensor.dtype)]) if is_float(tensor) else tensor

    return case.changed(narrow, "single precision")


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _wide(tensor: Any) -> Any:
    return {gradloom.float32: gradloom.float64, gradloom.complex64: gradloom.complex128}.get(tensor.dtype, tensor.dtype)


def is_undetermined(case: Case) -> bool:
    """Return whether two calls may give different values."""
    kernel = case.operator.joined.function.kernel
    uninitialised = (
        kernel is not None and kernel.kind == "named" and str(kernel.function).startswith(("empty", "new_empty"))
    )
    return case.operator.is_random or uninitialised or "nondeterministic_bitwise" in case.operator.tags


def check_single(case: Case) -> Check:
    """Check that single precision gives single precision and the same values up to rounding; gradients too."""
    single = narrowed(case)
    if single is None or is_undetermined(case) or sees_memory(case):
        return SKIPPED
    # the numbers rounded to single precision, in double precision
    expected = tensors(single.changed(lambda t: t.to(_wide(t)), "").plain())
    try:
        found = tensors(single.plain())
    except Exception as error:
        yield Fault(single, "dtypes", f"raises {said(error)} in single precision", KERNEL)
        return None
    smooth = set(_smooth(case, expected))
    for number, (a, b) in enumerate(zip(found, expected, strict=False)):
        narrow = NARROW.get(_name(b.dtype), b.dtype)
        if a.dtype is not narrow and case.operator.joined.function.kernel is not None:
            yield Fault(single, "dtypes", f"single precision gives {a.dtype}, double {b.dtype}", KERNEL)
            return None
        if is_float(b) and number in smooth and not _near(a._array, b._array):
            message = "single precision gives other values"
            yield Fault(single, "dtypes", message, KERNEL, expected=b._array, found=a._array)
            return None
    yield from _check_derivatives(case, single, "dtypes", "single precision", _near)
    return None


def _smooth(case: Case, outputs: list[Any]) -> Iterable[int]:
    """Return the output numbers that rounding of the inputs changes little: all for a pointwise operator, else the
    differentiable ones. (The bin of a histogram may depend on the last digit.)"""
    if case.operator.is_pointwise:
        return range(len(outputs))
    if not case.places:
        return ()
    args, kwargs = case.with_inputs(case.inputs())
    found = tensors(case.seeded(case.operator.call)(*args, **kwargs))
    return [n for n, o in enumerate(found) if o.requires_grad]


def _check_derivatives(case: Case, other: Case, check: str, what: str, near: Callable[..., bool]) -> Iterator[Fault]:
    """Check that the first derivatives of another call are near those of `case`, in the dtypes of its own tensors."""
    if not case.operator.differentiable or not case.places:
        return
    for mode, find, blame in (("gradient", _gradients, BACKWARD), ("tangent", _tangents, FORWARD)):
        try:
            expected = find(case)
        except Exception:
            return  # the checks of derivatives report this
        try:
            found = find(other)
        except Exception as error:
            yield Fault(other, check, f"the {mode} raises {said(error)} for {what}", blame)
            return
        for (place, dtype, a), (_, _, b) in zip(found, expected, strict=True):
            if a is None or b is None:
                continue
            of = f"the {mode} of `{place}`" if place is not None else "the tangent"
            if a.dtype is not dtype:
                message = f"{of} has dtype {a.dtype}, its tensor {dtype}"
                yield Fault(other, check, message, blame, place)
                return
            if not near(a._array, b._array):
                message = f"{of} differs for {what}"
                yield Fault(other, check, message, blame, place, expected=b._array, found=a._array)
                return


def _gradients(case: Case) -> list[tuple[Place | None, Any, Any]]:
    """Return (place, its dtype, gradient or None) of each input, for cotangents of ones."""
    inputs = [case.read(p).detach().requires_grad_() for p in case.places]
    outputs = [o for o in case.call(*inputs) if o.requires_grad] if inputs and case.operator.differentiable else []
    found: Iterable[Any] = [None] * len(inputs)
    if outputs:
        ones = [gradloom.ones_like(o) for o in outputs]
        found = gradloom.autograd.grad(outputs, inputs, ones, allow_unused=True)
    return [(p, x.dtype, g) for p, x, g in zip(case.places, inputs, found, strict=True)]


def _tangents(case: Case) -> list[tuple[Place | None, Any, Any]]:
    """Return (None, its dtype, tangent or None) of each output, for tangents of ones; [] without forward mode."""
    info = case.operator.joined.info
    if not case.operator.by_composition and info is not None and not info.forward:
        return []
    with forward_ad.dual_level():
        inputs = [forward_ad.make_dual(x, gradloom.ones_like(x)) for x in (case.read(p).detach() for p in case.places)]
        found = [forward_ad.unpack_dual(o) for o in case.call(*inputs)]
        return [(None, o.primal.dtype, o.tangent) for o in found]


def _near(single: np.ndarray, double: np.ndarray) -> bool:
    return close(single.astype(double.dtype), double, 2e-3, 2e-4 * scale(double))


def _equal_but_for_rounding(found: np.ndarray, expected: np.ndarray) -> bool:
    return close(found, expected, 1e-6, 1e-8 * scale(expected))


def check_half(case: Case) -> Check:
    """Check that half precision, if accepted, gives half precision and the same values up to coarse rounding."""
    single = narrowed(case)
    if single is None or is_undetermined(case) or sees_memory(case):
        return SKIPPED
    for dtype in (gradloom.float16, gradloom.bfloat16):
        if any(case.read(p).dtype is not gradloom.float64 for p in case.floats):
            return SKIPPED
        half = case.changed(lambda t, dtype=dtype: t.to(dtype) if is_float(t) else t, f"{_name(dtype)}")
        try:
            found, gradients = half.plain(), _gradients(half)
        except Exception:
            continue  # it does not take half precision
        wide = half.changed(lambda t: t.to(gradloom.float64) if is_float(t) else t, "")
        expected = tensors(wide.plain())
        smooth = set(_smooth(case, expected))
        for number, (a, b) in enumerate(zip(tensors(found), expected, strict=False)):
            if b.dtype is not gradloom.float64 or number not in smooth:  # there is no complex half precision
                continue
            if a.dtype is not dtype and case.operator.joined.function.kernel is not None:
                yield Fault(half, "dtypes", f"{_name(dtype)} gives {_name(a.dtype)}", KERNEL)
                return None
            values = a._array.astype(np.float64)
            if not close(values, b._array, 0.1, 0.05 * scale(b._array)):
                message = f"{_name(dtype)} gives other values"
                yield Fault(half, "dtypes", message, KERNEL, expected=b._array, found=values)
                return None
        for (place, _, g), (_, _, x) in zip(gradients, _gradients(wide), strict=True):
            if g is None or x is None:
                continue
            if g.dtype is not dtype:
                message = f"the gradient of `{place}` has dtype {_name(g.dtype)}, the input {_name(dtype)}"
                yield Fault(half, "dtypes", message, ENTRY, place)
                return None
            values = g._array.astype(np.float64)
            if not close(values, x._array, 0.2, 0.1 * scale(x._array)):
                message = f"{_name(dtype)} gives another gradient of `{place}`"
                yield Fault(half, "dtypes", message, ENTRY, place, expected=x._array, found=values)
                return None
    return None


def check_integers(case: Case) -> Check:
    """Check that integers give the dtype that `type_promotion` declares."""
    wanted = PROMOTED.get(case.operator.joined.function.type_promotion or "")
    given = [a for a in case.operator.schema.inputs if a.type.is_tensor]
    numbers = [v for _, v in case.arguments() if isinstance(v, (float, complex))]
    if wanted is None or not case.operator.is_pointwise or len(case.floats) != len(given) or numbers:
        return SKIPPED
    if any(a.type.base.name in ("str", "ScalarType") for a in case.operator.schema.inputs):
        return SKIPPED  # a mode may decide the dtype

    def whole(tensor: Any) -> Any:
        return gradloom.ones_like(tensor, dtype=gradloom.int64) if is_float(tensor) else tensor

    integers = case.changed(whole, "integers")
    try:
        found = integers.plain()
    except Exception:
        return SKIPPED  # it does not take integers
    if isinstance(found, gradloom.Tensor) and found.dtype is not wanted:
        rule = case.operator.joined.function.type_promotion
        yield Fault(integers, "dtypes", f"integers give {found.dtype}; `type_promotion: {rule}` says {wanted}", KERNEL)
    return None


def check_variants(case: Case) -> Check:
    """Compare the in-place and the out variant with the functional operator, in value and gradient."""
    operator = case.operator
    if not operator.has_out and operator.inplace is None:
        return SKIPPED
    expected = case.plain()
    if operator.has_out:
        yield from _check_out(case, expected)
    if operator.inplace is not None and isinstance(expected, gradloom.Tensor):
        args, kwargs = case.detached()
        target = args[0]
        if target.shape != expected.shape or target.dtype is not expected.dtype:
            return None
        before = target._version
        try:
            result = case.seeded(operator.inplace)(*args, **kwargs)
        except Exception as error:
            yield Fault(case, "variants", f"the in-place variant raises {said(error)}", ENTRY)
            return None
        if result is not target or target._version <= before:
            what = "does not return its tensor" if result is not target else "does not raise the tensor's version"
            yield Fault(case, "variants", f"the in-place variant {what}", ENTRY)
        yield from equal(case, "variants", "the in-place variant", target, expected)
        if operator.joined.strategy != "not_implemented":
            yield from _check_inplace_gradient(case)
    return None


def _check_out(case: Case, expected: Any) -> Iterator[Fault]:
    several = not isinstance(expected, gradloom.Tensor)
    wanted = tensors(expected)
    if not wanted or (several and len(wanted) != len(expected)):
        return
    args, kwargs = case.detached()
    is_fixed = "fixed" in case.operator.joined.function.out  # it is never resized
    targets = [gradloom.empty(e.shape if is_fixed else (0,), dtype=e.dtype) for e in wanted]
    try:
        case.seeded(case.operator.call)(*args, **kwargs, out=tuple(targets) if several else targets[0])
    except Exception as error:
        yield Fault(case, "variants", f"the out variant raises {said(error)}", ENTRY)
        return
    for target, want in zip(targets, wanted, strict=True):
        if case.operator.is_random or not is_undetermined(case):
            yield from equal(case, "variants", "the out variant", target, want)
    if case.places and case.operator.differentiable:
        yield from _check_out_refuses(case, targets if several else targets[0])


def _check_out_refuses(case: Case, out: Any) -> Iterator[Fault]:
    """Check that the out variant raises for tensors that require grad, since it is not differentiable."""
    inputs = case.inputs()
    if not any(o.requires_grad for o in case.call(*inputs)):
        return
    args, kwargs = case.with_inputs(case.inputs())
    try:
        case.seeded(case.operator.call)(*args, **kwargs, out=tuple(out) if isinstance(out, list) else out)
    except RuntimeError:
        return
    yield Fault(case, "variants", "the out variant accepts tensors that require grad and drops their history", ENTRY)


def _check_inplace_tangent(case: Case) -> Iterator[Fault]:
    """Check that the in-place variant gives the tangent that the functional operator gives."""
    function = Function(case.call, case.inputs())
    if 0 not in function.kept:
        return
    ones = {i: np.ones(coordinates(a)) for i, a in enumerate(function.arrays)}
    try:
        expected = function.pushed(ones)[0]
    except Exception:
        return  # the checks of derivatives report this

    def written(*inputs: Any) -> tuple[Any, ...]:
        args, kwargs = case.with_inputs(inputs)
        return (case.seeded(case.operator.inplace)(args[0].clone(), *args[1:], **kwargs),)

    try:
        found = Function(written, case.inputs()).pushed(ones)[0]
    except Exception as error:
        yield Fault(case, "variants", f"the tangent of the in-place variant raises {said(error)}", ENTRY)
        return
    if not close(found, expected, 1e-7, 1e-10 * scale(expected)):
        message = "the in-place variant gives another tangent"
        yield Fault(case, "variants", message, ENTRY, expected=expected, found=found)


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
        return  # the checks of derivatives report this
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
    """Yield a fault if two tensors differ in shape, dtype or value; `what` describes the found one."""
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
