"""Comparison of actual and expected values: tensors, numbers, and sequences and mappings of them.

Without explicit tolerances the larger of the two dtypes' applies. The first difference is reported, with its place in
the containers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

import gradloom as gl

_TOLERANCES = {
    gl.float16: (1e-3, 1e-5),
    gl.bfloat16: (1.6e-2, 1e-5),
    gl.float32: (1.3e-6, 1e-5),
    gl.float64: (1e-7, 1e-7),
    gl.complex64: (1.3e-6, 1e-5),
    gl.complex128: (1e-7, 1e-7),
}
_NUMBERS = (int, float, complex, np.number)


class _Options(NamedTuple):
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    attributes: tuple[str, ...]
    check_dtype: bool
    msg: str | Callable[[str], str] | None


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless `|actual - expected| <= atol + rtol * |expected|` everywhere.

    Args:
        actual: a tensor, array, number, None, or a sequence or mapping of these.
        expected: the same with the expected values.
        allow_subclasses: accept a tensor of a subclass for one of its base class.
        rtol, atol: tolerances, both or neither; by default the dtype's, 0 for integers and bool.
        equal_nan: let NaN equal NaN.
        check_device, check_dtype, check_layout, check_stride: compare these, too.
        msg: the error's text, or a function of its default text.

    Raises:
        AssertionError: if they differ.
        ValueError: for one tolerance without the other.
        TypeError: for types that cannot be compared.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    attributes = ("device",) * check_device + ("layout",) * check_layout + ("stride()",) * check_stride
    options = _Options(allow_subclasses, rtol, atol, equal_nan, attributes, check_dtype, msg)
    _compare(actual, expected, options, ())


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: `assert_close` without comparison of dtypes.

    Args:
        actual, expected: tensors, or data of tensors.
        rtol, atol, equal_nan, msg: as for `assert_close`.
    """
    import warnings

    warnings.warn("assert_allclose() is deprecated: use assert_close()", FutureWarning, stacklevel=2)
    actual, expected = [x if isinstance(x, gl.Tensor) else gl.tensor(x) for x in (actual, expected)]
    if rtol is None and atol is None:
        rtol, atol = _tolerances(actual.dtype, expected.dtype)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _fail(text: str, options: _Options, place: tuple[Any, ...]) -> NoReturn:
    if place:
        text += "\n\nThe failure occurred for item " + "".join([f"[{part!r}]" for part in place])
    if callable(options.msg):
        text = options.msg(text)
    raise AssertionError(text if options.msg is None or callable(options.msg) else options.msg)


def _compare(actual, expected, options, place) -> None:
    if _both(actual, expected, Sequence) and not isinstance(actual, str) and not isinstance(expected, str):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", options, place)
        for i in range(len(actual)):
            _compare(actual[i], expected[i], options, (*place, i))
    elif _both(actual, expected, Mapping):
        missing, extra = set(expected) - set(actual), set(actual) - set(expected)
        if missing or extra:
            _fail(
                f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(extra)}",
                options,
                place,
            )
        for key in actual:
            _compare(actual[key], expected[key], options, (*place, key))
    elif actual is None or expected is None:
        if actual is not expected:
            _fail(f"None mismatch: {actual} is not {expected}", options, place)
    elif _both(actual, expected, (bool, np.bool_)):
        if bool(actual) is not bool(expected):
            _fail(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", options, place)
    elif _both(actual, expected, _NUMBERS):
        _compare_numbers(actual, expected, options, place)
    else:
        _compare_tensors(actual, expected, options, place)


def _both(actual, expected, kind) -> bool:
    return isinstance(actual, kind) and isinstance(expected, kind)


def _python_number(value):
    return value.item() if isinstance(value, np.number) else value


def _compare_numbers(actual, expected, options, place) -> None:
    actual, expected = _python_number(actual), _python_number(expected)
    if options.check_dtype and type(actual) is not type(expected):
        _fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", options, place)
    kinds = [
        gl.tensor(value).dtype
        if isinstance(value, int)
        else gl.complex128
        if isinstance(value, complex)
        else gl.float64
        for value in (actual, expected)
    ]
    _check_scalars(actual, expected, _wanted(kinds, options), options, place)


def _compare_tensors(actual, expected, options, place) -> None:
    """Compare tensors, and values that can be converted to tensors of a related class."""
    related = (
        type(actual) is type(expected)
        or options.allow_subclasses
        and (isinstance(actual, type(expected)) or isinstance(expected, type(actual)))
    )
    try:
        if not related or isinstance(actual, str):
            raise TypeError
        a, b = gl.as_tensor(actual).detach(), gl.as_tensor(expected).detach()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        ) from None
    pairs = [
        ("shape", a.shape, b.shape),
        ("device", a.device, b.device),
        ("dtype", a.dtype, b.dtype),
        ("layout", a.layout, b.layout),
        ("stride()", a.stride(), b.stride()),
    ]
    for name, mine, theirs in pairs:
        asked = name == "shape" or name in options.attributes or name == "dtype" and options.check_dtype
        if asked and mine != theirs:
            _fail(f"The values for attribute '{name}' do not match: {mine} != {theirs}.", options, place)
    tolerances = _wanted([a.dtype, b.dtype], options)
    if a.dtype is not b.dtype:
        common = gl.promote_types(a.dtype, b.dtype)
        a, b = a.to(common), b.to(common)
    if not a.dim():
        _check_scalars(a.item(), b.item(), tolerances, options, place)
    else:
        _check_elements(a, b, tolerances, options, place)


