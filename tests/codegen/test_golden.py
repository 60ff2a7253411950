"""Golden tests: the code that the templates give for a handful of operators, kept in tests/codegen/golden/.

GRADLOOM_UPDATE_EXPECTED=1 writes the files anew; read the diff before committing it.
"""

from __future__ import annotations

import ast
import os
from functools import cache
from pathlib import Path

import pytest

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.operators import native_functions
from gradloom.codegen.outputs.render import render

HERE = Path(__file__).parent / "golden"
PACKAGE = Path(__file__).parents[2] / "src" / "gradloom"
FILES = {
    "functions/elementwise.py": "nodes.py.txt",
    "variable_type/elementwise.py": "wrappers.py.txt",
    "namespaces/__init__.py": "namespaces.py.txt",
    "namespaces/elementwise.py": "names_of_family.py.txt",
    "records/__init__.py": "records.py.txt",
    "records/elementwise.py": "records_of_family.py.txt",
}


@cache
def rendered() -> dict[str, str]:
    functions = native_functions.load(HERE / "native_functions.yaml", package=PACKAGE)
    return render(derivatives.load(HERE / "derivatives.yaml", functions, package=PACKAGE))


@pytest.mark.parametrize("name", FILES)
def test_generated_code_is_what_it_was(name):
    path = HERE / FILES[name]
    if os.environ.get("GRADLOOM_UPDATE_EXPECTED"):
        path.write_text(rendered()[name], encoding="utf-8")
    assert rendered()[name] == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_generated_code_is_python(name):
    ast.parse(rendered()[name])


def test_rendering_is_deterministic():
    functions = native_functions.load(HERE / "native_functions.yaml", package=PACKAGE)
    again = render(derivatives.load(HERE / "derivatives.yaml", functions, package=PACKAGE))
    assert again == rendered()
