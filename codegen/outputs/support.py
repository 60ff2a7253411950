"""Determine the features that an operator supports, from its entries and the operators they call. Nothing is executed.

    support = Support(derivatives, source)
    row = support.row(derivatives["mul.Tensor"])
    row.reverse, row.double, row.forward, row.complex, row.inplace, row.out     # each a Fact
    row.reverse.answer, row.reverse.why                                         # 'yes', 'a formula for each input'

Note [Support]
Reverse mode follows from the entry: formulas, or for a composite the operators that it calls. A second derivative
exists if every operator that the formulas call, also through helpers, has a first one. Forward mode exists if every
differentiable output has a formula or, for a composite, if all operators that it calls have it. Complex support is
known where a kernel is one ufunc, whose loops NumPy lists; `gradloom.tools.support` tries other kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy

from ..derivatives.model import Derivative, DifferentiabilityInfo, DifferentiableFunction
from ..language.scope import ATTRIBUTE_NAMES, METHOD_NAMES, TENSOR_ATTRIBUTES, TENSOR_METHODS
from ..reading.python_files import MODULES, NO_DERIVATIVE, Functions

YES, NO, PART, NONE, UNKNOWN = "yes", "no", "part", "none", "unknown"


@dataclass(frozen=True, slots=True)
class Fact:
    """An answer and its reason."""

    # 'yes', 'no', 'part' (for some inputs), 'none' (nothing to differentiate), or 'unknown' (it must be run)
    answer: str
    why: str = ""

    def __bool__(self) -> bool:
        return self.answer in (YES, PART)

    def __str__(self) -> str:
        return f"{self.answer} ({self.why})" if self.why else self.answer


@dataclass(frozen=True, slots=True)
class Row:
    """The support of one operator."""

    reverse: Fact
    double: Fact
    forward: Fact
    complex: Fact
    inplace: Fact
    out: Fact

    def items(self) -> Iterator[tuple[str, Fact]]:
        """Yield (title, fact) for each column, in display order."""
        yield from (
            ("reverse mode", self.reverse),
            ("double backward", self.double),
            ("forward mode", self.forward),
            ("complex numbers", self.complex),
            ("in-place", self.inplace),
            ("out=", self.out),
        )


class Support:
    """The support of operators and of those that they may call. `sources` has the folders formulas/ and composite/ of a
    package first, then gradloom's."""

    def __init__(self, functions: Iterable[DifferentiableFunction], *sources: Path) -> None:
        functions = tuple(functions)
        self.formulas = Functions(*[source / "formulas" for source in sources])
        self.composites = Functions(*[source / "composite" for source in sources])
        self.by_name: dict[str, list[DifferentiableFunction]] = {}
        for f in functions:
            if f.schema.kind != "out":
                names = {f.schema.name.name, f.schema.name.unambiguous}
                for name in names:
                    self.by_name.setdefault(name, []).append(f)
        self._functions = functions
        self._rows: dict[tuple[str, str], Fact] = {}

    @cached_property
    def _inplace(self) -> dict[str, str]:
        return {str(f.schema.signature()): f.name for f in self._functions if f.schema.kind == "inplace"}

    def row(self, function: DifferentiableFunction) -> Row:
        """Return the support of an operator."""
        return Row(
            self.fact("reverse", function),
            self.fact("double", function),
            self.fact("forward", function),
            self.complex(function),
            self.variant(function, "inplace"),
            self.variant(function, "out"),
        )

    def fact(self, column: str, function: DifferentiableFunction) -> Fact:
        """Return the fact 'reverse', 'double' or 'forward' of an operator. Mutually recursive ones count as
        supported."""
        key = (column, function.name)
        if key not in self._rows:
            self._rows[key] = Fact(YES)
            self._rows[key] = getattr(self, f"_{column}")(function)
        return self._rows[key]

    # Reverse mode

    def _reverse(self, function: DifferentiableFunction) -> Fact:
        if function.strategy == "composition":
            return self._by_composition("reverse", function)
        if function.strategy == "not_differentiable":
            return Fact(NONE, "its result never requires a gradient")
        if function.strategy != "formula" or function.info is None:
            return Fact(NO, "nobody wrote its derivative")
        missing = [n for d in function.info.derivatives if d.not_implemented is not None for n in d.inputs]
        if len(missing) == len(function.info.inputs):
            return Fact(NO, "derivatives.yaml says that it is not implemented")
        if missing:
            return Fact(PART, f"not for {', '.join(missing)}")
        return Fact(YES, "by formula")

    def _by_composition(self, column: str, function: DifferentiableFunction) -> Fact:
        """Return the common support of all operators that a composite calls."""
        calls = self.composite_calls(function)
        facts = [(name, self.best(column, name)) for name in calls]
        missing = [name for name, fact in facts if fact.answer == NO]
        if missing:
            return Fact(NO, f"it calls {', '.join(sorted(missing))}")
        if not any(r.type.is_tensor_like for r in function.schema.returns) and function.schema.kind == "functional":
            return Fact(NONE, "its result is no tensor")
        if not facts:
            return Fact(YES, "it passes its input on")
        if all(fact.answer == NONE for _, fact in facts):
            return Fact(NONE, "nothing that it calls is differentiable")
        return Fact(YES, "through the operators that it calls")

    def best(self, column: str, name: str) -> Fact:
        """Return the best answer among the overloads of a name, since it is unknown which one a call means."""
        facts = [self.fact(column, f) for f in self.by_name[name]]
        return next((f for answer in (YES, PART, NO) for f in facts if f.answer == answer), Fact(NONE))

    def composite_calls(self, function: DifferentiableFunction) -> set[str]:
        native = function.function
        assert native.composite is not None and native.composite_module is not None
        return self.operators_in(self.composites.calls(native.composite_module, native.composite.partition(".")[2]))

    def operators_in(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if name in self.by_name}

    # Second derivatives

    def _double(self, function: DifferentiableFunction) -> Fact:
        first = self.fact("reverse", function)
        if not first:
            return first
        if function.strategy == "composition":
            return self._by_composition("double", function)
        assert function.info is not None
        missing = {
            name
            for d in function.info.derivatives
            if d.not_implemented is None
            for name in self.formula_calls(function.info, d)
        }
        if not missing:
            return replace(first, why="what its formulas call is differentiable" if first.answer == YES else first.why)
        return Fact(NO, f"{', '.join(sorted(missing))}, which its formula calls, has no derivative")

    def formula_calls(self, info: DifferentiabilityInfo, d: Derivative) -> set[str]:
        """Return the operators without a derivative to which a formula passes a differentiable value: a gradient, a
        differentiable input or output, or a value computed from them."""
        inputs = {i.name for i in info.inputs}
        names = {"grad", "grads"} | {g.name for g in d.gradients}
        names |= {
            s.name
            for s in info.saved
            if s.kind != "value" and (s.of in inputs or (s.output is not None and s.output.is_differentiable))
        }
        flow = Flow(self.formulas, lambda name: self.best("reverse", name).answer if name in self.by_name else None)
        flow.expression(ast.parse(d.formula, mode="eval").body, names, None)
        return flow.stopped

    # Forward mode

    def _forward(self, function: DifferentiableFunction) -> Fact:
        if function.strategy == "composition":
            return self._by_composition("forward", function)
        if function.strategy == "not_differentiable":
            return Fact(NONE, "its result never requires a gradient")
        info = function.info
        if function.strategy != "formula" or info is None:
            return Fact(NO, "nobody wrote its derivative")
        wanted = {o.name for o in info.differentiable_outputs}
        given = {name for f in info.forward if f.not_implemented is None for name in f.outputs}
        if not wanted & given:
            return Fact(NO, "there is no formula for its outputs")
        if wanted - given:
            return Fact(PART, f"not for {', '.join(sorted(wanted - given))}")
        kinds = {f.kind for f in info.forward}
        return Fact(
            YES,
            {"auto_linear": "it is linear", "auto_element_wise": "from the formula of reverse mode"}.get(
                kinds.pop() if len(kinds) == 1 else "", "by formula"
            ),
        )

    # Complex numbers

    def complex(self, function: DifferentiableFunction) -> Fact:
        """Return whether it takes complex tensors, if the kernel shows it."""
        kernel = function.function.kernel
        if kernel is None:
            return Fact(UNKNOWN, "it depends on the operators that it calls")
        return Fact(UNKNOWN, "the kernel does not say") if kernel.ufunc is None else complex_loops(kernel.ufunc)

    # Variants

    def variant(self, function: DifferentiableFunction, kind: str) -> Fact:
        """Return the in-place or out variant: derived by `autogen:`, or a separate entry."""
        derived = next((v for v in function.function.derived if v.kind == kind), None)
        if derived is not None:
            return Fact(YES, str(derived.schema.name))
        if kind == "inplace" and function.schema.kind == "functional":
            own = self._inplace.get(str(function.schema.signature()))
            if own is not None:
                return Fact(YES, own)
        if function.schema.kind == kind:
            return Fact(YES, "it is one")
        return Fact(NO)


