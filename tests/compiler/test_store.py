"""Graphs and rewritten functions on disk (Note [Graphs on disk]): found again, and only where nothing has changed."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import subprocess
import sys

import pytest

import gradloom as torch
import gradloom.nn.functional as F
from gradloom import nn
from gradloom.compiler import _joint, _llvm, _rewrite, _store
from gradloom.compiler._api import optimized_of
from gradloom.compiler._llvm import cache, host
from tests.compiler.test_random_programs import program
from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")


def forget():
    """Forget what this process knows of the cache, as a new process would."""
    _llvm.forget()
    for each in (cache._checked, _store._unchanged, _store._kept_code, _store._rewriter, _rewrite._rewritten_code):
        each.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder, used by a process that began after the last change of the sources and defined nothing."""
    monkeypatch.delitem(sys.modules, "gradloom.tools.define", raising=False)
    monkeypatch.setenv("GRADLOOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_store, "is_on", True)
    monkeypatch.setattr(cache, "BEGAN", 1 << 62)
    forget()
    yield tmp_path / "cache" / "llvm"
    forget()


@pytest.fixture
def made(folder, monkeypatch):
    """The graphs that were compiled, and not found."""
    found = []
    compiled, variant = _joint.compiled, _joint.variant_of
    monkeypatch.setattr(_joint, "compiled", lambda *args: found.append("graph") or compiled(*args))
    monkeypatch.setattr(_joint, "variant_of", lambda *args: found.append("variant") or variant(*args))
    return found


def chain(x):
    return torch.sigmoid(x) * torch.tanh(x) + x**2


def outcome(function, *args):
    """Return the results and gradients of a compiled call, after one that is recorded."""
    compiled = torch.compile(function, fullgraph=True, backend="llvm")
    for call in range(2):
        torch.manual_seed(call)
        results = compiled(*args)
        results = results if isinstance(results, tuple) else (results,)
        parameters = [*function.parameters()] if isinstance(function, nn.Module) else []
        leaves = [t for t in (*args, *parameters) if t.requires_grad]
        wanted = [r.sum() for r in results if r.requires_grad]
        grads = torch.autograd.grad(wanted, leaves, allow_unused=True) if wanted else ()
    return [t for t in (*results, *grads) if t is not None]


def is_equal(first, second):
    pairs = zip(first, second, strict=True)
    return all(a.dtype is b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def dropped(x):
    return F.dropout(x, 0.4, training=True) * x.exp()


def written(x, y):
    x = x * 1
    x[1:] += y[:-1]
    return x.relu_(), x.mT @ y


def branches(x):
    return torch.where(x > 0, x, 0.5), x.double().cumsum(0), torch.full((3,), float("inf")) * x.abs().amax()


def batched(x):
    return (x @ x.mT).softmax(-1) @ x  # more than a chain takes: Note [Chains]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.view(2, 5, 4, 4).transpose(1, 2) for t in self.inner(self.norm(x)).chunk(3, -1))
        found = ((q @ k.transpose(-1, -2)) * 0.5).softmax(-1) @ v
        return x + self.outer(F.gelu(found.transpose(1, 2).reshape(2, 5, 16)))


CASES = {
    "chain": (chain, lambda: [torch.randn(50, requires_grad=True)]),
    "random numbers": (dropped, lambda: [torch.randn(8, 8, requires_grad=True)]),
    "writes": (written, lambda: [torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)]),
    "numbers": (branches, lambda: [torch.randn(6, requires_grad=True)]),
    "bfloat16": (chain, lambda: [torch.randn(50).bfloat16().requires_grad_()]),
    "strides": (chain, lambda: [torch.randn(6, 5, requires_grad=True).detach().mT.requires_grad_()]),
    "attention": (Attention(), lambda: [torch.randn(2, 5, 16, requires_grad=True)]),
    "items of a batch": (batched, lambda: [torch.randn(8, 128, 32, requires_grad=True)]),
    "images": (
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2)),
        lambda: [torch.randn(2, 2, 8, 8, requires_grad=True)],
    ),
    "products": (nn.Sequential(nn.Linear(40, 33), nn.GELU()), lambda: [torch.randn(20, 40, requires_grad=True)]),
    "a table": (nn.Embedding(10, 4), lambda: [torch.tensor([1, 2, 9])]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_graph_is_found_again_and_computes_the_same(name, made):
    function, inputs = CASES[name]
    torch.manual_seed(0)
    args = inputs()
    first = outcome(function, *args)
    assert made == ["graph"]
    forget()
    assert is_equal(first, outcome(function, *args)) and made == ["graph"]


def test_random_programs_are_found_again(made):
    for seed in range(40):
        run = program(random.Random(seed))
        torch.manual_seed(seed)
        given = [torch.randn(3, 4, requires_grad=True), torch.randn(3, 4), torch.randn(4, requires_grad=True)]
        compiled = [torch.compile(run, backend="llvm") for _ in range(2)]
        before = len(made)
        first = [r.detach() for _ in range(2) for r in compiled[0](*given)]
        kept = len(made)
        second = [r.detach() for _ in range(2) for r in compiled[1](*given)]
        graphs = optimized_of(compiled[0]).entries
        assert len(made) == kept <= before + 1 or not graphs, f"program {seed}"
        assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in zip(first, second, strict=True)), seed


