"""What gradcheck says about two Jacobians that differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dispatch import _operators


class Place(NamedTuple):
    """Which Jacobian it is: of which output with respect to which input, in which mode.

    `part` is None, 0 or 1: of complex inputs (forward mode) or outputs (reverse mode), the real or the imaginary part.
    """

    k: int
    output: Any
    i: int
    input: Any
    forward: bool
    part: int | None


def close(found, expected, rtol: float, atol: float) -> bool:
    """Whether two Jacobians, or projections of them, agree; NaN agrees with nothing."""
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, expected, rtol, atol))


def slow_report(place: Place, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """Both Jacobians [input, output], and the entry in which they differ most."""
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
    """The projections that differ, and the Jacobians themselves, which may agree."""
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
