"""Vary the samples of an operator.

`plan` varies every argument by its type and by what the operator's source compares it with: each dimension, both values
of a bool, None for what is optional, other shapes, and numbers on both sides of every comparison. A value that the
kernel refuses is no mistake; the plan says which arguments were not varied, and why. An exception that is not raised on
purpose, such as a TypeError for None, is a fault.

Note [Variations]
An operator may be not differentiable, or not defined, where a variation leads; so a mismatch at a kink is dropped
(`Function.kinks`), and a call whose result is not finite is not made.
"""

from __future__ import annotations

import dis
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import gradloom
from gradloom.core.tensor import wrap

from .case import Case, Place, is_float, tensors
from .findings import KERNEL, Fault, Unvaried, said
from .operators import Operator
from .sampling import DEFAULT_DOMAIN, DIM, cases, domains, refusal
from .sources import Source

# Maximum number of variations of an operator, by kind.
LIMITS = {
    "fast": {"argument": 10, "combination": 4, "shape": 4, "number": 3, "complex": 1},
    "default": {"argument": 30, "combination": 14, "shape": 9, "number": 8, "complex": 4},
    "thorough": {"argument": 90, "combination": 60, "shape": 20, "number": 30, "complex": 12},
}
# Arguments whose value changes where or how a result is stored, not its numbers.
_STORAGE = frozenset({"Generator", "Device", "Layout", "MemoryFormat", "Storage", "ScalarType", "Stream"})
# Ranges of integers that stand for a choice.
_RANGES = {"reduction": (0, 2)}


@dataclass
class Plan:
    """The calls of an operator to check.

    Attributes:
        base: the samples.
        varied: variations of them.
        faults: exceptions for arguments that the schema allows.
        unvaried: arguments that were not varied, or not to every value, and why.
        once: arguments with one value in all calls, for which there was no other to try.
        none: arguments that are None in some call.
    """

    base: list[Case]
    varied: list[Case] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unvaried: list[Unvaried] = field(default_factory=list)
    once: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()


class Alternative(NamedTuple):
    """Another value of an argument.

    Attributes:
        value: the value.
        allowed: whether the schema allows it for certain, so that a kernel must take it or refuse it on purpose.
    """

    value: Any
    allowed: bool = True


def plan(operator: Operator, mode: str = "default", seed: int = 0) -> Plan:
    """Return the calls to check. They do not depend on the derivative. Raises NoSamples."""
    found = Plan(cases(operator, seed))
    _Variations(operator, found, LIMITS[mode], seed).make()
    return found