def complex_loops(ufunc: str) -> Fact:
    """Return whether a ufunc of NumPy has loops for complex numbers."""
    found = getattr(numpy, ufunc, None)
    if not isinstance(found, numpy.ufunc):
        return Fact(UNKNOWN, "the kernel does not say")
    takes = any(all(c == "D" for c in t.partition("->")[0]) for t in found.types)
    return Fact(YES if takes else NO, f"NumPy's {ufunc} {'has' if takes else 'has no'} loops for them")


_READS = (ATTRIBUTE_NAMES - TENSOR_ATTRIBUTES) | (METHOD_NAMES - {"to"} | (set(TENSOR_METHODS) - {"to"}))
MAX_DEPTH = 12


class Flow:
    """One pass over a formula, which finds the operators that receive a differentiable value.

    answer   the name of an operator -> whether it is differentiable: 'yes', 'part', 'no', 'none'; None for another name
    stopped  the operators that are not differentiable and receive such a value, filled by `expression`
    """

    def __init__(self, functions: Functions, answer: Callable[[str], str | None]) -> None:
        self.functions, self.answer = functions, answer
        self.stopped: set[str] = set()
        self.depth = 0

    def expression(self, node: ast.expr, names: Collection[str], module: str | None) -> bool:
        """Return whether the value of an expression depends differentiably on one of the names."""
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                self.expression(part, names, module)
            return False
        if isinstance(node, ast.IfExp):
            self.expression(node.test, names, module)
            return self.any_of([node.body, node.orelse], names, module)
        if isinstance(node, ast.Attribute):
            return self.expression(node.value, names, module) and node.attr not in _READS
        if isinstance(node, ast.Call):
            return self.call(node, names, module)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            inner = set(names)
            for generator in node.generators:
                if self.expression(generator.iter, inner, module):
                    inner |= _names_in(generator.target)
            return self.expression(node.elt, inner, module)
        return self.any_of([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)], names, module)

    def any_of(self, nodes: list[ast.expr], names: Collection[str], module: str | None) -> bool:
        """Return whether one of them depends on a name; all are visited, for the calls in them."""
        return True in [self.expression(node, names, module) for node in nodes]

    def call(self, node: ast.Call, names: Collection[str], module: str | None) -> bool:
        given = [self.expression(a, names, module) for a in node.args]
        words = {k.arg: self.expression(k.value, names, module) for k in node.keywords}
        depends = any(given) or any(words.values())
        func = node.func
        if isinstance(func, ast.Attribute):
            is_operator = isinstance(func.value, ast.Name) and func.value.id in MODULES
            if not is_operator:
                depends = self.expression(func.value, names, module) or depends
                if func.attr in _READS:
                    return False
            return self.through(func.attr, depends)
        if not isinstance(func, ast.Name):
            return depends
        found = self.functions.find(func.id, module)
        if found is None:
            return depends
        return self.function(*found, given, words) if depends else False

    def through(self, name: str, depends: bool) -> bool:
        answer = self.answer(name)
        if depends and answer == "no":
            self.stopped.add(name)
        return depends and answer not in ("no", "none")

    def function(
        self, module: str, definition: ast.FunctionDef, given: list[bool], words: dict[str | None, bool]
    ) -> bool:
        """Follow a call of a helper; `given` and `words` say whether each argument depends on differentiated values."""
        if self.depth >= MAX_DEPTH:
            return True
        self.depth += 1
        spec = definition.args
        parameters = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        names = {p for p, depends in zip(parameters, given, strict=False) if depends}
        names |= {word for word, depends in words.items() if word and depends}
        if spec.vararg and any(given[len(parameters) :]):
            names.add(spec.vararg.arg)
        result = self.statements(definition.body, names, module)
        self.depth -= 1
        return result

    def statements(self, body: list[ast.stmt], names: set[str], module: str) -> bool:
        """Return whether the result of the statements depends on the names; assignments extend `names`."""
        result = False
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and statement.value is not None:
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    names |= self.assigned(target, statement.value, names, module)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                result = self.expression(statement.value, names, module) or result
            elif isinstance(statement, ast.For):
                if self.expression(statement.iter, names, module):
                    names |= _names_in(statement.target)
                result = self.statements([*statement.body, *statement.body], names, module) or result
            elif isinstance(statement, ast.If) and ast.unparse(statement.test).startswith(NO_DERIVATIVE):
                result = self.statements(statement.orelse, names, module) or result
            elif isinstance(statement, (ast.If, ast.While)):
                self.expression(statement.test, names, module)
                body = statement.body * (2 if isinstance(statement, ast.While) else 1)
                result = self.statements([*body, *statement.orelse], names, module) or result
            elif isinstance(statement, ast.Expr):
                self.expression(statement.value, names, module)
        return result

    def assigned(self, target: ast.expr, value: ast.expr, names: Collection[str], module: str) -> set[str]:
        """Return the names that an assignment makes dependent on differentiated values."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return {name for t, v in pairs for name in self.assigned(t, v, names, module)}
        return _names_in(target) if self.expression(value, names, module) else set()


def _names_in(target: ast.expr) -> set[str]:
    """Return the names that an assignment to a target binds; x for `x[i] = y`."""
    if isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        return _names_in(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for item in target.elts for name in _names_in(item)}
    return {target.id} if isinstance(target, ast.Name) else set()
