"""The reduction of a loss: from its name, or from old flags, to the number that operators take."""

from __future__ import annotations

import warnings

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """0 for "none", 1 for "mean", 2 for "sum"; ValueError for anything else."""
    if reduction not in NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The name of the reduction that the old flags asked for (each counts as True when it is None)."""
    summed = size_average is not None and not size_average
    name = "none" if reduce is not None and not reduce else "sum" if summed else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.", stacklevel=4
        )
    return name


def resolve(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """The operator's number for a loss function's three arguments; the old flags win where they are given."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return get_enum(reduction)
