"""Timing of statements: `Timer`, the `Measurement` that it returns, and `Compare`, a table of several.

Example:
    >>> import gradloom as torch
    >>> from gradloom.utils import benchmark
    >>> timer = benchmark.Timer("x @ x", globals={"x": torch.ones(64, 64)}, label="matmul", sub_label="64 x 64")
    >>> benchmark.Compare([timer.blocked_autorange()]).print()    # doctest: +SKIP
"""

from gradloom.types.absent import getattr_of as _getattr_of
from gradloom.utils.benchmark.utils import common as common, compare as compare
from gradloom.utils.benchmark.utils.common import (
    Measurement as Measurement,
    TaskSpec as TaskSpec,
    ordered_unique as ordered_unique,
    select_unit as select_unit,
    set_torch_threads as set_torch_threads,
    trim_sigfig as trim_sigfig,
    unit_to_english as unit_to_english,
)
from gradloom.utils.benchmark.utils.compare import Colorize as Colorize, Compare as Compare
from gradloom.utils.benchmark.utils.timer import Language as Language, Timer as Timer, timer as timer

__getattr__ = _getattr_of(__name__)
