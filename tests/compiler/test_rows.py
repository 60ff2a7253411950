"""Reductions, softmax-like operators and normalisations in loops: what is fused, and that it is right."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gradloom as torch
from gradloom import nn
from gradloom.compiler import _interpreter
from gradloom.compiler._api import optimized_of
from gradloom.compiler._numpy_rows import compile_loops

from .loop_programs import difference, random_case

F = torch.nn.functional


@pytest.fixture(params=["numpy", "llvm"])
def backend(request):
    if request.param == "llvm":
        pytest.importorskip("llvmlite")
    return request.param


def run(f, inputs, backend):
    """Call eager and compiled, forward and backward; return the compiled function's only graph."""
    g = torch.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        both = []
        for function in (f, g):
            leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs]
            found = function(*leaves)
            results = found if isinstance(found, tuple) else (found,)
            differentiable = [r for r in results if r.requires_grad]
            points = [t for t in leaves if t.requires_grad]
            weights = [torch.linspace(0.5, 1.5, r.numel()).reshape(r.shape).to(r.dtype) for r in differentiable]
            grads = torch.autograd.grad(differentiable, points, weights, allow_unused=True) if differentiable else ()
            both.append([*results, *grads])
        for a, b in zip(*both, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.stride() == b.stride() or a.numel() < 2
                tolerance = 1e-2 if a.dtype in (torch.float16, torch.bfloat16) else 1e-4
                torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
    (entry,) = optimized_of(g).entries
    assert optimized_of(g).calls[0] >= 1
    return entry.compiled


def kernels(compiled):
    return [k.program for k in compiled.forward.kernels], [n.name for n in compiled.forward.calls]


ONE_LOOP = {
    "sum of a chain": lambda x: (x * 2).tanh().sum(-1),
    "mean of all": lambda x: (x * x).mean(),
    "sum over the first": lambda x: (x * 2 + 1).sum(0, keepdim=True),
    "use of a sum": lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
    "use of a sum without the dimension": lambda x: (x.sum(-1) * 2).relu(),
    "softmax": lambda x: (x * 0.5).softmax(-1),
    "log_softmax over the first": lambda x: x.log_softmax(0) * 2,
    "layer norm": lambda x: F.layer_norm(x + 1, x.shape[-1:]),
    "layer norm of two": lambda x: F.layer_norm(x.reshape(2, -1, 5), (x.numel() // 10, 5)),
    "variance": lambda x: x.var(-1),
    "standard deviation": lambda x: x.std(-1, correction=0, keepdim=True),
    "largest": lambda x: x.amax(-1) - x.amin(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "number of the largest": lambda x: (x * 2).softmax(-1).argmax(-1),
    "number of the least": lambda x: (x + 1).argmin(0, keepdim=True),
    "largest and its number": lambda x: x.detach().mul(2).max(0),
    "least and its number": lambda x: x.detach().mul(2).min(-1, keepdim=True),
    "right predictions": lambda x: x.argmax(1) == 3,
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "rms norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "attention weights": lambda x: (x * 0.5).masked_fill(x > 1, float("-inf")).softmax(-1),
    "any": lambda x: (x > 1).any(-1),
    "all": lambda x: (x * 2 > -1).all(),
    "product": lambda x: (x.detach() * 0.5).prod(-1),
}


@pytest.mark.parametrize("name", ONE_LOOP)
def test_one_loop(name, backend):
    torch.manual_seed(0)
    programs, calls = kernels(run(ONE_LOOP[name], [torch.randn(6, 20)], backend))
    if backend == "numpy":  # its kernels are faster than blocks with several passes
        assert calls and not any(p.inner for p in programs)
    else:
        assert len(programs) == 1 and not calls
        assert programs[0].inner >= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype, backend):
    torch.manual_seed(0)

    def f(x):
        return (x * 2).softmax(-1), F.layer_norm(x, (40,)), x.sum(0), (x + 1).mean()

    run(f, [torch.randn(7, 40).to(dtype)], backend)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_softmax_of_attention_with_rows_without_any_score(dtype, backend):
    torch.manual_seed(0)
    mask = torch.rand(5, 7) > 0.3
    mask[2] = False
    q, k, v = (torch.randn(3, n, m).to(dtype) for n, m in ((5, 4), (7, 4), (7, 3)))  # which are not fused
    compiled = run(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), [q, k, v], backend)
    calls = [n.name for p in (compiled.forward, compiled.backward) for n in p.calls]
    assert ("_safe_softmax" in calls) == (backend == "numpy")


def test_integers_and_bools(backend):
    x = torch.arange(-20, 40).reshape(6, 10).to(torch.int32)
    run(lambda x: ((x * 2).sum(-1), x.amax(0), (x > 3).sum(), x.prod(1), x.sum(dtype=torch.float32)), [x], backend)


def test_special_values(backend):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1.0, inf, 2.0], [nan, 1.0, 0.0], [-inf, -inf, -inf], [-inf, 0.0, 1.0], [0.0, -0.0, 3e38]])

    def f(x):
        return x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1), x.amax(-1), x.sum(-1), x.amin(0), x.mean()

    run(f, [x], backend)
    run(lambda x: (x.argmax(-1), x.argmin(0), *x.detach().max(0), *x.detach().min(1), x.argmax()), [x], backend)


