"""Operators that `gradloom emit torch` wrote, in PyTorch: its own checks of operators and of their derivatives."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gradloom.codegen.derivatives import specification
from gradloom.codegen.target import own, project
from gradloom.tools.emit.command import module

OPERATORS = """
- func: swoosh(Tensor self, float beta=1.5) -> Tensor
  scalar: self / (1 + exp(-beta * self))
- func: soft_gap(Tensor self, Tensor other, *, float scale=1.0) -> Tensor
  scalar: log1p(exp(scale * (self - other)))
- func: rolling_mean(Tensor self, int window) -> Tensor
  kernel: smooth.rolling_mean
- func: halves(Tensor self) -> (Tensor, Tensor)
  kernel: smooth.halves
"""
DERIVATIVES = """
- name: rolling_mean(Tensor self, int window) -> Tensor
  self: rolling_mean_backward(grad, window)
  result: auto_linear
- name: halves(Tensor self) -> (Tensor, Tensor)
  self: grads[0] / 2 + 2 * grads[1] * self
  result0: self_t / 2
  result1: 2 * self_t * self_p
"""
KERNELS = """
import numpy as np

def rolling_mean(x, window):
    return np.lib.stride_tricks.sliding_window_view(x, window, axis=-1).mean(-1)

def halves(x):
    return x / 2, x * x
"""
FORMULAS = """
import gradloom
from gradloom import Tensor

def rolling_mean_backward(grad: Tensor, window: int) -> Tensor:
    padded = gradloom.nn.functional.pad(grad, (window - 1, window - 1))
    return gradloom.ops.tenops.rolling_mean(padded, window)
"""
OF_GRADLOOM = ["softplus", "hypot", "atan2", "gelu", "clamp", "tanh", "logsumexp", "var_mean.correction"]


def written(folder: Path, kind: str) -> Path:
    """Write a package of operators, and a module of them and of operators of gradloom's; return the module."""
    source = folder / "src" / "tenops"
    files = {
        "native_functions.yaml": OPERATORS,
        "derivatives.yaml": DERIVATIVES,
        "kernels/smooth.py": KERNELS,
        "formulas/smooth.py": FORMULAS,
    }
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (folder / "pyproject.toml").write_text('[tool.gradloom]\npackage = "src/tenops"\n')
    target = project(folder)
    assert target is not None
    found, known = specification.load(target), specification.base()
    base = specification.Specification(own(), known.functions, known.derivatives(), known.callables)
    path = folder / f"of_{kind}.py"
    path.write_text(module(kind, found, base, []))
    (folder / f"own_{kind}.py").write_text(module(kind, base, None, OF_GRADLOOM, "emitted_from_gradloom"))
    return path


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("emitted")
    path = written(folder, "torch")
    return load(path), load(folder / "own_torch.py")


def real(*shape: int) -> torch.Tensor:
    return (torch.rand(shape, dtype=torch.double) * 3 - 1).requires_grad_()


TRACED = ("rolling_mean", "var_mean")  # as torch.compile does, which takes seconds; GRADLOOM_ALL_EMITTED=1: all
CASES = {
    "swoosh": (lambda: (real(2, 3), 2.0), {}),
    "soft_gap": (lambda: (real(2, 3), real(3)), {"scale": 0.5}),
    "rolling_mean": (lambda: (real(2, 5), 3), {}),
    "halves": (lambda: (real(4),), {}),
    "softplus": (lambda: (real(2, 3), 1.5, 2.0), {}),
    "hypot": (lambda: (real(2, 3), real(2, 1)), {}),
    "atan2": (lambda: (real(3), real(2, 3)), {}),
    "gelu": (lambda: (real(2, 3),), {"approximate": "tanh"}),
    "clamp": (lambda: (real(5), None, 0.5), {}),
    "tanh": (lambda: (torch.randn(3, dtype=torch.cdouble).requires_grad_(),), {}),
    "logsumexp": (lambda: (real(2, 3), [-1], True), {}),
    "var_mean": (lambda: (real(2, 3), [1]), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_emitted_operator_passes_the_checks_of_pytorch(modules, name):
    torch.manual_seed(0)
    make, keywords = CASES[name]
    inputs = make()
    function = next(getattr(m, name) for m in modules if hasattr(m, name))
    namespace = next(m for m in modules if hasattr(m, name))._LIBRARY.ns
    packet = getattr(getattr(torch.ops, namespace), name)
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if name in TRACED or os.environ.get("GRADLOOM_ALL_EMITTED"):
        checks.append("test_aot_dispatch_dynamic")
    torch.library.opcheck(getattr(packet, packet.overloads()[0]), inputs, keywords, test_utils=checks)
    assert gradcheck(lambda *x: function(*x, **keywords), inputs, check_forward_ad=True)
    assert gradgradcheck(lambda *x: function(*x, **keywords), inputs, check_fwd_over_rev=True)

    known = getattr(torch, name, None) or getattr(torch.nn.functional, name, None)
    if known is not None:
        torch.testing.assert_close(function(*inputs, **keywords), known(*inputs, **keywords))

    # torch.func: batches, and forward mode over forward mode, which a plain autograd.Function gets wrong.
    x, *rest = inputs
    x = x.detach()
    first = (lambda y: y[0]) if isinstance(function(*inputs, **keywords), tuple) else (lambda y: y)
    f = lambda a: first(function(a, *rest, **keywords))  # noqa: E731
    batch = torch.stack([x, x + 0.1])
    torch.testing.assert_close(torch.func.vmap(f)(batch), torch.stack([f(b) for b in batch]))
    if not x.is_complex():
        total = lambda a: f(a).sum()  # noqa: E731
        expected = torch.autograd.functional.hessian(total, x)
        torch.testing.assert_close(torch.func.hessian(total)(x), expected)
        torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(total))(x), expected)


def test_half_types_and_integers_get_the_dtypes_of_pytorch(modules):
    for dtype in (torch.bfloat16, torch.float16, torch.int32):
        x = torch.arange(1, 5).to(dtype)
        assert torch.equal(modules[1].atan2(x, x), torch.atan2(x, x))
    assert torch.equal(modules[1].tanh(x.bfloat16() / 3), torch.tanh(x.bfloat16() / 3))
