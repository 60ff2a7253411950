"""Ways to damage the two YAML files: single characters, words, lines, and their structure.

A mutation is (kind, a, b, c): the name of a function below and three whole numbers, which it takes modulo what there is
to choose from. So every triple is a valid mutation, and hypothesis can shrink a failure to small numbers.
"""

import re

from tests.codegen.attacks import DEFAULTS, EXPRESSIONS, NAMES, SCHEMAS

CHARACTERS = [
    *" \n\t\"'[](){}:,-#&*!|>%@`?\\=.<~;$^/+_aZ09",
    *"\0\r\x0b\x1b\x7f\x85\xa0\ufeff\u2028\xe9\u1d70\u202e\U0001f600\uff21",
]
WORDS = [
    *NAMES,
    *DEFAULTS,
    *"""Tensor Tensor? Tensor[] Tensor(a!) Tensor(a) int int[2] Scalar bool str float? ScalarType? Generator? -> () *
    grad grads grads[0] self other result result0 self_t self_p grad_input_mask retain_variables None True auto_linear
    auto_element_wise non_differentiable not_implemented wrap_opt_if if else for in is not and 0 -1 1e3 0x10 1j '' "a"
    ** // @ xp xp.sum len [0] .shape .T ( ) [ ] ... | > {} []""".split(),
    "Tensor(a -> *)",
    ": ",
    " #",
    "- ",
]
KEYS = [
    *"""func scalar kernel composite variants autogen tags python_module family type_promotion promotes accepts_number
    autocast domain name self other result output_differentiability node dispatch x grad result0 , << ?""".split(),
    "self, other",
    "self, self",
    "- func",
    "\u1d70",
]
VALUES = [
    *EXPRESSIONS,
    *SCHEMAS,
    *"""~ null [] {} [[[[[[[[[[x]]]]]]]]]] *a !!python/x | >- ' " %x @ pointwise view_copy inplace_view replayed
    always_bool none int_to_float default_with_numbers nn linalg special reduction elementwise mul_ mul.out x_copy self
    [False] auto_linear non_differentiable not_implemented("x") grads""".split(),
    *("", "[a, b]", "{a: b}", "&a b", "!!str x", "- a", "a: b", "function, method", "(grad, grad)", "grad, None"),
    *("[grad, grad]", "[False, True]", "dtype is None", "x" * 5000),
]
STYLES = ["{}", "'{}'", '"{}"', "|\n    {}", ">\n    {}", "|-\n      {}\n", "[{}]", "{{a: {}}}", "[{}, {}]", "{} # c",
          "{}\n    {}"]  # fmt: skip
ESCAPES = ["\\x00", "\\n", "\\r", "\\e[2J", "\\N", "\\L", "\\ud800", "\\U00110000", "\\q", "\\x4", "\\t"]
RETURNS = ["Tensor", "Tensor[]", "()", "(Tensor, Tensor)", "(Tensor min, Tensor max)", "(Tensor class, Tensor fn)",
           "int", "bool", "Tensor(a)", "(Tensor self, Tensor result)", "(Tensor[] a, Tensor b)",
           "(int, Tensor)"]  # fmt: skip
BYTES = [b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3", b"\x85", b"\r", b"\xf4\x90\x80\x80"]

_TOKEN = re.compile(r"\w+|\S")
_IDENTIFIER = re.compile(r"\b[a-z]\w+\b")
_KEY = re.compile(r"^(?:- |  )([\w, ]+):(?: |$)", re.MULTILINE)
_VALUE = re.compile(r"^((?:- |  )[\w, ]+: )(\S.*)$", re.MULTILINE)
_ENTRY = re.compile(r"^- (?:.*\n?)(?:^(?!- ).*\n?)*", re.MULTILINE)
_ARGUMENT = re.compile(r"(?:Tensor|int|float|bool|str|Scalar)\S* \w+(?:=[^,)]+)?")


def mutate(files, which, mutation):
    """The texts (a dict of two) with a mutation of one of them, or of both."""
    kind, *numbers = mutation
    if kind in BOTH:
        return BOTH[kind](files, *numbers)
    return {**files, which: ONE[kind](files[which], *numbers)}


def pick(choices, number):
    return choices[number % len(choices)] if choices else ""


def _splice(text, match, new):
    return text if not match else text[: match.start()] + new + text[match.end() :]


def _found(pattern, text, number):
    return pick(list(pattern.finditer(text)), number)


def _at(pattern, new):
    """A mutation that puts `new(match, b, c)` in the place of some match."""

    def mutation(text, a, b, c):
        match = _found(pattern, text, a)
        return _splice(text, match, new(match, b, c)) if match else text

    return mutation


def _character(new):
    def mutation(text, a, b, c):
        i = a % (len(text) + 1)
        return new(text, i, b, c)

    return mutation


def _lines(change):
    def mutation(text, a, b, c):
        lines = text.split("\n")
        i = a % len(lines)
        change(lines, i, b % len(lines), c)
        return "\n".join(lines)

    return mutation


def _swap(items, i, j, c):
    items[i], items[j] = items[j], items[i]


def _replaced(text):
    return lambda items, i, j, c: items.__setitem__(i, text(items[i], c))


def _swap_tokens(text, a, b, c):
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) < 2:
        return text
    i, j = sorted((a % len(tokens), b % len(tokens)))
    first, second = tokens[i], tokens[j]
    if i == j:
        return text
    between = text[first.end() : second.start()]
    return text[: first.start()] + second.group() + between + first.group() + text[second.end() :]


def _other_value(text, a, b, c):
    value, other = _found(_VALUE, text, a), _found(_VALUE, text, b)
    return _splice(text, value, value.group(1) + other.group(2)) if value else text


