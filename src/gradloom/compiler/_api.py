"""Compiled functions and modules: the cache of entries for each, and what happens where none fits.

Note [Compiled calls]
A call looks for an entry whose guards hold and runs its graph. If there is none, the function runs as Python, with
hooks (Note [Rewritten functions]) that note what it reads and calls (Note [Guards]); its result is that of eager mode.
If nothing prevents it, the recording is then traced (Note [Tracing]), fused (Note [Fusion]) and becomes an entry for
later calls. What prevents it is kept as the reason, for `explain`. A function that cannot be one graph runs as Python.

Note [Sizes]
A graph holds for the sizes that it was recorded with, since Python code may depend on them. Making one for other sizes
needs no new machine code. A function has 8 graphs for whatever reasons; further ones, up to 64, only for other sizes or
numbers among the arguments: with dynamic=True, or tensors that were marked by `mark_dynamic`, when they come up, and
else when they come up again. So lengths that never return cost no compiling. A number that changes becomes an argument
of a graph when its second value comes up (Note [Numbers]); another value that changes with each call does not compile
each call.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from types import MethodType
from typing import Any

from ..core.tensor import Tensor
from ..dispatch.state import state
from ._backends import find
from ._counters import counters
from ._entry import Arguments, Backend, Entry, Opaque, may_compile, thread_key
from ._hooks import Hooks
from ._known import NUMBERS, is_a, is_module
from ._numbers import cleared, same_number
from ._pieces import Pieces
from ._recorder import Recorder, Unsupported, active
from ._recording import TraceError

MOST_ENTRIES = 8  # graphs of a function; beyond, it runs as Python, but for sizes
MOST_SIZES = 64  # graphs of a function in all
VARIES, READ = "varies", "read"  # numbers that are arguments of graphs, and those whose value a graph needed
BREAKS = 2  # calls that could not be compiled, after which the function runs in pieces


class Optimized:
    """A compiled function.

    Attributes:
        target: the function, method or module.
        entries: its graphs, the last used first.
        breaks: (place, reason) of each call that could not be compiled.
        calls: how many calls ran: as graphs, as Python.
        pieces: what it calls, compiled by itself, if it is not one graph; Note [Pieces].
        numbers: the numbers that it read, by place: the value, VARIES or READ; Note [Numbers].
    """

    is_explained = False  # it is called once, to be explained
    is_afresh = False  # whether it and its pieces ignore graphs on disk

    def __init__(
        self,
        target: Any,
        backend: Backend,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        limit: int | None = None,
    ) -> None:
        self.target, self.backend, self.fullgraph, self.dynamic = target, backend, fullgraph, dynamic
        self.limit = limit
        self.reset()
        _every.add(self)

    def reset(self) -> None:
        """Forget all graphs."""
        self.entries: list[Entry] = []
        self.breaks: list[tuple[str, str]] = []
        self.misses = 0
        self.calls = [0, 0]
        self.numbers: dict[Any, Any] = {}
        self.sizes: dict[Any, int] = {}  # sizes and numbers of calls, once there are MOST_ENTRIES -> how many calls
        self.pieces = Pieces(self.target, self.piece_of, self.backend.machine_code)

    def piece_of(self, function: Any) -> Optimized:
        """Return the `Optimized` of a function that this one calls, with the same backend and `dynamic`."""
        made = Optimized(function, self.backend, dynamic=self.dynamic, limit=self.limit)
        made.is_afresh = self.is_afresh
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(args, kwargs)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, or its graph."""
        if active.recorder is not None or not may_compile() or Stance.current == "force_eager":
            return self.target(*args, **kwargs)
        key = thread_key()
        entries = self.entries
        for entry in entries:
            if entry.key == key:
                try:
                    inputs = entry.check(args, kwargs)
                except Exception:
                    continue
                if inputs is not None and (not entry.exclusive or entry.is_apart(inputs)):
                    self.calls[0] += 1
                    if entry is not entries[0]:
                        self.entries = [entry, *[e for e in entries if e is not entry]]
                    return entry.run(inputs)
        self.calls[1] += 1
        if len(self.breaks) >= BREAKS:
            return self.pieces.run(args, kwargs)
        if self.misses >= (MOST_ENTRIES if self.limit is None else self.limit) and not self.deserves_a_graph(
            args, kwargs
        ):
            return self.target(*args, **kwargs)
        return self.record(args, kwargs, key)

    def deserves_a_graph(self, args: Any, kwargs: Any) -> bool:
        """Return whether a call is compiled although there are MOST_ENTRIES graphs: see Note [Sizes]."""
        if (
            self.limit is not None
            or self.dynamic is False
            or self.misses >= MOST_SIZES
            or len(self.sizes) > MOST_SIZES**2
        ):
            return False
        args = tuple([self.without_number(f"args[{i}]", value) for i, value in enumerate(args)])
        kwargs = {name: self.without_number(f"kwargs[{name!r}]", value) for name, value in kwargs.items()}
        sizes = sizes_of((args, tuple(kwargs.items())))
        self.sizes[sizes] = calls = self.sizes.get(sizes, 0) + 1
        return calls == (1 if self.dynamic or is_marked((args, tuple(kwargs.values()))) else 2)

    def without_number(self, path: str, value: Any) -> Any:
        """Return the class of a number that is an argument of graphs; anything else as it is."""
        return value.__class__ if self.numbers.get(("argument", path)) is VARIES else value

    @property
    def is_worth_it(self) -> bool:
        """Whether it may be faster than Python: it is not known yet, or it has a loop of several operators."""
        return not self.entries or self.backend.loops is None or any(e.is_fused for e in self.entries)

    def record(self, args: Any, kwargs: Any, key: Any) -> Any:
        """Run the target as Python, and compile what it did."""
        self.misses += 1
        counters["frames"]["total"] += 1
        r = Recorder(self.fullgraph, self.pieces.call, self.is_explained, self.varies)
        r.machine_code, r.afresh = self.backend.machine_code, self.is_afresh
        arguments = None
        try:
            arguments = Arguments(r, args, kwargs)
            args, kwargs = arguments.args, arguments.kwargs
        except Opaque as error:
            r.taint(f"it is called with {error}")
        flags = state.flags
        active.recorder = r
        try:
            result = _start(r, self.target, args, kwargs)
            if state.flags != flags:
                r.taint("it changes the mode in which operators are recorded")
        finally:
            active.recorder = None
            r.numbers.is_recording = False
        places = [place for _, _, place in r.number_sources]
        if r.reason is None and arguments is not None:
            try:
                self.entries.insert(0, self.backend.entry(r, arguments, result, key))
            except (TraceError, Opaque) as error:
                r.reason, r.where = str(error), getattr(error, "where", "")
                if self.fullgraph:
                    raise Unsupported(f"{r.where or self.name}: {error} (fullgraph=True)") from error
            except Exception as error:
                # The call itself has its result: a defect of the compiler must not end the program.
                if self.fullgraph:
                    raise
                r.reason = f"the compiler failed with {type(error).__name__}: {error}"
                warnings.warn(f"{self.name} runs as Python, because {r.reason}. Please report it.", stacklevel=4)
        if r.reason is not None:
            self.breaks.append((r.where, r.reason))
            counters["graph_break"][r.reason] += 1
        else:
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += 1
            self.numbers.update({place: value for place, value in r.seen.items() if place not in self.numbers})
            self.numbers.update({place: READ if i in r.numbers.read else VARIES for i, place in enumerate(places)})
        return cleared(result) if places else result

    def varies(self, place: Any, value: Any) -> bool:
        """Return whether the number at a place is an argument of the next graph."""
        if self.dynamic is False or not self.backend.takes_numbers:
            return False
        before = self.numbers.get(place, VARIES if self.dynamic else None)
        if before is None or before is READ:
            return False
        return before is VARIES or before.__class__ is value.__class__ and not same_number(before, value)

    def function_for(self, target: Any) -> Any:
        """Return another function, compiled with the same options."""
        return function_of(Optimized(target, self.backend, self.fullgraph, self.dynamic))

    @property
    def name(self) -> str:
        """The function's qualified name, or the class of a module."""
        target = self.target
        if isinstance(target, MethodType) and is_module(target.__self__) and target.__name__ == "_call_impl":
            target = target.__self__
        return getattr(target, "__qualname__", type(target).__name__)


