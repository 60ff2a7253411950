"""The timer of statements."""

from __future__ import annotations

import enum
import statistics
import textwrap
import timeit
from collections.abc import Callable
from typing import Any

from gradloom.utils.benchmark.utils.common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]

timer: Callable[[], float] = timeit.default_timer
_MOST_CALLS = 2**31 - 1
_OVERHEAD = 1e-4  # of the time of a block of calls


class Language(enum.Enum):
    """The language of a statement; only Python's can be timed."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Times a statement as `timeit` does: after a warm-up, with a chosen number of threads, in one or more blocks.

    Args:
        stmt: the statement, as text.
        setup: executed before.
        global_setup: for C++; must be empty.
        timer: returns the time in seconds.
        globals: the names that the statement sees; `torch` is gradloom if it is not among them.
        label, sub_label, description, env: what `Compare` calls the table, the row, the column and the environment.
        num_threads: threads that operators may use.
        language: Python.

    Raises:
        ValueError: if `stmt` is not a string, or for another language.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        import gradloom

        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise ValueError("gradloom times statements in Python only: there is no compiler for C++")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        stmt, setup = _cleaned(stmt), _cleaned(setup)
        self._timer = timeit.Timer(stmt, setup, timer, {"torch": gradloom, **(globals or {})})
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Return the time of so many calls in one block, after a hundredth of them to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measurement(number, [self._timeit(number)])

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Return the times of as many blocks as fill `min_run_time` seconds. The number of calls in a block is chosen
        so that the timer itself takes no part in it.

        Args:
            callback: called with the number of calls and the time of each block.
            min_run_time: seconds.
        """
        return self._blocks(self._calls_in_block(min_run_time), lambda times: True, min_run_time, None, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Return the times of as many blocks as make the interquartile range small.

        Args:
            threshold: the range, relative to the median, at which it ends.
            min_run_time, max_run_time: seconds, after which it ends at the earliest and at the latest.
            callback: called with the number of calls and the time of each block.
        """
        number = self._calls_in_block(0.05)

        def enough(times):
            return len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)

        return self._blocks(number, enough, min_run_time, max_run_time, callback)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise NotImplementedError: `blocked_autorange` repeats."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Raise NotImplementedError: `blocked_autorange` chooses the number of calls."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def collect_callgrind(self, number: int = 100, **options: Any) -> Any:
        """Raise NotImplementedError: instructions are counted for programs in C++."""
        raise NotImplementedError(
            "gradloom does not count instructions with Callgrind: use timeit(), or gradloom.profiler to see operators"
        )

    def _measurement(self, number, times):
        return Measurement(number, list(times), self._task_spec)

    def _calls_in_block(self, min_run_time):
        """Return a power of ten: enough calls to hide the timer, within `min_run_time` seconds."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = statistics.median([self._timeit(0) for _ in range(5)])
            number = 1
            while True:
                time = self._timeit(number)
                hidden = overhead / time <= _OVERHEAD and time >= min_run_time / 1000
                if hidden or time > min_run_time or number * 10 > _MOST_CALLS:
                    return number
                number *= 10

    def _blocks(self, number, enough, min_run_time, max_run_time, callback):
        times, total = [], 0.0
        with set_torch_threads(self._task_spec.num_threads):
            while total < min_run_time or not enough(times):
                times.append(self._timeit(number))
                total += times[-1]
                if callback is not None:
                    callback(number, times[-1])
                if max_run_time is not None and total > max_run_time:
                    break
        return self._measurement(number, times)


def _cleaned(code):
    """Return code without common indentation, and without the first line if that is empty."""
    return textwrap.dedent(code).removeprefix("\n").rstrip()