def test_numbers_of_equal_elements_and_in_all_layouts(backend):
    torch.manual_seed(0)
    x = torch.randint(0, 3, (5, 4, 6))
    for each in (x, x.permute(2, 0, 1), x[:, ::2], x[:0], x[:, :1].expand(5, 4, 6), x.to(torch.uint8)):
        run(lambda x: (x.argmax(1), x.argmin(-1), (x.to(torch.int64) * 2).max(0)[1] if len(x) else x), [each], backend)
        run(lambda x: x.argmax() if x.numel() else x + 0, [each], backend)
    long = torch.randn(3, 40_000).round(decimals=1)
    run(lambda x: (x.argmax(1), (x * 2).min(1).indices), [long], backend)


def test_loops_without_machine_code_find_numbers():
    pytest.importorskip("llvmlite")
    x = torch.rand(4, 30_000) + 0.5
    compiled = run(lambda x: torch.lgamma(x).argmax(1), [x], "llvm")
    assert compiled.forward.kernels and not compiled.forward.calls


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(20, 6).t(), lambda: torch.randn(6, 1).expand(6, 20), lambda: torch.randn(12, 40)[::2, ::2],
        lambda: torch.randn(1, 20), lambda: torch.randn(6, 1), lambda: torch.randn(0, 20), lambda: torch.randn(6, 0),
        lambda: torch.randn(3, 4, 5).permute(1, 0, 2), lambda: torch.randn(20), lambda: torch.tensor(2.0),
    ],
)  # fmt: skip
def test_layouts_and_sizes(make, backend):
    torch.manual_seed(0)

    def f(x):
        y = (x * 2).softmax(0) if x.dim() else x.softmax(0)
        return y, x.sum(-1), x.mean(), (x + 1).sum(0), F.layer_norm(x, x.shape[-1:]) if x.dim() else x * 2

    run(f, [make()], backend)


def test_long_rows_and_many_rows(backend):
    torch.manual_seed(0)
    for shape in ((3, 70_000), (70_000, 3), (300, 900), (900, 300)):
        run(lambda x: ((x * 2).sum(-1), (x + 1).sum(0), x.softmax(-1), x.mean()), [torch.randn(shape)], backend)


def test_expensive_functions_are_computed_once(backend):
    compiled = run(lambda x: torch.softmax(F.gelu(x), -1), [torch.randn(30, 40)], backend)
    programs, _ = kernels(compiled)
    # On NumPy, single operators and long definitions are left to their kernels.
    assert len(programs) == (2 if backend == "llvm" else 0)
    assert sum(i.op == "erf" for p in programs for part in p.passes for i in part.body) == (backend == "llvm")


