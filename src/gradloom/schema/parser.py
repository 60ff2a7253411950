"""From the text of a schema to its model, by recursive descent.

    schema     = name "(" [argument {"," argument} ["," "*" {"," argument}]] ")" "->" returns
    name       = [identifier "::"] identifier ["." identifier]
    argument   = type identifier ["=" default]
    returns    = return | "(" [return {"," return}] ")"
    return     = type [identifier]
    type       = identifier ["(" annotation ")"] {"?" | "[" [number] "]"}
    annotation = sets ["!"] ["->" sets]        sets = letter {"|" letter} | "*"
    default    = number | string | identifier | "[" [default {"," default}] "]"

White space may stand between any two words. Every error has the offset and the length of the offending word. PyTorch's
parser also accepts a second `*`, one return in parentheses, and an annotation after `[]`; a strict parser refuses them.
"""

from __future__ import annotations

import re
from typing import Any

from .model import Annotation, Argument, Base, FunctionSchema, List, OperatorName, Optional, Return, SchemaError, Type

MAX_LENGTH = 20_000
MAX_DEPTH = 16

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w)|-inf\b)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>->|::|[(),.*=?\[\]!|])""",
    re.VERBOSE,
)


class _Token:
    """A word of the text: its kind ('name', 'number', 'string', 'mark' or 'end'), characters and offset."""

    __slots__ = ("kind", "text", "offset")

    def __init__(self, kind: str, text: str, offset: int) -> None:
        self.kind, self.text, self.offset = kind, text, offset

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


def _scan(text: str) -> list[_Token]:
    if len(text) > MAX_LENGTH:
        raise SchemaError(f"a schema of {len(text)} characters", hint=f"the limit is {MAX_LENGTH} characters")
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            char = text[position]
            if char in "\"'":
                length = len(text) - position
                raise SchemaError(f"string that {char} opens is not closed", position, length, f"close it with {char}")
            hint = "write `->` before the returns" if char in "-:" else "remove it"
            raise SchemaError(f"unexpected character `{char}` in a schema", position, 1, hint)
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    tokens.append(_Token("end", "", len(text.rstrip())))
    return tokens


class Parser:
    """Parses one text. Subclasses may be stricter and make other objects."""

    strict = False
    argument_class: Any = Argument
    annotation_class: Any = Annotation
    schema_class: Any = FunctionSchema

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _scan(text)
        self.index = 0
        self.spans: dict[tuple[str, int], tuple[int, int]] = {}

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def fail(self, message: str, hint: str = "", token: _Token | None = None, expected: str = "") -> SchemaError:
        token = token or self.token
        found = f"`{token.text}`" if token.text else "the end"
        length = max(1, len(token.text))
        return SchemaError(message.replace("{found}", found), token.offset, length, hint, expected=expected)

    def take(self) -> _Token:
        token = self.token
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, mark: str) -> bool:
        return self.token.kind == "mark" and self.token.text == mark

    def accept(self, mark: str) -> bool:
        if self.at(mark):
            self.index += 1
            return True
        return False

    def expect(self, mark: str, where: str, hint: str = "") -> None:
        if not self.accept(mark):
            expected = {"->": "arrow"}.get(mark, mark)
            raise self.fail(f"expected `{mark}` {where}, found {{found}}", hint, expected=expected)

    def word(self, what: str, hint: str = "") -> _Token:
        if self.token.kind != "name":
            raise self.fail(f"expected {what}, found {{found}}", hint, expected="ident")
        return self.take()

    def located(self, start: int, make: object, *args: object) -> object:
        """Make a node; place an error that it raises at the words from token `start` on."""
        try:
            return make(*args)  # type: ignore[operator]
        except SchemaError as error:
            offset, end = self.tokens[start].offset, self.tokens[max(start, self.index - 1)].end
            if error.subject is not None:
                offset, end = self.spans.get(error.subject, (offset, end))
            raise SchemaError(
                error.message, offset, max(1, end - offset), error.hint, expected=error.expected
            ) from None

    def schema(self) -> FunctionSchema:
        name = self.operator_name()
        self.expect("(", f"after the name `{name}`", "a schema is `name(Type argument, ...) -> Type`")
        arguments = self.arguments()
        self.expect("->", "after the arguments", "write what is returned, such as `-> Tensor`, or `-> ()`")
        returns = self.returns()
        if self.token.kind != "end":
            hint = "put several returns in parentheses, or remove it"
            raise self.fail("{found} after the end of the schema", hint, expected="eof")
        return self.located(0, self.schema_class, name, arguments, returns)  # type: ignore[return-value]

    def operator_name(self) -> OperatorName:
        start = self.index
        first = self.word("the operator's name", "a schema is `name(Type argument, ...) -> Type`")
        while self.at(".") or self.at("::"):
            self.take()
            self.word("a name", "write `name.overload`")
        end = self.tokens[self.index - 1].end
        self.spans["name", 0] = (first.offset, end)
        text = self.text[first.offset : end]
        if len(text.split()) > 1 or text.count(".") > 1 or text.count("::") > 1:
            hint = "write `name.overload`"
            raise SchemaError(f"`{text}` is not an operator name", first.offset, len(text), hint, expected="ident")
        return self.located(start, OperatorName.parse, text)  # type: ignore[return-value]

    def arguments(self) -> tuple[Argument, ...]:
        arguments: list[Argument] = []
        keyword_only = False
        if self.accept(")"):
            return ()
        while True:
            if self.at("*"):
                if keyword_only and self.strict:
                    raise self.fail("a second `*`", "one `*` starts all keyword-only arguments")
                keyword_only = True
                self.take()
                if self.at(")") and self.strict:
                    raise self.fail("no argument follows the `*`", "remove the `*`")
            else:
                arguments.append(self.argument(len(arguments), keyword_only))
            if self.accept(")"):
                return tuple(arguments)
            if not self.accept(","):
                more = self.token.kind == "name"
                hint = "separate arguments with `,`" if more else "close the arguments with `)`"
                raise self.fail("expected `,` or `)` after an argument, found {found}", hint, expected=")")

    def argument(self, number: int, keyword_only: bool) -> Argument:
        start = self.index
        if not self.strict and self.tokens[start].kind == "name" and self.tokens[start + 1].text in (")", ","):
            self.take()  # PyTorch's parser reports the missing name before it looks up the type
            self.word("the name of an argument", "an argument is `Type name`")
        type_, annotation = self.type()
        name = self.word(f"the name of the {type_} argument", "an argument is `Type name`")
        default = None
        if self.accept("="):
            first = self.token
            self.default(0)
            self.spans["default", 0] = (first.offset, self.tokens[self.index - 1].end)
            default = self.text[first.offset : self.tokens[self.index - 1].end]
        argument = self.located(start, self.argument_class, name.text, type_, default, annotation, keyword_only)
        self.spans["argument", number] = (name.offset, name.end)
        return argument  # type: ignore[return-value]

    def type(self) -> tuple[Type, Annotation | None]:
        start = self.index
        if self.at(")"):
            hint = "remove the comma, or write `Type name` after it"
            raise self.fail("expected a type, found {found}", hint, expected="ident")
        self.word("a type", "a type is written like `Tensor`, `Tensor?`, `int[2]`; nothing is `()`")
        node: Type = self.located(start, self.base_type, self.tokens[start].text)  # type: ignore[assignment]
        annotation = self.annotation() if self.at("(") else None
        depth = 0
        while self.at("?") or self.at("[") or (self.at("(") and annotation is None and not self.strict):
            depth += 1
            if depth > MAX_DEPTH:
                raise self.fail("type nested too deeply at {found}", f"the limit is {MAX_DEPTH} levels")
            if self.at("("):
                annotation = self.annotation()
                continue
            if self.accept("?"):
                node = self.located(start, Optional, node)  # type: ignore[assignment]
                continue
            self.take()
            size = None
            if self.token.kind == "number":
                if not self.token.text.isdigit() or len(self.token.text) > 4:
                    raise self.fail("list size {found} is not a small whole number", "write `[]` or `[2]`")
                size = int(self.take().text)
            self.expect("]", "after a list type", "write `[]` or `[2]`")
            node = self.located(start, List, node, size)  # type: ignore[assignment]
        return node, annotation

    def base_type(self, name: str) -> Base:
        """Return the type that a word means."""
        return Base(name)

    def annotation(self) -> Annotation:
        start = self.index
        self.expect("(", "before an annotation")
        sets = self.alias_sets()
        write = self.accept("!")
        after = self.alias_sets() if self.accept("->") else ()
        self.expect(")", "after an annotation", "an annotation is `(a)`, `(a!)` or `(a -> *)`")
        return self.located(start, self.annotation_class, sets, write, after)  # type: ignore[return-value]

    def alias_sets(self) -> tuple[str, ...]:
        sets: list[str] = []
        while True:
            if self.at("*") or self.token.kind == "name":
                sets.append(self.take().text)
            else:
                raise self.fail("expected an alias set, found {found}", "an annotation is `(a)`, `(a!)` or `(a -> *)`")
            if not self.accept("|"):
                return tuple(sets)

    def default(self, depth: int) -> None:
        """Skip a default value; its text is kept as it is."""
        if depth > MAX_DEPTH:
            raise self.fail("default value nested too deeply at {found}", f"the limit is {MAX_DEPTH} levels")
        if self.token.kind in ("name", "number", "string"):
            self.take()
            return
        if not self.accept("["):
            raise self.fail("expected a default value after `=`, found {found}", "write a number, string, name or list")
        if self.accept("]"):
            return
        while True:
            self.default(depth + 1)
            if self.accept("]"):
                return
            self.expect(",", "in a list", "a list is `[1, 2]`")

    def returns(self) -> tuple[Return, ...]:
        opening = self.token
        if not self.accept("("):
            return (self.one_return(0),)
        returns: list[Return] = []
        if self.accept(")"):
            return ()
        while True:
            returns.append(self.one_return(len(returns)))
            if self.accept(")"):
                break
            self.expect(",", "between returns", "several returns are `(Type name, Type name)`")
        if len(returns) == 1 and self.strict:
            raise self.fail("one return in parentheses", "write it without them", opening)
        return tuple(returns)

    def one_return(self, number: int) -> Return:
        first = self.token
        type_, annotation = self.type()
        name = None
        if self.token.kind == "name":
            word = self.take()
            name = word.text
            self.spans["return name", number] = (word.offset, word.end)
        self.spans["return", number] = (first.offset, self.tokens[self.index - 1].end)
        return Return(type_, name, annotation)


def parse(text: str) -> FunctionSchema:
    """Parse `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

    Raises SchemaError with the offset and length of the offending word.
    """
    return Parser(text).schema()
