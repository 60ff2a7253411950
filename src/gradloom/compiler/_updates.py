"""Optimizer updates as loops: an update rule becomes one loop program, which many parameters run through in one call.

Note [Optimizer updates]
An update rule of torch.optim (optim/_arrays.py) is Python on arrays and numbers. `_Traced` and the numbers of Note
[Numbers] stand for both while it runs once; what it computes becomes a pointwise loop program that reads a parameter,
its gradient and its state and writes them in place. Numbers are arguments of the program, so that neither a learning
rate nor a step count compiles anew; what the rule computes of numbers alone, Python computes before each call. A rule
may ask whether a number is 0 or 1, and booleans choose: for each answer there is another program.

While `Updates` are in force, in compiled functions and with `set_kernels("llvm")`, a step of the library's optimizers
only collects what is to be computed, and the loops run at its end. Everything else, from hooks to step counts, is the
optimizer's own Python. What the loops cannot take is left to the rule: half-precision parameters, layouts that are not
contiguous, subclasses, and steps that are recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from ..core.node import bump_version
from ..dispatch.state import state
from ..types.silence import silence
from ._build import Passes
from ._loops import Buffer, Instruction, LoopProgram, Pass
from ._numbers import Numbers, function_of
from ._scalar import CannotFuseError, Expr, Exprs, ordered

_REAL = {np.dtype(c): np.dtype(r) for c, r in (("c8", "f4"), ("c16", "f8"))}
_DTYPES = frozenset((*_REAL, *_REAL.values()))
_SIZE = 1 << 16  # of the program that stands for all sizes
_FUNCTIONS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "negative": "neg", "maximum": "maximum",
    "minimum": "minimum", "sqrt": "sqrt", "abs": "abs", "sign": "sign",
}  # fmt: skip
ndarray = np.ndarray


class _Asked(Numbers):
    """The numbers among a rule's arguments; a rule may ask whether one is 0 or 1."""

    def hold(self, condition: str) -> None:
        if _ASKS.fullmatch(condition) is None:
            raise CannotFuseError("the rule chooses by a number in a way that loops do not follow")

    def need(self, condition: str) -> None:
        """Python computes the numbers before each call, and raises what it raises."""

    def fix(self, source: str, value: Any) -> None:
        raise CannotFuseError("the rule computes with a number in a way that loops do not follow")


_ASKS = re.compile(r"n\[\d+\] [!=]= [01](\.0)?")


