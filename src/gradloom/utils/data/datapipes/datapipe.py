"""The bases of DataPipes, and the wrappers by which DataLoader pickles them."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from ..dataset import Dataset, IterableDataset
from ._hook_iterator import _SnapshotState
from ._typing import _DataPipeMeta, _IterDataPipeMeta
from .utils.common import (
    _deprecation_warning,
    _dill,
    _iter_deprecated_functional_names,
    _map_deprecated_functional_names,
)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_Item = TypeVar("_Item")
_Example = TypeVar("_Example", covariant=True)
# Steps whose results are no data frames though their source is a DFIterDataPipe.
_OF_NO_FRAMES = frozenset(("batch", "groupby", "_dataframes_as_tuples", "trace_as_dataframe"))


class DataChunk(list[_Item]):
    """A list of examples that a step has batched.

    Args:
        items: the examples.

    Attributes:
        items: the examples, as a list.
    """

    def __init__(self, items: Iterable[_Item]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """Return the examples in brackets, after `indent`."""
        return f"{indent}[{', '.join(str(item) for item in self)}]"

    def __iter__(self) -> Iterator[_Item]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[_Item]:
        """Yield the examples, without hooks of subclasses."""
        yield from self.items


class _Hooks:
    """What the two bases share: functional names, hooks of pickling and printing.

    Attributes:
        functions: functional name -> function(pipe, *args, **kwargs), shared by all pipes of the kind.
        getstate_hook: replaces the state with which a pipe is pickled.
        reduce_ex_hook: replaces `__reduce_ex__`; if it raises NotImplementedError, the pipe is pickled as usual.
        str_hook, repr_hook: replace the pipe's name as its text.
    """

    functions: dict[str, Callable[..., Any]]
    reduce_ex_hook: Callable[..., Any] | None = None
    getstate_hook: Callable[..., Any] | None = None
    str_hook: Callable[..., Any] | None = None
    repr_hook: Callable[..., Any] | None = None
    _deprecated: dict[str, dict[str, Any]]

    @classmethod
    def _base(cls) -> Any:
        """Return IterDataPipe or MapDataPipe, where the hooks are."""
        return next(base for base in cls.__mro__ if "functions" in vars(base))

    def __getattr__(self, attribute_name: str) -> Any:
        if attribute_name not in type(self).functions:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}")
        if attribute_name in self._deprecated:
            _deprecation_warning(**self._deprecated[attribute_name])
        function = type(self).functions[attribute_name]
        bound = functools.partial(function, self)
        return functools.update_wrapper(bound, function, assigned=("__doc__",))

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function a method of all pipes of the kind; it takes the pipe first."""
        cls.functions[function_name] = function

    @classmethod
    def _register(cls, function_name: str, function: Callable[..., Any], made: Any) -> None:
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = functools.update_wrapper(function, made, assigned=("__doc__",))

    def __getstate__(self) -> Any:
        hook = self._base().getstate_hook
        return self.__dict__ if hook is None else hook(self.__dict__)

    def __reduce_ex__(self, *args: Any, **kwargs: Any) -> Any:
        hook = self._base().reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Set the hook of pickled states, or None. Raises RuntimeError if another is set."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Set the hook of `__reduce_ex__`, or None. Raises RuntimeError if another is set."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name: str, hook: Callable[..., Any] | None) -> None:
        base = cls._base()
        if getattr(base, name) is not None and hook is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(base, name, hook)

    def __repr__(self) -> str:
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook(self)

    def __str__(self) -> str:
        return type(self).__qualname__ if self.str_hook is None else self.str_hook(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Hooks, IterableDataset[_Example], metaclass=_IterDataPipeMeta):
    """Base of DataPipes that yield their examples in order.

    A subclass defines `__iter__`, and `reset` if it has a buffer; `reset` runs when an iterator is started. Only the
    newest iterator of a pipe is valid: an older one raises RuntimeError. Steps are chained by their functional names.
    """

    functions: dict[str, Callable[..., Any]] = {}
    _deprecated = _iter_deprecated_functional_names
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state: _SnapshotState = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[_Example]:
        return self  # type: ignore[return-value]

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of pipes a method of all IterDataPipes, which is the source of what it makes.

        Args:
            function_name: the method's name.
            cls_to_register: the class, called with the source and the method's arguments.
            enable_df_api_tracing: make the result a DFIterDataPipe.

        Raises:
            Exception: if the name is taken.
        """
        made = functools.partial(_made_step, cls_to_register, enable_df_api_tracing, function_name)
        cls._register(function_name, made, cls_to_register)

    def reset(self) -> None:
        """Clear buffers and go back to the beginning; by default, do nothing."""


def _made_step(cls: Any, traced: bool, name: str, source: Any, *args: Any, **kwargs: Any) -> Any:
    made = cls(source, *args, **kwargs)
    if isinstance(made, IterDataPipe) and (traced or isinstance(source, DFIterDataPipe)) and name not in _OF_NO_FRAMES:
        return made.trace_as_dataframe()
    return made


class DFIterDataPipe(IterDataPipe[Any]):
    """Base of IterDataPipes of data frames."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Hooks, Dataset[_Example], metaclass=_DataPipeMeta):
    """Base of DataPipes that have their examples by index.

    A subclass defines `__getitem__`, and `__len__` if the length is known. Steps are chained by their functional names.
    """

    functions: dict[str, Callable[..., Any]] = {}
    _deprecated = _map_deprecated_functional_names

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Make a class of pipes a method of all MapDataPipes, which is the source of what it makes.

        Args:
            function_name: the method's name.
            cls_to_register: the class, called with the source and the method's arguments.

        Raises:
            Exception: if the name is taken.
        """
        cls._register(function_name, functools.partial(cls_to_register), cls_to_register)


class _DataPipeSerializationWrapper:
    """Base of DataLoader's wrappers: a pipe that is pickled by dill if pickle cannot do it."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> tuple[str, bytes]:
        """Return the name of the package that pickled the pipe, and the bytes."""
        try:
            return "pickle", pickle.dumps(self._datapipe)
        except Exception:
            if (other := _dill()) is None:
                raise
            return "dill", other.dumps(self._datapipe)

    def __setstate__(self, state: tuple[str, bytes]) -> None:
        package, content = state
        self._datapipe = import_module(package).loads(content)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from error


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe[Any]):
    def __init__(self, datapipe: IterDataPipe[Any]) -> None:
        super().__init__(datapipe)
        self._datapipe_iter: Iterator[Any] | None = None

    def __iter__(self) -> _IterDataPipeSerializationWrapper:
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self) -> Any:
        if self._datapipe_iter is None:
            raise AssertionError("Iterator has not been initialized; call __iter__() before __next__()")
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe[Any]):
    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
