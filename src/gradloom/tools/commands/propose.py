"""`gradloom propose`: derive an operator's formulas from its definition, as lines for derivatives.yaml."""

from __future__ import annotations

import argparse

from gradloom.codegen.derivation.derive import Choosing, Derived
from gradloom.codegen.derivatives.derived import derived
from gradloom.codegen.errors import UsageError, did_you_mean
from gradloom.codegen.operators.model import NativeFunction, NativeFunctions
from gradloom.codegen.target import find_target, own

from .. import kept


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="an operator with a definition (`scalar:`): softplus, pow.Tensor_Tensor")


def run(arguments: argparse.Namespace) -> int:
    target = find_target(arguments.root)
    functions = [kept.load(target).functions, *(() if target.is_own else (kept.load(own()).functions,))]
    function = find(arguments.name, functions)
    print(written(function, derived(function)))
    return 0


def find(name: str, functions: list[NativeFunctions]) -> NativeFunction:
    """Return the operator of that name with a definition. Raises UsageError if there is none, or several."""
    known: list[str] = []
    for group in functions:
        found = group.get(name)
        named = [found] if found is not None else [f for f in group if f.schema.name.name == name]
        defined = [f for f in named if "scalar" in f.entry]
        if len(defined) == 1:
            return defined[0]
        if defined:
            raise UsageError(f"`{name}` has overloads: {', '.join(f.name for f in defined)}")
        if named:
            raise UsageError(f"`{name}` has no definition: add `scalar:` to its entry, as docs/yaml-language.md says")
        known += group.names
    raise UsageError(f"there is no operator `{name}`; {did_you_mean(name, known) or 'write its name in the YAML file'}")


def written(function: NativeFunction, found: Derived) -> str:
    """Return an entry for derivatives.yaml, with how each formula was chosen as a comment."""
    lines = [f"- name: {function.schema}", *(f"  {key}: {text}" for key, text in found.lines.items())]
    return "\n".join([*(comment(c) for c in found.chosen), *lines])


def comment(chosen: Choosing) -> str:
    """Return how a formula was chosen."""
    where = f" where {chosen.conditions}" if chosen.conditions else ""
    error = chosen.error
    exact = f"largest error {error.largest:.1g}" if error.largest else "exact"
    wrong = f"; wrong at {error.wrong}, where every form is" if error.wrong else ""
    return f"# {chosen.by}{where}: {exact} at {chosen.points} points, the best of {chosen.forms} forms{wrong}"
