"""The command `gradloom prove`: all formulas of operators with a definition, or some, and a summary; gradloom's, a
package's, or those of a release of PyTorch for the same operators."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from gradloom.codegen.derivatives.specification import Specification
from gradloom.codegen.errors import UsageError, did_you_mean
from gradloom.codegen.operators.model import NativeFunction
from gradloom.codegen.target import Target, find_target, own
from gradloom.tools import kept

from . import certificates
from .certificates import Certificate
from .proving import COMPLEX, OPEN, PROVED, REFUTED, Verdict, is_provable, verdicts
from .reading import Reader


def main(arguments: argparse.Namespace) -> int:
    """Print a verdict for each formula that is not proved, and their numbers; return 1 if one is refuted."""
    try:
        import sympy  # noqa: F401
    except ImportError:
        raise UsageError("SymPy is not installed, which proves: pip install 'gradloom[derive]'") from None
    start = time.perf_counter()
    target = find_target(arguments.root)
    names = [*arguments.op, *([arguments.name] if arguments.name else [])]
    if arguments.torch is not None:
        if arguments.write:
            raise UsageError("--write keeps proofs about gradloom's formulas: leave --torch out")
        found_by_operator = proofs_of_torch(target, arguments.torch, names, arguments.family)
    else:
        if arguments.write and not names and not arguments.family and certificates.load(target):
            names = [name for name in certificates.stale(target) if name in certificates.Texts(target).entries]
            if not names:
                print(f"{certificates.write(target, [])} is up to date")
                return 0
        found_by_operator = proofs(target, names, arguments.family)
    counts: Counter[str] = Counter()
    found: list[Verdict] = []
    new: list[Certificate] = []
    for certificate, judged in found_by_operator:
        for verdict in judged:
            counts[verdict.word] += 1
            found.append(verdict)
            if verdict.word != PROVED or names:
                print("\n".join(shown(verdict)), flush=True)
        new.append(certificate)
    if not new:
        raise UsageError("no formula belongs to an operator with a definition, element by element (`scalar:`)")
    seconds = time.perf_counter() - start
    share = 100 * counts[PROVED] / max(len(found), 1)
    print(f"{len(found)} formulas: {counts[PROVED]} proved ({share:.0f} %), {counts[REFUTED]} refuted, "
          f"{counts[OPEN]} open ({seconds:.0f} s)")  # fmt: skip
    if arguments.write:
        print(f"wrote {certificates.write(target, new)}")
    if arguments.json is not None:
        text = json.dumps([asdict(v) for v in found], indent=1) + "\n"
        if str(arguments.json) == "-":
            sys.stdout.write(text)
        else:
            arguments.json.write_text(text, "utf-8")
    return 1 if counts[REFUTED] else 0


def shown(verdict: Verdict) -> list[str]:
    """Return a verdict as lines."""
    of = " for complex numbers" if verdict.word == PROVED and verdict.field == COMPLEX else ""
    head = f"{verdict.word}{of}: {verdict.operator}, {verdict.of}: {verdict.formula}"
    return [head, *([f"    {verdict.reason}"] if verdict.reason else [])]


def proofs(target: Target, names: list[str], families: list[str]) -> Iterator[tuple[Certificate, list[Verdict]]]:
    """Yield the verdicts, and the certificate that keeps them, for the operators of a target that are named, or of
    these families; by default for all. Raises UsageError for a name or family that the target does not have."""
    texts = certificates.Texts(target)
    entries = kept.load(target).derivatives.entries
    for function, reader in _provable(target, names, families):
        infos = entries.get(function.name)
        if infos:
            reader.names_read.clear()
            found = list(verdicts(function, next(iter(infos.values())), reader))
            reads = tuple(sorted(reader.names_read))
            words = {v.of: certified(v) for v in found}
            yield Certificate(function.name, texts.digest(function.name, reads), reads, words), found


def _provable(target: Target, names: list[str], families: list[str]) -> Iterator[tuple[NativeFunction, Reader]]:
    """Yield the operators with which formulas can be compared, and the reader of their formulas."""
    specification = kept.load(target)
    reader = _reader(specification, target)
    wanted = _wanted(specification, names, families)
    for function in specification.functions:
        if is_provable(function) and (wanted is None or function.name in wanted):
            yield function, reader


def proofs_of_torch(
    target: Target, release: str, names: list[str], families: list[str]
) -> Iterator[tuple[Certificate, list[Verdict]]]:
    """Yield the verdicts about the formulas that a release of PyTorch has for operators of gradloom, without a
    certificate to keep. Raises UsageError for a release that cannot be found."""
    from gradloom.tools.upstream.finding import find

    from .releases import verdicts_of_torch

    facts = find(release, lambda line: print(line, file=sys.stderr)).facts
    if not facts.derivatives:
        raise UsageError(f"PyTorch {facts.version} comes without derivatives.yaml, which wheels have since 2.1")
    print(f"the formulas of PyTorch {facts.version}")
    for function, reader in _provable(target, names, families):
        formulas = facts.derivatives.get(function.name)
        if formulas:
            yield Certificate(function.name, "", (), {}), list(verdicts_of_torch(function, formulas, reader))


def certified(verdict: Verdict) -> str:
    """Return the words of a certificate for a verdict."""
    if verdict.word == PROVED:
        return (
            PROVED + " for complex numbers" * (verdict.field == COMPLEX) + f", {verdict.reason}" * bool(verdict.reason)
        )
    return f"{verdict.word}: {verdict.reason}"


def _reader(specification: Specification, target: Target) -> Reader:
    operators = list(specification.functions)
    gradloom = own()
    assert gradloom.source is not None
    folders = [gradloom.source / "formulas"]
    if not target.is_own:
        operators += kept.load(gradloom).functions
        folders = [*([target.source / "formulas"] if target.source is not None else []), *folders]
    return Reader(operators, folders)


def _wanted(specification: Specification, names: list[str], families: list[str]) -> set[str] | None:
    if not names and not families:
        return None
    functions = list(specification.functions)
    found: set[str] = set()
    for name in names:
        named = {f.name for f in functions if name in (f.name, f.schema.name.name)}
        if not named:
            hint = did_you_mean(name, specification.functions.names) or "write its name in the YAML file"
            raise UsageError(f"there is no operator `{name}`; {hint}")
        found |= named
    for family in families:
        named = {f.name for f in functions if f.family == family}
        if not named:
            known = sorted({f.family for f in functions})
            raise UsageError(f"there is no family `{family}`; {did_you_mean(family, known) or ', '.join(known)}")
        found |= named
    return found