def sizes_of(value: Any) -> Any:
    """Return the sizes, dtypes and numbers in nested tuples, lists and dictionaries."""
    cls = value.__class__
    if isinstance(value, Tensor):
        return cls, tuple(value.shape), value.dtype, value.requires_grad
    if cls in NUMBERS:
        return cls, value
    if isinstance(value, (tuple, list)):
        return (cls, *[sizes_of(v) for v in value])
    if cls is dict:
        return (cls, *[(k, sizes_of(v)) for k, v in value.items()])
    return cls


def is_marked(value: Any) -> bool:
    """Return whether `mark_dynamic` or `maybe_mark_dynamic` was called for a tensor in nested containers."""
    if isinstance(value, Tensor):
        return not value.__dict__.keys().isdisjoint(("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices"))
    if isinstance(value, dict):
        value = tuple(value.values())
    return isinstance(value, (tuple, list)) and any(map(is_marked, value))


def _start(r: Recorder, target: Any, args: Any, kwargs: Any) -> Any:
    hooks = Hooks(_nothing)
    if isinstance(target, MethodType):
        r.read(target.__self__)
    else:
        r.read(target)
    return hooks.call(target, *args, **kwargs)


def _nothing() -> None:
    """A function without globals of its own, for hooks outside of functions."""


