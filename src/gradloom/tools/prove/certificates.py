"""Certificates: verdicts of `gradloom prove`, kept in the generated package, and whether they are up to date.

Note [Certificates]
`gradloom prove --write` keeps what it found about the formulas of a package in `proofs.yaml` of its generated package:

    - name: softplus
      digest: 5b1f0c3a9d2e4f68
      reads: softplus_backward
      formulas: {"self": "proved"}

The digest is of all that the verdicts follow from: definition and formulas of the operator, and what the names that the
formulas lead to mean: definitions of operators, source of helpers and their constants, rules of the notation; and
VERSION, which is raised with each change of the prover that can take a proof away. All of it is text, so that whether a
certificate is up to date is found without SymPy, and without analyzing the YAML files. A package without the file has
no certificates, and nothing is said of it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gradloom.codegen.derivatives.entries import DERIVED
from gradloom.codegen.memo import digest
from gradloom.codegen.target import FILES, GENERATOR, Target, own

VERSION = 2
FILE = "proofs.yaml"
_HEAD = """\
# Written by `gradloom prove --write`. Do not edit.
#
# The formulas of operators with a definition: proved equal to its derivative, or open, with the reason.
"""
_KEYS = ("func", "scalar", "over", "kinks")  # of an entry of native_functions.yaml that proofs read


@dataclass(frozen=True, slots=True)
class Certificate:
    """The verdicts about the formulas of an operator.

    Attributes:
        reads: the names that the formulas lead to.
        formulas: `proved`, `proved for complex numbers`, or `open: ` and the reason, by input, or by `result`.
    """

    name: str
    digest: str
    reads: tuple[str, ...]
    formulas: Mapping[str, str]


def path(target: Target) -> Path | None:
    """Return the path of a target's certificates; None for operators that are made at run time."""
    return None if target.output is None else target.output / FILE


def load(target: Target) -> dict[str, Certificate]:
    """Return the certificates of a target by operator; none of a damaged file."""
    place = path(target)
    try:
        text = "" if place is None else place.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return {c.name: c for c in _read(text)}


def up_to_date(target: Target) -> dict[str, Certificate]:
    """Return the certificates of a target that follow from its files as they are."""
    found = load(target)
    return _fresh(found, Texts(target)) if found else {}


def stale(target: Target) -> list[str]:
    """Return the operators whose certificates are not up to date, missing, or of no use; none if the target keeps no
    certificates."""
    place = path(target)
    if place is None or not place.is_file():
        return []
    found, texts = load(target), Texts(target)
    return sorted({*texts.entries, *found} - set(_fresh(found, texts)))


def _fresh(found: Mapping[str, Certificate], texts: Texts) -> dict[str, Certificate]:
    return {name: c for name, c in found.items() if name in texts.entries and c.digest == texts.digest(name, c.reads)}


def write(target: Target, new: Iterable[Certificate]) -> Path:
    """Add certificates to those of a target that are up to date, leave out those with a refuted formula, and return the
    path of the file. They are in the order of native_functions.yaml."""
    place = path(target)
    assert place is not None
    found = up_to_date(target) | {c.name: c for c in new}
    order = [found[name] for name in Texts(target).entries if name in found]
    text = text_of(c for c in order if not any(word.startswith("refuted") for word in c.formulas.values()))
    if not place.is_file() or place.read_text("utf-8") != text:
        place.write_text(text, "utf-8")
    return place


def text_of(found: Iterable[Certificate]) -> str:
    """Return the text of the file."""
    lines = [_HEAD]
    for c in found:
        lines += [f"- name: {c.name}", f"  digest: {c.digest}", *([f"  reads: {' '.join(c.reads)}"] if c.reads else [])]
        lines += [f"  formulas: {json.dumps(c.formulas)}"]
    return "\n".join(lines) + "\n"