def _tolerances(*kinds: Any) -> tuple[float, float]:
    found = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
    return max(r for r, _ in found), max(a for _, a in found)


def _wanted(kinds, options) -> tuple[float, float]:
    return _tolerances(*kinds) if options.rtol is None else (options.rtol, options.atol)


def _is_close(actual, expected, tolerances, equal_nan):
    rtol, atol = tolerances
    with np.errstate(all="ignore"):
        close = (actual == expected) | (
            np.isfinite(expected) & (np.abs(actual - expected) <= atol + rtol * np.abs(expected))
        )
        return close | (np.isnan(actual) & np.isnan(expected)) if equal_nan else close


def _check_scalars(actual, expected, tolerances, options, place) -> None:
    rtol, atol = tolerances
    if isinstance(actual, bool):
        actual, expected = int(actual), int(expected)
    if bool(_is_close(np.asarray(actual), np.asarray(expected), tolerances, options.equal_nan)):
        return
    exact = not rtol and not atol
    difference = abs(actual - expected)
    relative = difference / abs(expected) if expected else float("inf")
    _fail(
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{'' if exact else f' (up to {atol} allowed)'}\n"
        f"Relative difference: {relative}{'' if exact else f' (up to {rtol} allowed)'}",
        options,
        place,
    )


def _check_elements(actual, expected, tolerances, options, place) -> None:
    rtol, atol = tolerances
    a, b = [
        np.asarray(x.float() if x.dtype is gl.bfloat16 else x.resolve_conj().resolve_neg()) for x in (actual, expected)
    ]
    a, b = [x.astype(np.int64) if x.dtype.kind in "b" else x for x in (a, b)]
    close = _is_close(a, b, tolerances, options.equal_nan)
    if close.all():
        return
    exact = not rtol and not atol
    wide = [x.astype(np.int64) if x.dtype.kind in "iu" and x.dtype.itemsize < 8 else x for x in (a, b)]
    with np.errstate(all="ignore"):
        absolute = np.where(close, 0, np.abs(wide[0] - wide[1]))
        divided = absolute.astype(np.float32) if exact else absolute
        relative = np.where(close, 0, divided / np.abs(wide[1]).astype(divided.dtype))
    wrong = int((~close).sum())
    text = (
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n\nMismatched elements: {wrong} / {close.size} "
        f"({wrong / close.size:.1%})"
    )
    for kind, values, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))
        text += f"\nGreatest {kind} difference: {values[index].item()} at index {index}"
        text += "" if exact else f" (up to {allowed} allowed)"
    _fail(text, options, place)
