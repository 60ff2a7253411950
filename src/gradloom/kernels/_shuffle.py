"""The shuffle of Fisher and Yates for given draws, without a Python step per element where that pays."""

from __future__ import annotations

import numpy as np

_FEW = 200  # up to here swapping places of a list is the faster way


def shuffle(targets: np.ndarray) -> np.ndarray:
    """Swap places i and targets[i] of 0, 1, ..., n - 1 for i = 0, 1, ..., n - 2 in turn.

    Args:
        targets: int64 (n - 1,), with i <= targets[i] < n.

    Returns:
        int64 (n,).

    Note [Shuffling all at once]
    Write held(i) for what place i holds when step i begins. Step i puts held(i) into its target, and what it
    finds there is final for place i. A place that was no target before still
    holds its own number; any other holds what the latest step that aimed at it left, held(that step). So both
    unknowns follow from the same question, which step last aimed at a place, and sorting the steps by target
    answers it for all; the chains held(i) = held(s), s < i, are then followed by pointer doubling, in about
    log(log n) rounds.
    """
    n = targets.size + 1
    if n <= _FEW:
        numbers = list(range(n))
        for i, j in enumerate(targets.tolist()):
            numbers[i], numbers[j] = numbers[j], numbers[i]
        return np.array(numbers, np.int64)

    step = _stable_order(targets, n)
    place = targets[step]
    repeated = place[1:] == place[:-1]

    held = np.arange(n)
    before = step != place  # a step that aims at its own place comes after all others that aimed at it
    latest = np.flatnonzero(before & np.append(~(repeated & before[1:]), True))
    held[place[latest]] = step[latest]
    _follow(held)

    result = np.empty(n, np.int64)
    result[step[0]] = place[0]
    result[step[1:]] = np.where(repeated, held[step[:-1]], place[1:])
    result[n - 1] = held[n - 1]
    return result


def _stable_order(values: np.ndarray, limit: int) -> np.ndarray:
    """The order that sorts values < limit, equal ones staying as they are: 16 bits at a time, for which NumPy
    has a radix sort."""
    order = np.argsort(values.astype(np.uint16), kind="stable")
    for shift in range(16, (limit - 1).bit_length(), 16):
        digits = values >> shift
        digits = digits.astype(np.uint8 if limit >> shift < 256 else np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _follow(parent: np.ndarray) -> None:
    """Replace every entry of `parent`, a forest in which a root points to itself, by its root."""
    moving = np.flatnonzero(parent != np.arange(parent.size))
    while moving.size:
        ahead = parent[parent[moving]]
        changed = ahead != parent[moving]
        parent[moving] = ahead
        moving = moving[changed]
