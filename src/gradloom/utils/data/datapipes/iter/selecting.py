"""A step that keeps some examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn, validate_input_col
from .callable import applied

__all__ = ["FilterIterDataPipe"]

_Item = TypeVar("_Item", covariant=True)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[_Item]):
    """Yield the examples for which a function returns True (functional name: filter).

    Args:
        datapipe: the source.
        filter_fn: the function; of a data frame it may return a Series, which selects rows.
        input_col: index or key of the part of an example that it takes, or several; None for the whole example.

    Raises:
        ValueError: for a function of another number of arguments; while iterating, if it does not return a bool.
    """

    datapipe: IterDataPipe[Any]
    filter_fn: Callable[..., Any]

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        _check_unpickable_fn(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def _apply_filter_fn(self, data: Any) -> Any:
        return applied(self.filter_fn, data, self.input_col)

    def __iter__(self) -> Iterator[_Item]:
        for data in self.datapipe:
            condition, kept = self._returnIfTrue(data)
            if condition:
                yield kept
            else:
                StreamWrapper.close_streams(data)

    def _returnIfTrue(self, data: Any) -> tuple[bool, Any]:
        condition = self._apply_filter_fn(data)
        pandas = sys.modules.get("pandas")  # without it there is no Series
        if pandas is not None and isinstance(condition, pandas.Series):
            rows = [data[row : row + 1] for row, keep in enumerate(condition) if keep]
            return bool(rows), pandas.concat(rows) if rows else None
        if not isinstance(condition, bool):
            raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(condition))
        return condition, data