def test_the_backward_pass_computes_expensive_functions_once(backend):
    compiled = run(lambda x: F.gelu(F.layer_norm(x, (40,))), [torch.randn(30, 40)], backend)
    bodies = [i.op for k in compiled.backward.kernels for p in k.program.passes for i in p.body]
    assert bodies.count("erf") == (backend == "llvm")


def test_rows_are_not_walked_twice_where_they_are_long(backend):
    programs, _ = kernels(run(lambda x: x / x.sum(), [torch.rand(600, 700)], backend))
    assert [len(p.passes) for p in programs] == ([1, 1] if backend == "llvm" else [])


def test_the_backward_pass_keeps_values_of_rows(backend):
    compiled = run(lambda x: (x * 2).log_softmax(-1).sum(), [torch.randn(30, 40)], backend)
    sizes = [b.strides for k in compiled.backward.kernels for b in k.program.inputs]
    assert (
        backend == "numpy" or sizes and len(compiled.saved) <= 3
    )  # the largest number and the sum of each row; the gradient is constant


@pytest.mark.parametrize("block", range(4))
def test_rows_in_numpy_equal_the_interpreter(block):
    count = 0
    for seed in range(block, 160, 4):
        case = random_case(seed)
        program = case.program
        kinds = {str(i.attribute) for p in program.passes for i in p.body if i.op == "reduce"}
        if not program.inner or program.rows == 0 or kinds & {"argmax", "argmin"} and 0 in program.shape:
            continue
        outputs = case.arrays[len(program.inputs) :]
        before = [a.copy() for a in outputs]
        _interpreter.run(program, case.arrays, case.numbers)
        expected = [a.copy() for a in outputs]
        for a, old in zip(outputs, before, strict=True):
            a[...] = old
        compile_loops(program)(case.arrays, case.numbers)
        wrong = difference(case, [np.asarray(a) for a in outputs], expected)
        assert not wrong, f"seed {seed}: {wrong}\n{program}"
        count += 1
    assert count >= 5


def test_a_gather_outside_of_its_table_is_an_error():
    from gradloom.compiler._loops import LoopProgram

    program = LoopProgram.parse("""loop [2, 3] inner 1
input 0: int64 strides [1, 0]
input 1: float32 sizes [4] strides [1]
output 0: float32 strides [1, 0]
pass 0:
  i = load 0: int64
  x = gather 1 i: float32
  s = reduce sum x: float32
row:
  store 0 s""")
    out, table = np.zeros(2, np.float32), np.arange(4, dtype=np.float32)
    compile_loops(program)((np.array([1, -1]), table, out))
    assert out.tolist() == [3.0, 9.0]
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension with size 4"):
        compile_loops(program)((np.array([1, 4]), table, out))


