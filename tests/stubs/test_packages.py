"""A package of operators is typed: `mypy --strict` and pyright know its functions, and its methods by `methods_of`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

from .checkers import environment, mypy, pyright

HERE = Path(__file__).parent / "packages"
PROGRAM, WRONG = HERE / "uses_myops.py", HERE / "wrong_uses_of_myops.py"
OPERATORS = """
- func: bounds(Tensor self, int[] dim, bool keepdim=False) -> (Tensor low, Tensor high)
  kernel: (xp.min(self, axis=tuple(dim), keepdims=keepdim), xp.max(self, axis=tuple(dim), keepdims=keepdim))
- func: bounds.Scalar(Tensor self, Scalar limit) -> Tensor
  variants: function, method
  kernel: xp.clip(self, -limit, limit)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The src folder of a new project, with overloads, a list and named results added."""
    folder = tmp_path_factory.mktemp("new")
    gradloom("new", "myops", cwd=folder)
    yaml = folder / "myops/src/myops/native_functions.yaml"
    yaml.write_text(yaml.read_text() + OPERATORS)
    gradloom("generate", cwd=folder / "myops")
    return folder / "myops" / "src"


def gradloom(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradloom", *arguments], cwd=cwd, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["editable", "wheel"])
def python(request, package, tmp_path_factory) -> Path:
    found = environment(tmp_path_factory.mktemp(request.param), request.param)
    (site,) = found.parents[1].glob("lib/*/site-packages")
    (site / "myops.pth").write_text(f"{package}\n")
    return found


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def test_the_program_runs(package):
    done = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=os.environ | {"PYTHONPATH": str(package)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_program_is_accepted(python, cache, checker):
    found = mypy(python, cache, PROGRAM) if checker == "mypy" else pyright(python, PROGRAM)
    assert not found, found


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_uses_are_refused_where_they_are(python, cache, checker):
    found = mypy(python, cache, WRONG) if checker == "mypy" else pyright(python, WRONG)
    codes = {line: {code for code, _ in errors} for (_, line), errors in found.items()}
    lines = enumerate(WRONG.read_text().splitlines(), 1)
    marked = {number: m for number, line in lines if (m := re.search(r"# E: (\S+) \| (\S+)$", line))}
    assert len(marked) == 8
    assert codes == {number: {m[1 + (checker == "pyright")]} for number, m in marked.items()}


def test_the_packages_own_init_is_typed(package, python, cache):
    assert not mypy(python, cache, package / "myops" / "__init__.py")
