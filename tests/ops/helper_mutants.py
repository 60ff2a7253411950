"""Mutants of the helpers in src/gradloom/formulas: second-order terms dropped, factors exchanged, saved statistics
taken as constants, the branch at a boundary removed.

    python -m tests.ops.helper_mutants --sample 200 --seed 1
    python -m tests.ops.helper_mutants --helper layer_norm_backward_jvp

A helper is changed at one place, and its code replaced in this process; the operators whose formulas call it, directly
or through others, are verified until one is refused. The outcomes are those of tests/ops/mutants.py. A mutant is
equivalent where the tensor that it detaches never has a history, or by a row of `helpers:` in mutants_equivalent.yaml.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module

import numpy as np

import gradloom
from gradloom.autograd import forward_ad
from gradloom.tools.verify import Operator, own_operators
from gradloom.tools.verify.findings import Fault, OperatorResult
from gradloom.tools.verify.runner import _at_boundaries
from gradloom.tools.verify.sampling import cases

from .mutants import ROOT, Verdict, data, first_fault, functions_of, rebuilt, sample, score

FOLDER = ROOT / "src/gradloom/formulas"
MOST = 3  # operators that are verified for one mutant
DETACH = "__detached"
HISTORY = "what it detaches never has a history"
UNWANTED = "computes a gradient that is not wanted"


@dataclass(frozen=True)
class HelperMutant:
    """One change of a helper: `number` counts the changes of its source, `before` and `after` show this one."""

    module: str
    helper: str
    kind: str
    before: str
    after: str
    number: int

    operator = property(lambda self: f"{self.module}.{self.helper}")  # what `sample` draws by
    key = property(lambda self: str(self.number))

    def __str__(self) -> str:
        return f"{self.module}.{self.helper}  {self.kind}\n    {self.before}\n    {self.after}"


@cache
def users() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (module, helper) -> the operators whose formulas call it, directly or through other helpers."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for operator in own_operators():
        info = operator.joined.info
        if info is None or operator.schema.kind != "functional":
            continue
        waiting = [(m, n) for m, n in (*info.helpers, *info.forward_helpers)]
        seen: set[tuple[str, str]] = set()
        while waiting:
            module, name = waiting.pop()
            known = functions_of(f"gradloom.formulas.{module.removeprefix('gradloom.formulas.')}")
            if name not in known:
                continue
            home, function = known[name]
            place = (home.removeprefix("gradloom.formulas."), name)
            if place in seen:
                continue
            seen.add(place)
            found.setdefault(place, {})[operator.name] = None
            waiting += [(home, n.id) for n in ast.walk(function) if isinstance(n, ast.Name) and n.id != name]
    return {place: tuple(names) for place, names in found.items()}


def changes(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield (kind, node, what stands in its place) for all changes of a helper."""
    names = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    for node in (n for statement in function.body for n in ast.walk(statement)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield "term", node, node.left
            yield "term", node, node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)
            opposite = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", node, ast.BinOp(node.left, opposite, node.right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            yield "factor", node, node.left
            if isinstance(node.op, ast.Div):
                yield "exchange", node, ast.BinOp(node.right, node.op, node.left)
            else:
                yield "factor", node, node.right
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "exchange", node, ast.BinOp(node.right, node.op, node.left)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("where", "masked_fill") and len(node.args) == 3:
                yield from (("branch", node, a) for a in node.args[1 if called == "where" else 0 :][:2])
            places = [i for i, a in enumerate(node.args) if isinstance(a, ast.Name) and a.id in names]
            if len(places) > 1 and called not in ("isinstance", "where"):
                arguments = list(node.args)
                i, j = places[:2]
                arguments[i], arguments[j] = arguments[j], arguments[i]
                yield "exchange", node, ast.Call(node.func, arguments, node.keywords)
        elif isinstance(node, ast.IfExp):
            yield from (("branch", node, b) for b in (node.body, node.orelse))
        elif isinstance(node, ast.If):
            yield "branch", node.test, ast.Constant(False)
        if isinstance(node, ast.BinOp):
            for side in (node.left, node.right):
                if isinstance(side, ast.Name) and side.id in names:
                    yield "detach", side, ast.Call(ast.Name(DETACH, ast.Load()), [side], [])