BATCH_NORMS = {
    "images": (nn.BatchNorm2d(3), (4, 3, 5, 6)),
    "vectors": (nn.BatchNorm1d(4), (6, 4)),
    "volumes": (nn.BatchNorm3d(2, momentum=0.3), (2, 2, 3, 2, 2)),
    "no parameters": (nn.BatchNorm2d(3, affine=False), (4, 3, 5, 6)),
    "no statistics": (nn.BatchNorm2d(3, track_running_stats=False), (4, 3, 5, 6)),
    "a cumulative average": (nn.BatchNorm1d(3, momentum=None), (5, 3, 4)),
    "channels last": (nn.BatchNorm2d(3), (4, 3, 5, 6)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", BATCH_NORMS)
def test_batch_norm_is_a_loop(name, training, backend):
    module, shape = BATCH_NORMS[name]
    modules = [copy.deepcopy(module).train(training) for _ in range(2)]
    functions = [lambda x, m=m: torch.relu(m(x * 2)) for m in modules]
    functions[1] = torch.compile(functions[1], backend=backend)
    torch.manual_seed(0)
    for step in range(4):
        x = torch.randn(shape) + step
        if name == "channels last":
            x = x.contiguous(memory_format=torch.channels_last)
        found = []
        for f, m in zip(functions, modules, strict=True):
            m.zero_grad()
            leaf = x.clone().requires_grad_()
            y = f(leaf)
            (y * torch.linspace(0, 1, y.numel()).view(shape)).sum().backward()
            found.append([y, leaf.grad, *(p.grad for p in m.parameters()), *m.buffers()])
        for eager, ours in zip(*found, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
            assert ours.stride() == eager.stride()
    if backend == "llvm" and name != "a cumulative average":
        (entry,) = optimized_of(functions[1]).entries
        assert not [n for n in entry.compiled.forward.calls if "batch_norm" in n.name]
        assert not [n for n in entry.compiled.backward.calls if "batch_norm" in n.name]


GROUP_NORMS = {
    "images": (nn.GroupNorm(2, 4), (3, 4, 5, 6)),
    "sequences": (nn.GroupNorm(3, 6), (4, 6, 7)),
    "vectors": (nn.GroupNorm(2, 6), (5, 6)),
    "one group": (nn.GroupNorm(1, 4), (3, 4, 5)),
    "groups of one": (nn.GroupNorm(4, 4), (3, 4, 5, 2)),
    "volumes": (nn.GroupNorm(2, 4), (2, 4, 3, 2, 2)),
    "no parameters": (nn.GroupNorm(2, 4, affine=False), (3, 4, 5, 6)),
    "small groups": (nn.GroupNorm(2, 2), (1, 2, 3)),
    "channels last": (nn.GroupNorm(2, 4), (3, 4, 5, 6)),
    "frozen": (nn.GroupNorm(2, 4).requires_grad_(False), (3, 4, 5, 6)),
    "float64": (nn.GroupNorm(2, 4).double(), (3, 4, 5, 6)),
    "bfloat16": (nn.GroupNorm(2, 4).bfloat16(), (3, 4, 5, 6)),
}


@pytest.mark.parametrize("of_input", [True, False])
@pytest.mark.parametrize("name", GROUP_NORMS)
def test_group_norm_is_a_loop(name, of_input, backend):
    module, shape = GROUP_NORMS[name]
    modules = [copy.deepcopy(module) for _ in range(2)]
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float64 if name == "float64" else torch.float32
    functions = [lambda x, m=m: torch.relu(m(x * 2)) + 1 for m in modules]
    functions[1] = torch.compile(functions[1], backend=backend, fullgraph=True)
    torch.manual_seed(0)
    for step in range(3):
        x = (torch.randn(shape) + step).to(dtype)
        if name == "channels last":
            x = x.contiguous(memory_format=torch.channels_last)
        found = []
        for f, m in zip(functions, modules, strict=True):
            m.zero_grad()
            leaf = x.clone().requires_grad_(of_input)
            y = f(leaf)
            if y.requires_grad:
                (y * torch.linspace(0, 1, y.numel()).view(shape).to(dtype)).sum().backward()
            found.append([y, leaf.grad, *(p.grad for p in m.parameters())])
        for eager, ours in zip(*found, strict=True):
            assert (eager is None) == (ours is None)
            if eager is not None:
                tolerance = {"bfloat16": 0.05, "float64": 1e-9}.get(name, 1e-4)
                torch.testing.assert_close(ours, eager, rtol=tolerance, atol=tolerance)
                assert ours.stride() == eager.stride()
    if backend == "llvm":
        (entry,) = optimized_of(functions[1]).entries
        programs = [p for p in (entry.compiled.forward, entry.compiled.backward) if p is not None]
        assert not [n for p in programs for n in p.calls if "group_norm" in n.name]


def test_group_norm_of_other_shapes_and_its_double_backward(backend):
    torch.manual_seed(0)
    run(lambda x: torch.native_group_norm(x, None, None, 1, 4, 6, 2, 1e-5), [torch.randn(4, 6)], backend)
    run(lambda x: torch.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5), [torch.randn(8, 6)], backend)
    run(lambda x: torch.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5), [torch.randn(2, 24)], backend)
    x, found = torch.randn(2, 4, 3), []
    f = torch.compile(lambda x: F.group_norm(x, 2).tanh(), backend=backend, fullgraph=True)
    for _ in range(2):
        for function in (f, lambda x: F.group_norm(x, 2).tanh()):
            leaf = x.clone().requires_grad_()
            (g,) = torch.autograd.grad(function(leaf).square().sum(), leaf, create_graph=True)
            g.square().sum().backward()
            found.append(leaf.grad)
    torch.testing.assert_close(found[2], found[3])


@pytest.mark.parametrize("function", [F.softplus, F.relu, F.gelu, lambda x: F.softplus(x * 2), lambda x: F.relu(x + 1)])
def test_numpy_leaves_what_it_would_compute_slower_to_kernels(function):
    compiled = run(function, [torch.randn(30, 40)], "numpy")
    assert not compiled.forward.kernels and not compiled.is_fused
    x = torch.zeros(30, 40)
    g = torch.compile(lambda x, y: F.relu(x.add_(1)) * y + x, backend="numpy", fullgraph=True)
    for _ in range(3):
        expected = torch.relu(x + 1) * 2 + (x + 1)
        torch.testing.assert_close(g(x, torch.full((30, 40), 2.0)), expected)
    assert x.eq(3).all()


NORMS = {
    "the last dimension": [(700, 200), (200,)],
    "the last two": [(9, 70, 20, 12), (20, 12)],
    "several dimensions of rows": [(3, 5, 50, 200), (200,)],
}


@pytest.mark.skipif("llvm" not in torch.compiler.list_backends(), reason="needs llvmlite")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_parameters_are_sums_in_the_loop_over_rows(name, dtype):
    size, normalized = NORMS[name]

    def norm(x, w, b):
        return torch.nn.functional.layer_norm(x, normalized, w, b) * 2

    compiled = torch.compile(norm, backend="llvm", fullgraph=True)
    torch.manual_seed(0)
    inputs = [torch.randn(s, dtype=torch.float64) for s in (size, normalized, normalized)]
    g = torch.randn(size, dtype=torch.float64)
    wanted = torch.autograd.grad(norm(*[x.requires_grad_() for x in inputs]), inputs, g)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 1, 3):
        torch.set_num_threads(threads)
        try:
            leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
            found.append(torch.autograd.grad(compiled(*leaves), leaves, g.to(dtype)))
        finally:
            torch.set_num_threads(before)
    eps = np.finfo(str(dtype).partition(".")[2]).eps
    for a, b, c in zip(*found[1:], wanted, strict=True):
        assert torch.equal(a, b)
        largest = float(c.abs().max())
        np.testing.assert_allclose(a.double().numpy(), c.numpy(), rtol=0, atol=200 * eps * largest)
    (entry,) = optimized_of(compiled).entries
    (kernel,) = entry.compiled.backward.kernels
    assert sum(i.op == "add" for part in kernel.program.passes for i in part.body) == 2


@pytest.mark.skipif("llvm" not in torch.compiler.list_backends(), reason="needs llvmlite")
def test_what_reads_a_sum_over_rows_comes_after_the_loop():
    def run(x):
        y = x.softmax(1)
        total = y.sum(0)
        return y * total, total

    compiled = torch.compile(run, backend="llvm", fullgraph=True)
    x = torch.randn(1000, 200)
    for _ in range(2):
        for a, b in zip(compiled(x), run(x), strict=True):
            torch.testing.assert_close(a, b)
    (entry,) = optimized_of(compiled).entries
    kernels = entry.compiled.forward.kernels
    assert len(kernels) == 2
    assert any(i.op == "add" for part in kernels[0].program.passes for i in part.body)
