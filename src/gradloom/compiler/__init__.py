"""`gradloom.compile`: functions and modules as fused graphs; the names of torch.compiler. See docs/compile.md.

The rooms of this package, in the order in which data flows through them:

    _rewrite.py, _reads.py, _hooks.py    Python functions, with hooks on what they read and call (_known.py)
    _recorder.py, _recording.py          what a call did
    _entry.py                            guards, and the cache entries that they decide on
    _trace.py, _joint.py, _graph.py      the graph of forward and backward (_geometry.py: without values)
    _rows.py, _picks.py, _products.py    operators on rows in stages, single elements of rows; products without copies
    _passes.py, _fuse.py                 what the graph loses, and what becomes one loop
    _scalar.py, _build.py, _loops.py     definitions of operators, and the loop programs of groups
    _program.py, _numpy_backend.py       the code that runs (_numpy_rows.py: loops with rows)
    _run.py, _api.py, _modules.py        calls, compiled functions and modules
    _counters.py                         what was compiled, as counts
    _store.py                            graphs and rewritten functions on disk
    _explain.py                          what they say about themselves
    _pieces.py                           functions that are not one graph
    _effects.py, _updates.py             calls that change objects; optimizers' updates as loops
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from ..types.public import found_in as _found_in

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "cudagraph_mark_warmup_incomplete",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nonstrict_trace",
    "reset",
    "set_default_backend",
    "set_stance",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_default_backend: Any = "inductor"


# One entry for each export that is running its program: whether it was asked for strict mode. It is the process's, as
# PyTorch's flag is: threads that the program starts are part of it.
_exports: list[bool] = []


@contextmanager
def _exporting(strict: bool = False) -> Iterator[None]:
    """Context in which a program runs in order to be exported.

    Args:
        strict: the argument of `torch.export.export`.
    """
    _exports.append(strict)
    try:
        yield
    finally:
        _exports.remove(strict)


def is_compiling() -> bool:
    """Return whether a program runs in order to be exported.

    The answer is False in a function that `compile` records, where PyTorch's is True: PyTorch traces the function
    symbolically, while gradloom records an ordinary call, whose result the program gets.
    """
    return bool(_exports)


def is_dynamo_compiling() -> bool:
    """Return whether a program runs in order to be exported with strict=True."""
    return any(_exports)


def is_exporting() -> bool:
    """Return whether a program runs in order to be exported, by `torch.export` or `torch.onnx`."""
    return bool(_exports)


def allow_in_graph(fn: _Function) -> _Function:
    """Let compiled functions call `fn` as one operator, without following its Python code; return `fn`.

    The function must compute its result from its arguments by operators alone: what else it reads is not guarded, and
    what else it does happens in the first call only.

    Args:
        fn: a Python function, or a list or tuple of them.
    """
    for each in fn if isinstance(fn, (list, tuple)) else (fn,):
        each._compile_allowed = True  # type: ignore[attr-defined]
    return fn


def nonstrict_trace(traceable_fn: _Function) -> _Function:
    """Let compiled functions call a function as one operator; see `allow_in_graph`."""
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    return allow_in_graph(traceable_fn)


def assume_constant_result(fn: _Function) -> _Function:
    """Return `fn` unchanged: its result is guarded like any other."""
    return fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function out of compiled graphs; return it. Without `fn`, return a decorator that does so.

    A compiled function that calls it runs as Python.

    Args:
        fn: the function.
        recursive: accepted; what a disabled function calls is not compiled either.
        reason: kept for `explain`.
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    try:
        fn._compile_disabled = reason or True
    except AttributeError:  # a bound method or built-in function: it is not compiled unless it is asked for
        pass
    return fn


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
) -> Any:
    """Return a function or Module that computes the same by fused loops, once it was called.

    The first call with arguments of some shapes and dtypes runs as Python, and what it does is recorded. If nothing
    that it read from outside has changed, later calls run the compiled graph of forward and backward instead. Functions
    that cannot be one graph run as Python. Results, gradients, random numbers and effects are those of eager mode.

    Args:
        model: a function or a Module; None returns a decorator.
        fullgraph: raise RuntimeError, with place and reason, where the function cannot be one graph.
        dynamic: graphs hold for one shape each. True makes one for each new shape, 64 at most; None does so for the
            first 8 graphs, and then for shapes that come up again; False stops at 8.
        backend: "inductor" (the fastest that is there), "llvm", "numpy", "aot_eager" (graphs of unfused operators),
            "eager", or a function of a GraphModule and a list of example inputs that returns a function; default:
            "inductor", unless `set_default_backend` was called.
        mode: None or one of PyTorch's modes; without effect.
        options: accepted; without effect.
        name: accepted; without effect.
        disable: return `model` unchanged.
        recompile_limit: graphs of the function, at most; further calls run as Python.
        isolate_recompiles: accepted: each `compile` has graphs of its own.
        dynamic_shapes: which sizes change; whatever it says, it stands for `dynamic=True` if `dynamic` is None.

    Raises:
        AssertionError: if `model` is not callable.
        TypeError: for another value of `dynamic`.
        RuntimeError: for an unknown backend or mode, or both `mode` and `options`.

    Example:
        >>> @torch.compile
        ... def f(x):
        ...     return torch.sigmoid(x) * torch.tanh(x) + x**2
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic is True, False or None, not {dynamic!r}")
    if dynamic is None and dynamic_shapes is not None:
        dynamic = True
    if model is None:
        known = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode, "options": options}
        return lambda function: compile(function, **known, disable=disable, recompile_limit=recompile_limit)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    chosen = _default_backend if backend is None else backend
    return import_module("gradloom.compiler._api").optimize(
        model, chosen, fullgraph, options, mode, dynamic, recompile_limit
    )


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the names of backends; with `exclude_tags=()` also those for debugging."""
    names = import_module("gradloom.compiler._backends").available()
    return [n for n in names if not exclude_tags or n not in ("eager", "aot_eager")]


def set_default_backend(backend: Any) -> None:
    """Set the backend of `compile` calls that name none: a name or a function."""
    global _default_backend
    import_module("gradloom.compiler._backends").find(backend)
    _default_backend = backend


def get_default_backend() -> Any:
    """Return the backend of `compile` calls that name none."""
    return _default_backend


def set_stance(stance: str = "default", **options: Any) -> Any:
    """Set for the process whether compiled functions run their graphs; also a context manager.

    Args:
        stance: "default"; "force_eager" runs all of them as Python; the others of PyTorch are treated as "default".
        options: accepted; without effect.
    """
    return import_module("gradloom.compiler._api").Stance(stance)


def reset() -> None:
    """Forget all compiled graphs."""
    import sys

    api = sys.modules.get("gradloom.compiler._api")
    if api is not None:
        api.reset()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs."""


cudagraph_mark_warmup_incomplete = cudagraph_mark_step_begin


_found_in("gradloom", compile)
