"""Programs that use gradloom are accepted by `mypy --strict` and pyright, and wrong ones refused, line by line.

consumers/ holds programs that type checkers accept and that run. Each line of wrong.py that ends in
`# E: code | rule` is wrong: mypy reports `code` there and pyright `rule`, and neither says anything elsewhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

from .checkers import environment, mypy, pyright

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "consumers").glob("*.py"))
WRONG = HERE / "wrong.py"


@pytest.fixture(scope="module", params=["editable", "wheel"])
def python(request, tmp_path_factory) -> Path:
    return environment(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def _differentiability(found) -> str:
    return "\n".join(
        f"{file}:{line}: {text} [{code}]" for (file, line), errors in found.items() for code, text in errors
    )


def _expected(checker: int) -> dict[int, str]:
    """Line of wrong.py -> the code that a checker (0: mypy, 1: pyright) reports there."""
    found = {}
    for number, line in enumerate(WRONG.read_text().splitlines(), 1):
        if match := re.search(r"# E: (\S+) \| (\S+)$", line):
            found[number] = match[checker + 1]
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs(program):
    done = subprocess.run([sys.executable, "-W", "ignore", program], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_accepts_the_programs(python, cache):
    found = mypy(python, cache, *PROGRAMS)
    assert not found, _differentiability(found)


def test_pyright_accepts_the_programs(python):
    found = pyright(python, *PROGRAMS)
    assert not found, _differentiability(found)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_uses_are_refused_where_they_are(python, cache, checker):
    found = mypy(python, cache, WRONG) if checker == "mypy" else pyright(python, WRONG)
    codes = {line: [code for code, _ in errors] for (_, line), errors in found.items()}
    expected = _expected(checker == "pyright")
    assert len(expected) > 40
    assert codes.keys() == expected.keys(), _differentiability(found)
    missing = {line: code for line, code in expected.items() if code not in codes[line]}
    assert not missing, f"not reported: {missing}\n{_differentiability(found)}"
