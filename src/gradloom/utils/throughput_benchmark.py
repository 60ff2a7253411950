"""How many calls of a module a number of threads complete in a second."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None) -> str:
    """Return a time in seconds, milliseconds or microseconds, whichever fits: `1.500ms`.

    Args:
        time_us, time_ms, time_s: the time; one of them.

    Raises AssertionError unless one is given.
    """
    given = [(time_us, 1.0), (time_ms, 1e3), (time_s, 1e6)]
    times = [value * scale for value, scale in given if value is not None]
    if len(times) != 1:
        raise AssertionError("Expected only one of time_us, time_ms, time_s is given.")
    for scale, unit in ((1e6, "s"), (1e3, "ms")):
        if times[0] >= scale:
            return f"{times[0] / scale:.3f}{unit}"
    return f"{times[0]:.3f}us"


class ExecutionStats(NamedTuple):
    """The result of a benchmark.

    Attributes:
        latency_avg_ms: the mean time of a call.
        num_iters: how many calls were timed.
        num_calling_threads: in how many threads.
    """

    latency_avg_ms: float
    num_iters: int
    num_calling_threads: int

    @property
    def total_time_seconds(self) -> float:
        """The time of all calls, in which the threads shared them."""
        return self.num_iters * self.latency_avg_ms / 1000 / self.num_calling_threads

    @property
    def iters_per_second(self) -> float:
        """Calls that all threads together completed in a second."""
        return self.num_iters / self.total_time_seconds

    def __str__(self) -> str:
        return (
            f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}\n"
            f"Total number of iterations: {self.num_iters}\n"
            f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}\n"
            f"Total time: {format_time(time_s=self.total_time_seconds)}"
        )


class ThroughputBenchmark:
    """Calls a module from several threads, with inputs chosen at random from those that `add_input` was given.

    Args:
        module: a module or a function.
    """

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module
        self._inputs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module's result for an input."""
        return self._module(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Add the arguments of a call."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:
        """Time calls.

        Args:
            num_calling_threads: how many threads call the module.
            num_warmup_iters: calls of each thread before the clock starts.
            num_iters: calls that the threads share.
            profiler_output_path: a file for a trace of the calls, if it is not empty.

        Raises:
            RuntimeError: without inputs.
            Exception: what a call raises.
        """
        if not self._inputs:
            raise RuntimeError("ThroughputBenchmark has no inputs: call add_input() first")
        calls, failed = itertools.count(), []
        start = threading.Barrier(num_calling_threads + 1)

        def work(seed):
            chosen = random.Random(seed)
            try:
                for _ in range(num_warmup_iters):
                    self._call(chosen)
            except Exception as error:
                failed.append(error)
            start.wait()
            try:
                while not failed and next(calls) < num_iters:
                    self._call(chosen)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(num_calling_threads)]
        for thread in threads:
            thread.start()
        with _profiled(profiler_output_path):
            start.wait()
            begin = time.perf_counter()
            for thread in threads:
                thread.join()
            seconds = time.perf_counter() - begin
        if failed:
            raise failed[0]
        return ExecutionStats(1000 * seconds * num_calling_threads / num_iters, num_iters, num_calling_threads)

    def _call(self, chosen):
        args, kwargs = chosen.choice(self._inputs)
        self._module(*args, **kwargs)


def _profiled(path):
    """Return a block whose operators are written to a file, if `path` names one."""
    from contextlib import contextmanager

    @contextmanager
    def block():
        if not path:
            yield
            return
        from gradloom.profiler import profile

        with profile() as found:
            yield
        found.export_chrome_trace(path)

    return block()
