"""Entries of a compiled function: the check of the guards, the compiled graph, and how its results are put together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import attributes
from ..core.tensor import Tensor
from ..dispatch.state import AUTOCAST, GRAD_OFF, state
from ..types.dtype import default
from . import _run
from ._effects import Found
from ._known import NUMBERS, is_library_value, is_plain, is_plain_dataclass
from ._numbers import FREE, NAMES, evaluated, plain, same_float, same_number
from ._recorder import FREE_ITEM, MISSING, Recorder, cell_value, tensor_facts
from ._store import compiled, guards_code


class Opaque(Exception):
    """An argument or result that an entry cannot hold; the message says which."""


# --- arguments --------------------------------------------------------------------------------------------------------


class Arguments:
    """Guards on the arguments of a call, as Python source with objects.

    Attributes:
        conditions: expressions over `args` and `kwargs`.
        replaced: the identities of tuples that were made because they hold such numbers.
        args, kwargs: the arguments, with what stands for numbers of the graph.
    """

    def __init__(self, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recorder = recorder
        self.objects: list[Any] = []
        self.tensors: list[tuple[str, Any]] = []
        self.replaced: set[int] = set()
        self.conditions = [f"len(args) == {len(args)}", f"tuple(kwargs) == {tuple(kwargs)!r}"]
        self.args = tuple([self.add(f"args[{i}]", value) for i, value in enumerate(args)])
        self.kwargs = {name: self.add(f"kwargs[{name!r}]", value) for name, value in kwargs.items()}
        distinct: dict[int, int] = {}
        pattern = [distinct.setdefault(id(t), len(distinct)) for _, t in self.tensors]
        if len(pattern) > 1:
            same = [f"{a} is {b}" for i, (a, _) in enumerate(self.tensors) for j, (b, _) in enumerate(self.tensors[:i])
                    if pattern[i] == pattern[j]]  # fmt: skip
            self.conditions += same
            if len(distinct) > 1:
                first = [self.tensors[pattern.index(i)][0] for i in range(len(distinct))]
                self.conditions.append(f"len({{{', '.join([f'id({path})' for path in first])}}}) == {len(first)}")

    def name(self, value: Any) -> str:
        self.objects.append(value)
        return f"g{len(self.objects) - 1}"

    def add(self, path: str, value: Any) -> Any:
        """Add the guards of a value; return it, or what stands for it."""
        value = plain(value)
        r, cls = self.recorder, value.__class__
        if cls is float or cls is int:
            free = r.number(("argument", path), path.replace("{", "{{").replace("}", "}}"), value)
            if free is not value:
                return free
        if isinstance(value, Tensor):
            if not is_plain(value):
                raise Opaque(f"a {cls.__name__} ({path})")
            self.tensors.append((path, value))
            self.conditions.append(f"same_tensor({path}, {self.name(tensor_facts(value))})")
            if id(value) not in r.found:
                r.read(value, ("argument", path))
        elif cls in NUMBERS:
            if value is None or cls is bool or value is Ellipsis:
                self.conditions.append(f"{path} is {value!r}")
            elif cls is float and (value == 0 or math.isnan(value)):
                self.conditions.append(f"same_float({path}, {self.name(value)})")
            else:
                self.conditions.append(f"same_number({path}, {self.name(value)})")
        elif cls in (tuple, list) or isinstance(value, tuple):
            self.conditions.append(f"{path}.__class__ is {self.name(cls)} and len({path}) == {len(value)}")
            found = [self.add(f"{path}[{i}]", v) for i, v in enumerate(value)]
            self.passed(path, value)
            if cls is tuple and any(a is not b for a, b in zip(found, value, strict=True)):
                value = tuple(found)
                r.kept.append(value)
                self.replaced.add(id(value))
                self.passed(path, value)
            else:
                self.free_in(path, value, enumerate(found))
        elif cls is dict:
            keys = tuple(value)
            if not all(k.__class__ in NUMBERS for k in keys):
                raise Opaque(f"a dictionary with keys other than numbers and strings ({path})")
            self.conditions.append(f"{path}.__class__ is dict and same_keys({path}, {self.name(keys)})")
            self.free_in(path, value, [(k, self.add(f"{path}[{k!r}]", v)) for k, v in value.items()])
            self.passed(path, value)
        elif is_plain_dataclass(cls):
            members = value.__dict__
            self.conditions.append(f"{path}.__class__ is {self.name(cls)}")
            self.conditions.append(f"same_keys({path}.__dict__, {self.name(tuple(members))})")
            self.free_in(path, value, [(k, self.add(f"{path}.__dict__[{k!r}]", v)) for k, v in members.items()])
            self.passed(path, value)
        else:
            self.conditions.append(f"{path} is {self.name(value)}")
            r.read(value)
        return value

    def free_in(self, path: str, container: Any, members: Any) -> None:
        """Note what stands for numbers in a container, for the hooks."""
        found = {k: v for k, v in members if type(v) in FREE or type(v) is tuple and id(v) in self.replaced}
        if found:
            self.recorder.free_in[id(container)] = found

    def passed(self, path: str, value: Any) -> None:
        """Note a container, whose contents are guarded, and which is another object in each call."""
        r = self.recorder
        r.outer[id(value)] = r.whole[id(value)] = value
        first = r.paths.setdefault(id(value), path)
        if first != path:
            self.conditions.append(f"{path} is {first}")


def _same(found: Any, value: Any) -> bool:
    return (
        found is value
        or value is FREE_ITEM
        or (
            value.__class__ in NUMBERS
            and (same_float(found, value) if value.__class__ is float else same_number(found, value))
        )
    )


def same_items(found: Any, snapshot: tuple[Any, ...]) -> bool:
    return len(found) == len(snapshot) and all(map(_same, found, snapshot))


def same_dict(found: Any, snapshot: tuple[tuple[Any, Any], ...]) -> bool:
    if found is None or len(found) != len(snapshot):
        return False
    return all(_same(k, key) and _same(v, value) for (k, v), (key, value) in zip(found.items(), snapshot, strict=True))


def same_keys(found: dict[Any, Any], keys: tuple[Any, ...]) -> bool:
    return len(found) == len(keys) and all(map(_same, found, keys))


def same_tensor(t: Any, facts: tuple[Any, ...]) -> bool:
    """Whether a tensor is as a compiled graph requires; see `tensor_facts`."""
    if t.__class__ is not facts[0]:
        return False
    array = t._array
    return (
        type(array) is facts[1]  # not `__class__`, which a conjugate or negative bit leaves
        and array.shape == facts[2]
        and array.dtype is facts[3]
        and array.strides == facts[4]
        and t.requires_grad is facts[5]
        and (t._view is None) is facts[6]
        and (t.is_leaf, t._inference, t._tangent is None, t._name) == facts[7]
    )


_CHECKS = {
    f.__name__: f
    for f in (
        same_number, same_float, same_items, same_dict, same_keys, same_tensor, cell_value,
    )
}  # fmt: skip


def check_of(recorder: Recorder, arguments: Arguments) -> tuple[Callable[[Any, Any], Any], str]:
    """Return `check(args, kwargs)`, which returns None or the graph's inputs, and its source.

    After the inputs come the arguments that are returned as they are, the last first, and the tuple of the numbers that
    are arguments of the graph, if it has some.
    """
    names: dict[str, Any] = {**NAMES, **_CHECKS, "MISSING": MISSING, "fields": attributes.dictionary().__get__}
    for i, value in enumerate(arguments.objects):
        names[f"g{i}"] = value
    conditions = list(arguments.conditions)
    known: dict[int, str] = {}

    def name(value: Any) -> str:
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = f"o{len(known)}"
            names[found] = value
        return found

    for template, objects in (*recorder.classes.conditions(), *recorder.guards.values()):
        conditions.append(template.format(*map(name, objects)))
    inputs = [source if kind == "argument" else name(source) for kind, source in recorder.sources]
    inputs += reversed(recorder.returned)
    if recorder.numbers.values:
        numbers = [expression.format(*map(name, objects)) for expression, objects, _ in recorder.number_sources]
        classes = [f"n[{i}].__class__ is {v.__class__.__name__}" for i, v in enumerate(recorder.numbers.values)]
        conditions += [f"(n := ({', '.join(numbers)},))", *classes, *recorder.numbers.conditions]
        inputs.append("n")
    body = "\n".join(f"    if not ({c}): return None" for c in conditions)
    source = f"def check(args, kwargs):\n{body}\n    return [{', '.join(inputs)}]\n"
    exec(guards_code(source), names)
    return names["check"], source


# --- results ----------------------------------------------------------------------------------------------------------


def template_of(value: Any, outputs: dict[int, int], recorder: Recorder) -> Any:
    """Return a function that builds a result like `value`, of the list of output tensors and returned arguments.

    Args:
        outputs: identity of a tensor -> its position in the list; filled.
    """
    cls = value.__class__
    if isinstance(value, Tensor):
        result = recorder.results.get(id(value))
        if result is not None:
            return lambda found: found.results[result]
        number = outputs.setdefault(id(value), len(outputs))
        return lambda found: found[number]
    if cls in FREE:
        return lambda found: evaluated(value.source, found.numbers)
    if cls in NUMBERS:
        return lambda found: value
    path = recorder.paths.get(id(value))
    if path is not None:
        if path not in recorder.returned:
            recorder.returned.append(path)
        last = -1 - recorder.returned.index(path)
        return lambda found: found[last]
    if recorder.is_outer(value) or is_library_value(value):
        return lambda found: value
    if cls in (tuple, list):
        parts = [template_of(v, outputs, recorder) for v in value]
        return (
            (lambda found: [p(found) for p in parts])
            if cls is list
            else (lambda found: tuple([p(found) for p in parts]))
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = [template_of(v, outputs, recorder) for v in value]
        make = getattr(cls, "_make", cls)
        return lambda found: make(tuple([p(found) for p in parts]))
    if cls is dict:
        items = [(k, template_of(v, outputs, recorder)) for k, v in value.items()]
        return lambda found: {k: p(found) for k, p in items}
    if is_plain_dataclass(cls):
        return _instance(cls, [(k, template_of(v, outputs, recorder)) for k, v in value.__dict__.items()])
    raise Opaque(f"it returns a {cls.__name__}")


def _instance(cls: type, members: list[tuple[str, Any]]) -> Any:
    """Return a function that makes an instance of a data class."""

    def make(found: Any) -> Any:
        made: Any = object.__new__(cls)
        made.__dict__.update({k: p(found) for k, p in members})
        return made

    return make


# --- entries ----------------------------------------------------------------------------------------------------------


def thread_key() -> tuple[Any, ...]:
    """Return what of the thread's and process's state a compiled graph depends on."""
    return state.flags, default.float


def may_compile() -> bool:
    """Return whether no mode is on that needs to see every operator."""
    return not state.flags & ~(GRAD_OFF | AUTOCAST) and not state.function_modes and state.tracer is None


class Entry:
    """A compiled graph, and when it may run.

    Attributes:
        check: returns None if a guard fails, or the graph's inputs, and the arguments that are returned.
        count: number of inputs.
        has_numbers: whether numbers are arguments of the graph; Note [Numbers].
        before, after: the calls with effects before and after the graph.
        key: what `thread_key` must give.
    """

    def __init__(
        self, recorder: Recorder, arguments: Arguments, result: Any, backend: Any, machine_code: bool, key: Any
    ) -> None:
        outputs: dict[int, int] = {}
        self.key = key
        self.template = template_of(result, outputs, recorder)
        effects = recorder.effects
        for each in effects:
            each.bind(lambda value: template_of(value, outputs, recorder))
        self.before = [e for e in effects if e.is_first]
        self.after = [e for e in effects if not e.is_first]
        recording = recorder.recording
        for identity in outputs:
            if identity not in recorder.tensors and identity in recorder.found:
                recorder.use(next(t for t in recorder.kept if id(t) == identity))
                if recorder.reason is not None:
                    raise Opaque(recorder.reason)
            slot = recorder.tensors.get(identity)
            if slot is None:
                raise Opaque("it returns a tensor that came from outside")
            recording.outputs.append(slot)
        inputs = list(recorder.inputs)
        self.compiled = compiled(recording, inputs, backend, machine_code, recorder.afresh)
        self.compiled.silent = frozenset(i for i in self.compiled.mutated if inputs[i]._version == recorder.versions[i])
        self.check, self.guards = check_of(recorder, arguments)
        self.has_numbers = bool(recorder.numbers.values)
        self.numbers = recorder.numbers
        recorder.forget()
        self.count = len(inputs)
        self.exclusive = self.compiled.mutated

    def run(self, inputs: list[Any]) -> Any:
        numbers = inputs.pop() if self.has_numbers else ()
        returned = inputs[self.count :]
        del inputs[self.count :]
        for effect in self.before:
            effect.run(())
        found = Found([*_run.run(self.compiled, inputs, numbers), *returned])
        if numbers:
            found.numbers = numbers
        for effect in self.after:
            found.results.append(effect.run(found))
        return self.template(found)

    @property
    def is_fused(self) -> bool:
        """Whether a loop computes several operators, or an optimizer's update."""
        return self.compiled.is_fused or any(e.fuses for e in self.after)

    def is_apart(self, inputs: list[Any]) -> bool:
        """Return whether no input that the graph writes to shares memory with another."""
        return not any(
            np.may_share_memory(inputs[i]._array, t._array)
            for i in self.exclusive
            for j, t in enumerate(inputs[: self.count])
            if i != j
        )


class Backend:
    """Makes entries.

    Attributes:
        name: as in `list_backends`.
        loops: compiles a loop program; None to call every operator by itself.
        machine_code: whether loops are machine code. Then operators on rows are loops, too, and the backward pass
            computes expensive functions again rather than read their results; NumPy's kernels are faster than blocks.
        takes_numbers: whether numbers can be arguments of its graphs; Note [Numbers].
        asked: what `compile` was given for it, a name or a function.
    """

    takes_numbers = True

    def __init__(self, name: str, loops: Callable[[Any], Any] | None, machine_code: bool, asked: Any) -> None:
        self.name, self.loops, self.machine_code, self.asked = name, loops, machine_code, asked

    def entry(self, recorder: Recorder, arguments: Arguments, result: Any, key: Any) -> Entry:
        """Compile a recording."""
        if self.name == "eager":
            raise Opaque("the backend `eager` runs Python")
        return Entry(recorder, arguments, result, self.loops, self.machine_code, key)
