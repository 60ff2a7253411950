"""The names of torch._dynamo, PyTorch's compiler front end; gradloom's is in gradloom.compiler."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ..compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    compile,
    disable as disable,
    is_compiling as is_compiling,
    list_backends as list_backends,
    reset as reset,
)
from ..utils._refused import declare
from . import config as config, utils as utils


def graph_break(msg: str = "") -> None:
    """Keep the function that calls it out of compiled graphs: it runs as Python."""


graph_break._compile_disabled = True  # type: ignore[attr-defined]


def is_dynamo_supported() -> bool:
    """Return True."""
    return True


def optimize(backend: Any = "inductor", *, nopython: bool = False, **settings: Any) -> Any:
    """Return a decorator that compiles a function: PyTorch's old name of `compile`."""
    return lambda function: compile(function, backend=backend, fullgraph=nopython, dynamic=settings.get("dynamic"))


def optimize_assert(backend: Any = "inductor", **settings: Any) -> Any:
    """Return a decorator that compiles a function with fullgraph=True."""
    return optimize(backend, nopython=True)


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that calls `f` and returns what became of it: graphs, breaks, code (`Explanation`)."""
    from ..compiler._api import explain_call

    if extra_args or extra_kwargs:
        return explain_call(f, extra_args, extra_kwargs)
    return lambda *args, **kwargs: explain_call(f, args, kwargs)


def mark_static_address(tensor: Any, guard: bool = True) -> None:
    """Do nothing: graphs take the memory of their inputs at each call."""


def mark_static(t: Any, index: int | list[Any] | tuple[Any] | None = None) -> None:
    """Note that sizes of a tensor do not change, as `_dynamo_static_indices`: graphs hold for one size anyway.

    Args:
        t: a tensor.
        index: a dimension, or several; None for all.
    """
    _mark(t, "_dynamo_static_indices", range(t.dim()) if index is None else index)


def mark_dynamic(
    t: Any,
    index: int | list[Any] | tuple[Any],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: list[Any] | None = None,
) -> None:
    """Let compiled functions that get a tensor have a graph for each of its sizes, 64 at most; see `compile`.

    PyTorch has one graph for all sizes, and raises an error for a function that needs to know one.

    Args:
        t: the tensor.
        index: a dimension, or several, whose size changes.
        hint_override: accepted; without effect.
        min: accepted; a graph for each size needs no bounds.
        max: the same.
        specialize_on: accepted; every graph is specialised.

    Raises:
        AssertionError: if `index` is neither an int nor a list or tuple of them.
    """
    _mark(t, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(t: Any, index: int | list[Any] | tuple[Any]) -> None:
    """Do what `mark_dynamic` does.

    Args:
        t: the tensor.
        index: a dimension, or several.
    """
    _mark(t, "_dynamo_weak_dynamic_indices", index)


def _mark(t: Any, attribute: str, index: Any) -> None:
    if not isinstance(index, (int, list, tuple, range)):
        raise AssertionError(f"Expected index to be int, list, or tuple, got {type(index)}")
    found = set(getattr(t, attribute, ()))
    setattr(t, attribute, found.union([index] if isinstance(index, int) else index))


_REASON = "gradloom's compiler has no such part; torch.compile and torch.export work"
_NAMES = {
    "": "export",
    "_trace_wrapped_higher_order_op": "",
    "decorators": "",
    "eval_frame": "",
    "exc": "BackendCompilerFailed TorchDynamoException",
    "external_utils": "",
}

_refused = declare(__name__, _NAMES, _REASON)


def __getattr__(name: str) -> Any:
    if name in ("OptimizedModule", "Unsupported", "InvalidBackend"):
        _load()
        return globals()[name]
    return _refused(name)


def _load() -> None:
    """Import the compiler for its classes."""
    from ..compiler import _backends, _modules, _recorder

    globals().update(
        OptimizedModule=_modules.OptimizedModule,
        Unsupported=_recorder.Unsupported,
        InvalidBackend=_backends.InvalidBackend,
    )


class TransformGetItemToIndex(nullcontext[None]):
    """Context without effect: under vmap, `x[index]` takes an index that is a tensor of the batch."""


def _give_away() -> None:
    """Put names into the submodules that PyTorch defines them in."""
    import sys

    names: dict[str, list[Any]] = {
        "_trace_wrapped_higher_order_op": [TransformGetItemToIndex],
        "decorators": [mark_static_address, disable],
        "external_utils": [is_compiling],
    }
    for module in ("eval_frame", "exc"):  # their classes load the compiler
        namespace: Any = sys.modules[f"{__name__}.{module}"]
        refused = namespace._make
        namespace._make = lambda name, part, refused=refused: (
            __getattr__(part) if part in ("OptimizedModule", "Unsupported", "InvalidBackend") else refused(name, part)
        )
    for module, given in names.items():
        for value in given:
            setattr(sys.modules[f"{__name__}.{module}"], value.__name__, value)


_give_away()
