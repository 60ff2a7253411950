"""The formula language: the part of Python's expressions that derivatives.yaml may use.

    formula = parse("grad * (tensor2 * value).conj()")
    formula.tree                                  # the ast of a checked expression
    formula.span(node)                            # where a node stands in the text, for error messages

Nothing is ever evaluated. `parse` accepts an expression only if every node of its tree is in a list below, so that an
import, a lambda, an assignment or an f-string has no way in. names.py decides which names may occur, since that depends
on the operator; saving.py decides what the node saves.

The text is first checked word by word for errors that Python's parser would report late or vaguely: an open bracket is
reported where it opens, a missing operand at its operator, C++ at its first C++ token. The messages are therefore the
same for every version of Python.
"""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .array_language import constant_problem

MAX_BRACKETS = 30  # brackets open at a time; Python's parser has a limit, too, but no good message

_WORD = re.compile(
    r"""(?P<blank>[ ]+)
      | (?P<prefix>[A-Za-z]+(?=['"]))
      | (?P<string>'''|\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<number>0[xXoObB][0-9a-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?[jJ]?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<mark>\.\.\.|\*\*|//|<<|>>|==|!=|<=|>=|:=|::|&&|\|\||->|.)""",
    re.VERBOSE | re.ASCII,
)

_FROM_C = {
    "::": "a namespace is written with a dot: `linalg.inv(self)`",
    "&&": "write `and`",
    "||": "write `or`",
    "?": "write `b if a else c` for `a ? b : c`",
    "!": "write `not`",
    "->": "write a dot",
}

_REFUSED_MARKS = {
    ";": ("`;`", "a formula is one expression"),
    ":=": ("an assignment (`:=`)", "a formula is one expression; what needs a local name goes into formulas/"),
    "#": ("a comment", "put it on a line of its own, above the key"),
    "`": ("a backtick", "remove it"),
    "$": ("`$`", "remove it"),
    "\\": ("a backslash", "remove it; a YAML value may simply go on in the next line"),
    "'''": ("a triple-quoted string", "write a string in single quotes"),
    '"""': ("a triple-quoted string", "write a string in single quotes"),
}

_OPERATOR_WORDS = frozenset(("if", "else", "and", "or", "not", "in", "is", "for"))
_CONSTANT_WORDS = frozenset(("None", "True", "False"))
_BINARY = frozenset("* / // % ** @ & | ^ << >> == != < > <= >= . and or in is if else for =".split())
_MAY_BE_UNARY = frozenset(("+", "-", "~", "not"))
_CLOSES = {")": "(", "]": "[", "}": "{"}


