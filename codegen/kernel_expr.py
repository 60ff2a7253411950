"""Analyses the value of `kernel:`: a named kernel, or a Python array expression over the operator's
arguments.

    kernel: elementwise.addcmul                     addcmul of a file in src/gradloom/kernels/elementwise/
    kernel: self + value * tensor1 * tensor2        arguments, operators, constants
    kernel: xp.where(self > 0, self, slope * self)  functions of the array namespace
    kernel: self.max(), self.min()                  a tuple gives several outputs

The expression is read with `ast`; nothing is executed. kernel_language.py says which expressions there are.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import numpy

from . import array_namespace as xp_names
from .errors import shorten
from .expression import parse_expression
from .kernel_index import FunctionIndex
from .kernel_language import Checker, dotted_name
from .schema import FunctionSchema
from .text import Text

__all__ = ["KernelExpr", "analyse", "check_named"]

_DOTTED = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class KernelExpr:
    """What is known of a kernel.

    kind        'named' (family.function, called with the operator's arguments) or 'expression'
    source      the expression on one line, or 'family.function'
    text        where it stands in the YAML file
    names_used  the arguments that it reads, in the order of the schema; all of them for a named kernel
    modules     (family.function, module) for each kernel that it calls by name: ('shape.view', 'shape.views')
    uses_xp     whether it reads the array namespace
    ufunc       the NumPy ufunc whose call is the whole expression and so can take `out=`, by name; else None
    operands    the source of that ufunc's inputs
    outputs     the number of values in a tuple; None for one value or for what only running it would tell
    """

    kind: str
    source: str
    text: Text
    names_used: tuple[str, ...]
    modules: tuple[tuple[str, str], ...] = ()
    uses_xp: bool = False
    ufunc: str | None = None
    operands: tuple[str, ...] = ()
    outputs: int | None = None

    @property
    def families(self) -> tuple[str, ...]:
        """The families of the kernels that it calls by name."""
        return tuple(sorted({name.partition(".")[0] for name, _ in self.modules}))

    @property
    def family(self) -> str | None:
        """The family of a named kernel; None for an expression."""
        return self.families[0] if self.kind == "named" else None

    @property
    def function(self) -> str | None:
        """The function of a named kernel; None for an expression."""
        return self.source.split(".")[1] if self.kind == "named" else None


def analyse(text: Text, schema: FunctionSchema, kernels: FunctionIndex) -> KernelExpr:
    """Checks a `kernel:` value against the language and the schema. Raises SpecError at the word that is
    wrong.
    """
    arguments = tuple(a.python_name for a in schema.inputs)
    named = _DOTTED.fullmatch(text.value.strip())
    if named is not None:
        family, function = named.groups()
        is_argument = family in arguments and kernels.explain(family, function) is not None
        if not is_argument and family != "xp":
            check_named(text, kernels)
            name = f"{family}.{function}"
            return KernelExpr("named", name, text, arguments, ((name, kernels.module(family, function)),))
    tree, lead = parse_expression(text)
    checker = Checker(text, lead, arguments, kernels)
    checker.check(tree)
    outputs = _check_outputs(checker, tree, schema)
    ufunc, operands = outermost_ufunc(tree)
    return KernelExpr(
        "expression",
        text.value.strip() if "\n" not in text.value.strip() else ast.unparse(tree),
        text,
        tuple(a for a in arguments if a in checker.used),
        tuple(sorted(checker.modules.items())),
        checker.uses_xp,
        ufunc,
        operands,
        outputs,
    )


def check_named(text: Text, index: FunctionIndex) -> None:
    """Raises SpecError where a value is not a `family.function` of the index, at the part that is wrong."""
    value = text.value
    named = _DOTTED.fullmatch(value.strip())
    if named is None:
        room = index.room
        hint = f"write `family.function` and define the function in {room}/<family>.py"
        raise text.error(f"`{shorten(value)}` is not the name of a function in {room}/", hint)
    family, function = named.groups()
    problem = index.explain(family, function)
    if problem is not None:
        word, message, hint = problem
        part = family if word == "family" else function
        offset = value.index(family) if word == "family" else value.rindex(function)
        raise text.error(message, hint, offset, len(part))


def _check_outputs(checker: Checker, tree: ast.expr, schema: FunctionSchema) -> int | None:
    results = schema.returns if schema.kind == "mutable" else schema.as_functional().returns
    wanted = len(results)
    if isinstance(tree, ast.IfExp):
        counts = [_check_outputs(checker, branch, schema) for branch in (tree.body, tree.orelse)]
        return counts[0]
    returns_list = wanted == 1 and results[0].type.is_list
    if isinstance(tree, ast.Tuple):
        if not returns_list and len(tree.elts) != wanted:
            hint = f"the schema returns {', '.join(map(str, schema.returns)) or 'nothing'}"
            raise checker.error(tree, f"a tuple of {len(tree.elts)} values for {wanted} result(s)", hint)
        return len(tree.elts)
    if isinstance(tree, ast.Constant) and not isinstance(tree.value, bool | int | float | complex):
        raise checker.error(tree, f"`{ast.unparse(tree)}` is not an array", "write an expression that gives an array")
    certainly_one = ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant | ast.Name | ast.BoolOp
    if wanted > 1 and isinstance(tree, certainly_one):
        hint = "write a tuple with one value for each result"
        raise checker.error(tree, f"one value for {wanted} results", hint)
    return None


def outermost_ufunc(tree: ast.expr) -> tuple[str | None, tuple[str, ...]]:
    if isinstance(tree, ast.BinOp):
        return xp_names.OPERATORS[type(tree.op).__name__], (ast.unparse(tree.left), ast.unparse(tree.right))
    if isinstance(tree, ast.UnaryOp) and type(tree.op).__name__ in xp_names.OPERATORS:
        return xp_names.OPERATORS[type(tree.op).__name__], (ast.unparse(tree.operand),)
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]).__name__ in xp_names.OPERATORS:
        operator = xp_names.OPERATORS[type(tree.ops[0]).__name__]
        return operator, (ast.unparse(tree.left), ast.unparse(tree.comparators[0]))
    if isinstance(tree, ast.Call) and not tree.keywords:
        path = dotted_name(tree.func)
        if path[:1] == ("xp",) and len(path) == 2 and xp_names.kind_of(path[1:]) == "ufunc":
            ufunc = getattr(numpy, path[1])
            starred = any(isinstance(a, ast.Starred) for a in tree.args)
            if not starred and ufunc.nout == 1 and len(tree.args) == ufunc.nin:
                return path[1], tuple(map(ast.unparse, tree.args))
    return None, ()
