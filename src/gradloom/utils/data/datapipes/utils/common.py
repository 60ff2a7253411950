"""Checks of functions and columns, the files below folders, and streams that are closed with their last reference."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from importlib import import_module
from importlib.util import find_spec
from io import IOBase
from typing import Any, ClassVar, NoReturn

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]

# Deprecated functional name -> arguments of `_deprecation_warning`; packages of pipes add theirs.
_iter_deprecated_functional_names: dict[str, dict[str, Any]] = {}
_map_deprecated_functional_names: dict[str, dict[str, Any]] = {}


def _dill() -> Any:
    """Return the package dill, which pickles lambdas and local functions; None if it is not installed."""
    return import_module("dill") if find_spec("dill") else None


def validate_input_col(fn: Callable[..., Any], input_col: int | tuple[Any, ...] | list[Any] | None) -> None:
    """Check that a function can be called with as many columns as `input_col` names.

    Args:
        fn: the function; one without a signature, of C, is not checked.
        input_col: a column, or several in a list or tuple; None counts as one.

    Raises:
        ValueError: if it takes fewer or more, or needs keyword-only arguments.
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:
        return
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = sum(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    named = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(named, "__name__", repr(named))
    if keywords:
        raise ValueError(
            f"The function {name} takes {keywords} non-default keyword-only parameters, which is not allowed."
        )
    too_few = len(positional) < given and not any_number
    if too_few or required > given:
        kind = "parameters" if len(parameters) < given else "positional parameters"
        count = len(parameters) if len(parameters) < given else len(positional)
        raise ValueError(f"The function {name} takes {count} {kind}, but {given} are required.")


def _is_local_fn(fn: Any) -> bool:
    """Return whether a function or callable object is defined within a function, so that pickle cannot find it."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & inspect.CO_NESTED)
    return "<locals>" in getattr(fn, "__qualname__", type(fn).__qualname__)


def _check_unpickable_fn(fn: Any) -> None:
    """Warn of a function that pickle cannot write, if dill is not installed. Raises TypeError if it is not callable."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    if isinstance(fn, functools.partial):
        fn = fn.func
    kind = "Local" if _is_local_fn(fn) else "Lambda" if getattr(fn, "__name__", None) == "<lambda>" else None
    if kind is not None and _dill() is None:
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or functools.partial "
            "instead.",
            stacklevel=3,
        )


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Return whether a name matches a mask (`*.txt`), or one of several; no mask matches everything."""
    if not masks:
        return True
    return any(fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def get_file_pathnames_from_root(
    root: str, masks: str | list[str], recursive: bool = False, abspath: bool = False, non_deterministic: bool = False
) -> Iterator[str]:
    """Yield the paths of the files of a folder.

    Args:
        root: the folder, or one file.
        masks: as for `match_masks`, compared with the names.
        recursive: enter folders, after the files.
        abspath: yield absolute paths.
        non_deterministic: keep the system's order; else files and folders are sorted.

    Raises:
        OSError: if a folder cannot be read; a warning names it.
    """
    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return

    def refuse(error: OSError) -> NoReturn:
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error

    for folder, folders, files in os.walk(root, onerror=refuse):
        if not non_deterministic:
            files.sort()
            folders.sort()
        base = os.path.abspath(folder) if abspath else folder
        yield from (os.path.join(base, name) for name in files if match_masks(name, masks))
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Iterable[str], mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Yield (path, open file) for each path.

    Args:
        pathnames: paths.
        mode: "b" and "t" read in binary and text mode; else a mode of `open`.
        encoding: of text.

    Raises:
        TypeError: for a path that is not a string.
    """
    mode = f"r{mode}" if mode in ("b", "t") else mode
    for path in pathnames if isinstance(pathnames, Iterable) else [pathnames]:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, mode, encoding=encoding))


def validate_pathname_binary_tuple(data: Any) -> None:
    """Raise TypeError unless `data` is a tuple of a path and a stream."""
    match data if isinstance(data, tuple) else None:
        case (str(), IOBase() | StreamWrapper()):
            return
        case (str(), stream):
            wrong = (
                "binary stream within the tuple should have IOBase orits subclasses as type, but it is type "
                f"{type(stream)}"
            )
        case (path, _):
            wrong = f"pathname within the tuple should have string type pathname, but it is type {type(path)}"
        case None:
            wrong = f"pathname binary data should be tuple type, but it is type {type(data)}"
        case others:
            wrong = f"pathname binary stream tuple length should be 2, but got {len(others)}"
    raise TypeError(wrong)


