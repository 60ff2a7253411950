"""`gradloom explain --compiled`: what became of a function of a program, and errors that say what to write instead."""

from __future__ import annotations

import json
import subprocess
import sys
from textwrap import dedent

import pytest

from tests.waiting import LIMIT

PROGRAM = """
    import torch

    class Holder:
        def __init__(self):
            self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())

    holder = Holder()
    holder.net.compile()

    def activation(x, scale=1):
        return torch.sigmoid(x) * torch.tanh(x) * scale

    def branches(x):
        return x * 2 if x.sum() > 0 else x

    @torch.compile
    def doubled(x):
        unused = torch.exp(x)
        return x.sin() + x.sin()

    number = 3
    if __name__ == "__main__":
        raise SystemExit("it ran as a program")
"""

CASES = {
    "function": ["program.py:activation", "--call", "torch.ones(8, 4, requires_grad=True), scale=2"],
    "module": ["program:holder.net", "--call", "torch.ones(2, 3)"],
    "part": ["program:holder.net.1", "--call", "torch.ones(2, 3)"],
    "brief": ["program:activation", "--call", "torch.ones(8, 4)", "--brief"],
    "numpy": ["program:activation", "--call", "torch.ones(8, 4)", "--backend", "numpy"],
    "broken": ["program:branches", "--call", "torch.ones(3)"],
    "compiled": ["program:doubled", "--call", "torch.ones(3)"],
    "no place": ["activation"],
    "no file": ["absent.py:activation"],
    "no module": ["absent:activation"],
    "misspelt": ["program:activatoin"],
    "class": ["program:Holder"],
    "number": ["program:number"],
    "no arguments": ["program:activation"],
    "no expression": ["program:activation", "--call", "3 +"],
    "wrong arguments": ["program:activation", "--call", "torch.one(3)"],
    "wrong call": ["program:activation", "--call", "torch.ones(3), 1, 2"],
    "backend": ["program:activation", "--call", "torch.ones(3)", "--backend", "nope"],
}
RUNNER = """
    import contextlib, io, json, sys
    from gradloom.tools.cli import main

    found = {}
    for name, arguments in json.load(sys.stdin).items():
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(["explain", "--compiled", *arguments])
        found[name] = code, out.getvalue(), errors.getvalue()
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(dedent(PROGRAM))
    command = [sys.executable, "-c", dedent(RUNNER)]  # one process: each has to load the library and the compiler
    done = subprocess.run(
        command, cwd=folder, input=json.dumps(CASES), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_function(found):
    code, text, errors = found["function"]
    assert (code, errors) == (0, "")
    assert text.startswith("activation: 1 graph(s), 0 break(s)")
    assert "# native_functions.yaml, sigmoid: scalar: 1 / (1 + exp(-self))" in text
    assert "kernel0(" in text and "gradients %" in text and "memory traffic of the kernels: " in text


def test_modules_and_their_parts(found):
    assert found["module"][1].startswith("Sequential: 1 graph(s)")
    assert "1 product(s) by BLAS" in found["module"][1] and "product: mm, " in found["module"][1]
    assert found["part"][1].startswith("GELU: 1 graph(s)")


def test_without_code(found):
    code, text, _ = found["brief"]
    assert code == 0 and "kernel0: sigmoid, tanh, mul.Tensor; moves 256 bytes, the operators alone " in text
    assert "def run" not in text and "scalar:" not in text


def test_the_backend(found):
    assert "backend numpy" in found["numpy"][1] and "def block(buffers" in found["numpy"][1]


def test_a_break_is_no_error(found):
    code, text, _ = found["broken"]
    assert code == 0 and "branches: 0 graph(s), 1 break(s)" in text
    assert "program.py:15: it branches on the value of a tensor" in text


def test_what_is_compiled_already_and_the_graph_after_the_passes(found):
    text = found["compiled"][1]
    assert "doubled: 1 graph(s)" in text
    assert "removed: 1 dead and 1 common operator(s)" in text
    before, after = text.split("after that:")
    assert before.count(" = sin(") == 2 and after.partition("forward:")[0].count(" = sin(") == 1


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("no place", "--compiled takes module:function or file.py:function, not `activation`"),
        ("no file", "there is no file absent.py"),
        ("no module", "there is no module absent here; a file is named as path/to/file.py:name"),
        ("misspelt", "there is no `activatoin` in program: did you mean `activation`?"),
        ("class", "program:Holder is a class: name a function, or an instance of it"),
        ("number", "program:number is not callable"),
        (
            "no arguments",
            "program:activation needs the arguments x: give them as in a call, with --call 'torch.randn(8, 3)'",
        ),
        ("no expression", "--call takes arguments as in a call, not `3 +`: invalid syntax"),
        (
            "wrong arguments",
            "the arguments `torch.one(3)` end with AttributeError: module 'torch' has no attribute 'one'",
        ),
        ("backend", "Invalid backend: 'nope', see `torch._dynamo.list_backends()` for available backends."),
    ],
)
def test_errors(found, case, expected):
    code, text, errors = found[case]
    assert (code, text) == (2, "") and errors.startswith(f"gradloom: {expected}")


def test_a_call_that_fails(found):
    code, _, errors = found["wrong call"]
    assert code == 2
    assert errors.startswith("gradloom: the call program:activation(torch.ones(3), 1, 2) ends with TypeError: ")
