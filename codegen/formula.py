"""The formula language: the part of Python's expressions that derivatives.yaml may use.

    formula = parse("grad * (tensor2 * value).conj()")
    formula.tree                                  # the ast of a checked expression
    formula.span(node)                            # where a node stands in the text, for error messages

Nothing is ever evaluated. `parse` accepts an expression only if every node of its tree is in the list below,
so an import, a lambda, an assignment or a string that formats itself has no way in; which *names* may occur
depends on the operator and is decided in formula_scope.py, what a formula makes its node save in
formula_saving.py.

This module is at the bottom: it knows nothing of operators or YAML.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .constants import constant_problem
from .formula_words import FormulaError, check_words

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "Formula", "FormulaError", "constant_int", "parse"]

MAX_LENGTH = 2_000  # characters of a formula
MAX_DEPTH = 40  # nodes within nodes; the deepest of PyTorch's own formulas is below 15

_ALLOWED = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.ListComp, ast.comprehension,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip

_REFUSED = {
    ast.Lambda: ("a lambda", "write the function in formulas/ and call it"),
    ast.NamedExpr: ("an assignment (`:=`)", "a formula is one expression; what needs a local name goes into formulas/"),
    ast.JoinedStr: ("an f-string", "a string in a formula is a plain constant"),
    ast.Dict: ("a dict", "pass keyword arguments one by one"),
    ast.Set: ("a set", "write a tuple"),
    ast.SetComp: ("a set comprehension", "write a list comprehension `[... for x in ...]`"),
    ast.DictComp: ("a dict comprehension", "write a list comprehension `[... for x in ...]`"),
    ast.GeneratorExp: ("a generator", "write a list comprehension `[... for x in ...]`"),
    ast.Await: ("`await`", "formulas are plain expressions"),
    ast.Yield: ("`yield`", "formulas are plain expressions"),
    ast.YieldFrom: ("`yield`", "formulas are plain expressions"),
    ast.Starred: ("an unpacked argument (`*`)", "pass the arguments one by one"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A checked expression.

    Attributes:
        text: as it stands in the file, on one line (a line break is one space, so offsets are the file's).
        tree: the expression's ast. Its column offsets count from `shift`.
        shift: number of blanks before the expression.
    """

    text: str
    tree: ast.expr
    shift: int = 0

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node in `text`."""
        return node.col_offset + self.shift, node.end_col_offset + self.shift  # type: ignore[attr-defined]

    def source(self, node: ast.AST) -> str:
        """The node as the author spelled it."""
        start, end = self.span(node)
        return self.text[start:end]

    def error(self, node: ast.AST, message: str, hint: str) -> FormulaError:
        """An error under the whole of a node."""
        start, end = self.span(node)
        return FormulaError(message, start, end - start, hint)

    def attribute_error(self, node: ast.Attribute, message: str, hint: str) -> FormulaError:
        """An error under the name after the dot."""
        end = self.span(node)[1]
        return FormulaError(message, end - len(node.attr), len(node.attr), hint)


def parse(text: str) -> Formula:
    """Parse and check one formula.

    Raises:
        FormulaError: with the position of the word that is outside of the language.
    """
    line = re.sub(r"[\r\n\t]", " ", text)
    if not line.strip():
        raise FormulaError("empty formula", 0, len(text), "write an expression, or remove the line")
    if len(line) > MAX_LENGTH:
        raise FormulaError(
            f"a formula of {len(line)} characters", 0, len(line), f"the limit is {MAX_LENGTH}; move it into formulas/"
        )
    check_words(line)
    shift = len(line) - len(line.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1 is not callable" and the like are errors of ours
            tree = ast.parse(line.strip(), mode="eval").body
    except SyntaxError as error:
        raise _from_syntax_error(line, shift, error) from None
    except (MemoryError, RecursionError, SystemError, ValueError):  # the parser of Python 3.11 gives up in any way
        raise _too_deep(line) from None
    formula = Formula(line, tree, shift)
    _check_nodes(formula)
    return formula


def constant_int(node: ast.expr) -> int | None:
    """The value of an integer literal, negative ones included; None for every other expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if type(value) is int else None
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _too_deep(line: str) -> FormulaError:
    return FormulaError("formula nested too deeply", 0, len(line), "move it into formulas/")


