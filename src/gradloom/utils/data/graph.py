"""The graph of the DataPipes on which a pipe depends."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Collection
from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .datapipes.utils.common import _dill

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe[Any] | MapDataPipe[Any]
DataPipeGraph = dict[int, tuple[Any, Any]]  # id of a pipe -> (the pipe, the graph of its sources)
_PIPES = (IterDataPipe, MapDataPipe)


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """Return the graph of a pipe: {id of the pipe: (the pipe, graph of the pipes that its attributes hold)}.

    Attributes that are pipes or collections are searched, and what they hold.

    Raises:
        RuntimeError: if `datapipe` is not a pipe.
    """
    return _traversed(datapipe, True, set())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> DataPipeGraph:
    """Return the graph of a pipe, as `traverse_dps`, which replaces this deprecated function.

    Args:
        datapipe: the pipe.
        only_datapipe: search only attributes that are pipes or collections; by default, all that can be pickled.
    """
    text = "`traverse` function is deprecated and will be removed after 1.13. Please use `traverse_dps` instead."
    if not only_datapipe:
        text += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return _traversed(datapipe, bool(only_datapipe), set())


def _traversed(datapipe: Any, only_datapipe: bool, path: set[int]) -> DataPipeGraph:
    if not isinstance(datapipe, _PIPES):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found")
    if id(datapipe) in path:
        return {}
    path = {*path, id(datapipe)}
    sources: DataPipeGraph = {}
    for source in _connected(datapipe, only_datapipe, path):
        sources.update(_traversed(source, only_datapipe, path))
    return {id(datapipe): (datapipe, sources)}


def _connected(datapipe: Any, only_datapipe: bool, path: set[int]) -> list[Any]:
    """Return the pipes that a pipe holds, in the order in which pickle finds them.

    Pickle knows best what an object holds. It is stopped at each pipe but those of `path`, which are being searched.
    The hooks of the classes also reach pipes that a state has pickled by itself, as DataLoader's wrappers do.
    """
    found: dict[int, Any] = {}

    def stop(pipe: Any) -> tuple[Any, tuple[()]]:
        if id(pipe) in path:
            raise NotImplementedError
        found.setdefault(id(pipe), pipe)
        return _nothing, ()

    for base in _PIPES:
        base.set_reduce_ex_hook(stop)
        if only_datapipe:
            base.set_getstate_hook(_searched)
    try:
        try:
            pickle.Pickler(io.BytesIO()).dump(datapipe)
        except (pickle.PickleError, AttributeError, TypeError):
            if _dill() is None:
                raise
            _dill().Pickler(io.BytesIO()).dump(datapipe)
    finally:
        for base in _PIPES:
            base.set_reduce_ex_hook(None)
            if only_datapipe:
                base.set_getstate_hook(None)
    return list(found.values())


def _nothing() -> None:
    """Stand in for a pipe in a pickle that is never read."""


def _searched(state: Any) -> list[Any]:
    """Return the parts of a pipe's state in which there can be pipes."""
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, (tuple, list)) else [state]
    return [part for part in parts if isinstance(part, (*_PIPES, Collection))]
