"""What a profiler does in which step."""

from __future__ import annotations

import enum
from collections.abc import Callable


class ProfilerAction(enum.Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule in cycles: wait, warm up, record, and hand the trace over at the end of the last recorded step.

    Args:
        wait: steps of a cycle in which nothing happens.
        warmup: steps after those that are prepared for, but not recorded.
        active: steps that are recorded.
        repeat: how many cycles; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: if it is not 0, the first cycle does not wait.

    Returns:
        A function from the number of a step to a ProfilerAction.

    Raises:
        AssertionError: if a number is negative, or `active` is 0.
    """
    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    for name, number in given.items():
        if number < (name == "active"):
            raise AssertionError(
                "Invalid profiler schedule arguments. "
                f"{name} must be {'positive' if name == 'active' else 'at least 0'}, got {number}"
            )
    if warmup == 0:
        import warnings

        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results: what is imported and allocated "
            "at first counts for the first recorded step",
            stacklevel=2,
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"the number of a step must be at least 0, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, length)
        if 0 < repeat <= cycle or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(step: int) -> ProfilerAction:
    """The schedule of a profiler that was given none: it records."""
    return ProfilerAction.RECORD