def test_backward_passes_of_some_results_are_kept_too(made):
    def f(x):
        return x.sigmoid() * 2, x.tanh() * 3

    for expected in (["graph", "variant"], ["graph", "variant"]):
        compiled, x = torch.compile(f, backend="llvm"), torch.linspace(-1, 1, 7, requires_grad=True)
        compiled(x)
        (grad,) = torch.autograd.grad(compiled(x)[0].sum(), x)
        torch.testing.assert_close(grad, 2 * x.sigmoid() * (1 - x.sigmoid()))
        assert made == expected


def scaled(number):
    return lambda x: torch.relu(x) * number + 1


def unrecorded(x):
    with torch.no_grad():
        return chain(x)


X = torch.linspace(-1, 1, 12)
DIFFERENT = {
    "a number": [(scaled(2.0), X), (scaled(2.5), X), (scaled(2), X), (scaled(-0.0), X), (scaled(0.0), X)],
    "a shape": [(chain, X), (chain, X[:6]), (chain, X.reshape(3, 4))],
    "strides": [(chain, X.reshape(3, 4)), (chain, X.reshape(4, 3).mT)],
    "a dtype": [(chain, X), (chain, X.double()), (chain, X.bfloat16())],
    "a gradient": [(chain, X), (chain, X.clone().requires_grad_())],
    "an operator": [(lambda x: x.sin() * 2, X), (lambda x: x.cos() * 2, X)],
    "an overload": [(lambda x: x.sum() * 2, X), (lambda x: x.sum(0) * 2, X), (lambda x: x.sum(0, True) * 2, X)],
    "the order of results": [(lambda x: (x * 2, x * 3), X), (lambda x: (x * 2, x * 3)[::-1], X)],
    "an input twice": [(lambda x: x.sin() * x, X), (lambda x: x.sin() * x.cos(), X)],
    "a mode": [(chain, X.clone().requires_grad_()), (unrecorded, X.clone().requires_grad_())],
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_graphs_that_differ_are_not_mistaken_for_each_other(name, made):
    for number, (function, x) in enumerate(DIFFERENT[name], 1):
        compiled = torch.compile(function, backend="llvm")
        found, expected = [compiled(x) for _ in range(2)][1], function(x)
        for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (found, expected)], strict=True):
            torch.testing.assert_close(a, b)
        assert len(made) == number


def test_the_default_dtype_is_part_of_the_key(made):
    def f(x):
        return x * 2 / 3

    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            compiled = torch.compile(f, backend="llvm")
            assert [compiled(torch.arange(5)).dtype for _ in range(2)] == [dtype, dtype]
        finally:
            torch.set_default_dtype(torch.float32)
    assert made == ["graph", "graph"]


@torch.compiler.allow_in_graph
def opaque(x):
    return x * 2


def test_functions_of_programs_are_not_kept(made):
    for number in (1, 2):
        compiled = torch.compile(lambda x: opaque(x).sin() + 1, backend="llvm")
        compiled(X), compiled(X)
        assert len(made) == number


def test_a_process_that_defines_operators_keeps_nothing(made, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradloom.tools.define", sys)
    outcome(chain, X), outcome(chain, X)
    assert made == ["graph", "graph"]


def test_a_changed_source_is_noticed(made, folder, tmp_path, monkeypatch):
    source = tmp_path / "kernel.py"
    source.write_text("x = 1")
    monkeypatch.setattr(_store, "_sources", lambda: f"{source.stat().st_mtime_ns} {source.stat().st_size} {source}")
    outcome(chain, X), outcome(chain, X)
    assert made == ["graph"]
    for change in (lambda: source.write_text("x = 22"), lambda: os.utime(source, ns=(0, 0)), source.unlink):
        made.clear(), forget(), change()
        outcome(chain, X)
        assert made == ["graph"]


def test_sources_that_changed_after_they_were_imported_are_not_taken_for_them(made, monkeypatch):
    monkeypatch.setattr(cache, "BEGAN", 0)
    outcome(chain, X), outcome(chain, X)
    assert made == ["graph", "graph"]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:-1] + b"x", lambda _: b""])
def test_damaged_and_missing_files_are_made_anew(made, folder, damage):
    expected = outcome(chain, X)
    for path in [p for p in folder.iterdir() if p.name != cache.TALLY]:
        made.clear(), forget()
        data = path.read_bytes()
        damaged = damage(data)
        path.write_bytes(damaged) if damaged else path.unlink()
        assert is_equal(expected, outcome(chain, X))
        assert path.exists()
        made.clear(), forget()
        assert is_equal(expected, outcome(chain, X)) and not made


def test_explain_compiles_in_any_case(made):
    outcome(chain, X.clone().requires_grad_())
    compiled = torch.compile(chain, backend="llvm")
    assert "kernel0: sigmoid, tanh" in str(compiled.explain(X.clone().requires_grad_()))
    assert made == ["graph", "graph"]


