"""How much of a large set of cases runs: a part that has each case of each kind, or with GRADLOOM_ALL_SAMPLES=1 all."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

ALL = os.environ.get("GRADLOOM_ALL_SAMPLES") == "1"


def in_turn(first: Iterable[Any], *others: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return each element of the first list with one combination of the others, which take turns; all if ALL."""
    first, combinations = list(first), list(itertools.product(*others))
    if ALL:
        return [(x, *rest) for x in first for rest in combinations]
    return [(x, *combinations[i % len(combinations)]) for i, x in enumerate(first)]