def _deprecation_warning(
    old_class_name: str,
    *,
    deprecation_version: str,
    removal_version: str,
    old_functional_name: str = "",
    old_argument_name: str = "",
    new_class_name: str = "",
    new_functional_name: str = "",
    new_argument_name: str = "",
    deprecate_functional_name_only: bool = False,
) -> None:
    """Warn of a class of pipes, its functional name or one of its arguments."""
    contradictions = {
        "Old functional API needs to be specified for the deprecation warning.": bool(new_functional_name)
        > bool(old_functional_name),
        "Old argument name needs to be specified for the deprecation warning.": bool(new_argument_name)
        > bool(old_argument_name),
        "Deprecating warning for functional API and argument should be separated.": bool(
            old_functional_name and old_argument_name
        ),
    }
    for text, wrong in contradictions.items():
        if wrong:
            raise ValueError(text)
    call, method = f"`{old_class_name}()`", f"functional API `.{old_functional_name}()`"
    if old_argument_name:
        subject = f"The argument `{old_argument_name}` of {call} is"
    elif not old_functional_name:
        subject = f"{call} is"
    else:
        subject = f"{call}'s {method} is" if deprecate_functional_name_only else f"{call} and its {method} are"
    lines = [
        f"{subject} deprecated since {deprecation_version} and will be removed in {removal_version}.",
        "See https://github.com/pytorch/data/issues/163 for details.",
    ]
    instead = [name for name in (new_class_name, new_functional_name and f".{new_functional_name}") if name]
    if instead:
        lines.append(f"Please use {' or '.join(f'`{name}()`' for name in instead)} instead.")
    if new_argument_name:
        lines.append(f"Please use `{old_class_name}({new_argument_name}=)` instead.")
    warnings.warn("\n".join(lines), FutureWarning, stacklevel=3)


class StreamWrapper:
    """An open file that is closed when the last reference to it goes.

    Args:
        file_obj: the file, whose attributes are the wrapper's.
        parent_stream: the StreamWrapper of the archive that this file is in.
        name: name of the file, for `repr`.

    Raises:
        RuntimeError: if `parent_stream` is no StreamWrapper.
    """

    session_streams: ClassVar[dict[Any, int]] = {}  # those that are open, while debug_unclosed_streams is true
    debug_unclosed_streams: ClassVar[bool] = False
    file_obj: Any
    parent_stream: StreamWrapper | None = None
    name: str | None = None
    child_counter: int = 0
    closed: bool = False
    close_on_last_child: bool = False

    def __init__(self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None) -> None:
        if not isinstance(parent_stream, StreamWrapper | None):
            raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
        vars(self).update(file_obj=file_obj, parent_stream=parent_stream, name=name)
        if parent_stream is not None:
            parent_stream.child_counter += 1
        if self.debug_unclosed_streams:
            self.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close the streams in an example: itself, or in dicts, lists and tuples up to 10 levels deep."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (dict, list, tuple)):
            for inner in v.values() if isinstance(v, dict) else v:
                cls.close_streams(inner, depth + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the file, and its archive if that waits for its last file."""
        if self.closed:
            return
        self.closed = True
        self.session_streams.pop(self, None)
        if self.parent_stream is not None:
            self.parent_stream._lost_child()
        if hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)

    def _lost_child(self) -> None:
        self.child_counter -= 1
        if self.close_on_last_child and not self.child_counter:
            self.close()

    def autoclose(self) -> None:
        """Close the file with its last child, or now if it has none."""
        self.close_on_last_child = True
        if not self.child_counter:
            self.close()

    def __dir__(self) -> list[str]:
        return list({*self.__dict__, *vars(StreamWrapper), *dir(self.file_obj)})

    def __del__(self) -> None:
        if "file_obj" in vars(self):
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, obj: Any) -> None:
        self.file_obj = obj
