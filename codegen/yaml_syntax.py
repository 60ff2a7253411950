"""Says what is wrong with a text that is not YAML, at the place where the user went wrong.

PyYAML reports where it gave up: an unclosed quote at the end of the file, a key that is indented too far at
its colon. The file is scanned once more with PyYAML's own (pure Python) scanner, whose errors also know where
the construct began, so that the same text gives the same message whether or not libyaml is installed.
"""

from __future__ import annotations

import re

import yaml

from .errors import SpecError, shorten
from .text import Source

_ALIGN = "start every entry with `- ` in one column, and put its keys below each other"
_QUOTE = "put the whole value in quotes"
_KEY_LINE = re.compile(r"\n *(?:- +)?[A-Za-z_][\w, ]*:(?= |\n)")


def unclosed_quote(source: Source, start: int, end: int) -> SpecError | None:
    """The error for a quoted value from `start` to `end` that swallows a key: a later quote closed it."""
    return _unclosed(source, start) if _KEY_LINE.search(source.text, start, end) else None


def syntax_error(source: Source, error: Exception) -> SpecError:
    """The error to show for a YAMLError, or ValueError, that reading `source` raised."""
    swallowed = _swallowing_quote(source)
    if swallowed is not None:
        return _unclosed(source, swallowed)
    try:
        for _ in yaml.parse(source.text, Loader=yaml.SafeLoader):
            pass
    except yaml.MarkedYAMLError as precise:
        error = precise
    except (yaml.YAMLError, RecursionError, ValueError):  # ValueError: `\U00110000`
        pass
    problem = getattr(error, "problem", None) or "not YAML"
    context = getattr(error, "context", None) or ""
    mark = getattr(error, "problem_mark", None)
    began = getattr(error, "context_mark", None) or mark
    if mark is None or began is None:
        return source.error(0, f"the file is not YAML: {shorten(str(error))}", _ALIGN)
    at, began_at = (source.index(m.line, m.column) for m in (mark, began))
    return _explain(source, problem, context, at, began_at)


def _explain(source: Source, problem: str, context: str, at: int, began: int) -> SpecError:
    text = source.text
    if "quoted scalar" in context and "end of stream" in problem:
        return _unclosed(source, began)
    if "mapping values are not allowed" in problem:
        start = text.rfind("\n", 0, at) + 1
        key = text[start:at].strip()
        if re.fullmatch(r"(- +)?[A-Za-z_][\w, ]*", key):
            place = at - len(key)
            return source.error(place, f"key `{shorten(key)}` is not aligned with the key above it", _ALIGN, len(key))
        return source.error(at, "`:` before a space, inside a value", _QUOTE)
    if "could not find expected ':'" in problem:
        word = text[began:].split("\n", 1)[0].rstrip()
        return source.error(began, f"`{shorten(word)}` is not `key: value`", "write `key: value`", len(word))
    if "flow sequence" in context or "flow mapping" in context:
        if text.count("\n", began, at):
            return source.error(began, f"`{text[began]}` is not closed", f"close it, or {_QUOTE}")
        word = _word(text, at)
        return source.error(at, f"unexpected `{word}` after `{text[began]}`", f"write a comma, or {_QUOTE}", len(word))
    if "escape" in problem:
        place = text.rfind("\\", 0, at + 1)
        word = text[place : max(place + 2, at)]
        hint = "double the backslash, or use '...'"
        return source.error(place, f"unknown escape `{word}` in a string", hint, len(word))
    if context.startswith(("while scanning an alias", "while scanning an anchor", "while scanning a tag")):
        word = _word(text, began)
        return source.error(began, f"`{word}` starts a value that is not text", _QUOTE, len(word))
    word = _word(text, at)
    if "cannot start any token" in problem:
        return source.error(at, f"a value cannot start with {text[at]!r}", _QUOTE)
    if text[:at].rstrip(" ")[-1:] in ("'", '"'):
        hint = "double a quote that belongs to the value, or use the other kind of quotes around it"
        return source.error(at, f"unexpected `{word}` after the closing quote", hint, len(word))
    if "block" in context:
        return source.error(at, f"unexpected `{word}`" if word else "unexpected end", _ALIGN, max(1, len(word)))
    return source.error(at, f"the file is not YAML at `{word}`: {problem}", _QUOTE, max(1, len(word)))


def _word(text: str, at: int) -> str:
    match = re.compile(r"[\w.]+|\S").match(text, at)
    return shorten(match.group()) if match else ""


def _unclosed(source: Source, at: int) -> SpecError:
    quote = source.text[at]
    end = source.text.find("\n", at)
    length = (end if end >= 0 else len(source.text)) - at
    return source.error(at, f"quote `{quote}` is not closed", f"write another {quote} where the value ends", length)


def _swallowing_quote(source: Source) -> int | None:
    """Where the first quoted scalar begins in which a line looks like a key of an entry."""
    if _KEY_LINE.search(source.text) is None:
        return None
    try:
        for token in yaml.scan(source.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                start = source.index(token.start_mark.line, token.start_mark.column)
                end = source.index(token.end_mark.line, token.end_mark.column)
                if _KEY_LINE.search(source.text, start, end):
                    return start
    except (yaml.YAMLError, RecursionError, ValueError):  # ValueError: `\U00110000`
        pass
    return None
