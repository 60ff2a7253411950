"""Compare what two libraries returned: structure, shape, dtype, values. A difference is a one-line reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from .library import Library
from .records import dtype_name

#: (relative, absolute) tolerance of a forward value by dtype name. The absolute one is multiplied by the
#: largest finite expected magnitude (between 1 and 1000): sums of large terms that cancel are compared by the
#: terms' size.
TOLERANCES = {
    "float64": (1e-7, 1e-9),
    "complex128": (1e-7, 1e-9),
    "float32": (1e-5, 2e-6),
    "complex64": (1e-5, 2e-6),
    "bfloat16": (1.6e-2, 1e-2),
    "float16": (2e-3, 1e-3),
}


def loosened(factor: float) -> dict[str, tuple[float, float]]:
    """TOLERANCES times `factor`, for derivatives, which chain several operators."""
    return {name: (relative * factor, absolute * factor) for name, (relative, absolute) in TOLERANCES.items()}


def difference(
    expected: Any,
    actual: Any,
    reference: Library,
    candidate: Library,
    tolerances: dict[str, tuple[float, float]] = TOLERANCES,
    values: bool = True,
) -> str | None:
    """Why `actual` (of the candidate) is not `expected` (of the reference), or None where they agree.

    Containers must be of the same kind with the same field names, tensors of the same shape and dtype and,
    unless `values` is False, with equal values (NaN equals NaN), and Python numbers of the same type.
    """
    if reference.is_tensor(expected):
        return _tensor_difference(expected, actual, reference, candidate, tolerances, values)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or list(map(str, expected)) != list(map(str, actual)):
            found = list(actual) if isinstance(actual, dict) else actual
            return f"keys {list(expected)} expected, got {found!r}"
        for key, value in expected.items():
            reason = difference(value, actual[key], reference, candidate, tolerances, values)
            if reason:
                return f"{key}: {reason}"
        return None
    if isinstance(expected, (tuple, list)):
        kind = _container_difference(expected, actual)
        if kind:
            return kind
        for index, pair in enumerate(zip(expected, actual, strict=True)):
            reason = difference(*pair, reference, candidate, tolerances, values)
            if reason:
                return f"output {index}: {reason}"
        return None
    return _plain_difference(expected, actual, tolerances, values)


def _container_difference(expected: Any, actual: Any) -> str | None:
    if not isinstance(actual, list if isinstance(expected, list) else tuple):
        return f"{type(expected).__name__} expected, got {type(actual).__name__}"
    if len(expected) != len(actual):
        return f"{len(expected)} outputs expected, got {len(actual)}"
    wanted, found = _field_names(expected), _field_names(actual)
    return (
        f"fields {', '.join(wanted)} expected, got {', '.join(found) or 'a plain tuple'}" if wanted != found else None
    )


def _field_names(value: Any) -> tuple[str, ...]:
    """Names of a named tuple's fields, and of PyTorch's struct sequences."""
    names = getattr(value, "_fields", None) or getattr(type(value), "__match_args__", ())
    return tuple(name for name in names if hasattr(value, name))


def _plain_difference(expected: Any, actual: Any, tolerances: dict, values: bool) -> str | None:
    if isinstance(expected, (bool, int, float, complex)):
        if type(expected) is not type(actual):
            return f"{type(expected).__name__} expected, got {type(actual).__name__}"
        name = {complex: "complex128", float: "float64"}.get(type(expected), "int64")
        return values_differ(np.asarray(expected), np.asarray(actual), name, tolerances) if values else None
    if type(expected).__module__ == "torch":  # dtypes, layouts, devices
        same = dtype_name(expected) == dtype_name(actual)
        return None if same else f"{expected} expected, got {actual}"
    return None if expected == actual else f"{expected!r} expected, got {actual!r}"


def _tensor_difference(
    expected: Any, actual: Any, reference: Library, candidate: Library, tolerances: dict, values: bool
) -> str | None:
    if not candidate.is_tensor(actual):
        return f"a tensor expected, got {type(actual).__name__}"
    if tuple(expected.shape) != tuple(actual.shape):
        return f"shape {tuple(expected.shape)} expected, got {tuple(actual.shape)}"
    name = dtype_name(expected.dtype)
    if name != dtype_name(actual.dtype):
        return f"dtype {name} expected, got {dtype_name(actual.dtype)}"
    if not values:
        return None
    return values_differ(reference.array(expected), candidate.array(actual), name, tolerances)


def values_differ(
    expected: np.ndarray, actual: np.ndarray, name: str, tolerances: dict[str, tuple[float, float]] = TOLERANCES
) -> str | None:
    """Where two arrays of one shape and torch dtype `name` differ most, or None."""
    if expected.size == 0:
        return None
    if name not in tolerances:
        wrong = expected != actual
        return _describe(expected, actual, wrong, wrong) if wrong.any() else None
    relative, absolute = tolerances[name]
    wide = np.complex128 if name.startswith("complex") else np.float64
    expected, actual = expected.astype(wide), actual.astype(wide)
    with np.errstate(all="ignore"):
        magnitude = np.abs(expected)
        finite = magnitude[np.isfinite(magnitude)]
        scale = min(max(1.0, float(finite.max(initial=0.0))), 1e3)
        error = np.abs(expected - actual)
        same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
        wrong = ~same & ~(error <= absolute * scale + relative * magnitude)
    if not wrong.any():
        return None
    return _describe(expected, actual, wrong, np.where(wrong, np.nan_to_num(error, nan=np.inf), -1.0))


def further_off(truth: np.ndarray, theirs: np.ndarray, ours: np.ndarray, tolerance: tuple[float, float]) -> bool:
    """Whether some value of `ours` is further from `truth` than the tolerance and than twice the error of
    `theirs`, if that is finite. What is not finite in `ours` must be as theirs."""
    wide = np.complex128 if truth.dtype.kind == "c" else np.float64
    truth, theirs, ours = (array.astype(wide) for array in (truth, theirs, ours))
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        error = np.abs(theirs - truth)
        allowed = np.maximum(2 * np.where(np.isfinite(error), error, 0), tolerance[1] + tolerance[0] * np.abs(truth))
        return bool((~same & ~(np.abs(ours - truth) <= allowed)).any())


def _describe(expected: np.ndarray, actual: np.ndarray, wrong: np.ndarray, error: np.ndarray) -> str:
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    place = f" at {tuple(int(i) for i in worst)}" if worst else ""
    count = f" ({int(wrong.sum())} of {wrong.size} values)" if wrong.size > 1 else ""
    return f"{_number(expected[worst])} expected{place}, got {_number(actual[worst])}{count}"


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, (np.floating, np.complexfloating)) else str(value)


def strides_note(expected: Any, actual: Any) -> str | None:
    """A remark where two equal tensors lie differently in memory; the stride of a size of one is free."""
    if not (hasattr(expected, "stride") and hasattr(actual, "stride")) or not expected.numel():
        return None
    pairs = zip(expected.shape, expected.stride(), actual.stride(), strict=True)
    if all(size == 1 or wanted == found for size, wanted, found in pairs):
        return None
    return f"strides {tuple(expected.stride())} expected, got {tuple(actual.stride())}"
