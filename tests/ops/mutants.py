"""Mutation testing of `gradloom verify`: how many wrong formulas does it refuse?

    make mutants                                        # every mutant: about ten minutes on two cores
    python tests/ops/mutants.py --sample 200            # some of them, drawn with --seed
    python tests/ops/mutants.py --op mul.Tensor --log found.jsonl

Each formula of derivatives.yaml is changed at one place in all ways that `KINDS` lists: a factor or a sign is dropped,
arguments are exchanged, a tensor is detached. The changed entry replaces the operator's derivative in this process, as
an `override` of `gradloom.ops.define`, and the operator is verified until the first thing that is wrong. A mutant is

- static: refused by the generator;
- refused: found wrong by verify;
- equivalent: it gives the right derivatives, by a rule of `reason` or for one given in mutants_equivalent.yaml;
- survived: a hole in the checks or samples of verify; mutants_equivalent.yaml lists the known ones, with the reason.

The score is the part of the mutants, equivalent ones left out, that is refused.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import gradloom
from gradloom.codegen.derivatives.entries import (
    NAME,
    NON_DIFFERENTIABLE,
    Section,
    backward_scope,
    forward_scope,
    sections,
)
from gradloom.codegen.derivatives.model import DifferentiabilityInfo
from gradloom.codegen.errors import SpecError
from gradloom.codegen.language.formula import parse
from gradloom.codegen.language.names import Resolved, resolve
from gradloom.codegen.language.scope import STRIDES as STRIDES_READ, Kind, Role, Variable, metadata_read
from gradloom.codegen.reading.yaml_files import Entry, Text, load_entries
from gradloom.tools.verify import Operator, OperatorResult, operators_of, own_operators
from gradloom.tools.verify.case import Case, tensors
from gradloom.tools.verify.findings import ENTRY, MISSING, WRONG, Fault
from gradloom.tools.verify.operators import own_specification
from gradloom.tools.verify.runner import _complex, _faults, cases

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.yaml")
AUTOMATIC = ("auto_linear", "auto_element_wise")
LIMIT = 120  # seconds for one mutant; one that takes longer counts as refused


# Mutations. Each takes a node of a formula and yields expressions to put in its place.


@dataclass(frozen=True)
class Formula:
    """A formula to change: its names, and the kinds of its expressions."""

    resolved: Resolved
    info: DifferentiabilityInfo  # the entry's
    defaults: dict[str, ast.expr]  # argument -> its default in the schema
    is_backward: bool

    @cached_property
    def exchangeable(self) -> frozenset[ast.AST]:
        """The tensors among the arguments of calls that can be exchanged for another argument."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                tensors = [a for a in node.args if self.is_tensor(a)]
                found |= set(tensors) if len(tensors) > 1 else set()
        return frozenset(found)

    @property
    def tree(self) -> ast.expr:
        return self.resolved.formula.tree

    def is_tensor(self, node: ast.AST) -> bool:
        return self.resolved.kinds.get(node, Kind.OTHER).may_be_tensor

    def variable(self, node: ast.AST) -> Variable | None:
        return self.resolved.variables.get(node) if isinstance(node, ast.Name) else None

    def alike(self, variable: Variable) -> str | None:
        """Return another tensor that a formula might confuse with this one: of the same role, or an argument for a
        result; None if there is none."""
        stored = (Role.ARGUMENT, Role.RESULT)
        roles = stored if variable.role in stored else (variable.role,)
        names = [
            v.name
            for v in self.resolved.scope.variables.values()
            if v.role in roles
            and v.kind is variable.kind
            and (variable.role is not Role.GRADIENT or v.index != variable.index)
            and (variable.role is not Role.PRIMAL or v.name.endswith("_p"))
        ]
        before, after = names, []
        if variable.name in names:
            at = names.index(variable.name)
            before, after = names[:at], names[at + 1 :]
        return next(iter([*after, *before]), None)


