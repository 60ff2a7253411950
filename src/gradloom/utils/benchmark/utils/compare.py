"""Tables of measurements."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

from gradloom.utils.benchmark.utils.common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_BEST, _GOOD, _BAD, _WORST = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
_END = "\033[0m"


class Colorize(enum.Enum):
    """What a time is compared with for its color: nothing, its column or its row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table for each label: a row for each sub_label, environment and number of threads, a column for each
    description. Measurements of one task are merged.

    Args:
        results: the measurements.

    Raises:
        ValueError: for something other than a Measurement.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim, self._warnings, self._colorize = False, False, Colorize.NONE
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Show as many figures as are certain."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Color the times by how far they are from the best of their column, or row, for a terminal."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show the interquartile range of times that vary much."""
        self._warnings = True

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for result in Measurement.merge(self._results):
            groups.setdefault(result.label, []).append(result)
        return "\n".join([self._table(label, results) for label, results in groups.items()])

    def _table(self, label, results):
        unit, scale = select_unit(min([result.median for result in results]))
        row_of, column_of = _row_key, lambda result: result.description
        keys = sorted(ordered_unique(map(row_of, results)), key=lambda key: key[:2])
        titles = ordered_unique(map(column_of, results))
        found = {(row_of(result), column_of(result)): result for result in results}
        cells = [[found.get((key, title)) for title in titles] for key in keys]
        columns = [self._texts(column, scale) for column in zip(*cells, strict=True)]
        names = _row_names(keys)
        widths = [max(map(len, names))]
        widths += [max(len(title or ""), *map(len, column)) for title, column in zip(titles, columns, strict=True)]
        lines = ["  |  ".join([(text or "").center(n) for text, n in zip(["", *titles], widths, strict=True)])]
        for i, (key, name) in enumerate(zip(keys, names, strict=True)):
            if i == 0 or key[0] != keys[i - 1][0]:
                lines.append(f"{key[0]} threads: ".ljust(len(lines[0]), "-"))
            texts = [column[i].center(width) for column, width in zip(columns, widths[1:], strict=True)]
            texts = [self._colored(text, cells, keys, i, j) for j, text in enumerate(texts)]
            lines.append("  |  ".join([name.ljust(widths[0]), *texts]))
        notes = [f"Times are in {unit_to_english(unit)}s ({unit}).", ""]
        if self._warnings and any(result.has_warnings for result in results):
            notes.insert(1, "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        width = len(lines[0])
        return "\n".join([f"[{f' {label or str()} '.center(width - 2, '-')}]", *lines, "", *notes])

    def _texts(self, column, scale):
        """Return the texts of one column, all of one length."""
        present = [result for result in column if result is not None]
        digits = {id(result): math.ceil(math.log10(result.median / scale)) for result in present}
        decimals = 1
        if self._trim:
            decimals = min([max(result.significant_figures - digits[id(result)], 0) for result in present])
        length = max(digits.values()) + decimals + (1 if decimals else 0)
        warned = self._warnings and any(result.has_warnings for result in present)
        texts = []
        for result in column:
            if result is None:
                texts.append("")
                continue
            value = result.median / scale
            value = trim_sigfig(value, result.significant_figures) if self._trim else value
            note = f" (! {100 * result.iqr / result.median:.0f}%)" if warned and result.has_warnings else ""
            texts.append(f"{value:>{length}.{decimals}f}{note:>{7 if warned else 0}}")
        width = max(map(len, texts))
        return [text or " " * width for text in texts]

    def _colored(self, text, cells, keys, i, j):
        result = cells[i][j]
        if self._colorize is Colorize.NONE or result is None:
            return text
        others = cells[i]
        if self._colorize is Colorize.COLUMNWISE:
            others = [row[j] for row, key in zip(cells, keys, strict=True) if key[0] == keys[i][0]]
        best = min([other.median for other in others if other is not None])
        time = result.median
        if time <= best * 1.01 or time <= best + 100e-9:
            return f"{_BEST}{text}{_END}{_END}"
        if time <= best * 1.1:
            return f"{_GOOD}{text}{_END}{_END}"
        if time >= best * 5:
            return f"{_WORST}{text}{_END}{_END}"
        return f"{_BAD}{text}{_END}" if time >= best * 2 else text


def _row_key(result):
    return result.num_threads, result.env or "", result.as_row_name


def _row_names(keys):
    """Return what each row begins with: its environment, if there are several and it changes, and its name."""
    environments = ordered_unique([key[1] for key in keys])
    several = len(environments) > 1
    width, names = (max(map(len, environments)) if several else 0) + 4, []
    for i, (threads, env, name) in enumerate(keys):
        changes = several and (i == 0 or keys[i - 1][:2] != (threads, env))
        names.append("  " + (f"({env})" if changes else "").ljust(width) + name)
    return names