class _Variations:
    """Makes the variations of one operator's samples."""

    def __init__(self, operator: Operator, found: Plan, limits: dict[str, int], seed: int) -> None:
        self.operator, self.found, self.limits = operator, found, limits
        self.source = Source(operator)
        self.random = np.random.default_rng(31 + seed)
        self.ranges = domains(operator)
        self.inputs = {a.python_name: a for a in operator.schema.inputs}
        self.seen = {_key(c) for c in found.base}
        self.values: dict[str, dict[str, Any]] = {name: {} for name in self.inputs}
        self.refused: dict[str, dict[str, str]] = {name: {} for name in self.inputs}
        for case in found.base:
            self.tried(case)

    def make(self) -> None:
        usable = [c for c in self.found.base if _is_usable(c)]
        if usable:
            usable = [self.moved(c) for c in usable]
            usable.sort(key=lambda c: -min(2, max((t.ndim for t in _all_tensors(c)), default=0)))
            first = usable[0]
            second = next((c for c in usable[1:] if _structure(c) != _structure(first)), None)
            if any(DIM.fullmatch(name) for name in self.inputs) and (second is None or _rank(second) <= _rank(first)):
                second = self.higher(first) or second
            for group, made in (
                ("argument", self.one_at_a_time(first)),
                ("combination", self.combinations(first)),
                ("argument", self.one_at_a_time(second) if second is not None else iter(())),
                ("shape", self.shapes(first)),
                ("number", itertools.chain.from_iterable(self.numbers(c) for c in usable[:3])),
                ("complex", self.complex(first)),
            ):
                if group in ("number", "complex") and not self.operator.differentiable:
                    continue
                self.take(made, self.limits[group])
        self.found.unvaried += self.notes()
        self.found.once = frozenset(
            name
            for name, values in self.values.items()
            if len(values) < 2 and not self.refused[name] and self.is_value(name) and name not in self.operator.fixed
        )
        self.found.none = frozenset(name for name, values in self.values.items() if "None" in values)

    def moved(self, case: Case) -> Case:
        """Return the call with its numbers moved a little, so that no two are equal and none lies at a kink."""
        places = [p for p in case.places if case.read(p).dtype is gradloom.float64]
        inputs = []
        for place in places:
            array = case.read(place)._array
            inputs.append(wrap(np.asarray(array * (1 + self.random.uniform(-0.01, 0.01, array.shape)))))
        args, kwargs = case.with_inputs(tuple(inputs), places)
        return Case(self.operator, tuple(args), kwargs)

    def higher(self, case: Case) -> Case | None:
        """Return the call with a dimension more, where it is accepted."""
        for made, _, _ in self.shapes(case):
            if made.label in ("a dimension more", "another shape") and _rank(made) > max(2, _rank(case)):
                if refusal(made) is None:
                    return made
        return None

    def take(self, made: Iterator[tuple[Case, str, Alternative | None]], limit: int) -> None:
        """Keep up to `limit` of some variations: those that the kernel accepts."""
        count = 0
        for case, name, alternative in made:
            key = _key(case)
            if key in self.seen:
                continue
            self.seen.add(key)
            if self.accepts(case, name, alternative):
                self.tried(case)
                self.found.varied.append(case)
                count += 1
            if count >= limit:
                return

    def tried(self, case: Case) -> None:
        for name, value in case.arguments():
            if name in self.values:
                self.values[name][_shown_value(value)] = value

    def accepts(self, case: Case, name: str, alternative: Alternative | None) -> bool:
        error = refusal(case)
        if error is None:
            return True
        shown = _shown_value(alternative.value) if alternative is not None else case.label
        self.refused[name].setdefault(shown, said(error) if isinstance(error, Exception) else error)
        if alternative is not None and alternative.allowed and isinstance(error, Exception) and not is_refusal(error):
            message = f"raises {said(error)} for `{name}={shown}`, which the schema allows"
            causes = ()
            if alternative.value is None and not self.source.is_tested(name):
                causes = (f"`{name}` is used without a test for None",)
            self.found.faults.append(Fault(case, "call", message, KERNEL, causes=causes))
        return False

    def is_value(self, name: str) -> bool:
        """Return whether the numbers of a result may depend on an argument that is not a tensor."""
        argument = self.inputs[name]
        return argument.type.base.name != "Tensor" and not is_storage(argument)

    # Arguments that are not tensors, and None

    def one_at_a_time(self, case: Case) -> Iterator[tuple[Case, str, Alternative | None]]:
        groups = [
            [(name, alternative) for alternative in self.alternatives(name, value, case)]
            for name, value in case.arguments()
        ]
        for row in itertools.zip_longest(*groups):  # the most telling value of each argument first
            for entry in row:
                if entry is not None:
                    name, alternative = entry
                    yield replaced(case, {name: alternative.value}), name, alternative

    def combinations(self, case: Case) -> Iterator[tuple[Case, str, Alternative | None]]:
        """Yield calls in which several arguments differ: flags, dimensions, and what may be None."""
        names, choices = [], []
        for name, value in case.arguments():
            argument = self.inputs[name]
            values = [value]
            for alternative in self.alternatives(name, value, case):
                refused = _shown_value(alternative.value) in self.refused[name]
                if not refused and (self.is_mode(argument) or alternative.value is None or value is None):
                    values.append(alternative.value)
            if len(values) > 1:
                names.append(name)
                choices.append(values[: 5 if DIM.fullmatch(name) else 4])
        if len(names) < 2:
            return
        total = int(np.prod([len(c) for c in choices]))
        every = itertools.product(*choices) if total <= 64 else self.drawn(choices)
        several = [c for c in every if sum(v is not o[0] for v, o in zip(c, choices, strict=True)) > 1]
        self.random.shuffle(several)
        for values in several:
            yield replaced(case, dict(zip(names, values, strict=True))), names[0], None

    def drawn(self, choices: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
        for _ in range(64):
            yield tuple(c[self.random.integers(len(c))] for c in choices)

    @staticmethod
    def is_mode(argument: Any) -> bool:
        return argument.type.base.name in ("bool", "str") or bool(DIM.fullmatch(argument.python_name))

    def alternatives(self, name: str, value: Any, case: Case) -> Iterator[Alternative]:
        """Yield other values of an argument, the most telling ones first."""
        argument = self.inputs[name]
        kind = argument.type.base.name
        if kind in _STORAGE or name == "pin_memory" or name in self.operator.fixed:
            return
        if argument.type.is_optional and value is not None:
            yield Alternative(None)
        if argument.type.is_tensor_like:
            yield from self.other_tensors(argument, value, case)
            return
        if argument.type.is_list:
            made = self.other_lists(argument, value, case)
        elif kind == "bool":
            made = iter([Alternative(b) for b in (True, False)])
        elif kind == "str":
            made = (Alternative(s, False) for s in (*self.source.strings(name), "another"))
        elif kind in ("int", "SymInt"):
            made = self.other_integers(name, value, case)
        elif kind in ("float", "Scalar"):
            made = self.other_numbers(name, value, kind)
        else:
            return
        shown = _shown_value(value)
        for alternative in made:
            if _shown_value(alternative.value) != shown:
                yield alternative

    def other_integers(self, name: str, value: Any, case: Case) -> Iterator[Alternative]:
        if DIM.fullmatch(name):
            rank = _rank(case)
            for dim in sorted(range(-rank, rank), key=lambda d: (d != rank - 1, d != -1, d < 0)):
                yield Alternative(dim)
            return
        low, high = self.ranges.get(name, _RANGES.get(name, (-np.inf, np.inf)))
        near = [value + 1, value - 1] if isinstance(value, int) else []
        for number in dict.fromkeys([*near, *self.source.integers(name), 0, 1, 2, 3, -1, 5]):
            if low <= number <= high:
                yield Alternative(number)

    def other_numbers(self, name: str, value: Any, kind: str) -> Iterator[Alternative]:
        numbers: list[Any] = [1.31, 0.57, 2.0, 0.0, 1.0, -0.83, 3.0, 0.47]
        if kind == "Scalar":
            numbers += [2, 0]
        if isinstance(value, (int, float)):
            numbers.insert(0, value * 1.5 + 0.1)
        numbers += [n for c in self.source.numbers for n in (c, c + 0.3, c - 0.3) if c == 0 or 1e-2 < abs(c) < 6]
        if self.source.is_compared_with_infinity(name):
            numbers += [float("inf"), float("-inf")]
        low, high = self.ranges.get(name, (-np.inf, np.inf))
        for number in numbers:
            if low <= number <= high:
                yield Alternative(number)
        if kind == "Scalar" and name not in self.ranges:
            yield Alternative(0.8 - 0.6j, False)

    def other_lists(self, argument: Any, value: Any, case: Case) -> Iterator[Alternative]:
        kind, size = argument.type.base.name, getattr(argument.type.required, "size", None)
        name = argument.python_name
        if kind in ("int", "SymInt") and DIM.fullmatch(name):
            rank = _rank(case)
            every = tuple(range(rank))
            if size is not None and size > 1:
                found = [
                    p for p in itertools.permutations(range(-rank, rank), size) if len({d % rank for d in p}) == size
                ]
                self.random.shuffle(found)
            else:
                found = [(rank - 1,), (0, -1), (0,), (-1,), (), every, every[::-1], (-2,), every[1:]]
            for dims in found:
                if len({d % rank for d in dims}) == len(dims) and all(-rank <= d < rank for d in dims):
                    yield Alternative(dims)
        elif kind in ("int", "SymInt") and isinstance(value, (list, tuple)):
            for position, change in itertools.product(range(len(value)), (1, -1)):
                yield Alternative((*value[:position], value[position] + change, *value[position + 1 :]), False)
        elif kind == "bool" and isinstance(value, (list, tuple)):
            for flags in itertools.product((True, False), repeat=len(value)):
                yield Alternative(flags)
        elif kind in ("float", "Scalar") and isinstance(value, (list, tuple)):
            for position in range(len(value)):
                yield Alternative((*value[:position], value[position] * 1.5 + 0.1, *value[position + 1 :]), False)

    def other_tensors(self, argument: Any, value: Any, case: Case) -> Iterator[Alternative]:
        """Yield tensors for an optional one that is None, and longer and shorter lists."""
        if argument.type.is_list:
            if isinstance(value, (list, tuple)) and value and all(is_float(v) for v in value):
                yield Alternative([self.fresh(v) for v in (*value, value[-1])], False)
                if len(value) > 1:
                    yield Alternative([self.fresh(v) for v in value[:-1]], False)
        elif value is None and argument.type.is_optional:
            given = [t for t in _all_tensors(case) if is_float(t)]
            shapes = [t.shape for t in given] + [(n,) for t in given for n in t.shape[::-1]] + [()]
            low, high = self.ranges.get(argument.python_name, DEFAULT_DOMAIN)
            for shape in dict.fromkeys(tuple(s) for s in shapes):
                yield Alternative(wrap(self.random.uniform(low, high, shape)), False)

    # Shapes

    def fresh(self, tensor: Any, shape: tuple[int, ...] | None = None) -> Any:
        """Return other numbers from the range of a tensor's, in another shape."""
        array = tensor._array
        shape = array.shape if shape is None else shape
        if not is_float(tensor) or not array.size or array.dtype.kind == "V":
            return wrap(self.random.choice(array.reshape(-1), shape) if array.size else np.zeros(shape, array.dtype))
        finite = array.real[np.isfinite(array.real)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else DEFAULT_DOMAIN
        if high - low < 0.2:
            low, high = low - 0.05, high + 0.15
        values = self.random.uniform(low, high, shape)
        if array.dtype.kind == "c":
            values = values + 1j * self.random.uniform(0.2, 0.8, shape)
        return wrap(np.asarray(values).astype(array.dtype))

    def shapes(self, case: Case) -> Iterator[tuple[Case, str, Alternative | None]]:
        found = _all_tensors(case)
        names = [n for n, v in case.arguments() if tensors(v)]
        if not names or any(n in self.operator.fixed for n in names):
            return
        if self.operator.is_pointwise and len(case.floats) > 1:
            yield from self.broadcast(case, names[0])
        for label, change in self.other_shapes(found):
            if label.startswith("size 1 in") or all(t.dtype is gradloom.bool or is_float(t) for t in found):
                yield as_varied(case.changed(lambda t, change=change: self.reshaped(t, change), label)), names[0], None

    def reshaped(self, tensor: Any, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Any:
        """Return a tensor of another shape; of indices, a part."""
        before, after = tuple(tensor.shape), change(tuple(tensor.shape))
        if before == after:
            return tensor
        if tensor._array.dtype.kind in "iu":
            return wrap(tensor._array[tuple(slice(n) for n in after)].copy())
        return self.fresh(tensor, after)

    def other_shapes(self, found: list[Any]) -> Iterator[tuple[str, Callable[[tuple[int, ...]], tuple[int, ...]]]]:
        """Yield (label, function from a tensor's shape to another one)."""
        rank = max(t.ndim for t in found)
        top = next(t.shape for t in found if t.ndim == rank)
        if self.operator.samples is None and all(t.shape == found[0].shape for t in found):
            for shape in ((), (4,), (3, 2, 4), (1,), (2, 1), (1, 3), (2, 3, 1, 2)):
                yield "0-dim" if shape == () else "another shape", lambda s, shape=shape: shape
        yield "a dimension more", lambda s: (2, *s) if len(s) == rank else s
        for dim, size in enumerate(top):
            for other, label in ((1, "size 1"), (size + 1, "one more")):
                yield (
                    f"{label} in dimension {dim}",
                    lambda s, dim=dim, size=size, other=other: (
                        (*s[:dim], other, *s[dim + 1 :]) if len(s) == rank and s[dim] == size else s
                    ),
                )
        yield "a dimension fewer", lambda s: s[1:] if len(s) == rank else s

    def broadcast(self, case: Case, name: str) -> Iterator[tuple[Case, str, Alternative | None]]:
        try:
            whole = np.broadcast_shapes(*(case.read(p)._array.shape for p in case.floats))
        except ValueError:
            return
        if not whole or 0 in whole:
            return
        for shape in ((*whole[:-1], 1), whole[1:], (), (1, *whole)):
            for place in case.floats:
                if self.operator.schema.kind == "inplace" and place == case.floats[0]:
                    continue
                inputs = tuple(self.fresh(case.read(p), shape if p == place else whole) for p in case.floats)
                args, kwargs = case.with_inputs(inputs, case.floats)
                yield as_varied(Case(self.operator, tuple(args), kwargs, f"`{place}` broadcast")), name, None

    # Numbers

    def points(self, case: Case, name: str) -> np.ndarray:
        """Return numbers on both sides of everything that an argument is compared with, of 0 and of 1."""
        if name in self.ranges:
            low, high = self.ranges[name]
            return low + (high - low) * (np.arange(9) + self.random.uniform(0.2, 0.8, 9)) / 9
        given = [v for _, v in case.arguments() if isinstance(v, (int, float)) and not isinstance(v, bool)]
        marks = {0.0, 1.0, -1.0, *self.source.numbers, *(float(g) for g in given if abs(g) < 200)}
        marks |= {-m for m in marks}
        edges = sorted(m for m in marks if m == m)
        edges = np.array([edges[0] - 2.5, edges[0] - 0.9, *edges, edges[-1] + 0.9, edges[-1] + 2.5])
        gaps = np.diff(edges)
        wide = gaps > 1e-2
        return (edges[:-1] + gaps * self.random.uniform(0.3, 0.7, len(gaps)))[wide]

    def numbers(self, case: Case) -> Iterator[tuple[Case, str, Alternative | None]]:
        """Yield the call with numbers on both sides of the comparisons in its source."""
        places = [p for p in case.floats if case.read(p).dtype is gradloom.float64 and case.read(p)._array.size]
        if not self.operator.is_pointwise:
            places = [p for p in places if p in case.places]
        if not places:
            return
        if self.operator.is_pointwise:
            yield from self.pointwise_numbers(case, places)
            return
        label = "other numbers"
        together = as_varied(self.with_points(case, places, label))
        error = refusal(together)
        for made in (together, *(as_varied(self.with_points(case, places, label)) for _ in range(1))):
            yield made, places[0].name, None
        if error is not None and len(places) > 1:
            for place in places:
                yield as_varied(self.with_points(case, [place], f"other numbers in `{place}`")), place.name, None

    def with_points(self, case: Case, places: list[Place], label: str) -> Case:
        inputs = []
        for place in places:
            shape = case.read(place)._array.shape
            points = self.points(case, place.name)
            size = int(np.prod(shape))
            drawn = self.random.permutation(np.resize(self.random.permutation(points), size))
            inputs.append(wrap((drawn + self.random.uniform(-0.05, 0.05, size)).reshape(shape)))
        args, kwargs = case.with_inputs(tuple(inputs), places)
        return Case(self.operator, tuple(args), kwargs, label)

    def pointwise_numbers(self, case: Case, places: list[Place]) -> Iterator[tuple[Case, str, Alternative | None]]:
        """Yield a vector of numbers, without those for which the result is not finite."""
        others = [t for t in _all_tensors(case) if not is_float(t)]
        if any(p.index is not None for p in places):
            return
        subsets = [places, *([p] for p in places if len(places) > 1)]
        for subset in subsets:
            points = {p: self.points(case, p.name) for p in subset}
            size = max(12, *(len(v) for v in points.values())) if len(subset) < 2 else 24
            arrays = []
            for place in case.floats:
                if place in points:
                    values = np.resize(self.random.permutation(points[place]), size)
                    arrays.append(self.random.permutation(values) + self.random.uniform(-0.05, 0.05, size))
                else:
                    arrays.append(self.fresh(case.read(place), (size,))._array)
            made = self.of_vectors(case, arrays, size, others)
            if made is None:
                continue
            with gradloom.no_grad():
                try:
                    results = [t._array for t in tensors(made.plain()) if is_float(t)]
                except Exception:
                    results = []
            if results and all(r.shape == (size,) for r in results):
                finite = np.all([np.isfinite(r) for r in results], 0)
                if 0 < finite.sum() < size:
                    self.refused[subset[0].name].setdefault("some numbers", "the result is not finite")
                    chosen = made.changed(lambda t, finite=finite: wrap(t._array[finite].copy()), made.label)
                    made = as_varied(chosen)
            yield made, subset[0].name, None

    def of_vectors(self, case: Case, arrays: list[np.ndarray], size: int, others: list[Any]) -> Case | None:
        made = case.changed(lambda t: t if is_float(t) else self.fresh(t, (size,)), "other numbers") if others else case
        args, kwargs = made.with_inputs(tuple(wrap(np.array(a)) for a in arrays), made.floats)
        return as_varied(Case(self.operator, tuple(args), kwargs, "other numbers"))

    def complex(self, case: Case) -> Iterator[tuple[Case, str, Alternative | None]]:
        """Yield complex numbers of all quadrants for all tensors; for those of a pointwise operator also one by one."""
        places = [p for p in case.floats if case.read(p).dtype is gradloom.float64]
        if not places or any(p.name in self.ranges for p in places):
            return
        together = self.with_complex(case, places, "complex")
        yield together, places[0].name, None
        if self.operator.is_pointwise and len(places) > 1 and refusal(together) is None:
            for place in places:
                yield self.with_complex(case, [place], f"complex `{place}`"), place.name, None

    def with_complex(self, case: Case, places: list[Place], label: str) -> Case:
        inputs = []
        for place in places:
            shape = case.read(place)._array.shape
            radius, angle = self.random.uniform(0.3, 1.8, shape), self.random.uniform(-3.0, 3.0, shape)
            inputs.append(wrap(np.asarray(radius * np.exp(1j * angle))))
        args, kwargs = case.with_inputs(tuple(inputs), places)
        return as_varied(Case(self.operator, tuple(args), kwargs, label))

    # What was not varied

    def notes(self) -> Iterator[Unvaried]:
        info = self.operator.joined.info
        for name, argument in self.inputs.items():
            kind = argument.type.base.name
            if info is not None and name in info.unnamed:
                yield Unvaried(name, "no derivative: the entry does not name it, so it may not require a gradient")
            if name in self.operator.fixed:
                yield Unvaried(name, "only the values of the samples are valid")
                continue
            if kind in _STORAGE or name == "pin_memory":
                if not argument.type.is_tensor_like and len(self.values[name]) < 2:
                    yield Unvaried(name, f"a {kind} is not varied")
                continue
            refused = self.refused[name]
            if argument.type.is_tensor and not argument.type.is_optional:
                if not any(is_float(v) for v in self.values[name].values()):
                    yield Unvaried(name, "its values are those of the samples")
                for shown, reason in refused.items():
                    if reason == "the result is not finite":
                        yield Unvaried(name, f"{shown}: {reason}")
                continue
            if len(self.values[name]) < 2:
                if refused:
                    tried = ", ".join(list(refused)[:4])
                    yield Unvaried(name, f"refused by the kernel: {tried} ({next(iter(refused.values()))})")
                elif kind == "str":
                    yield Unvaried(name, "the source compares it with no string")
                else:
                    yield Unvaried(name, "its type does not say which other values there are")
                continue
            for shown, reason in refused.items():
                if shown in ("None", "True", "False"):
                    yield Unvaried(name, f"refused by the kernel: {shown} ({reason})")


def is_storage(argument: Any) -> bool:
    """Return whether an argument says where or how a result is stored, so that its numbers do not depend on it."""
    return argument.type.base.name in _STORAGE or argument.python_name == "pin_memory"


def replaced(case: Case, values: dict[str, Any]) -> Case:
    """Return the call with other values of some arguments."""
    args = tuple(values.get(n, v) for n, v in zip(case.names, case.args, strict=False))
    kwargs = {n: values.get(n, v) for n, v in case.kwargs.items()}
    return as_varied(Case(case.operator, args, kwargs))


def as_varied(case: Case) -> Case:
    case.is_varied = True
    return case


def is_refusal(error: Exception) -> bool:
    """Return whether an exception is an answer to a bad value: raised by a `raise` statement, or about a value. A
    TypeError out of a computation is none."""
    if isinstance(error, (ValueError, IndexError, ArithmeticError, RuntimeError)) and not isinstance(
        error, RecursionError
    ):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    names = {i.offset: i.opname for i in dis.get_instructions(code)}
    return names.get(trace.tb_lasti, "").startswith("RAISE")


def _is_usable(case: Case) -> bool:
    given = _all_tensors(case)
    return all(t._array.size and t._array.dtype.kind in "fbiu" for t in given) and refusal(case) is None


def _all_tensors(case: Case) -> list[Any]:
    return [t for _, value in case.arguments() for t in tensors(value)]


def _rank(case: Case) -> int:
    """Return the number of dimensions that an argument `dim` counts: those of the first tensor."""
    given = _all_tensors(case)
    return given[0].ndim if given else 1


def _shown_value(value: Any) -> str:
    found = tensors(value)
    if found:
        return "[" + ", ".join(f"{t.dtype}{list(t.shape)}" for t in found) + "]"
    return repr(tuple(value)) if isinstance(value, list) else repr(value)


def _key(case: Case) -> str:
    numbers = case.label if case.label.startswith(("other", "complex")) else ""
    return "; ".join(f"{n}={_shown_value(v)}" for n, v in case.arguments()) + numbers


def _structure(case: Case) -> list[tuple[str, Any]]:
    return [(n, None if v is None else len(tensors(v)) or repr(v)) for n, v in case.arguments()] + [
        ("rank", max((t.ndim for t in _all_tensors(case)), default=0))
    ]
