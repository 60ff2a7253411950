"""Pickles outside of files, between processes in which `torch` is gradloom and, where it is installed, PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import copy, pickle, sys
import torch

def objects():
    base = torch.arange(6.0).view(2, 3)
    marked = torch.ones(2)
    marked.note = "kept"
    return {
        "view": base.t(),
        "parameter": torch.nn.Parameter(base.clone(), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "empty": torch.empty(0, 3),
        "meta": torch.empty(2, device="meta"),
        "sparse": torch.eye(2).to_sparse(),
        "marked": marked,
        "module": torch.nn.Linear(2, 2).state_dict(),
        "storage": torch.ones(2).storage(),
        "memory_format": torch.channels_last,
        "generator": torch.Generator().manual_seed(3),
    }

def text(value):
    if isinstance(value, torch.Generator):
        return str(torch.rand(2, generator=value).tolist())
    if isinstance(value, dict):
        return str({name: part.shape for name, part in value.items()})
    details = [getattr(value, name, None) for name in ("stride", "requires_grad", "note", "is_conj")]
    return str(value) + str([detail() if callable(detail) else detail for detail in details])

if sys.argv[1] == "write":
    pickled = {name: pickle.dumps(value) for name, value in objects().items()}
    open(sys.argv[2], "wb").write(pickle.dumps(pickled))
else:
    pickled = pickle.loads(open(sys.argv[2], "rb").read())
    for name, expected in objects().items():
        found = pickle.loads(pickled[name])
        assert type(found).__name__ == type(expected).__name__, (name, type(found))
        assert text(found) == text(expected), (name, text(found), text(expected))
    shared = copy.copy(torch.zeros(2))
    print("read", len(pickled))
"""


def run(tmp_path, library: str, *arguments: str) -> str:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    start = [sys.executable, "-m", "gradloom", "run"] if library == "gradloom" else [sys.executable, "-W", "ignore"]
    done = subprocess.run([*start, str(program), *arguments], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("writer", "reader"), [("gradloom", "gradloom"), ("gradloom", "PyTorch"), ("PyTorch", "gradloom")]
)
def test_pickles_go_from_one_library_to_the_other(tmp_path, writer, reader):
    if "PyTorch" in (writer, reader):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    run(tmp_path, writer, "write", "objects.pkl")
    assert run(tmp_path, reader, "read", "objects.pkl") == "read 13\n"