def _read(text: str) -> Iterator[Certificate]:
    for part in re.split(r"^- ", text, flags=re.MULTILINE)[1:]:
        fields = {key.strip(): value for key, _, value in (line.partition(": ") for line in part.splitlines())}
        try:
            formulas = json.loads(fields["formulas"])
            yield Certificate(fields["name"], fields["digest"], tuple(fields.get("reads", "").split()), formulas)
        except (KeyError, ValueError):
            continue


def in_words(formulas: Mapping[str, str]) -> list[str]:
    """Return sentences for the verdicts about the formulas of an operator."""
    proved = [of + word.removeprefix("proved") for of, word in formulas.items() if word.startswith("proved")]
    open_ = [f"Not proved: {of}: {w.removeprefix('open: ')}." for of, w in formulas.items() if w.startswith("open")]
    return ([f"Proved equal to the derivative of the definition: {', '.join(proved)}."] if proved else []) + open_


class Texts:
    """The texts that proofs about the operators of a target follow from.

    Attributes:
        entries: the entries of each operator that has a definition, element by element, and formulas.
    """

    entries: Mapping[str, tuple[str, str]]

    def __init__(self, target: Target) -> None:
        self._targets = (target,) if target.is_own else (target, own())
        defined = {name: fields for t in self._targets[:1] for name, fields in _entries(t.specification, FILES[0])}
        formulas = dict(_entries(target.output, DERIVED)) | dict(_entries(target.specification, FILES[1]))
        self.entries = {
            name: (_shown(_of_proofs(fields)), _shown(formulas[name]))
            for name, fields in defined.items()
            if "scalar" in fields and "over" not in fields and name in formulas
        }

    def digest(self, name: str, reads: Iterable[str]) -> str:
        """Return the digest of what the verdicts about an operator follow from, which read some names."""
        meanings = [text for read in reads for text in (read, *self._meanings.get(read, ()))]
        return digest(str(VERSION), *self.entries[name], *meanings)[:8].hex()

    @cached_property
    def _meanings(self) -> dict[str, list[str]]:
        """What each name means in formulas, and in helpers."""
        found: dict[str, list[str]] = {}
        for target in self._targets:
            for name, fields in _entries(target.specification, FILES[0]):
                if "scalar" in fields:
                    for key in {name.partition(".")[0], name.replace(".", "_")}:
                        found.setdefault(key, []).append(_shown(_of_proofs(fields)))
            assert target.source is not None
            for file in sorted((target.source / "formulas").rglob("*.py")):
                for name, text in _statements(file.read_text("utf-8")):
                    found.setdefault(name, []).append(text)
        notation = (GENERATOR / "notation" / "notation.yaml").read_text("utf-8")
        for match in re.finditer(r"^ +\W?(\w+)\(.*$", notation, re.MULTILINE):
            found.setdefault(match[1], []).append(match[0].strip())
        return found


def _statements(source: str) -> Iterator[tuple[str, str]]:
    """Yield the functions and assignments of a file by name."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef):
            yield node.name, text
        elif isinstance(node, ast.Assign):
            for name in {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}:
                yield name, text


def _entries(folder: Path | None, file: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the entries of a YAML file: the full name of the operator, and the texts of its keys."""
    if folder is None or not (folder / file).is_file():
        return
    text = re.sub(r"^\s*#.*\n", "", (folder / file).read_text("utf-8"), flags=re.MULTILINE)
    for part in re.split(r"^- ", text, flags=re.MULTILINE)[1:]:
        indent = re.search(r"\n( +)", part)
        keys = re.split(rf"^(?:{indent[1] if indent else '  '})?(\w+):", part, flags=re.MULTILINE)
        fields = dict(zip(keys[1::2], (" ".join(v.split()) for v in keys[2::2]), strict=True))
        schema = fields.get("func") or fields.get("name") or ""
        yield schema.partition("(")[0].strip("'\" "), fields


def _of_proofs(fields: Mapping[str, str]) -> dict[str, str]:
    return {key: fields[key] for key in _KEYS if key in fields}


def _shown(fields: Mapping[str, str]) -> str:
    return "\n".join(f"{key}: {text}" for key, text in fields.items())
