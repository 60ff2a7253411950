"""Operators with known defects, generated as any other from YAML, to see that the tests would notice."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path

import gradloom
from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.operators import native_functions
from gradloom.codegen.outputs.render import render
from gradloom.tools.verify.operators import Operator, join

ROOT = Path(__file__).parents[2]
_numbers = itertools.count()


def build(folder: Path, entries: str, formulas: str) -> dict[str, Operator]:
    """Generate operators into a package of their own and import it.

    Args:
        folder: where to write the package.
        entries, formulas: YAML items for native_functions.yaml and derivatives.yaml.

    Returns:
        The operators by name.
    """
    package = ROOT / "src" / "gradloom"
    for name, items in (("native_functions.yaml", entries), ("derivatives.yaml", formulas)):
        (folder / name).write_text((ROOT / name).read_text() + "\n" + items)
    functions = native_functions.load(folder / "native_functions.yaml", package=package)
    joined = derivatives.load(folder / "derivatives.yaml", functions, package=package)
    made = f"planted{next(_numbers)}"  # stays imported: its records are looked up by its name
    for name, text in render(joined).items():
        path = folder / made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("gradloom.generated", made))
    sys.path.insert(0, str(folder))
    try:
        namespaces = importlib.import_module(f"{made}.namespaces")
        operators, overloads = dict(namespaces.OPERATORS), dict(namespaces.OVERLOADS)  # imports all families
    finally:
        sys.path.remove(str(folder))
    # formulas may use the operators of their own files
    gradloom.dispatch._operators.__dict__.update({n: o for n, o in operators.items() if n.startswith("planted_")})
    return {o.schema.name.base: o for o in join(joined, overloads) if o.schema.name.base.startswith("planted_")}
