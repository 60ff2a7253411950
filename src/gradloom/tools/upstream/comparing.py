"""Compare two releases: what is new, gone or changed, and what a changed formula means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .facts import OUTPUTS, Facts, arguments

ENTRY, SCHEMA, NAME = "derivative", "schema", "name"
NEW, GONE, CHANGED = "new", "gone", "changed"

# Meanings of a changed formula. VALUE, DOMAIN and EQUAL are known by running both releases.
VALUE, DOMAIN, DERIVATIVE = "other value", "other domain", "new derivative"
LOST, EQUAL, UNMEASURED = "derivative gone", "only written differently", "not measured"
MEANINGS = (VALUE, DOMAIN, DERIVATIVE, LOST, UNMEASURED, EQUAL)
_NONE = ("", "non_differentiable")


@dataclass
class Change:
    """One difference between two releases.

    Attributes:
        kind: ENTRY, SCHEMA or NAME.
        change: NEW, GONE or CHANGED.
        name: of the operator, or the public name.
        old, new: the schema or parameters; of an entry, {inputs or outputs: formula}, those that differ.
        meaning: of a changed formula, one of MEANINGS.
        shown: how the meaning is known: an input and both values, or on how many samples both are equal.
        words: a short description of what changed in a schema.
    """

    kind: str
    change: str
    name: str
    old: Any = None
    new: Any = None
    meaning: str = ""
    shown: str = ""
    words: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}


def compare(old: Facts, new: Facts) -> list[Change]:
    """Return the differences of two releases. What one of them does not say is not compared."""
    found: list[Change] = []
    for kind, section in ((ENTRY, "derivatives"), (SCHEMA, "schemas"), (NAME, "names")):
        ours, theirs = getattr(old, section), getattr(new, section)
        if ours and theirs:
            found += _compared(kind, ours, theirs)
    return found


def _compared(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before == after or (kind == NAME and before == "" and after is not None):
            continue  # parameters that were not known
        if before is None or after is None:
            yield Change(kind, NEW if before is None else GONE, name, before, after)
        elif kind == ENTRY:
            keys = [k for k in (*before, *(k for k in after if k not in before)) if before.get(k) != after.get(k)]
            formulas = [{k: side[k] for k in keys if k in side} for side in (before, after)]
            yield Change(kind, CHANGED, name, *formulas, meaning=meaning(before, after))
        else:
            yield Change(
                kind, CHANGED, name, before, after, words=(difference if kind == SCHEMA else parameters)(before, after)
            )


def meaning(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return what a changed entry means, as far as its text tells."""
    before, after = each(old), each(new)
    if any(exists(f) and not exists(before.get(k, "")) for k, f in after.items()):
        return DERIVATIVE
    if any(exists(f) and not exists(after.get(k, "")) for k, f in before.items()):
        return LOST
    same = all(spelled(before.get(k, "")) == spelled(after.get(k, "")) for k in before.keys() | after.keys())
    return EQUAL if same else UNMEASURED


def each(formulas: Mapping[str, str]) -> dict[str, str]:
    """Return {input or output: formula}, also of formulas for several inputs."""
    found = {}
    for keys, formula in formulas.items():
        backend, _, names = keys.rpartition("/")
        for name in names.split(","):
            found[f"{backend}/{name.strip()}" if backend else name.strip()] = formula
    return {k: f for k, f in found.items() if k.rpartition("/")[2] != OUTPUTS}


def exists(formula: str) -> bool:
    """Return whether a formula computes something."""
    return formula not in _NONE and not formula.startswith("not_implemented")


_SPELLINGS = re.compile(
    r"\b(at|c10|std|torch|autograd|generated|details|native)::|::|_symint\b|\bsym_(?=size|stride|numel)|\s+"
)
_POINT = re.compile(r"(?<=\d)\.0*(?![\d])")


def spelled(formula: str) -> str:
    """Return a formula without namespaces, white space and endings that do not change what it computes."""
    return _POINT.sub("", _SPELLINGS.sub("", formula))


def difference(old: str, new: str) -> str:
    """Return in words how two schemas differ."""
    before, after = arguments(old), arguments(new)
    words = []
    if len(before) == len(after):
        for a, b in zip(before, after, strict=True):
            if a.name != b.name:
                words.append(f"`{a.name}` is called `{b.name}`")
            if a.type != b.type:
                words.append(f"`{b.name}` is `{b.type}`, was `{a.type}`")
            if a.default != b.default:
                words.append(f"the default of `{b.name}` is {b.default}, was {a.default}")
            if a.by_keyword != b.by_keyword:
                words.append(f"`{b.name}` is {'' if b.by_keyword else 'not only '}given by keyword")
    else:
        known = [{a.name for a in side} for side in (before, after)]
        words += [f"new argument `{b.name}`" for b in after if b.name not in known[0]]
        words += [f"argument `{a.name}` is gone" for a in before if a.name not in known[1]]
    return "; ".join(words) or "aliases or results"


def parameters(old: str, new: str) -> str:
    """Return in words how the parameters of a function in Python differ."""
    before, after = ([p for p in side.split(", ") if p] for side in (old, new))
    known = [{p.rstrip("=") for p in side} for side in (before, after)]
    words = [f"new parameter `{p.rstrip('=')}`" for p in after if p.rstrip("=") not in known[0] and p != "*"]
    words += [f"parameter `{p.rstrip('=')}` is gone" for p in before if p.rstrip("=") not in known[1] and p != "*"]
    for p in after:
        other = p[:-1] if p.endswith("=") else f"{p}="
        if other in before:
            words.append(f"`{p.rstrip('=')}` has {'a' if p.endswith('=') else 'no'} default")
    return "; ".join(words) or "the order of its parameters"
