"""Measurements and what they are measurements of."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import textwrap
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

_MOST_FIGURES = 4
_LEAST_INTERVAL = 25e-9  # seconds; no clock is more exact
_NOTABLE, _GROSS = 0.1, 0.25  # interquartile ranges relative to the median
_UNITS = {"s": ("second", 1.0), "ms": ("millisecond", 1e-3), "us": ("microsecond", 1e-6), "ns": ("nanosecond", 1e-9)}


@dataclasses.dataclass(frozen=True, repr=False)
class TaskSpec:
    """What is timed: the statements, what a table calls them, and the number of threads."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and sub_label, or the statement."""
        if self.label is None and "\n" in self.stmt:
            part = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{part}\n{textwrap.indent(self.stmt, '  ')}"
        name = self.stmt if self.label is None else self.label
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def setup_str(self) -> str:
        """Return the setup for people, or an empty string if there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return title, description and setup, in lines."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join([f"{part}\n" if "\n" in part else part for part in parts])


_TASK_FIELDS = frozenset(field.name for field in dataclasses.fields(TaskSpec))


@dataclasses.dataclass(repr=False)
class Measurement:
    """Times of one task. Attributes of its TaskSpec are attributes of the measurement, too.

    Attributes:
        number_per_run: how many calls each time is for.
        raw_times: seconds, for that many calls each.
        task_spec: what was timed.
        metadata: whatever the caller adds.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _TASK_FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds for one call."""
        return [time / self.number_per_run for time in self.raw_times]

    @cached_property
    def _quartiles(self) -> tuple[float, float, float]:
        low, middle, high = np.quantile(self.times, (0.25, 0.5, 0.75)).tolist()
        return low, middle, high

    @property
    def median(self) -> float:
        """The median of `times`."""
        return self._quartiles[1]

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of `times`."""
        return self._quartiles[2] - self._quartiles[0]

    @property
    def significant_figures(self) -> int:
        """How many figures of the median are certain, 1 to 4: as many as the 90 % confidence interval of the mean of
        the times between the quartiles leaves."""
        times = sorted(self.times)
        inner = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        interval = max(1.645 * statistics.pstdev(inner) / math.sqrt(len(inner)), _LEAST_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), _MOST_FIGURES)

    def meets_confidence(self, threshold: float = _NOTABLE) -> bool:
        """Return whether the interquartile range is below a fraction of the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary much."""
        return bool(self._warnings)

    @property
    def _warnings(self) -> str:
        if self.meets_confidence(_NOTABLE):
            return ""
        advice = "This could indicate system fluctuation."
        if not self.meets_confidence(_GROSS):
            advice = "This suggests significant environmental influence."
        share = 100 * self.iqr / self.median
        return f"  WARNING: Interquartile range is {share:.1f}% of the median measurement.\n           {advice}"

    @property
    def title(self) -> str:
        """The title of the task."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What a table calls the row: the sub_label, or the statement."""
        return str(self.sub_label or self.stmt or "[Unknown]")

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        low, middle, high = (time / scale for time in self._quartiles)
        several = len(self.raw_times) > 1
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if several else ''}{middle:.2f} {unit}")
        if len(self.raw_times) >= 4:
            lines.append(f"  IQR:    {high - low:.2f} {unit} ({low:.2f} to {high:.2f})")
        plural = "s" if several else ""
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        runs = f"{self.number_per_run} runs {'per measurement,' if several else ','}"
        lines.append(f"  {len(self.raw_times)} measurement{plural}, {runs} {threads}")
        return "\n".join([*lines, self._warnings]).strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one measurement for each task, with the times of all its measurements."""
        groups: dict[TaskSpec, list[float]] = {}
        for measurement in measurements:
            groups.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, times, task) for task, times in groups.items()]


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit for a time in seconds, "ns", "us", "ms" or "s", and its length in seconds."""
    power = int(math.log10(t) // 3)
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(power, "s")
    return unit, _UNITS[unit][1]


def unit_to_english(u: str) -> str:
    """Return the name of a unit, `microsecond` for "us"."""
    return _UNITS[u][0]


def trim_sigfig(x: float, n: int) -> float:
    """Return x, rounded to n significant figures."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10 ** (math.ceil(math.log10(abs(x))) - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Return the elements, each once, in their order."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Use n threads within the block."""
    from gradloom.backends.settings import get_num_threads, set_num_threads

    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)
