"""Steps that call a function for each example."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..._utils.collate import default_collate
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _check_unpickable_fn, validate_input_col
from .utils import length

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


def _one(column: Any) -> Any:
    """Return a column, or the only one of a list. Raises ValueError for several."""
    if not isinstance(column, (list, tuple)):
        return column
    if len(column) > 1:
        raise ValueError("`output_col` must be a single-element list or tuple")
    return column[0]


def applied(fn: Callable[..., Any], data: Any, columns: Any) -> Any:
    """Return what a function makes of an example, or of one or several of its columns."""
    if columns is None:
        return fn(data)
    if isinstance(columns, (list, tuple)):
        return fn(*[data[column] for column in columns])
    return fn(data[columns])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """Yield what a function makes of each example (functional name: map).

    Args:
        datapipe: the source.
        fn: the function.
        input_col: index or key of the part of an example that it takes, or several, for as many arguments; None for the
            whole example.
        output_col: index or key of the part that the result replaces; -1 appends to a list or tuple. By default the
            first of `input_col`, and the others are removed.

    Raises:
        ValueError: for `output_col` without `input_col`, several of them, or a function of another number of arguments.
    """

    datapipe: IterDataPipe[Any]
    fn: Callable[..., Any]

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        _check_unpickable_fn(fn)
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        self.output_col = _one(output_col)
        if self.output_col is not None and input_col is None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        validate_input_col(fn, input_col)

    def _apply_fn(self, data: Any) -> Any:
        result = applied(self.fn, data, self.input_col)
        if self.input_col is None:
            return result
        changed = list(data) if isinstance(data, tuple) else data
        if self.output_col is None:
            several = isinstance(self.input_col, (list, tuple))
            first, *others = self.input_col if several else [self.input_col]
            changed[first] = result
            for column in sorted(others, reverse=True):
                del changed[column]
        elif self.output_col == -1:
            changed.append(result)
        else:
            changed[self.output_col] = result
        return tuple(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length(self.datapipe, self)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Yield a batch for each list of examples (functional name: collate).

    Args:
        datapipe: the source, of lists of examples.
        conversion: the function; or, for batches of one data frame, {column: function} with all columns, which yields a
            named tuple.
        collate_fn: the function; it has precedence.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] | Mapping[Any, Any] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        if collate_fn is None:
            collate_fn = conversion if callable(conversion) else functools.partial(_collate_helper, conversion or {})
        super().__init__(datapipe, fn=collate_fn)


def _collate_helper(conversion: Mapping[Any, Any], item: Any) -> Any:
    """Return a named tuple of a data frame's columns, each made by its function."""
    if len(item.items) > 1:
        raise RuntimeError("Only supports one DataFrame per batch")
    frame = item[0]
    columns = list(frame.columns)
    if any(name not in columns for name in conversion):
        raise RuntimeError("Conversion keys mismatch")
    for name in columns:
        if name not in conversion:
            raise RuntimeError(
                f"unable to import default collation function from the TorchArrow: give a function for column {name!r}"
            )
        if not callable(conversion[name]):
            raise RuntimeError("Collate (DF)DataPipe requires callable as dict values")
    result = namedtuple("CollateResult", [str(name) for name in columns])  # type: ignore[misc]
    return result(*[conversion[name](frame[name]) for name in columns])