def mutants_of(place: tuple[str, str]) -> list[HelperMutant]:
    module, name = place
    function = functions_of(f"gradloom.formulas.{module}")[name][1]
    return [
        HelperMutant(module, name, kind, ast.unparse(old), ast.unparse(new), number)
        for number, (kind, old, new) in enumerate(changes(function))
    ]


def all_mutants() -> list[HelperMutant]:
    return [mutant for place in users() for mutant in mutants_of(place)]


@contextmanager
def changed(mutant: HelperMutant) -> Iterator[list[bool]]:
    """Replace the code of a helper; yield a list to which each detached tensor adds whether it has a history."""
    function = functions_of(f"gradloom.formulas.{mutant.module}")[mutant.helper][1]
    _, old, new = list(changes(function))[mutant.number]
    body = [rebuilt(statement, old, new) for statement in function.body]
    tree = deepcopy(function)
    tree.body, tree.decorator_list = body, []
    helper = getattr(import_module(f"gradloom.formulas.{mutant.module}"), mutant.helper)
    histories: list[bool] = []

    def detached(value):
        if not isinstance(value, gradloom.Tensor):
            return value
        histories.append(value.requires_grad or forward_ad.unpack_dual(value).tangent is not None)
        return value.detach()

    names: dict = {}
    exec(compile(ast.fix_missing_locations(ast.Module([tree], [])), "<mutant>", "exec"), helper.__globals__, names)
    before = helper.__code__
    helper.__globals__[DETACH] = detached
    helper.__code__ = names[mutant.helper].__code__
    try:
        yield histories
    finally:
        helper.__code__ = before
        del helper.__globals__[DETACH]


def boundary_fault(operator: Operator) -> Fault | None:
    """Return the first fault of an operator at boundary points."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return next(_at_boundaries(cases(operator), "thorough", OperatorResult("", "", ""), limits=True), None)


def judged(mutant: HelperMutant) -> Verdict:
    start = time.perf_counter()

    def verdict(outcome: str, detail: str) -> Verdict:
        return Verdict(outcome, detail, time.perf_counter() - start)

    operators = {o.name: o for o in own_operators()}
    chosen = users()[mutant.module, mutant.helper]
    chosen = chosen[:: -(-len(chosen) // MOST)]  # evenly, since neighbors are forms of one operator
    with changed(mutant) as histories:
        for check in (partial(first_fault, mode="fast"), boundary_fault, partial(first_fault, mode="default")):
            for name in chosen:
                found = check(operators[name])
                if found is not None:
                    return verdict("refused", f"{name}: {found.check}")
    if mutant.kind == "detach" and not any(histories):
        return verdict("equivalent", HISTORY)
    if re.fullmatch(rf"{re.escape(mutant.after)} if \w*mask\[\d\] else None", mutant.before):
        return verdict("equivalent", UNWANTED)
    for row in data()["helpers"]:
        if row["helper"] == mutant.helper and any(
            mutant.before == old and mutant.after in news for old, news in row["changes"].items()
        ):
            return verdict("equivalent" if row["equivalent"] else "survived", row["why"])
    return verdict("survived", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, help="number of mutants to draw (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--helper", action="append", help="name of a helper; may be given several times")
    arguments = parser.parse_args()
    drawn = [m for m in all_mutants() if not arguments.helper or m.helper in arguments.helper]
    verdicts = []
    for mutant in sample(drawn, arguments.sample, arguments.seed):
        verdicts.append(judged(mutant))
        if verdicts[-1].outcome == "survived":
            print(f"{mutant}\n    {verdicts[-1].detail or 'not known yet'}", flush=True)
    print(dict(Counter(v.outcome for v in verdicts)), f"{100 * score(verdicts):.1f}%")
    return 0 if score(verdicts) >= 0.99 else 1


if __name__ == "__main__":
    sys.exit(main())
