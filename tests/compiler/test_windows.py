"""Operators on windows of images that have machine code: the results of eager mode, and what stays a call."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of
from gradloom.compiler._llvm import convolution, convolution_copies, convolution_rows
from gradloom.compiler._llvm.host import host
from gradloom.kernels._common.windows import Windows
from tests.samples import in_turn

pytestmark = pytest.mark.skipif("llvm" not in torch.compiler.list_backends(), reason="needs llvmlite")
SHAPES = [(2, 3, 16, 16), (1, 2, 33, 37), (2, 2, 7, 9), (3, 8, 8)]
POOLINGS = {
    "halves": (2, 2, 0),
    "overlapping": (3, 2, 1),
    "every place": (3, 1, 1),
    "a rectangle": ((2, 3), (1, 2), (1, 0)),
    "a step of 3": (3, 3, 0),
    "large": (5, 2, 2),
    "ceil mode": (3, 2, 1, 1, True),
    "ceil mode, no padding": (2, 2, 0, 1, True),
}


# Sizes of the input and the weight, and stride, padding and dilation.
CONVOLUTIONS = {
    "rows of whole vectors": [(2, 3, 16, 16), (8, 3, 3, 3), 1, 1, 1],
    "rows that end within a vector": [(3, 5, 9, 21), (13, 5, 3, 3), 1, 1, 1],
    "rows shorter than a vector": [(3, 5, 9, 7), (4, 5, 3, 3), 1, 1, 1],
    "a step of 2": [(2, 2, 17, 35), (3, 2, 3, 3), 2, 1, 1],
    "a large kernel": [(1, 3, 20, 28), (9, 3, 5, 5), 1, 2, 1],
    "a large kernel and a step of 2": [(2, 3, 40, 44), (16, 3, 7, 7), 2, 3, 1],
    "dilation": [(2, 4, 30, 21), (6, 4, 3, 3), 1, 2, 2],
    "a step of 2 and dilation": [(5, 2, 5, 50), (3, 2, 1, 4), (1, 2), (0, 1), (1, 3)],
    "more padding than the kernel": [(1, 2, 6, 8), (2, 2, 2, 2), 1, 3, 1],
    "many images": [(70, 1, 8, 8), (3, 1, 3, 3), 1, 0, 1],
    "one dimension": [(3, 4, 40), (6, 4, 5), 1, 2, 1],
    "vectors of channels": [(2, 3, 9, 7), (37, 3, 3, 3), 1, 1, 1],
    "vectors of channels and a step of 2": [(2, 33, 15, 14), (24, 33, 3, 3), 2, 1, 1],
    "other steps in rows and columns": [(2, 17, 9, 14), (16, 17, 2, 3), (1, 2), (2, 0), (2, 1)],
    "columns of the input that no window meets": [(2, 17, 14, 14), (16, 17, 1, 2), 2, 0, 1],
    "one place": [(9, 32, 3, 3), (17, 32, 3, 3), 1, 0, 1],
    "narrow rows, many channels": [(2, 20, 2, 2), (48, 20, 3, 3), 1, 1, 1],
    "a long row": [(1, 16, 1, 300), (16, 16, 1, 16), 1, (0, 7), 1],
    "bands of rows": [(1, 70, 40, 64), (17, 70, 3, 3), 1, 1, 1],
}
DTYPES = [torch.float32, torch.float64]


def programs(function):
    """Return the programs that a compiled function has after its calls."""
    (entry,) = optimized_of(function).entries
    return entry.compiled.forward, entry.compiled.backward


def images(shape, dtype, special):
    """Return images with many equal elements and, if `special`, NaNs and windows of infinities."""
    x = torch.randint(-2, 3, shape).to(dtype)
    if special:
        x[torch.rand(shape) < 0.1] = float("nan")
        x[torch.rand(shape) < 0.4] = float("-inf")
    return x


@pytest.mark.parametrize(("name", "dtype"), in_turn(POOLINGS, DTYPES))
def test_maxima_and_their_gradients_are_those_of_eager_mode(name, dtype):
    def pooled(x):
        return torch.nn.functional.max_pool2d(x * 1, *POOLINGS[name], return_indices=True)

    for number, shape in enumerate(SHAPES):
        compiled = torch.compile(pooled, backend="llvm", fullgraph=True)
        torch.manual_seed(number)
        x = images(shape, dtype, special=number % 2)
        for _ in range(2):
            both = []
            for f in (pooled, compiled):
                leaf = x.clone().requires_grad_()
                y, indices = f(leaf)
                torch.manual_seed(0)
                y.backward(torch.randn(y.shape, dtype=dtype))
                both.append((y.detach(), indices, leaf.grad))
            for eager, ours in zip(*both, strict=True):
                np.testing.assert_array_equal(ours.numpy(), eager.numpy())
        assert [[n.name for n in p.tasks] for p in programs(compiled)] == [
            ["max_pool2d_with_indices"], ["max_pool2d_with_indices_backward"]
        ]  # fmt: skip


def test_indices_that_nothing_reads_are_not_made():
    compiled = torch.compile(lambda x: torch.nn.functional.max_pool2d(x + 1, 2), backend="llvm")
    x = torch.arange(64.0).reshape(1, 1, 8, 8)
    for _ in range(2):
        assert compiled(x).flatten()[:2].tolist() == [10, 12]
    (entry,) = optimized_of(compiled).entries
    assert "int64" not in entry.compiled.forward.source


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.to(torch.float16),
        lambda x: x.to(torch.int32),
        lambda x: x.contiguous(memory_format=torch.channels_last),
    ],
)
def test_other_images_stay_calls(change):
    def pooled(x):
        return torch.nn.functional.max_pool2d(x, 2), x + 1

    compiled = torch.compile(pooled, backend="llvm")
    x = change(torch.arange(128.0).reshape(1, 2, 8, 8))
    for _ in range(2):
        ours, eager = compiled(x)[0], pooled(x)[0]
        assert ours.tolist() == eager.tolist() and ours.stride() == eager.stride()
    (entry,) = optimized_of(compiled).entries
    assert not entry.compiled.forward.tasks


def test_results_do_not_depend_on_the_number_of_threads():
    compiled = torch.compile(lambda x: torch.nn.functional.max_pool2d(x * 2, 3, 2, 1).sum(), backend="llvm")
    x = torch.randn(8, 16, 64, 64, requires_grad=True)
    found = []
    for threads in (1, 1, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found.append(torch.autograd.grad(compiled(x), x)[0])
        finally:
            torch.set_num_threads(before)
    assert torch.equal(found[1], found[2])


def bound(x, w, length):
    """Return a bound of the rounding error of a sum of products, taken in any order."""
    return 2 * length * np.finfo(x.numpy().dtype).eps * float(x.abs().max() * w.abs().max())


CODES = ["chosen", "convolution_rows", "convolution_channels"]
CASES = [(*case, dtype) for case, dtype in in_turn([(n, c) for n in CONVOLUTIONS for c in CODES], DTYPES)]


@pytest.fixture
def code(request, monkeypatch):
    """Let the machine code be chosen by sizes, or be the same for all that it can compute; return which."""
    if request.param != "chosen":
        chosen, module = convolution._chosen, import_module(f"gradloom.compiler._llvm.{request.param}")

        def fixed(dtype, depth, channels, windows, along):
            usable = along and windows.output[1] >= 4 if request.param == "convolution_rows" else True
            return module if usable else chosen(dtype, depth, channels, windows, along)

        monkeypatch.setattr(convolution, "_chosen", fixed)
    return request.param


@pytest.mark.parametrize(("name", "code", "dtype"), CASES, indirect=["code"])
def test_convolutions_and_their_gradients_are_those_of_eager_mode(name, dtype, code):
    size, kernel, *settings = CONVOLUTIONS[name]
    convolution = torch.conv1d if len(size) == 3 else torch.conv2d

    def convolved(x, w, b):
        return convolution(x * 1, w, b, *settings)

    compiled = torch.compile(convolved, backend="llvm", fullgraph=True)
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=dtype) for shape in (size, kernel, kernel[:1])]
    g = torch.randn(convolved(*inputs).shape, dtype=dtype)
    for _ in range(2):
        both = []
        for f in (convolved, compiled):
            leaves = [x.clone().requires_grad_() for x in inputs]
            y = f(*leaves)
            y.backward(g)
            both.append((y.detach(), *(x.grad for x in leaves)))
        x, w, _ = inputs
        elements, places = w[0].numel() + 1, g.numel() // g.shape[1]
        bounds = bound(x, w, elements), bound(g, w, w.numel()), bound(g, x, places), bound(g, torch.ones(1), places)
        for eager, ours, most in zip(*both, bounds, strict=True):
            assert ours.stride() == eager.stride()
            np.testing.assert_allclose(ours.numpy(), eager.numpy(), rtol=0, atol=most)
    forward, backward = programs(compiled)
    assert [n.name for n in forward.tasks] == ["convolution"] and not forward.calls
    assert "convolution_backward" in [n.name for n in backward.tasks]


@pytest.mark.parametrize("register", [512, 256])
@pytest.mark.parametrize(
    ("channels", "out_channels", "width", "kernel", "stride", "expected"),
    [
        (64, 64, 56, 3, 1, ("channels", "channels", "channels")),
        (512, 512, 7, 3, 1, ("channels", "channels", "channels")),
        (128, 256, 28, 3, 2, ("channels", "channels", "channels")),
        (3, 192, 224, 16, 16, ("channels", None, "channels")),
        (64, 1, 112, 3, 1, ("rows", "rows", "rows")),
        (8, 8, 7, 3, 1, {512: ("rows", "rows", "rows"), 256: ("channels", "channels", "channels")}),
        (4, 4, 32, 3, 1, ("rows", "rows", "rows")),
        (64, 2, 3, 3, 1, (None, "channels", None)),
        (2, 64, 3, 3, 1, ("channels", None, "channels")),
        (64, 64, 56, 1, 1, (None, None, None)),
    ],
)
def test_sizes_choose_what_vectors_are_of(
    channels, out_channels, width, kernel, stride, expected, register, monkeypatch
):
    a_host = host()._replace(register=register)
    for module in (convolution_copies, convolution_rows):
        monkeypatch.setattr(module, "host", lambda: a_host)
    monkeypatch.setattr(convolution, "_chosen", convolution._chosen.__wrapped__)
    padding = kernel // 2 if stride < 3 else 0
    places = (width + 2 * padding - kernel) // stride + 1
    numbers = [(n, n) for n in (width, kernel, stride, padding, 1, places)]
    sizes = "float32", channels, out_channels, Windows(*numbers)
    chosen = [getattr(convolution, f"for_{name}")(*sizes) for name in ("forward", "input_gradient", "weight_gradient")]
    found = tuple([module and module.__name__.rpartition("_")[2] for module in chosen])
    assert found == (expected[register] if type(expected) is dict else expected)


def test_the_gradient_of_a_bias_is_a_sum_in_the_loop_before():
    def run(x, w, b):
        return torch.relu(torch.conv2d(x, w, b, padding=1)).sum()

    compiled = torch.compile(run, backend="llvm", fullgraph=True)
    leaves = [torch.randn(s, requires_grad=True) for s in [(2, 3, 16, 16), (8, 3, 3, 3), (8,)]]
    for _ in range(2):
        compiled(*leaves).backward()
    _, backward = programs(compiled)
    assert not backward.calls
    assert any({"threshold_backward", "sum.dim_IntList"} <= {n.name.split(" ")[0] for n in k.nodes}
               for k in backward.kernels)  # fmt: skip


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_zeros_of_the_margin_do_not_count_in_the_gradient_of_an_input(value):
    def run(x, w):
        return torch.conv2d(x * 1, w)

    compiled = torch.compile(run, backend="llvm", fullgraph=True)
    w = torch.ones(1, 1, 3, 3)
    w[0, 0, 0, 0] = value
    both = []
    for f in (run, compiled, compiled):
        x = torch.ones(1, 1, 8, 8, requires_grad=True)
        f(x, w).sum().backward()
        both.append(x.grad.numpy())
    assert both[0][0, 0, 7, 7] == 1
    np.testing.assert_array_equal(both[2], both[0])


@pytest.mark.parametrize("settings", [{"groups": 2}, {"stride": 3}, {"weight": (4, 4, 1, 1)}], ids=str)
def test_other_convolutions_stay_calls(settings):
    shape = settings.pop("weight", (4, 4 // settings.get("groups", 1), 3, 3))

    def run(x, w):
        return torch.conv2d(x * 1, w, **settings)

    compiled = torch.compile(run, backend="llvm", fullgraph=True)
    leaves = [torch.randn(s, requires_grad=True) for s in [(2, 4, 9, 9), shape]]
    for _ in range(2):
        torch.testing.assert_close(compiled(*leaves), run(*leaves))
        compiled(*leaves).sum().backward()
    forward, backward = programs(compiled)
    assert not forward.tasks and not backward.tasks


def test_sums_of_convolutions_do_not_depend_on_the_number_of_threads():
    compiled = torch.compile(lambda x, w: torch.conv2d(x * 2, w, padding=1).square().sum(), backend="llvm")
    leaves = [torch.randn(s, requires_grad=True) for s in [(9, 16, 32, 32), (24, 16, 3, 3)]]
    found = []
    before = torch.get_num_threads()
    for threads in (1, 1, 3):
        torch.set_num_threads(threads)
        try:
            y = compiled(*leaves)
            found.append((y, *torch.autograd.grad(y, leaves)))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(found[1], found[2], strict=True))
    assert [[n.name for n in p.tasks] for p in programs(compiled)] == [["convolution"], ["convolution_backward"] * 2]
