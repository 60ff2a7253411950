"""What the kernel and formula languages share: expressions parsed with good errors, and constants with bounds.

`parse_expression` checks brackets, strings and dangling operators before Python's parser sees them, so that these
messages do not depend on the version of Python. `constant_problem` refuses constants that would take for ever to
compute or to print.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import warnings

from ..errors import SpecError, shorten
from ..reading.text import Text

LANGUAGE = "a kernel is `family.function`, or an expression of arguments, `xp.<function>(...)` and operators"

MAX_LENGTH = 4000
MAX_BRACKETS = 50
MAX_DEPTH = 100

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_FOREIGN = re.compile(r"[^ -~]")
_WORD = re.compile(r"\w+|\S")
_DANGLING = re.compile(r"(\*\*|//|<<|>>|[-+*/%@&|^~<>=!,.:]|\b(?:and|or|not|in|is|if|else|for)\b)\Z")


def parse_expression(text: Text) -> tuple[ast.expr, int]:
    """Parse a Python expression; return its tree and the offset in the value at which its columns start.

    White space in the value, line ends included, separates words only. Raises SpecError for what is too long,
    not ASCII, nested too deeply or not one Python expression.
    """
    lead = len(text.value) - len(text.value.lstrip())
    code = text.value.strip().replace("\n", " ")
    if len(code) > MAX_LENGTH:
        raise text.error(f"an expression of {len(code)} characters", f"the limit is {MAX_LENGTH}", lead, 1)
    _check_characters(text, code, lead)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(code, mode="eval").body
    except SyntaxError as error:
        raise _syntax_error(text, code, lead, error) from None
    except (RecursionError, MemoryError, SystemError, ValueError):  # Python 3.11's parser may raise any of these
        tree = None
    if tree is None or _is_deep(tree):
        raise text.error("the expression is nested too deeply", "move it to a named kernel", lead, 1) from None
    return tree, lead


def _is_deep(tree: ast.expr) -> bool:
    """Return whether nodes are nested more than MAX_DEPTH levels; an accepted tree may be walked by recursion."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _check_characters(text: Text, code: str, lead: int) -> None:
    """Refuse what is not ASCII, comments, strings without an end, and brackets that do not match."""
    foreign = _FOREIGN.search(code)
    if foreign is not None:
        char = foreign.group()
        shown = f"`{char}`" if char.isprintable() else f"U+{ord(char):04X}"
        message = f"unexpected character {shown} in an expression"
        raise text.error(message, "use ASCII characters", lead + foreign.start(), 1)
    opened: list[int] = []
    i = 0
    while i < len(code):
        char = code[i]
        if char == "#":
            hint = "put the comment above the entry, or after the value of a key that is not a block"
            raise text.error("a comment in an expression", hint, lead + i, 1)
        if char == "\\":
            hint = "remove it; a value may go on in the next line"
            raise text.error("a backslash in an expression", hint, lead + i, 1)
        if char in "'\"":
            string = _STRING.match(code, i)
            if string is None:
                raise text.error(f"string that {char} opens is not closed", f"close it with {char}", lead + i)
            i = string.end()
            continue
        if char in _CLOSING:
            opened.append(i)
            if len(opened) > MAX_BRACKETS:
                hint = "move it to a named kernel"
                raise text.error(f"more than {MAX_BRACKETS} brackets are open", hint, lead + i, 1)
        elif char in ")]}":
            if not opened:
                raise text.error(f"`{char}` closes nothing", "remove it, or open it before", lead + i, 1)
            wanted = _CLOSING[code[opened.pop()]]
            if char != wanted:
                raise text.error(f"`{char}` where `{wanted}` is expected", f"write `{wanted}`", lead + i, 1)
        i += 1
    if opened:
        bracket = code[opened[-1]]
        hint = f"write `{_CLOSING[bracket]}` where it ends"
        raise text.error(f"`{bracket}` is not closed", hint, lead + opened[-1], 1)


def _syntax_error(text: Text, code: str, lead: int, error: SyntaxError) -> SpecError:
    dangling = _DANGLING.search(code)
    if dangling is not None and error.msg == "invalid syntax":
        word = dangling.group()
        hint = f"write what follows `{word}`, or remove it"
        return text.error(f"nothing follows `{word}`", hint, lead + dangling.start(), len(word))
    offset = min(max((error.offset or 1) - 1, 0), len(code) - 1)
    match = _WORD.match(code, offset)
    length = max(len(match.group()) if match else 1, (error.end_offset or 0) - (error.offset or 0))
    found = shorten(code[offset : offset + length])
    if keyword.iskeyword(found) and found not in ("if", "else", "for", "in", "is", "and", "or", "not"):
        return text.error(f"`{found}` is outside the kernel language", LANGUAGE, lead + offset, length)
    reason = error.msg.split(". ", 1)[0]
    return text.error(f"not an expression at `{found}`: {reason}", LANGUAGE, lead + offset, length)


MAX_BITS = 64  # of a whole number, and of the result of a power of constants


def constant_problem(node: ast.AST) -> tuple[ast.expr, str, str] | None:
    """Return what is wrong with the constants of a node, as (the part at fault, message, hint); None if nothing is.
    Python computes `9 ** 9 ** 9` for hours, and `'a' * 10 ** 10` until memory is full."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            return node, f"a number of {value.bit_length()} bits", f"the limit is {MAX_BITS}; no dtype holds more"
        if isinstance(value, float | complex) and not math.isfinite(abs(value)):
            return node, "a number too large for a float", "write a smaller one"
    if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.Constant) and not (side.value is None or isinstance(side.value, bool)):
                return side, "`is` with something that is not None", "compare with `==`"
    if isinstance(node, ast.Subscript):
        has_keys = isinstance(node.slice, ast.Constant) and type(node.slice.value) is not int
        if isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Tuple | ast.List) and has_keys):
            return node.value, "an element of a constant", "write the element itself"
    if not isinstance(node, ast.BinOp):
        return None
    for side in (node.left, node.right):
        if isinstance(side, ast.Constant) and isinstance(side.value, str | bytes):
            return side, "arithmetic with a string", "strings are arguments of functions only"
    if isinstance(node.op, ast.Pow | ast.LShift) and _bits(node) > MAX_BITS:
        return node, f"a constant of more than {MAX_BITS} bits", "write the number, or a float such as `2.0 ** 100`"
    return None


def _bits(node: ast.expr) -> float:
    """Return an upper bound of the bits of an expression of integers; 0 for any other expression."""
    if isinstance(node, ast.UnaryOp):
        return _bits(node.operand)
    if isinstance(node, ast.Constant):
        return max(node.value.bit_length(), 1) if type(node.value) is int else 0
    if not isinstance(node, ast.BinOp):
        return 0
    left, right = _bits(node.left), _bits(node.right)
    if not left or not right:
        return 0
    if isinstance(node.op, ast.Pow | ast.LShift):
        exponent = 2.0**right if right < 64 else math.inf
        if isinstance(node.right, ast.Constant):
            exponent = float(node.right.value)  # type: ignore[arg-type]
        return left * exponent if isinstance(node.op, ast.Pow) else left + exponent
    return left + right
