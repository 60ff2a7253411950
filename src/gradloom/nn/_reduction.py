"""Reductions of a loss: names, deprecated flags, and the numbers that operators take."""

from __future__ import annotations

import warnings

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return an operator's number for a reduction's name."""
    try:
        return NUMBERS[reduction]
    except (KeyError, TypeError):  # TypeError: it has no hash
        raise ValueError(f"{reduction} is not a valid value for reduction") from None


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True, _stacklevel: int = 3
) -> str:
    """Return the name of the reduction that the deprecated flags select; None counts as True."""
    summed = size_average is not None and not size_average
    name = "none" if reduce is not None and not reduce else "sum" if summed else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
            stacklevel=_stacklevel,
        )
    return name


def named(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """Return the name of a loss's reduction; deprecated flags, if given, take precedence."""
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce, _stacklevel=4)
