"""The recorder: what one call of a program read from outside, called and returned.

Note [Guards]
While a program runs with hooks, every read of something that exists outside of the call (an argument, a global, a
closure's variable, an attribute, an item) is noted with what was found: the same object, or for numbers and strings an
equal one of the same type (but for numbers that vary: Note [Numbers]). So is every attribute that was not found, and
the class of each object that was read from: Note [Guards on classes]. What a program does follows from these and from
its code; so while all of them hold, another call would call the same functions on tensors, and the compiled graph may
run in its place. Objects made during the call need no guards. What a hook cannot follow *taints* the recording: nothing
is compiled, and the call goes on as Python.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from types import BuiltinFunctionType, CellType, FrameType, MethodType
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.state import AUTOCAST, GRAD_OFF, state
from ._classes import Lookups, is_mutable
from ._known import NUMBERS, is_plain
from ._numbers import Numbers, fixed, plain, replaced
from ._recording import Recording, Slots, Step, tensors_in

MISSING = object()
HOOKS = "_gradloom_hooks_"  # the variable of rewritten functions that has their hooks
EACH, STAR = "each", "star"  # in descriptions of what is unpacked
FREE_ITEM = object()  # in the guard of a list, in the place of a number that is an argument of the graph
_NOTHING: dict[Any, Any] = {}
VIEWS: tuple[type, ...] = (type(_NOTHING.keys()), type(_NOTHING.values()), type(_NOTHING.items()))


class CannotRewriteError(Exception):
    """A function has no source, or statements that cannot be followed; the message says which."""


class Unsupported(RuntimeError):
    """With fullgraph=True: a function cannot be compiled as one graph. The message says where and why."""


class _Active(threading.local):
    recorder: Recorder | None = None


active = _Active()


class Recorder:
    """Records one call.

    Attributes:
        reason, where: why and where the call was tainted; None, "" if it was not.
        guards: conditions, as (template of Python source, objects for its fields).
        classes: what was found in classes; Note [Guards on classes].
        sources: for each input of the recording: ("argument", path) or ("object", tensor).
        fullgraph: raise Unsupported when tainted.
        piece: calls a function with arguments and keywords by its compiled form; what the first function calls after
            the call was tainted, or with `everywhere` also what those call that it called before.
        first: the hooks of the first function that was followed.
        machine_code: whether loops are machine code.
        afresh: whether to ignore graphs on disk: `explain` describes how a graph is made.
        effects: calls that change objects from outside, in their order; Note [Effects].
        results: what those after the graph returned, by identity -> the call's number.
        sealed: after one that changes more than gradients are cleared, its name.
        numbers: those that are arguments of the graph; Note [Numbers].
        seen: values of the numbers that were read, by place.
        varies: returns whether the number at a place had another value before.
    """

    def __init__(
        self,
        fullgraph: bool = False,
        piece: Callable[..., Any] | None = None,
        everywhere: bool = False,
        varies: Callable[[Any, Any], bool] = lambda place, value: False,
    ) -> None:
        self.piece, self.everywhere = piece, everywhere
        self.first: Any = None
        self.machine_code = self.afresh = False
        self.effects: list[Any] = []
        self.results: dict[int, int] = {}
        self.sealed: str | None = None
        self.numbers, self.varies = Numbers(), varies
        self.seen: dict[Any, Any] = {}
        self.free: dict[Any, Any] = {}  # place -> what stands for its number
        self.free_in: dict[int, dict[Any, Any]] = {}  # the same in containers, by identity and index
        self.views: dict[int, tuple[Any, Any, str]] = {}  # of dictionaries, by identity -> view, dictionary, method
        self.number_sources: list[tuple[str, tuple[Any, ...], Any]] = []  # as guards, and the place
        self.recording = Recording(state.flags & GRAD_OFF, self.numbers)
        self.reason: str | None = None
        self.where = ""
        self.fullgraph = fullgraph
        self.guards: dict[Any, tuple[str, tuple[Any, ...]]] = {}
        self.classes = Lookups(MISSING)
        self.sources: list[tuple[str, Any]] = []
        self.outer: dict[int, Any] = {}  # objects from outside, by identity
        self.whole: dict[int, Any] = {}  # containers whose contents are guarded
        self.slots = Slots()
        self.tensors = self.slots.known  # of the recording, by identity
        self.inputs: list[Any] = []  # the tensors of the recording's inputs
        self.versions: list[int] = []  # the versions of these, before they were used
        self.found: dict[int, tuple[str, Any]] = {}  # tensors from outside, by identity -> their source
        self.facts: dict[int, tuple[Any, ...]] = {}
        self.paths: dict[int, str] = {}  # containers among the arguments, by identity -> where they are
        self.returned: list[str] = []  # paths of those that the call returns
        self.kept: list[Any] = []

    def forget(self) -> None:
        """Let go of all objects, when the guards are written: tensors, above all."""
        self.recording = Recording(self.recording.flags, self.numbers)
        for table in (
            self.outer, self.whole, self.tensors, self.found, self.facts, self.guards, self.paths, self.results,
            self.free, self.free_in, self.views,
        ):  # fmt: skip
            table.clear()
        self.classes.clear()
        self.sources.clear()
        self.number_sources.clear()
        self.inputs.clear()
        self.versions.clear()
        self.kept.clear()

    # --- taint ----------------------------------------------------------------------------------------------------

    def taint(self, reason: str) -> None:
        """Give up compiling this call. Raises Unsupported with fullgraph=True."""
        if self.reason is None:
            self.reason, self.where = reason, place()
            if self.fullgraph:
                raise Unsupported(
                    f"{self.where}: {reason}. With fullgraph=True a function must be one graph; without it, this call "
                    "runs as Python."
                )

    def call(self, hooks: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function after the call was tainted."""
        if self.piece is None or not (self.everywhere or hooks is self.first):
            return function(*args, **kwargs)
        return self.piece(function, args, kwargs)

    # --- guards ---------------------------------------------------------------------------------------------------

    def guard(self, key: Any, template: str, *objects: Any) -> None:
        """Add a condition: Python source with {0}, {1} ... for objects."""
        if key not in self.guards:
            self.guards[key] = template, objects
            self.kept.append(key)

    def equal(self, key: Any, expression: str, value: Any, *objects: Any) -> Any:
        """Require that an expression gives the value again: an equal number or string, or the same object.

        Return the value, or what stands for a number that is an argument of the graph.
        """
        last = "{" + str(len(objects)) + "}"
        if isinstance(value, NUMBERS) and type(value) in NUMBERS:
            if self.sealed is not None:
                self.taint(f"it reads what may have changed after {self.sealed}")
            value = plain(value)
            if value.__class__ is float or value.__class__ is int:
                free = self.number(key, expression, value, *objects)
                if free is not value:
                    return free
            if value is None or value.__class__ is bool or value is Ellipsis:
                self.guard(key, f"{expression} is {last}", *objects, value)
            elif value.__class__ is float and (value == 0 or math.isnan(value)):
                self.guard(key, f"same_float({expression}, {last})", *objects, value)
            else:
                self.guard(key, f"same_number({expression}, {last})", *objects, value)
        else:
            self.guard(key, f"{expression} is {last}", *objects, value)
        return value

    def class_of(self, value: Any) -> type:
        """Return the class of an object, and require that one from outside stays of it."""
        cls = type(value)
        if is_mutable(cls) and self.is_outer(value) and id(value) not in self.whole:
            self.guard(("class of", id(value)), "type({0}) is {1}", value, cls)
        return cls

    def place_of(self, value: Any) -> tuple[str, tuple[Any, ...]] | None:
        """Return the expression of an object from outside as a template with objects; None if the call made it."""
        source = self.found.get(id(value))
        path = self.paths.get(id(value)) if source is None else source[1] if source[0] == "argument" else None
        if path is not None:
            return path.replace("{", "{{").replace("}", "}}"), ()
        return ("{0}", (value,)) if source is not None or self.is_outer(value) else None

    def evaluated(self, key: Any, expression: str, value: Any, obj: Any) -> Any:
        """Require that an expression of an object from outside gives the value again; return it.

        Args:
            expression: a template in which {0} is the object.
        """
        place = self.place_of(obj)
        if place is None:
            return value
        return self.equal((key, id(obj)), expression.replace("{0}", place[0]), value, *place[1])

    def number(self, place: Any, expression: str, value: Any, *objects: Any) -> Any:
        """Return what stands for a number that differs from call to call; the value itself if it did not so far."""
        found = self.free.get(place)
        if found is not None:
            return found
        self.seen[place] = value
        if place in self.guards or self.reason is not None or not self.varies(place, value):
            return value
        name = expression.format(*["..."] * len(objects))
        found = self.free[place] = self.numbers.new(value, name)
        self.number_sources.append((expression, objects, place))
        return found

    def read(self, value: Any, source: tuple[str, Any] | None = None) -> Any:
        """Note an object that was read from outside; return it."""
        if isinstance(value, Tensor):
            known = self.found.get(id(value))
            if not is_plain(value):
                self.taint(f"it uses a {type(value).__name__}")  # whose attributes may be functions of a program
            elif known is not None:
                if source is None and known[0] == "argument":  # it is an argument and, say, a global
                    self.guard(("is", id(value)), known[1].replace("{", "{{").replace("}", "}}") + " is {0}", value)
            elif id(value) not in self.tensors:
                self.found[id(value)] = source or ("object", value)
                self.facts[id(value)] = tensor_facts(value)
                self.kept.append(value)
        elif not (isinstance(value, NUMBERS) and type(value) in NUMBERS):
            path = self.paths.get(id(value))
            if path is not None:
                self.guard(("is", id(value)), path.replace("{", "{{").replace("}", "}}") + " is {0}", value)
            elif id(value) not in self.outer:
                self.outer[id(value)] = value
                if type(value) in VIEWS:
                    self.taint("it reads a view of a dictionary that was made outside")
                for part in _parts_of(value):
                    self.read(part)
        return value

    def is_outer(self, value: Any) -> bool:
        """Return whether an object existed before the call."""
        return id(value) in self.outer

    def contents(self, value: Any, reads: bool = True) -> None:
        """Guard the contents of a container from outside.

        Args:
            reads: whether Python will use the numbers in it, other than by hooks.
        """
        if id(value) not in self.whole and self.is_outer(value):
            self._contents(value)
        if reads and self.free_in:
            for number in self.free_in.get(id(value), _NOTHING).values():
                replaced(number, fixed)

    def _contents(self, value: Any) -> None:
        if self.sealed is not None:
            self.taint(f"it reads what may have changed after {self.sealed}")
        cls = value.__class__
        if cls is list:
            self._all(value, tuple(value), "same_items")
        elif cls is dict or cls is OrderedDict:
            self._all(value, tuple(value.items()), "same_dict")
        elif cls in (set, frozenset):  # equal sets may differ in order
            self._all(value, tuple(value), "same_items")
        elif not isinstance(value, tuple):
            self.taint(f"it reads a {cls.__name__} from outside")

    def _all(self, value: Any, snapshot: Any, function: str) -> None:
        self.whole[id(value)] = value
        if value.__class__ is list:
            snapshot = tuple([self._element(value, ("item", id(value), i), i, v) for i, v in enumerate(snapshot)])
        elif function == "same_dict":
            snapshot = tuple([(k, self._element(value, key_place(value, k), k, v)) for k, v in snapshot])
        self.guard(("contents", id(value)), f"{function}({{0}}, {{1}})", value, snapshot)
        for v in snapshot:
            self.read(v)

    def _element(self, container: Any, place: Any, index: Any, value: Any) -> Any:
        """Return an element of a list or dictionary from outside as the guard of its contents has it."""
        if value.__class__ is not float and value.__class__ is not int:
            return value
        found = self.number(place, "{0}[{1}]", value, container, index)
        if found is value:
            return value
        self.free_in.setdefault(id(container), {})[index] = found
        return FREE_ITEM

    def element(self, container: Any, index: Any, value: Any) -> Any:
        """Return an element of a container whose contents are guarded, or what stands for it."""
        free = self.free_in.get(id(container))
        if free is None:
            return value
        if index.__class__ is int and index < 0 and container.__class__ is not dict:
            index += len(container)
        return free.get(index, value)

    def elements(self, container: Any) -> Any:
        """Return a sequence or dictionary whose contents are guarded, with what stands for numbers in it."""
        free = self.free_in.get(id(container))
        if free is None:
            return container
        if isinstance(container, (list, tuple)):
            return [free.get(i, v) for i, v in enumerate(container)]
        return container.__class__([(k, free.get(k, v)) for k, v in container.items()])

    def view(self, container: Any, name: str) -> Any:
        """Return `values()` or `items()` of a dictionary whose contents are guarded."""
        found = getattr(container, name)()
        if id(container) in self.free_in:
            self.views[id(found)] = found, container, name
        return found

    def walked(self, container: Any) -> Any:
        """Return an iterable over a guarded sequence or view, with what stands for numbers in it."""
        view, of, name = self.views.get(id(container), (None, container, ""))
        if id(of) not in self.free_in:
            return container
        if view is None:
            return (v if self.reason else self.element(of, i, v) for i, v in enumerate(of))
        pairs = ((k, v if self.reason else self.element(of, k, v)) for k, v in of.items())
        return pairs if name == "items" else (v for _, v in pairs)

    def taken(self, value: Any) -> Any:
        """Return a value that Python reads; the numbers of the graph in it must have their values again."""
        if not self.free:
            return value
        return replaced(value, fixed)

    # --- tensors --------------------------------------------------------------------------------------------------

    def use(self, value: Any) -> None:
        """Make the tensors among an operator's arguments inputs of the recording, unless they were made in it."""
        for tensor in tensors_in(value):
            if id(tensor) in self.tensors:
                continue
            source = self.found.get(id(tensor))
            if source is None:
                self.taint("it uses a tensor that came from outside in a way that the compiler does not follow")
                return
            if not self._input(tensor, source):
                return

    def _input(self, tensor: Any, source: tuple[str, Any]) -> bool:
        facts = self.facts[id(tensor)]
        trouble = _trouble_with(tensor)
        if trouble is not None:
            self.taint(trouble)
            return False
        self.recording.inputs.append(self.slots.add(tensor))
        self.inputs.append(tensor)
        self.versions.append(tensor._version)
        self.sources.append(source)
        if source[0] == "object":
            self.guard(("tensor", id(tensor)), "same_tensor({0}, {1})", tensor, facts)
        return True

    def step(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator and record it."""
        flags = state.flags
        if flags & ~GRAD_OFF:
            what = "autocast" if flags & AUTOCAST else "a mode, hooks for saved tensors or forward-mode gradients"
            self.taint(f"{what} is on")
        if self.sealed is not None:
            self.taint(f"it computes with tensors after {self.sealed}")
        if self.reason is None:
            self.use(args)
            self.use(tuple(kwargs.values()))
        if self.free:
            self._read_lists((args, kwargs))
            result = function(*replaced(args, plain), **replaced(kwargs, plain))
        else:
            result = function(*args, **kwargs)
        if self.reason is None:
            if not any(True for _ in tensors_in(result)):
                self.taint(
                    f"{getattr(function, '__name__', function)} gives a value that depends on the values of tensors"
                )
            else:
                self._made(result)
                shown = self.slots.shown
                step = Step(function, shown(args), shown(kwargs), shown(result), flags & GRAD_OFF, place())
                self.recording.steps.append(step)
        return result

    def _read_lists(self, value: Any) -> None:
        """Require the numbers in containers from outside that an operator gets."""
        cls = value.__class__
        for number in self.free_in.get(id(value), _NOTHING).values():
            replaced(number, fixed)
        if cls is list or cls is tuple:
            for v in value:
                self._read_lists(v)
        elif cls is dict:
            for v in value.values():
                self._read_lists(v)

    def _made(self, result: Any) -> None:
        for tensor in tensors_in(result):
            if id(tensor) not in self.tensors:
                if not is_plain(tensor):
                    self.taint(f"it makes a {type(tensor).__name__}")
                self.slots.add(tensor)


def _trouble_with(tensor: Any) -> str | None:
    if not is_plain(tensor):
        return f"it uses a {type(tensor).__name__}"
    if type(tensor._array) is not np.ndarray:
        return "it uses a tensor with a conjugate or negative bit, a sparse tensor, or one without values"
    if tensor._tangent is not None or tensor._wrapped_number is not None:
        return "it uses a tensor with a tangent"
    if tensor._inference:
        return "it uses a tensor that was made in inference mode"
    return None


def tensor_facts(t: Any) -> tuple[Any, ...]:
    """Return what a compiled graph requires of an input: all that its meaning depends on but the values."""
    array = t._array
    return t.__class__, type(array), array.shape, array.dtype, array.strides, t.requires_grad, t._view is None, (
        t.is_leaf, t._inference, t._tangent is None, t._name,
    )  # fmt: skip


def _parts_of(value: Any) -> Iterable[Any]:
    """Return the objects that belong to an immutable one, and are from outside as it is."""
    cls = value.__class__
    if isinstance(value, tuple):
        return tuple.__iter__(value)
    if cls is frozenset:
        return value  # type: ignore[no-any-return]
    if cls is MethodType:
        return value.__func__, value.__self__
    if cls is BuiltinFunctionType:
        return (value.__self__,)
    return (value.func, value.args, value.keywords) if isinstance(value, partial) else ()


def key_place(mapping: Any, key: Any) -> tuple[Any, ...]:
    """Return the place of a value of a dictionary from outside."""
    return "key", id(mapping), type(key), key


def place() -> str:
    """Return file and line of the innermost rewritten function that runs; else of the caller of the compiler."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if HOOKS in frame.f_code.co_freevars:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def cell_value(cell: CellType) -> Any:
    """Return the contents of a closure's variable; MISSING if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