def method(node: ast.expr, name: str) -> ast.expr:
    return ast.Call(ast.Attribute(node, name, ast.Load()), [], [])


def is_method(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def factor(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Drop a factor or a divisor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from (node.left, node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.left


def term(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Drop a term of a sum or a difference."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield node.left
        yield node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)


def sign(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Drop a minus, turn plus into minus, negate the whole."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif is_method(node, "neg"):
        yield node.func.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    if node is formula.tree and formula.is_tensor(node) and not isinstance(node, (ast.UnaryOp, ast.IfExp)):
        yield ast.UnaryOp(ast.USub(), node)


def conj(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Drop a conjugate, conjugate the whole."""
    if is_method(node, "conj"):
        yield node.func.value
    if node is formula.tree and formula.is_tensor(node):
        yield method(node, "conj")


def call(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Drop a call: put its first argument in its place."""
    if not isinstance(node, ast.Call) or metadata_read(node) or is_function(node, "where"):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr not in ("conj", "neg"):
        if formula.is_tensor(node.func.value):
            yield node.func.value
    elif isinstance(node.func, ast.Name) and node.args and formula.is_tensor(node.args[0]):
        yield node.args[0]


def argument(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Drop the last argument of a call, or one given by name."""
    if not isinstance(node, ast.Call):
        return
    if len(node.args) > isinstance(node.func, ast.Name):
        yield ast.Call(node.func, node.args[:-1], node.keywords)
    for word in node.keywords:
        if word.arg is not None:
            yield ast.Call(node.func, node.args, [k for k in node.keywords if k is not word])


_VALUES: dict[str, tuple[Any, ...]] = {
    "bool": (True, False), "int": (0, 1), "SymInt": (0, 1), "float": (1.0, 0.0), "Scalar": (1, 0),
}  # fmt: skip


def _constants(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Yield the default, None if it may be None, and two values of the type of an argument that is not a tensor."""
    variable = formula.variable(node)
    if variable is None or variable.role is not Role.ARGUMENT or variable.type is None:
        return
    if variable.kind in (Kind.TENSOR, Kind.TENSORS) and not variable.is_optional:
        return
    if variable.name in formula.defaults:
        yield formula.defaults[variable.name]
    if variable.is_optional:
        yield ast.Constant(None)
    values = _VALUES.get(variable.type.base.name, ())
    if not variable.type.is_list:
        yield from map(ast.Constant, values)
    elif len(values) == 2 and "dim" in variable.name:
        yield ast.List([ast.Constant(0)], ast.Load())


def default(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Put a default, None or a constant in the place of an argument."""
    name = getattr(node, "id", "")
    if "dim" not in name and not _is_flag(node, formula):
        yield from _constants(node, formula)


def dim(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Put a default, None or a constant in the place of a dim."""
    if "dim" in getattr(node, "id", "") and not _is_flag(node, formula):
        yield from _constants(node, formula)


def flag(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Put a constant in the place of a flag (keepdim too), flip a constant one."""
    if _is_flag(node, formula):
        yield from _constants(node, formula)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)


def _is_flag(node: ast.expr, formula: Formula) -> bool:
    variable = formula.variable(node)
    return variable is not None and variable.type is not None and variable.type.base.name == "bool"


def number(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Add one to a constant, keep four digits of it."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
        short = float(f"{node.value:.4g}")
        if short != node.value:
            yield ast.Constant(short)


def exchange(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Exchange two arguments of the same kind, the operands of a division; a tensor that is no argument for another."""
    if isinstance(node, ast.Call):
        kinds = [formula.resolved.kinds.get(a) for a in node.args]
        for i, kind in enumerate(kinds):
            j = next((j for j in range(i + 1, len(kinds)) if kinds[j] is kind), None)
            if j is not None:
                arguments = list(node.args)
                arguments[i], arguments[j] = arguments[j], arguments[i]
                yield ast.Call(node.func, arguments, node.keywords)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.MatMult)):
        yield ast.BinOp(node.right, node.op, node.left)
    variable = formula.variable(node)
    if variable is not None and variable.kind is Kind.TENSOR and node not in formula.exchangeable:
        other = formula.alike(variable)
        if other is not None:
            yield ast.Name(other, ast.Load())


def detach(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Detach a tensor, or the whole."""
    variable = formula.variable(node)
    if (variable is not None and variable.kind is Kind.TENSOR) or (node is formula.tree and formula.is_tensor(node)):
        yield method(node, "detach")


_OPPOSITE = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def condition(node: ast.expr, formula: Formula) -> Iterator[ast.expr]:
    """Replace a choice by one of its branches; turn a comparison round; drop a `not` or a part of `and` and `or`."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif is_function(node, "where") and len(node.args) == 3:
        yield from (a for a in node.args[1:] if formula.is_tensor(a))
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPPOSITE:
        yield ast.Compare(node.left, [_OPPOSITE[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


KINDS = {
    f.__name__: f
    for f in (factor, term, sign, conj, call, argument, default, dim, flag, number, exchange, detach, condition)
}
LINES = ("automatic", "line")  # mutations of a whole line: the other automatic formula; no line


def rebuilt(tree: Any, old: ast.AST, new: ast.expr) -> Any:
    """Return a copy of a tree with `new` in the place of the node `old`."""
    if tree is old:
        return new
    if isinstance(tree, list):
        return [rebuilt(item, old, new) for item in tree]
    if isinstance(tree, ast.AST):
        return type(tree)(**{name: rebuilt(value, old, new) for name, value in ast.iter_fields(tree)})
    return tree


def with_parents(tree: ast.AST, parents: tuple[ast.AST, ...] = ()) -> Iterator[tuple[ast.expr, tuple[ast.AST, ...]]]:
    """Yield the expressions of a tree, each with the nodes that contain it, innermost first."""
    if isinstance(tree, ast.expr):
        yield tree, parents
    for child in ast.iter_child_nodes(tree):
        yield from with_parents(child, (tree, *parents))


def mutated(formula: Formula) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, changed formula, reason why it may be equivalent) for all mutations of a formula, without
    repetitions."""
    seen = {ast.unparse(formula.tree)}
    for node, parents in with_parents(formula.tree):
        for kind, change in KINDS.items():
            for new in change(node, formula):
                tree = ast.fix_missing_locations(rebuilt(formula.tree, node, new))
                text = ast.unparse(tree)
                if text not in seen:
                    seen.add(text)
                    yield kind, text, reason(kind, node, parents, tree, formula)


# Equivalent mutants. A reason counts only for a mutant that survives: verify has the first word.

REAL = "the gradient or tangent is never complex"
ZERO = "zeros, whatever they are made of"
UNDEFINED = "an undefined gradient counts as zeros"
HISTORY = "it never has a history"
CONSTANT = "it has no derivative where it stands"
DTYPE = "the engine casts gradients to the dtype of the input"
SUM = "the engine sums gradients to the shape of the input"
STRIDES = "strides of the gradient only"
SAME = "the same but for what the called functions do not read, or the order of the dims of a transpose"


def reason(kind: str, node: ast.expr, parents: tuple[ast.AST, ...], mutant: ast.expr, formula: Formula) -> str:
    """Return why a mutant may be equivalent; empty if no rule applies.

    Args:
        node, parents: the node that is changed, and the nodes that contain it, innermost first.
        mutant: the changed tree.
    """
    if is_zeros(formula.tree) and is_zeros(mutant):
        return ZERO
    if normal(formula.tree) == normal(mutant):
        return SAME
    if kind == "conj":
        return REAL
    if kind == "detach":
        variable = formula.variable(node)
        if variable is not None and not has_history(variable, formula):
            return HISTORY
        if any(map(is_constant_in, (node, *parents), parents)):
            return CONSTANT
    reads = [read for n in (node, *parents) if isinstance(n, ast.expr) and (read := metadata_read(n))]
    if any(read.metadata is STRIDES_READ for read in reads):
        return STRIDES
    if formula.is_backward and any(is_method(n, "to") for n in (node, *parents[:3])):
        return DTYPE
    if formula.is_backward and kind == "call" and (is_method(node, "sum") or is_function(node, "summed_to")):
        return SUM if node is formula.tree else ""
    return ""


def called(node: ast.Call) -> tuple[str, list[ast.expr]]:
    """Return the name of the function of a call, and its positional arguments; of a method, the tensor is the first."""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "ops":
        return node.func.attr, node.args
    if isinstance(node.func, ast.Attribute):
        return node.func.attr, [node.func.value, *node.args]
    return node.func.id if isinstance(node.func, ast.Name) else "", node.args


def parameters(name: str) -> tuple[str, ...]:
    """Return the names of the parameters of a helper or operator."""
    specification = own_specification()
    helper = specification.callables.helpers.get(name)
    if helper is not None:
        return helper.signature.positional or ()
    schemas = (f.schema for f in specification.functions if f.schema.name.name == name)
    return next((tuple(a.python_name for a in schema.inputs) for schema in schemas), ())


class _Normal(ast.NodeTransformer):
    """Blanks the arguments that the called functions do not read, sorts the dims of a transpose."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node = ast.Call(self.visit(node.func), [*map(self.visit, node.args)], [*map(self.visit, node.keywords)])
        name = called(node)[0]
        if name == "wrap_opt_if" and node.args:
            return node.args[0]
        if name == "transpose":
            node.args = sorted(node.args, key=ast.unparse)
        unread = data()["unread"].get(name, ())
        words = parameters(name)[isinstance(node.func, ast.Attribute) :] if unread else ()
        for i, word in enumerate(words[: len(node.args)]):
            if word in unread:
                node.args[i] = ast.Constant(...)
        while node.args and isinstance(node.args[-1], ast.Constant) and node.args[-1].value is ...:
            node.args.pop()
        return node


def normal(tree: ast.expr) -> str:
    """Return a formula in a form that is the same for formulas that certainly give the same values."""
    return ast.unparse(_Normal().visit(ast.parse(ast.unparse(tree), mode="eval").body))


def is_zeros(tree: ast.expr) -> bool:
    """Return whether a formula is a tensor of zeros, negated, conjugated or detached."""
    while isinstance(tree, ast.UnaryOp) or (
        isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and tree.func.attr in ("conj", "detach")
    ):
        tree = tree.operand if isinstance(tree, ast.UnaryOp) else tree.func.value
    filled = isinstance(tree, ast.Call) and is_method(tree, "fill_") and list(map(ast.unparse, tree.args)) == ["0"]
    return filled or is_function(tree, "zeros_like") or is_function(tree, "zeros") or is_method(tree, "zero_")


def has_history(variable: Variable, formula: Formula) -> bool:
    """Return whether a tensor may require a gradient: an argument with a formula, a differentiable output."""
    if variable.role is Role.RESULT:
        return any(o.name == variable.name and o.is_differentiable for o in formula.info.outputs)
    return variable.role is not Role.ARGUMENT or any(i.name == variable.name for i in formula.info.inputs)


def is_constant_in(node: ast.AST, parent: ast.AST, within: tuple[str, ...] = ()) -> bool:
    """Return whether an expression depends on a part of it only by steps: its derivative by that part is zero.

    Args:
        within: in the source of a helper, its module and the functions that are being read; empty in a formula.
    """
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(node, ast.expr) and isinstance(parent, ast.expr) and metadata_read(parent):
        return True
    if not isinstance(parent, ast.Call):
        return False
    name, values = called(parent)
    if node is parent.func and values and not within:  # the tensor of a method
        node = values[0]
    if node not in values or (within and len(values) > len(parent.args)):
        return False
    if any(word.arg == "rounding_mode" for word in parent.keywords):
        return True
    if within and isinstance(parent.func, ast.Name) and name in functions_of(within[0]):
        positions = frozenset() if name in within[1:] else constant_parameters(within[0], name, within[1:])
    else:
        positions = constant_positions(name)
    return values.index(node) in positions


@cache
def constant_positions(name: str) -> frozenset[int]:
    """Return the positions of the arguments by which an operator or helper has the derivative zero, or none: as the
    operator's entries say, or as the source of the helper shows."""
    helper = own_specification().callables.helpers.get(name)
    if helper is not None:
        return constant_parameters(helper.module, name)
    found = []
    for joined in own_specification().derivatives:
        if joined.schema.name.base != name or joined.variant is not None:
            continue
        words = {i: d.source for d in joined.info.derivatives for i in d.inputs} if joined.info is not None else {}
        if joined.strategy == "composition":
            return frozenset(i for i, word in enumerate(parameters(name)) if word in data()["constant"].get(name, ()))
        sources = [words.get(argument.python_name, "zeros_like(") for argument in joined.schema.inputs]
        found.append({i for i, source in enumerate(sources) if source.startswith("zeros_like(")})
    return frozenset(set.intersection(*found)) if found else frozenset()


@cache
def functions_of(module: str) -> dict[str, tuple[str, ast.FunctionDef]]:
    """Return the functions that a module of formulas defines or imports from another: name -> (module, definition)."""
    parts = module.removeprefix("gradloom.formulas.").split(".")
    tree = ast.parse((ROOT / "src/gradloom/formulas" / f"{'/'.join(parts)}.py").read_text(encoding="utf-8"))
    found = {node.name: (module, node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(parts) and node.module:
            other = functions_of(".".join([*parts[: -node.level], node.module]))
            found |= {a.name: other[a.name] for a in node.names if a.name in other}
    return found


@cache
def constant_parameters(module: str, name: str, calling: tuple[str, ...] = ()) -> frozenset[int]:
    """Return the positions of the parameters of a function of gradloom/formulas that it only compares, reads the shape
    or dtype of, or passes where they have no derivative; `calling` are the functions through which it is called."""
    home, function = functions_of(module)[name]
    within = (home, *calling, name)
    moving = set()
    for statement in function.body:
        for node, parents in with_parents(statement):
            pairs = zip((node, *parents), parents, strict=False)
            if isinstance(node, ast.Name) and not any(is_constant_in(part, whole, within) for part, whole in pairs):
                moving.add(node.id)
    moving -= set(data()["constant"].get(name, ()))
    return frozenset(i for i, argument in enumerate(function.args.args) if argument.arg not in moving)


@cache
def data() -> dict[str, Any]:
    """Return mutants_equivalent.yaml."""
    return yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8"))


def whole(formula: str) -> str:
    """Return a formula in the spelling of mutants."""
    return ast.unparse(ast.parse(formula, mode="eval"))


def is_real(mutant: Mutant) -> bool:
    """Return whether a conjugate is that of a real number: the operator takes no complex numbers, or the conjugate is
    that of the tangent of an output that is real even so."""
    outputs = [o.name for o in _section(mutant.operator)[0].outputs]
    is_whole = whole(f"({mutant.before}).conj()") == mutant.after and mutant.key in outputs
    for case in cases(_operators()[mutant.operator]):
        with suppress(Exception):
            found = tensors(case.changed(_complex, "").plain())
            is_empty = not any(t.numel() for t in found)  # kernels refuse numbers, not dtypes
            if case.floats and not is_empty and not (is_whole and not found[outputs.index(mutant.key)].is_complex()):
                return False
    return True


def equivalence(mutant: Mutant) -> str:
    """Return why a mutant that survives gives the right derivatives; empty if no reason is known."""
    if mutant.reason and (mutant.reason != REAL or is_real(mutant)):
        return mutant.reason
    return listed("mutants", mutant)


def listed(section: str, mutant: Mutant) -> str:
    """Return what a section of mutants_equivalent.yaml says of a mutant; empty if nothing."""
    return next((row["why"] for row in data()[section] if is_about(row, mutant)), "")


def is_about(row: dict[str, Any], mutant: Mutant) -> bool:
    """Return whether a row of mutants_equivalent.yaml is about a mutant: of one of its operators and, if it says so, of
    its key, and with one `old` in the formula changed to a `new`."""
    if not any(fnmatchcase(mutant.operator, pattern) for pattern in row["operators"]):
        return False
    if row.get("key", mutant.key) != mutant.key or (mutant.after is None and "old" in row):
        return False
    if "old" not in row:
        return True
    before = whole(mutant.before)
    olds, news = (row[word] if isinstance(row[word], list) else [row[word]] for word in ("old", "new"))
    return any(
        before[:i] + new + before[i + len(old) :] == mutant.after
        for old, new in product(olds, news)
        for i in range(len(before))
        if before.startswith(old, i)
    )


# The mutants of derivatives.yaml.


@dataclass(frozen=True)
class Mutant:
    """One change of one formula: `key` is the line (`self`, `result`), `after` the new formula; None drops the line.
    `reason` says why it is equivalent if it survives; empty if no rule of `reason` applies."""

    operator: str
    key: str
    kind: str
    before: str
    after: str | None
    reason: str = field(default="", compare=False)

    def __str__(self) -> str:
        return (
            f"{self.operator}  {self.kind}\n    {self.key}: {self.before}\n    {self.key}: {self.after or '(no line)'}"
        )


@cache
def entries() -> dict[str, Entry]:
    """Return the entries of derivatives.yaml by the full name of the operator."""
    found = {}
    for entry in load_entries(ROOT / "derivatives.yaml", "derivatives.yaml"):
        text = entry.fields[NAME]
        assert isinstance(text, Text)
        found[text.value.partition("(")[0].strip()] = entry
    return found


def _section(name: str) -> tuple[DifferentiabilityInfo, Section]:
    info = own_specification().derivatives.entries[name]["Default"]
    (section,) = sections(entries()[name], info.schema)
    return info, section


def formula_of(name: str, key: str, text: str) -> Formula:
    """Return a formula for the line `key` of an operator's entry."""
    info, section = _section(name)
    callables = own_specification().callables
    defaults = {
        a.python_name: ast.parse(repr(a.default_value), mode="eval").body
        for a in info.schema.inputs
        if a.default is not None and isinstance(a.default_value, (bool, int, float, str, list, type(None)))
    }
    of = tuple(key.split(", "))
    is_backward = any(line.of == of for line in section.inputs)
    if is_backward:
        scope = backward_scope(info.schema, info.outputs, of, callables)
    else:
        scope = forward_scope(info.schema, info.outputs, (i.name for i in info.inputs), callables)
    return Formula(resolve(parse(text), scope), info, defaults, is_backward)


def mutants_of(name: str) -> list[Mutant]:
    """Return the mutants of an entry."""
    found: list[Mutant] = []
    section = _section(name)[1]
    for line in (*section.inputs, *section.outputs):
        key, before = ", ".join(line.of), " ".join(line.word.split())
        if before in (NON_DIFFERENTIABLE, "None") or before.startswith("not_implemented"):
            continue
        if before in AUTOMATIC:
            found.append(Mutant(name, key, "automatic", before, AUTOMATIC[1 - AUTOMATIC.index(before)]))
            continue
        if line in section.inputs:
            zero = is_zeros(parse(before).tree)
            found.append(Mutant(name, key, "line", before, None, UNDEFINED if zero else ""))
        changes = mutated(formula_of(name, key, before))
        found += [Mutant(name, key, kind, before, after, why) for kind, after, why in changes]
    return found


def all_mutants() -> list[Mutant]:
    """Return every mutant of derivatives.yaml, in the order of the file."""
    return [mutant for name in entries() for mutant in mutants_of(name)]


def sample(mutants: list[Mutant], count: int | None, seed: int = 0) -> list[Mutant]:
    """Return some of the mutants, in their order; all if `count` is None. A change of other formulas does not change
    whether a mutant is drawn, but for the last ones."""

    def draw(mutant: Mutant) -> bytes:
        text = f"{seed} {mutant.operator} {mutant.key} {mutant.after}"
        return hashlib.sha256(text.encode()).digest()

    chosen = set(sorted(mutants, key=draw)[:count])
    return [mutant for mutant in mutants if mutant in chosen]


def written(name: str, key: str, formula: str | None) -> str:
    """Return the entry of an operator as YAML, with another formula for one of its keys, as an override."""
    entry = entries()[name]
    lines = []
    for word, value in entry.fields.items():
        if ", ".join(part.strip() for part in word.split(",")) == key:
            if formula is None:
                continue
            text = formula
        elif isinstance(value, Text):
            text = " ".join(value.value.split())
        else:
            lines.append(f"  {word}: {value.source.text[value.start : value.end]}")
            continue
        quoted = text.replace("'", "''")
        lines.append(f"  {word}: '{quoted}'")
    return "-" + "\n".join([*lines, "  override: true"])[1:] + "\n"


# Judging.


@dataclass(frozen=True)
class Verdict:
    """`outcome` is static, refused, equivalent or survived; `detail` the check, the error or the reason, which is empty
    for a survivor that is not known."""

    outcome: str
    detail: str
    seconds: float = 0.0


class TooLong(BaseException):
    """A mutant took more than LIMIT seconds."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@cache
def _operators() -> dict[str, Operator]:
    """Return gradloom's operators by their names and those of their variants."""
    found = {}
    for operator in own_operators():
        for derived in operator.joined.function.derived:
            found[str(derived.schema.name)] = operator
    return found | {o.name: o for o in own_operators()}


@contextmanager
def overridden(name: str, key: str = "", formula: str | None = None) -> Iterator[Operator]:
    """Replace the derivative of an operator by that with another formula for `key`; yield the operator to verify. That
    of a variant with an entry of its own is the operator from which it derives."""
    with gradloom.ops.define(written(name, key, formula), namespace="mutants") as definition:
        known = _operators()[name]
        yield next((o for o in operators_of(definition) if o.name == name), known)


def first_fault(operator: Operator, mode: str, ignored: frozenset[str] = frozenset()) -> Fault | None:
    """Verify an operator until something is wrong, or something is missing whose message is not ignored."""
    state = gradloom.get_rng_state()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), limited(LIMIT):
            warnings.simplefilter("ignore")
            for fault in _faults(operator, mode, OperatorResult(operator.name, operator.family, "")):
                if fault.severity == WRONG or fault.message not in ignored:
                    return fault
    except TooLong as error:
        return Fault(Case(operator, (), {}), "time", str(error), ENTRY)
    finally:
        gradloom.set_rng_state(state)
    return None


@cache
def missing(name: str, mode: str) -> frozenset[str]:
    """Return what is missing of an operator's unchanged derivative, which replaces itself. Raises AssertionError if
    something is wrong with it: then nothing can be measured."""
    found: set[str] = set()
    with overridden(name) as operator:
        while (fault := first_fault(operator, mode, frozenset(found))) is not None:
            assert fault.severity == MISSING, f"{name} is refused without a change: {fault.message}"
            found.add(fault.message)
    return frozenset(found)


def judged(mutant: Mutant) -> Verdict:
    """Return the verdict about a mutant. Runs the cheap checks first, all of them only on what those let pass."""
    start = time.perf_counter()

    def verdict(outcome: str, detail: str) -> Verdict:
        return Verdict(outcome, detail, time.perf_counter() - start)

    try:
        for mode in ("fast", "default"):
            with overridden(mutant.operator, mutant.key, mutant.after) as operator:
                found = first_fault(operator, mode)
            ignored = missing(mutant.operator, mode) if found is not None else frozenset()
            if found is not None and found.message in ignored:
                with overridden(mutant.operator, mutant.key, mutant.after) as operator:
                    found = first_fault(operator, mode, ignored)
            if found is not None:
                return verdict("refused", found.check)
    except SpecError as error:
        return verdict("static", str(error).splitlines()[0])
    why = equivalence(mutant)
    return verdict("equivalent", why) if why else verdict("survived", listed("survivors", mutant))


# The command.


def judged_all(mutants: Iterable[Mutant], workers: int = 1) -> Iterator[tuple[Mutant, Verdict]]:
    """Yield the mutants with their verdicts, operator by operator."""
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(mutant.operator, []).append(mutant)
    if workers == 1:
        yield from ((m, judged(m)) for group in groups.values() for m in group)
        return
    own_operators(), _operators()  # loaded once, before the fork
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        for pairs in pool.map(_judged_group, groups.values()):
            yield from pairs


def _judged_group(group: list[Mutant]) -> list[tuple[Mutant, Verdict]]:
    return [(mutant, judged(mutant)) for mutant in group]


def score(verdicts: Iterable[Verdict]) -> float:
    """Return the part of the mutants that is refused, without equivalent ones."""
    counts = Counter(v.outcome for v in verdicts)
    made = counts.total() - counts["equivalent"]
    return (made - counts["survived"]) / made if made else 1.0


OUTCOMES = ("static", "refused", "equivalent", "survived")


def table(found: list[tuple[Mutant, Verdict]]) -> str:
    """Return the numbers of mutants by kind and outcome."""
    rows = [("kind", "made", *OUTCOMES, "score")]
    for kind in (*KINDS, *LINES, "all"):
        verdicts = [v for m, v in found if kind in (m.kind, "all")]
        if verdicts:
            counts = Counter(v.outcome for v in verdicts)
            numbers = [str(counts[outcome]) for outcome in OUTCOMES]
            rows.append((kind, str(len(verdicts)), *numbers, f"{100 * score(verdicts):.1f}%"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, help="number of mutants to draw (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--op", action="append", help="full name of an entry; may be given several times")
    parser.add_argument("--kind", action="append", choices=[*KINDS, *LINES])
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument(
        "--log", type=Path, help="file of verdicts, one a line; refused mutants in it are not run again"
    )
    arguments = parser.parse_args()
    mutants = [
        m for m in all_mutants()
        if (not arguments.op or m.operator in arguments.op) and (not arguments.kind or m.kind in arguments.kind)
    ]  # fmt: skip
    mutants = sample(mutants, arguments.sample, arguments.seed)
    known = read_log(arguments.log)
    found = [(m, known[m]) for m in mutants if m in known]
    start, rest = time.perf_counter(), [m for m in mutants if m not in known]
    for mutant, verdict in judged_all(rest, arguments.workers):
        found.append((mutant, verdict))
        if arguments.log is not None:
            with arguments.log.open("a") as file:
                print(json.dumps([asdict(mutant), asdict(verdict)]), file=file)
        if len(found) % 100 == 0:
            print(f"{len(found)}/{len(mutants)}  {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    survivors = [(mutant, verdict.detail) for mutant, verdict in found if verdict.outcome == "survived"]
    for mutant, why in survivors:
        print(f"{mutant}\n    {why or 'not known yet'}")
    print(table(found))
    sharp = len(mutants) < len(all_mutants()) or score(v for _, v in found) >= 0.99
    return 0 if sharp and all(why for _, why in survivors) else 1


def read_log(path: Path | None) -> dict[Mutant, Verdict]:
    """Return the verdicts of an earlier run, except for mutants that survived."""
    if path is None or not path.exists():
        return {}
    pairs = [json.loads(line) for line in path.read_text().splitlines()]
    verdicts = {Mutant(**m): Verdict(**v) for m, v in pairs}
    return {m: v for m, v in verdicts.items() if v.outcome in ("static", "refused")}


if __name__ == "__main__":
    sys.exit(main())
