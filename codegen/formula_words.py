"""The first look at a formula, word by word: it finds what Python's parser would report late or vaguely.

An open bracket is reported where it opens, a missing operand at the operator that lacks it, an import at the
word `import`, C++ at what is C++ about it. That also keeps the messages the same for every version of Python.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

MAX_BRACKETS = 30  # open at a time; Python's parser has a limit too, but not a good message

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
    """What is wrong with a formula, and where in its text: `length` characters from `offset` on."""

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
    """Check one line of text as a formula as far as single words and neighbours go.

    Raises:
        FormulaError: at the word that does not fit.
    """
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
        raise _outside(word, what, "a string in a formula is a plain constant")
    if text in _FROM_C:
        raise word.error(f"`{text}` is C++, a formula is Python", _FROM_C[text])
    if text in _REFUSED_MARKS:
        raise _outside(word, *_REFUSED_MARKS[text])
    if text in "'\"":
        message = f"string that {text} opens is not closed"
        raise FormulaError(message, word.offset, len(line.rstrip()) - word.offset, f"close it with {text}")
    if keyword.iskeyword(text) and text not in _OPERATOR_WORDS | _CONSTANT_WORDS:
        hint = "write the function in formulas/ and call it" if text == "lambda" else "a formula is one expression"
        raise _outside(word, f"`{text}`", hint)


def _outside(word: _Word, what: str, hint: str) -> FormulaError:
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
            raise _outside(word, "an assignment", "a formula is one expression, without `=`")
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
        # `**` after `(` or `,` unpacks keywords, which the tree is checked for.
        if not fits and pair not in (("not", "in"), ("is", "not")):
            raise word.error(f"something is missing after `{word.text}`", "complete the expression")