def _from_syntax_error(line: str, shift: int, error: SyntaxError) -> FormulaError:
    """What is left for Python's parser to find, such as a missing `else`."""
    lonely = re.search(r"\bif\b(?!.*\belse\b)", line)
    if lonely is not None:
        return FormulaError("`if` without `else`", lonely.start(), 2, "write `b if a else c`")
    offset = min(max((error.offset or 1) - 1 + shift, 0), len(line.rstrip()) - 1)
    word = re.compile(r"\w+|\S?").match(line, offset)[0]  # type: ignore[index]
    message = f"not a Python expression, from `{word}` on" if word else "not a Python expression"
    return FormulaError(message, offset, len(word), "a formula is one Python expression")


def _outside(what: str, offset: int, length: int, hint: str) -> FormulaError:
    return FormulaError(f"{what} is outside of the formula language", offset, length, hint)


def _check_nodes(formula: Formula) -> None:
    """Refuse every node outside of the language, without recursion; the leftmost is reported."""
    pending: list[tuple[ast.AST, int]] = [(formula.tree, 1)]
    errors: list[FormulaError] = []
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise _too_deep(formula.text)
        try:
            _check_node(formula, node)
        except FormulaError as error:
            errors.append(error)
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    if errors:
        raise min(errors, key=lambda error: error.offset)


def _check_node(formula: Formula, node: ast.AST) -> None:
    if not isinstance(node, _ALLOWED):
        what, hint = _REFUSED.get(type(node), ("this", "a formula is one Python expression"))
        raise _outside(what, *_start_and_length(formula, node), hint)
    wrong = constant_problem(node)
    if wrong is not None:
        raise formula.error(*wrong)
    check = _CHECKS.get(type(node))
    if check is not None:
        check(formula, node)


def _start_and_length(formula: Formula, node: ast.AST) -> tuple[int, int]:
    start, end = formula.span(node)
    return start, end - start


def _check_name(formula: Formula, node: ast.Name) -> None:
    if node.id.startswith("__"):
        raise _outside(f"`{node.id}`", *_start_and_length(formula, node), "names with two underscores are Python's own")


def _check_attribute(formula: Formula, node: ast.Attribute) -> None:
    if node.attr.startswith("_"):
        message = f"`.{node.attr}` is outside of the formula language"
        raise formula.attribute_error(node, message, "a formula uses public attributes and methods of tensors")


def _check_constant(formula: Formula, node: ast.Constant) -> None:
    if isinstance(node.value, bytes):
        raise formula.error(node, "a bytes string is outside of the formula language", "write a plain string")


def _check_call(formula: Formula, node: ast.Call) -> None:
    if not isinstance(node.func, (ast.Name, ast.Attribute)):
        message = f"`{formula.source(node.func)}` cannot be called"
        raise formula.error(node.func, message, "call a helper, an operator or a method by its name")
    for item in node.keywords:
        if item.arg is None and not _is_options(item.value):
            raise _outside("an unpacked argument (`**`)", *_start_and_length(formula, item), "pass keywords one by one")


def _is_options(node: ast.expr) -> bool:
    """Whether it is `x.options()`, the one dict of keyword arguments that the language has."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "options"


def _check_comprehension(formula: Formula, node: ast.ListComp) -> None:
    if len(node.generators) > 1:
        raise formula.error(node.generators[1].target, "a comprehension with two `for`", "move it into formulas/")
    generator = node.generators[0]
    if generator.is_async:
        raise formula.error(node, "`async` is outside of the formula language", "write a plain `for`")
    targets = generator.target.elts if isinstance(generator.target, ast.Tuple) else [generator.target]
    for target in targets:
        if not isinstance(target, ast.Name):
            message = f"`{formula.source(target)}` cannot be the variable of a comprehension"
            raise formula.error(target, message, "write a name, or several names with commas")


_CHECKS: dict[type[ast.AST], Callable[[Formula, Any], None]] = {
    ast.Name: _check_name,
    ast.Attribute: _check_attribute,
    ast.Constant: _check_constant,
    ast.Call: _check_call,
    ast.ListComp: _check_comprehension,
}