class _Traced:
    """An array of the rule: the expression of its elements now. In-place operators replace it."""

    __slots__ = ("rule", "expr")

    def __init__(self, rule: _Rule, expr: Any) -> None:
        self.rule, self.expr = rule, expr

    def _into(self, name: str, other: Any) -> Any:
        self.expr = self.rule.operation(name, self, other)
        return self

    def __add__(self, other: Any) -> Any:
        return _Traced(self.rule, self.rule.operation("+", self, other))

    def __sub__(self, other: Any) -> Any:
        return _Traced(self.rule, self.rule.operation("-", self, other))

    def __mul__(self, other: Any) -> Any:
        return _Traced(self.rule, self.rule.operation("*", self, other))

    def __truediv__(self, other: Any) -> Any:
        return _Traced(self.rule, self.rule.operation("/", self, other))

    def __gt__(self, other: Any) -> Any:
        return _Traced(self.rule, self.rule.operation(">", self, other))

    def __lt__(self, other: Any) -> Any:
        return _Traced(self.rule, self.rule.operation("<", self, other))

    def __neg__(self) -> Any:
        return _Traced(self.rule, self.rule.operation("neg", self))

    def __iadd__(self, other: Any) -> Any:
        return self._into("+", other)

    def __isub__(self, other: Any) -> Any:
        return self._into("-", other)

    def __imul__(self, other: Any) -> Any:
        return self._into("*", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._into("/", other)

    def __setitem__(self, where: Any, value: Any) -> None:
        """Replace all elements, for `...`, or those of a mask."""
        new = self.rule.operand(value)
        self.expr = new if where is ... else self.rule.exprs.where(where.expr, new, self.expr)


class _Functions:
    """What rules call on arrays: NumPy's names."""

    def __init__(self, rule: _Rule) -> None:
        self.rule = rule

    def __getattr__(self, name: str) -> Any:
        rule, op = self.rule, _FUNCTIONS.get(name)

        def function(*operands: Any, out: Any = None) -> Any:
            if name == "clip":
                low = rule.operation("maximum", *operands[:2])
                expr = rule.exprs.operation("minimum", low, rule.operand(operands[2]))
            elif op is None:
                raise CannotFuseError(f"the rule calls {name}")
            else:
                expr = rule.operation(op, *operands)
            if out is None:
                return _Traced(rule, expr)
            out.expr = expr
            return out

        return function


class _Rule:
    """One run of a rule on what stands for arrays and numbers.

    Args:
        dtype: in which it computes.
        present: for the parameter, the gradient and each kept tensor, whether it is there.
        numbers: the rule's last arguments.
    """

    def __init__(self, rule: Callable[..., None], dtype: str, present: Sequence[bool], numbers: Sequence[Any]) -> None:
        self.exprs, self.dtype = Exprs(), dtype
        loads = [self.exprs.make("load", (), dtype, i) if is_there else None for i, is_there in enumerate(present)]
        arrays = [None if e is None else _Traced(self, e) for e in loads]
        scratch = _Traced(self, None)
        asked = _Asked(tuple(numbers))
        given = [asked.standing_for(f"n[{i}]") if _is_number(n) else n for i, n in enumerate(numbers)]
        try:
            rule(_Functions(self), *arrays, scratch, *given)
        except (AttributeError, TypeError) as error:
            raise CannotFuseError(f"the rule does what loops do not follow: {error}") from error
        changed = [i for i, a in enumerate(arrays) if a is not None and a.expr is not loads[i]]
        if 1 in changed:
            raise CannotFuseError("the rule changes the gradient")
        self._program([arrays[i].expr for i in changed], changed)  # type: ignore[union-attr]

    def operand(self, value: Any) -> Expr:
        """Return an operand's expression; a number is rounded to the dtype, as NumPy does."""
        if isinstance(value, _Traced):
            return value.expr  # type: ignore[no-any-return]
        if value.__class__ not in (int, float):
            raise CannotFuseError(f"the rule computes with a {type(value).__name__}")
        return self.exprs.const(value, self.dtype)

    def operation(self, name: str, *values: Any) -> Expr:
        return self.exprs.operation(name, *map(self.operand, values))

    def _program(self, roots: list[Expr], changed: list[int]) -> None:
        order = ordered(roots)
        read = sorted({e.attribute for e in order if e.op == "load"})
        place = {number: i for i, number in enumerate(read)}
        along = [True] * (len(read) + len(changed))
        (whole,) = Passes(order, roots, place, along, False).passes()
        stores = [i for i in whole.body if i.op == "store"]
        body: tuple[Instruction, ...] = (*[i for i in whole.body if i.op != "store"], *stores)
        buffer = Buffer(self.dtype, (1,))
        aliases = tuple([(i, place[n]) for i, n in enumerate(changed) if n in place])
        self.program = LoopProgram(
            (_SIZE,), 0, (buffer,) * len(read), (buffer,) * len(changed), (Pass(body),),
            tuple([kind for _, kind in self.exprs.numbers]), aliases,
        )  # fmt: skip
        self.arrays = (*read, *changed)
        self.numbers = function_of(f"({''.join(f'{source}, ' for source, _ in self.exprs.numbers)})")


def _is_number(value: Any) -> bool:
    return value.__class__ in (int, float)


class Loop:
    """A rule's loop for parameters of one dtype.

    Attributes:
        arrays: for each argument of the loop, its number among the parameter, the gradient and what is kept.
        numbers: computes the loop's numbers from the rule's.
        run: the machine code.
    """

    def __init__(self, rule: Callable[..., None], dtype: np.dtype[Any], present: Any, numbers: Sequence[Any]) -> None:
        llvm = _llvm()
        made = _Rule(rule, str(_REAL.get(dtype, dtype)), present, numbers)
        self.arrays, self.numbers, self.program = made.arrays, made.numbers, made.program
        self.name = getattr(rule, "__qualname__", "rule")
        self.run = llvm.compile_many(made.program)


@lru_cache(256)
def _loop(rule: Any, dtype: np.dtype[Any], present: tuple[bool, ...], kinds: tuple[Any, ...]) -> Loop | str:
    """Return a rule's loop, or why there is none; of numbers other than 0 and 1 only the class matters."""
    numbers = [0.5 if kind is float and value is None else value for kind, value in kinds]
    try:
        return Loop(rule, dtype, present, numbers)
    except (CannotFuseError, NotImplementedError) as error:
        return str(error)


def _kind(number: Any) -> tuple[Any, Any]:
    if number.__class__ in (int, float) and number not in (0, 1):
        return float, None
    return number.__class__, number


@cache
def _llvm() -> ModuleType:
    """Return the module that needs llvmlite."""
    return import_module("gradloom.compiler._llvm.many")


class Updates:
    """Carries out the update rules of optimizers' steps by loops.

    Attributes:
        is_open: whether a step of the library's own runs, which reads nothing that it updates.
        fused: for each loop, how many updates it carried out.
        reasons: why updates were left to the rule, and how many.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.fused: Counter[Loop] = Counter()
        self.reasons: Counter[str] = Counter()
        self._forget()

    def _forget(self) -> None:
        self.collected: list[tuple[Any, Any, Any, Any]] = []  # what `add` was called with
        self.batches: dict[Any, tuple[Loop, Any, list[Any], list[int]]] = {}
        self.last: Any = None

    def during(self, step: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call an optimizer's `step`, without hooks."""
        if not str(getattr(step, "__globals__", {}).get("__name__")).startswith("gradloom.optim."):
            self.reasons[
                f"{getattr(step, '__qualname__', step)} is not the library's own, and may read parameters"
            ] += 1
            return step(*args, **kwargs)
        before, self.is_open = self.is_open, True
        try:
            return step(*args, **kwargs)
        finally:
            self.is_open = before
            self.flush()

    def add(self, rule: Any, parameter: Any, kept: Sequence[Any], numbers: tuple[Any, ...]) -> bool:
        """Collect an update; return False if the rule has to be called."""
        if not self.is_open:
            return False
        reason = self._add(rule, parameter, kept, numbers)
        if reason is None:
            self.collected.append((rule, parameter, kept, numbers))
            return True
        self.reasons[reason] += 1
        self.flush()  # the order of updates may show where parameters share memory
        return False

    def _add(self, rule: Any, parameter: Any, kept: Sequence[Any], numbers: tuple[Any, ...]) -> str | None:
        if state.dispatch_modes:
            return "a mode sees the operators"
        try:
            values, gradient = parameter._operand, parameter.grad._operand
            arrays = [values, gradient, *[None if t is None else t._operand for t in kept]]
        except AttributeError:
            return "a tensor of a subclass"
        dtype, strides, size = values.dtype, values.strides, values.size
        for a in arrays:
            if a is not None and (
                a.__class__ is not ndarray or a.dtype != dtype or a.strides != strides or a.size != size
            ):
                return "arrays that are laid out differently, or differ in size or dtype"
        flags = values.flags
        if not flags.c_contiguous or not flags.writeable or values.shape != gradient.shape:
            return "arrays that are laid out differently, or differ in size or dtype"
        key = rule, dtype, numbers, len(arrays)
        last = self.last
        if last is None or last[0] != key or last[2] != [a is None for a in arrays]:
            found = self._batch(rule, dtype, numbers, tuple([a is not None for a in arrays]))
            if found.__class__ is str:
                return found
            last = self.last = key, found, [a is None for a in arrays]
        loop, _, rows, sizes = last[1]
        rows += [arrays[i] for i in loop.arrays]
        sizes.append(size * (1 if dtype not in _REAL else 2))
        return None

    def _batch(self, rule: Any, dtype: Any, numbers: tuple[Any, ...], present: tuple[bool, ...]) -> Any:
        if dtype not in _DTYPES:
            return f"parameters of dtype {dtype}"
        if not all(n is None or n.__class__ in (int, float, bool) for n in numbers):
            return "options that are not numbers"
        key = rule, dtype, numbers, present
        batch = self.batches.get(key)
        if batch is None:
            found = _loop(rule, dtype, present, tuple(map(_kind, numbers)))
            if found.__class__ is str:
                return found
            batch = self.batches[key] = found, found.numbers(numbers), [], []  # type: ignore[union-attr, assignment]
        return batch

    def flush(self) -> None:
        """Run the loops of what was collected; or the rules, if arrays share memory or are no longer as they were."""
        batches, collected = self.batches, self.collected
        if not batches:
            return
        self._forget()
        llvm = _llvm()
        memory = llvm.Memory(sum(len(rows) for *_, rows, _ in batches.values()))
        found = [
            (loop, llvm.Rows(rows, tuple(sizes), key[1]), numbers)
            for key, (loop, numbers, rows, sizes) in batches.items()
        ]
        looks = [loop.run.look(rows, memory) for loop, rows, _ in found]
        if 2 in looks or 1 in looks and memory.overlaps():
            rules = import_module("gradloom.optim._arrays")
            self.reasons["arrays that share memory, or are read-only"] += len(collected)
            for rule, parameter, kept, numbers in collected:
                rules.in_blocks(rule, rules.arrays_of(parameter, parameter.grad, *kept), *numbers)
                if not parameter._inference:
                    bump_version(parameter)
            return
        for loop, rows, numbers in found:
            loop.run(rows, numbers)
            self.fused[loop] += len(rows.sizes)
        for _, parameter, _, _ in collected:
            if not parameter._inference:
                bump_version(parameter)


silence(globals())