class FormulaError(ValueError):
    """An error in a formula: `length` characters from `offset` on."""

    def __init__(self, message: str, offset: int = 0, length: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.offset, self.length, self.hint = message, offset, max(length, 1), hint


@dataclass(frozen=True, slots=True)
class _Word:
    kind: str
    text: str
    offset: int

    @property
    def starts_operand(self) -> bool:
        return self.text == "..." or self.kind in ("string", "number") or self._is_plain_name

    @property
    def ends_operand(self) -> bool:
        return self.starts_operand or self.text in _CLOSES

    @property
    def _is_plain_name(self) -> bool:
        return self.kind == "name" and self.text not in _OPERATOR_WORDS

    def error(self, message: str, hint: str) -> FormulaError:
        return FormulaError(message, self.offset, len(self.text), hint)


def check_words(line: str) -> None:
    """Check single words and neighbours in one line of text. Raises FormulaError at the word that does not fit."""
    words = []
    for match in _WORD.finditer(line):
        word = _Word(match.lastgroup or "mark", match[0], match.start())
        if word.kind != "blank":
            _check_word(word, line)
            words.append(word)
    _check_brackets(words)
    for word, following in zip(words, [*words[1:], None], strict=True):
        _check_neighbours(word, following)


def _check_word(word: _Word, line: str) -> None:
    text = word.text
    foreign = next((i for i, char in enumerate(text) if not " " <= char <= "~"), None)
    if foreign is not None:
        message = f"character {text[foreign]!r} in a formula"
        raise FormulaError(message, word.offset + foreign, 1, "a formula is written in ASCII")
    if word.kind == "prefix" and not keyword.iskeyword(text):
        what = "an f-string" if "f" in text.lower() else f"a string with the prefix `{text}`"
        raise _outside_word(word, what, "a string in a formula is a plain constant")
    if text in _FROM_C:
        raise word.error(f"`{text}` is C++, a formula is Python", _FROM_C[text])
    if text in _REFUSED_MARKS:
        raise _outside_word(word, *_REFUSED_MARKS[text])
    if text in "'\"":
        message = f"string that {text} opens is not closed"
        raise FormulaError(message, word.offset, len(line.rstrip()) - word.offset, f"close it with {text}")
    if keyword.iskeyword(text) and text not in _OPERATOR_WORDS | _CONSTANT_WORDS:
        hint = "write the function in formulas/ and call it" if text == "lambda" else "a formula is one expression"
        raise _outside_word(word, f"`{text}`", hint)


def _outside_word(word: _Word, what: str, hint: str) -> FormulaError:
    return word.error(f"{what} is outside of the formula language", hint)


def _check_brackets(words: list[_Word]) -> None:
    opened: list[_Word] = []
    for word in words:
        if word.text in _CLOSES.values():
            opened.append(word)
            if len(opened) > MAX_BRACKETS:
                raise word.error(
                    f"formula nested too deeply: more than {MAX_BRACKETS} brackets are open here",
                    "move it into formulas/",
                )
        elif word.text in _CLOSES:
            if not opened:
                raise word.error(f"`{word.text}` closes nothing", f"remove it, or open it with `{_CLOSES[word.text]}`")
            if opened[-1].text != _CLOSES[word.text]:
                closing = next(c for c, o in _CLOSES.items() if o == opened[-1].text)
                raise word.error(f"`{word.text}` closes a `{opened[-1].text}`", f"write `{closing}`")
            opened.pop()
        elif word.text == "=" and not opened:
            raise _outside_word(word, "an assignment", "a formula is one expression, without `=`")
    if opened:
        closing = next(c for c, o in _CLOSES.items() if o == opened[-1].text)
        raise opened[-1].error(f"`{opened[-1].text}` is never closed", f"add `{closing}`")


def _check_neighbours(word: _Word, following: _Word | None) -> None:
    if following is not None and word.ends_operand and following.starts_operand:
        raise following.error(
            f"an operator is missing between `{word.text}` and `{following.text}`",
            "write `*`, `+`, `,` or what is meant",
        )
    if word.text in ("(", "[", ",") and following is not None and following.text == ",":
        raise following.error("something is missing before `,`", "complete it, or remove the comma")
    if word.text in ("+", "-", "~", "not") or word.text in _BINARY:
        fits = following is not None and (
            following.starts_operand or following.text in "([{" or following.text in _MAY_BE_UNARY
        )
        pair = (word.text, following.text if following else "")
        # `**` after `(` or `,` unpacks keywords; `_check_call` checks it.
        if not fits and pair not in (("not", "in"), ("is", "not")):
            raise word.error(f"something is missing after `{word.text}`", "complete the expression")


MAX_LENGTH = 4_000  # characters of a formula
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
    """A checked expression."""

    text: str  # as in the file, on one line (a line break is one space, so offsets are the file's)
    tree: ast.expr  # the expression's ast. Its column offsets count from `shift`
    shift: int = 0  # number of blanks before the expression

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the start and end of a node in `text`."""
        return node.col_offset + self.shift, node.end_col_offset + self.shift  # type: ignore[attr-defined]

    def source(self, node: ast.AST) -> str:
        """Return the node as the author spelled it."""
        start, end = self.span(node)
        return self.text[start:end]

    def error(self, node: ast.AST, message: str, hint: str) -> FormulaError:
        """Return an error that marks a whole node."""
        start, end = self.span(node)
        return FormulaError(message, start, end - start, hint)

    def attribute_error(self, node: ast.Attribute, message: str, hint: str) -> FormulaError:
        """Return an error that marks the name after the dot."""
        end = self.span(node)[1]
        return FormulaError(message, end - len(node.attr), len(node.attr), hint)


def parse(text: str) -> Formula:
    """Parse and check one formula. Raises FormulaError at the word outside of the formula language."""
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
            warnings.simplefilter("ignore")  # "1 is not callable" and the like are our own errors
            tree = ast.parse(line.strip(), mode="eval").body
    except SyntaxError as error:
        raise _from_syntax_error(line, shift, error) from None
    except (MemoryError, RecursionError, SystemError, ValueError):  # Python 3.11's parser may raise any of these
        raise _too_deep(line) from None
    formula = Formula(line, tree, shift)
    _check_nodes(formula)
    return formula


def constant_int(node: ast.expr) -> int | None:
    """Return the value of an integer literal, negative ones included; None for every other expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if type(value) is int else None
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _too_deep(line: str) -> FormulaError:
    return FormulaError("formula nested too deeply", 0, len(line), "move it into formulas/")


def _from_syntax_error(line: str, shift: int, error: SyntaxError) -> FormulaError:
    """Return the error for mistakes that only Python's parser finds, such as a missing `else`."""
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
        raise _outside(
            f"`{node.id}`",
            *_start_and_length(formula, node),
            "names that start with two underscores are reserved for Python",
        )


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
    """Return whether a node is `x.options()`, the only dict of keyword arguments in the language."""
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