def test_a_function_is_rewritten_once(folder, monkeypatch):
    expected = outcome(chain, X)
    forget()
    monkeypatch.setattr(_rewrite, "rewritten_code", None)
    assert is_equal(expected, outcome(chain, X))


def test_a_function_that_changed_is_rewritten(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python tells sources apart by size and seconds
    path = tmp_path / "changing.py"
    for factor in (2, 3):
        path.write_text(f"def f(x):\n    return x.relu() * {factor}\n")
        os.utime(path, ns=(factor, factor))
        spec = importlib.util.spec_from_file_location("changing", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        compiled = torch.compile(module.f, fullgraph=True, backend="llvm")
        for _ in range(2):
            assert compiled(torch.ones(1)).item() == factor
        forget()


# What a process imports to run a function of elementwise operators whose graph is on disk. A module is added here only
# if such a process cannot do without it, since each costs every first call.
def test_graphs_with_numbers_are_kept_without_the_values(made):
    def function(x, a):
        return torch.tanh(x * a) * math.exp(-a) + x.abs() ** a, x + a if a > 0.5 else x * 2

    def call(a, first_only):
        forget()
        f = torch.compile(function, fullgraph=True, backend="llvm", dynamic=True)
        for _ in range(2):
            points = [torch.linspace(-1, 2, 5, requires_grad=True) for _ in range(2)]
            found, expected = f(points[0], a), function(points[1], a)
            sums = [r[0].sum() if first_only else r[0].sum() + r[1].sum() for r in (found, expected)]
            grads = [torch.autograd.grad(s, p)[0] for s, p in zip(sums, points, strict=True)]
            for x, y in zip((*found, grads[0]), (*expected, grads[1]), strict=True):
                torch.testing.assert_close(x, y)
        count = len(made)
        made.clear()
        return count

    assert [call(a, False) for a in (0.3, 0.4, 0.7, 0.8, 1.0, 0.45, 0.9, 2.0, 2.0)] == [1, 0, 1, 0, 1, 0, 0, 1, 0]
    assert [call(a, True) for a in (0.3, 0.4, 0.7, 0.8, 1.0)] == [1, 0, 1, 0, 1]


def test_conditions_of_the_program_are_not_those_of_the_graph(made):
    def called(function, a):
        forget()
        f = torch.compile(function, fullgraph=True, backend="llvm", dynamic=True)
        for value in (a, a / 2):
            torch.testing.assert_close(f(torch.ones(3), value), function(torch.ones(3), value))
        return [made.pop() for _ in made[:]], optimized_of(f).entries

    first, (entry,) = called(lambda x, a: torch.tanh(x) * a if a > 0.25 else x, 0.75)
    again, entries = called(lambda x, a: torch.tanh(x) * a, 0.125)
    assert first == ["graph"] and again == [] and len(entries) == 1
    assert "n[0] > 0.25" in entry.numbers.conditions and "n[0] > 0.25" not in entries[0].numbers.conditions
    assert "n[0] != 1" in entries[0].numbers.conditions


COMPILER = {
    "gradloom.utils",
    "gradloom.utils._late_methods",
    *(
        "_api",
        "_attributes",
        "_backends",
        "_classes",
        "_counters",
        "_effects",
        "_entry",
        "_hooks",
        "_known",
        "_llvm",
        "_llvm.cache",
        "_llvm.code",
    ),
    *(
        "_llvm.direct",
        "_llvm.fits",
        "_llvm.host",
        "_llvm.image",
        "_llvm.kernel",
        "_llvm.layouts",
        "_memory",
        "_numbers",
        "_pieces",
        "_reads",
        "_recorder",
        "_recording",
        "_run",
    ),
    "_store",
    "gradloom.compiler",
    "gradloom.version",
}
SECOND = """
import sys
import gradloom as torch

def f(x):
    return torch.sigmoid(x) * torch.tanh(x) + x**2

x = torch.linspace(-1, 1, 10, requires_grad=True)
f(x).sum().backward()
before = set(sys.modules)
g = torch.compile(f, backend="llvm")
for _ in range(2):
    g(x).sum().backward()
print(*(sys.modules.keys() - before))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or host.host().machine != "x86_64", reason="images are made on Linux, x86-64"
)
def test_a_cached_start_imports_little(tmp_path):
    script = tmp_path / "second.py"
    script.write_text(SECOND)
    environment = {**os.environ, "GRADLOOM_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        found = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=LIMIT, check=True
        )
    modules = set(found.stdout.split())
    assert {m.removeprefix("gradloom.compiler.") for m in modules if m.startswith("gradloom")} <= COMPILER
    assert {m for m in modules if not m.startswith("gradloom")} <= {"mmap", "_sha2", "_sha256"}


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())

    def forward(self, x):
        return self.block(x) if x.sum() < 1e9 else x


def test_an_explanation_makes_the_graphs_of_pieces_anew(folder):
    module, x = Branching(), torch.randn(3, 4)
    compiled = torch.compile(module, backend="llvm")
    for _ in range(4):
        compiled(x)
    forget()
    assert "gelu" in str(torch._dynamo.explain(module)(x))