ONE = {
    "delete character": _character(lambda t, i, b, c: t[:i] + t[i + 1 + b % 3 :]),
    "insert character": _character(lambda t, i, b, c: t[:i] + pick(CHARACTERS, b) * (1 + c % 2) + t[i:]),
    "replace character": _character(lambda t, i, b, c: t[:i] + pick(CHARACTERS, b) + t[i + 1 :]),
    "repeat characters": _character(lambda t, i, b, c: t[:i] + t[i : i + b % 40] * (2 + c % 60) + t[i + b % 40 :]),
    "insert bytes": _character(lambda t, i, b, c: t[:i] + pick(BYTES, b).decode("utf-8", "surrogateescape") + t[i:]),
    "cut": _character(lambda t, i, b, c: t[:i]),
    "replace word": _at(_TOKEN, lambda m, b, c: pick(WORDS, b)),
    "insert word": _at(_TOKEN, lambda m, b, c: pick(WORDS, b) + pick(["", " ", "("], c) + m.group()),
    "delete word": _at(_TOKEN, lambda m, b, c: ""),
    "double word": _at(_TOKEN, lambda m, b, c: m.group() + pick(["", " ", ", ", "."], c) + m.group()),
    "swap words": _swap_tokens,
    "delete line": _lines(lambda lines, i, j, c: lines.pop(i)),
    "double line": _lines(lambda lines, i, j, c: lines.insert(i, lines[i])),
    "swap lines": _lines(_swap),
    "indent line": _lines(_replaced(lambda line, c: " " * (1 + c % 5) + line)),
    "dedent line": _lines(_replaced(lambda line, c: line[1 + c % 3 :])),
    "comment line": _lines(_replaced(lambda line, c: "# " + line)),
    "join lines": _lines(lambda lines, i, j, c: lines.__setitem__(slice(i, i + 2), ["".join(lines[i : i + 2])])),
    "other line ends": lambda t, a, b, c: t.replace("\n", pick(["\r\n", "\r", "\n\n", "\x85", "\u2028"], a)),
    "delete entry": _at(_ENTRY, lambda m, b, c: ""),
    "double entry": _at(_ENTRY, lambda m, b, c: m.group() * (2 + c % 2)),
    "rename key": _at(_KEY, lambda m, b, c: m.group().replace(m.group(1), pick(KEYS, b), 1)),
    "replace value": _at(_VALUE, lambda m, b, c: m.group(1) + pick(VALUES, b)),
    "other value": _other_value,
    "other style": _at(_VALUE, lambda m, b, c: m.group(1) + pick(STYLES, b).replace("{}", m.group(2))),
    "escapes": _at(_VALUE, lambda m, b, c: f'{m.group(1)}"{pick(ESCAPES, b)}{m.group(2)}"'),
    "add key": _at(_KEY, lambda m, b, c: f"{m.group()[:2]}{pick(KEYS, b)}: {pick(VALUES, c)}\n  {m.group()[2:]}"),
    "add argument": _at(_ARGUMENT, lambda m, b, c: f"{m.group()}, {pick(WORDS, b)} {pick(NAMES, c)}"),
    "add default": _at(_ARGUMENT, lambda m, b, c: m.group().partition("=")[0] + "=" + pick(DEFAULTS, b)),
    "replace type": _at(_ARGUMENT, lambda m, b, c: pick(WORDS, b) + " " + m.group().partition(" ")[2]),
}


def _rename_everywhere(files, a, b, c):
    """One identifier in both files becomes another, so that the files still agree."""
    words = sorted({m.group() for text in files.values() for m in _IDENTIFIER.finditer(text)})
    old, new = pick(words, a), pick([*NAMES, *words], b)
    return {name: re.sub(rf"\b{re.escape(old)}\b", lambda m: new, text) for name, text in files.items()}


def _schema_everywhere(change):
    """A change of one line of a schema, made in both files."""

    def mutation(files, a, b, c):
        lines = sorted({m.group() for text in files.values() for m in re.finditer(r"\b\w[\w.]*\(.*\) -> .*", text)})
        old = pick(lines, a)
        match = _found(_ARGUMENT, old, b)
        new = change(old, match, c) if match else old
        return {name: text.replace(old, new) for name, text in files.items()} if old else files

    return mutation


def _argument(new):
    return _schema_everywhere(lambda schema, match, c: _splice(schema, match, new(*match.group().split(" ", 1), c)))


BOTH = {
    "rename everywhere": _rename_everywhere,
    "add argument everywhere": _argument(lambda kind, rest, c: f"{kind} {rest}, Tensor {pick(NAMES, c)}"),
    "add number everywhere": _argument(
        lambda kind, rest, c: f"{kind} {rest}, int {pick(NAMES, c)}={pick(DEFAULTS, c // 7)}"
    ),
    "rename argument everywhere": _argument(lambda kind, rest, c: f"{kind} {pick(NAMES, c)}"),
    "retype argument everywhere": _argument(lambda kind, rest, c: f"{pick(WORDS, c)} {rest}"),
    "optional argument everywhere": _argument(
        lambda kind, rest, c: re.sub(
            r"^\w+", lambda m: m.group() + pick(["?", "[]", "[2]", "?[]"], c), f"{kind} {rest}"
        )
    ),
    "change returns everywhere": _schema_everywhere(
        lambda schema, match, c: f"{schema.partition(' -> ')[0]} -> {pick(RETURNS, c)}"
    ),
    "exchange files": lambda files, a, b, c: dict(zip(files, reversed(list(files.values())), strict=True)),
}

KINDS = [*ONE, *BOTH, *BOTH, *BOTH]  # what keeps the files in agreement reaches further