_every: weakref.WeakSet[Optimized] = weakref.WeakSet()


def reset() -> None:
    """Forget the graphs of all compiled functions."""
    for each in list(_every):
        each.reset()


class Stance:
    """What compiled functions do, until the `with` block ends; see `set_stance`."""

    current = "default"

    def __init__(self, stance: str) -> None:
        self.before = Stance.current
        Stance.current = stance

    def __enter__(self) -> Stance:
        return self

    def __exit__(self, *_: object) -> None:
        Stance.current = self.before


def _is_optimized_module(value: Any) -> bool:
    return is_a(value, "gradloom.compiler._modules", "OptimizedModule")


def optimize(
    target: Any,
    backend: Any,
    fullgraph: bool,
    options: Any,
    mode: Any,
    dynamic: bool | None = None,
    limit: int | None = None,
) -> Any:
    """Return a compiled function or module; see `gradloom.compile`."""
    found = find(backend, options, mode)
    if _is_optimized_module(target):
        target = target._orig_mod
    if is_module(target):
        from ._modules import OptimizedModule

        return OptimizedModule(target, Optimized(target, found, fullgraph, dynamic, limit))
    target = getattr(target, "_compiled_original", target)
    return function_of(Optimized(target, found, fullgraph, dynamic, limit))


def function_of(optimized: Optimized) -> Any:
    """Return a function that calls a compiled one, with the name and signature of the original."""
    target, call = optimized.target, optimized.call

    def compiled(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    for name in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(target, name):
            setattr(compiled, name, getattr(target, name))
    compiled.__wrapped__ = target  # type: ignore[attr-defined]
    compiled._compiled_original = target  # type: ignore[attr-defined]
    compiled._torchdynamo_orig_callable = target  # type: ignore[attr-defined]
    compiled._optimized = optimized  # type: ignore[attr-defined]
    compiled.explain = lambda *args, **kwargs: explain(optimized, args, kwargs)  # type: ignore[attr-defined]
    return compiled


def explain(optimized: Optimized, args: Any, kwargs: Any) -> Any:
    """Call a compiled function and describe what became of it."""
    from ._explain import Explanation

    fresh = Optimized(optimized.target, optimized.backend, dynamic=optimized.dynamic)
    fresh.is_explained = fresh.is_afresh = True
    fresh.numbers = dict(optimized.numbers)
    fresh(*args, **kwargs)
    return Explanation(fresh)


def explain_call(target: Any, args: Any, kwargs: Any) -> Any:
    """Compile a function or module, call it, and describe what became of it."""
    if _is_optimized_module(target) or hasattr(target, "_optimized"):
        return explain(optimized_of(target), args, kwargs)
    return explain(Optimized(target, find("inductor")), args, kwargs)


def optimized_of(value: Any) -> Optimized:
    """Return the `Optimized` behind a compiled function or module. Raises TypeError for another object."""
    if _is_optimized_module(value):
        return value.__dict__["_optimized"]  # type: ignore[no-any-return]
    found = getattr(value, "_optimized", None)
    if not isinstance(found, Optimized):
        raise TypeError(f"{value!r} is not what gradloom.compile returned")
    return found
