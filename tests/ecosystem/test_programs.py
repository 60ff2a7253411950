"""Other people's packages on gradloom: each program of programs/ prints what it prints with PyTorch.

`make ecosystem` runs these tests in an environment that has the packages of requirements.txt, and no PyTorch.
"""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from . import running


def test_pytorch_is_not_installed():
    assert find_spec("torch") is None


@pytest.mark.parametrize("name", running.programs())
def test_program(name, tmp_path):
    if reason := running.reason_to_skip(name):
        pytest.skip(reason)
    expected = json.loads(running.expectation(name).read_text())["printed"]
    found = running.printed(name, "-m", "gradloom", "run", folder=tmp_path)
    assert found and (differs := running.difference(found, expected)) is None, differs


def test_expectations_have_programs():
    assert sorted(path.stem for path in running.expectation("").parent.glob("*.json")) == running.programs()


@pytest.mark.parametrize(
    ("found", "expected", "where"),
    [
        (["step 1 0.5"], ["step 1 0.500001"], None),
        (["step 1 0.5"], ["step 1 0.50001"], "line 1"),
        (["[1.0, -2e-3]"], ["[1.0, -0.002]"], None),
        (["loss nan"], ["loss nan"], None),
        (["loss nan"], ["loss 1.0"], "line 1"),
        (["a", "gpt2 1"], ["a", "bert 1"], "line 2"),
        (["a"], ["a", "b"], "1 lines"),
        (["1 2"], ["1"], "line 1"),
    ],
)
def test_difference(found, expected, where):
    differs = running.difference(found, expected)
    assert (differs is None) if where is None else differs.startswith(where)
