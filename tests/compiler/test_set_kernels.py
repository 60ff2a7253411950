"""Eager mode on machine code: the same results, gradients and errors as with NumPy's kernels, and back again."""

import sys
import threading

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _eager, _llvm
from gradloom.compiler._llvm import host
from gradloom.kernels.activation import softmax as softmax_kernels

from .eager_calls import counted_replacements, places, take_as_large

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")
F = torch.nn.functional


def recurrent(kind, gates, x):
    """Return the states of a layer whose weights are parts of its input."""
    weights, state = [x[:gates], x[:gates, :2]], x[:4, :2][None]
    states = (state, state) if kind == "lstm" else state
    return getattr(torch, kind)(x.reshape(3, 4, -1), states, weights, False, 1, 0.0, True, False, False)[0]


def layer(name, x):
    return getattr(torch.nn, name)(37, 64, dtype=x.dtype)(x)[0]


CALLS = {
    "linear": lambda x: F.linear(x.repeat(5, 1), x.detach().repeat(6, 1), x[0].repeat(2)[:72]),
    "bmm": lambda x: x.repeat(9, 1, 1).reshape(2, 54, 37) @ x.detach().repeat(9, 1, 1).reshape(2, 54, 37).mT,
    "lstm": lambda x: recurrent("lstm", 8, x),
    "gru": lambda x: recurrent("gru", 6, x),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.repeat(9, 1, 1).reshape(1, 2, 54, 37)] * 3),
    **{name: lambda x, name=name: layer(name, x.repeat(8, 1).reshape(3, 32, 37)) for name in ("LSTM", "GRU")},
    "softmax": lambda x: x.softmax(-1),
    "softmax of the first dimension": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "log_softmax of a dimension between": lambda x: x.reshape(3, 4, -1).log_softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "layer_norm with parameters": lambda x: F.layer_norm(x, (x.shape[-1],), x[0] + 1, x[1]),
    "layer_norm without bias": lambda x: F.layer_norm(x, (x.shape[-1],), x[0] + 1),
    "layer_norm of two dimensions": lambda x: F.layer_norm(x.reshape(2, 2, 3, -1), (3, x.shape[-1])),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(12) % 5),
    "cross_entropy without some": lambda x: F.cross_entropy(x, torch.arange(12) % 5, ignore_index=3, reduction="sum"),
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "var": lambda x: x.var(-1),
    "var without correction": lambda x: x.var(1, correction=0, keepdim=True),
    "std": lambda x: x.std(-1),
    "prod": lambda x: x.prod(-1),
    **{name: lambda x, name=name: getattr(x, name)(-1, keepdim=True) for name in ("amax", "amin")},
    **{f"{name} of all": lambda x, name=name: getattr(x, name)() for name in ("sum", "mean", "max", "min")},
    "max_pool2d": lambda x: F.max_pool2d(x.reshape(2, 3, 2, -1), 2),
    "max_pool2d of windows that overlap": lambda x: F.max_pool2d(x.reshape(2, 1, 6, -1), (2, 3), (2, 1), 0, (3, 2)),
    **{
        name: getattr(F, name)
        for name in (
            "elu",
            "mish",
            "softplus",
            "relu",
            "hardtanh",
            "leaky_relu",
            "hardsigmoid",
            "hardshrink",
            "hardswish",
            "logsigmoid",
        )
    },
    "threshold": lambda x: F.threshold(x, 0.1, 0.2),
    "softshrink": F.softshrink,
    "celu": lambda x: F.celu(x, 1.3),
    **{name: lambda x, name=name: getattr(torch.ops.aten, name).Scalar(x, 2, 0.3) for name in ("add", "sub", "rsub")},
    "div": lambda x: (
        x
        + torch.div(x.detach(), 0.3, rounding_mode="floor")
        + torch.div(x.detach(), x.detach().abs() + 0.5, rounding_mode="floor")
    ),
    **{
        f"{name} by a number": lambda x, name=name: x + getattr(torch.ops.aten, name).Scalar(x.detach(), 0.3)
        for name in ("remainder", "fmod", "floor_divide")
    },
    "div by a number": lambda x: x + torch.ops.aten.div.Scalar_mode(x.detach(), 0.3, rounding_mode="floor"),
    "remainder of a number": lambda x: x + torch.remainder(0.7, x.detach().abs() + 0.5),
    "isclose": lambda x: x * torch.isclose(x, x.detach() + (x.detach() > 0)),
    "frac": torch.frac,
    "ldexp": lambda x: torch.ldexp(x, x.detach()),
    "entr": lambda x: torch.special.entr(x.abs()),
    **{
        name: lambda x, function=function: (
            function(x, x.detach().abs() + 0.5) + function(x.abs(), 0.3) + function(0.7, x.detach().abs() + 0.5)
        )
        for name, function in (("xlogy of numbers", torch.xlogy), ("xlog1py", torch.special.xlog1py))
    },
    **{name: getattr(torch, name) for name in ("sigmoid", "tanh", "sinc", "sign", "sgn")},
    "logit": lambda x: torch.logit(x, 0.1),
    "logit without eps": lambda x: torch.logit(x.sigmoid()),
    **{
        name: lambda x, name=name: getattr(torch, name)(x, x.detach().abs() + 0.5)
        for name in ("hypot", "xlogy", "logaddexp", "logaddexp2", "remainder", "fmod")
    },
    "floor_divide": lambda x: x + torch.floor_divide(x.detach(), x.detach().abs() + 0.5),
    "heaviside": lambda x: x * torch.heaviside(x.detach(), x.detach()),
    "rsqrt": lambda x: torch.rsqrt(x.detach().abs() + x * x),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.detach().abs() + 1, value=0.3),
    "lerp by numbers": lambda x: x.lerp(2 * x, 0.3) + x.lerp(3 * x, 0.7) + x.lerp(x.detach(), 2),
    "lerp": lambda x: torch.lerp(x, 2 * x, x.detach().abs()),
    "clamp": lambda x: x.clamp(-0.5, 0.5) + x.clamp(max=0.1),
    "batch_norm": lambda x: F.batch_norm(x, None, None, x[0] + 1, x[1], True),
    "batch_norm without parameters": lambda x: F.batch_norm(x.reshape(2, 3, 2, -1), None, None, training=True),
    "batch_norm of its input": lambda x: F.batch_norm(
        x.reshape(2, 3, 2, -1), None, None, x.detach()[0, :3] + 1, training=True
    ),
    "group_norm": lambda x: F.group_norm(x.reshape(2, 6, -1), 3, x[0, :6] + 1, x[1, :6]),
    "group_norm without parameters": lambda x: F.group_norm(x.reshape(3, 4, 1, -1), 2),
    "batch_norm with running statistics": lambda x: running_statistics(x),
    "gather": lambda x: x.gather(1, torch.arange(24).reshape(12, 2) % 7),
    "gather of rows": lambda x: x.reshape(3, 4, -1).gather(1, torch.arange(3 * 6 * 37).reshape(3, 6, 37) % 4),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "sum of bce": lambda x: F.binary_cross_entropy_with_logits(9 * x, x.detach().sigmoid(), reduction="sum"),
    "randn": lambda x: x * torch.randn_like(x),
    "randn of whole groups": lambda x: x[:, :32] * torch.randn(12, 32),
    "dropout": lambda x: torch.native_dropout(x, 0.3, True)[0],
    "rand": lambda x: x * torch.rand(12, 37, dtype=x.dtype),
    "uniform": lambda x: x * torch.empty(37, 12).uniform_(-1, 2).t(),
    "randint": lambda x: x * torch.randint(-3, 9, (12, 37)) + torch.randint(0, 1 << 40, (12, 1)) / 2.0**40,
    "randperm": lambda x: x[torch.randperm(12)],
    **{name: lambda x, name=name: getattr(x, name)(1) for name in ("cumsum", "cumprod")},
    **{f"{name} of columns": lambda x, name=name: getattr(x, name)(0) for name in ("cumsum", "cumprod")},
    **{name: lambda x, name=name: getattr(x, name)(-1)[0] for name in ("cummax", "cummin", "sort", "median")},
    "topk": lambda x: x.topk(5)[0] + x.topk(5, largest=False)[0],
    "kthvalue": lambda x: x.kthvalue(3, 0, True)[0],
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 36, 3])),
    "index_add": lambda x: x.index_add(0, torch.tensor([3, 11, 3]), x[:3]),
    "index_add in place": lambda x: (2 * x).index_add_(1, torch.tensor([3, 36, 3]), x[:, :3].contiguous()),
    "scatter_add": lambda x: x.scatter_add(1, torch.arange(12 * 37).reshape(12, 37) % 7, x),
    "scatter_add in place": lambda x: (2 * x).scatter_add_(
        0, torch.arange(24 * 37).reshape(24, 37) % 12, torch.cat([x, x])
    ),
    "conv2d": lambda x: F.conv2d(x.reshape(2, 3, 2, 37), x[:9, :18].reshape(6, 3, 3, 3).contiguous(), x[0, :6], 1, 1),
    "conv2d with steps": lambda x: F.conv2d(
        x.reshape(1, 2, 6, 37), x[:, :12].reshape(18, 2, 2, 2).contiguous(), None, 2
    ),
    "conv1d": lambda x: F.conv1d(x.reshape(3, 4, 37), x[:8, :8].reshape(4, 4, 4).contiguous(), None, 1, 2),
    "optimizer": lambda x: step_of_an_optimizer(x),
    "sum of an embedding": lambda x: F.embedding(torch.tensor([[3, 11], [3, 0]]), x, padding_idx=0).sum(),
    "embedding": lambda x: F.embedding(torch.tensor([[3, 11], [3, 0]]), x, padding_idx=0),
}


def running_statistics(x):
    mean, var = torch.zeros(x.shape[1], dtype=x.dtype), torch.ones(x.shape[1], dtype=x.dtype)
    result = F.batch_norm(x, mean, var, None, x[1], True, 0.3)
    return result + mean + var


def step_of_an_optimizer(x):
    p = x.detach().clone().requires_grad_()
    p.grad = x.detach() * x.detach()
    torch.optim.Adam([p], 0.1).step()
    return x * p.detach()


def results(call, dtype):
    torch.manual_seed(3)
    x = torch.randn(12, 37, dtype=dtype, requires_grad=True)
    y = call(x)
    y.backward(torch.randn_like(y), retain_graph=True)
    first, x.grad = x.grad, None
    y.sum().backward()  # a gradient that is one number, expanded
    return y.detach().numpy(), first.numpy(), x.grad.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_those_of_numpy(name, dtype):
    check_results(CALLS[name], dtype)


def check_results(call, dtype):
    expected = results(call, dtype)
    with torch.set_kernels("llvm"):
        assert torch.get_kernels() == "llvm"
        results(call, dtype)  # NumPy's kernels see the first calls of pointwise ones
        found = results(call, dtype)
    assert torch.get_kernels() == "numpy"
    epsilon = 2.0**-23 if dtype == torch.float32 else 2.0**-52
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=100 * epsilon, atol=100 * epsilon * max(1, np.abs(b).max()))


LARGE_CALLS = {
    "mul by a number": lambda x: x * 0.3,
    "div by a number": lambda x: x / 0.3,
    "div": lambda x: x / (x.detach().abs() + 0.5),
    "sub": lambda x: x - x.detach().sin(),
    "layer_norm": lambda x: F.layer_norm(x, (37,), x[0] + 1, x[1]) + F.layer_norm(x, (37,), x[2]),
    "softmax": lambda x: x.softmax(1) + x.reshape(4, 3, 37).softmax(1).reshape(12, 37),
    **{f"pow {p}": lambda x, p=p: x.detach().abs() ** 0.7 * x**p for p in (2, 3, 1.5, 0.5, -1)},
    "pow": lambda x: (x.abs() + 0.5) ** x.detach() + 1.5**x,
    "sum of several gradients": lambda x: x.sigmoid() * x.tanh() + x**2,
    "in place": lambda x: (2 * x).add_(x).mul_(x[0].detach()).sub_(0.3),
    "in place with a dimension of 1": lambda x: (2 * x)[:, None].add_(x[:, None]).mul_(0.3)[:, 0],
    "in place by itself": lambda x: (lambda y: y.add_(y))(2 * x),
    "a column": lambda x: x * x.detach()[:, :1] + x.detach()[:, :1],
    "a transposed matrix": lambda x: x * x.detach().t().contiguous().t(),
    "isinf": lambda x: x * (torch.isposinf(x) | torch.isneginf(x)).logical_not(),
    "clamp by tensors": lambda x: torch.clamp_min(torch.clamp_max(x, x.detach().flip(0)), x.detach() - 0.5),
    **{name: getattr(torch, name) for name in ("abs", "floor", "ceil", "trunc", "round", "deg2rad", "rad2deg", "neg")},
    **{name: getattr(torch, name) for name in ("exp", "expm1", "sin", "cos", "atan", "asinh", "exp2")},
    "copysign": lambda x: torch.copysign(x, x.detach().flip(0)) + torch.copysign(x, -0.3),
    "sqrt": lambda x: (x.abs() + 0.1).sqrt().log(),
}


@pytest.fixture
def large_from_64(monkeypatch):
    """Let kernels for large arrays take those of 64 elements."""
    take_as_large(64, monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LARGE_CALLS)
def test_large_results_and_gradients_are_those_of_numpy(name, dtype, large_from_64):
    check_results(LARGE_CALLS[name], dtype)


def test_every_replaced_kernel_runs_and_is_put_back(monkeypatch, large_from_64):
    before = dict(kernels())
    counts = counted_replacements(monkeypatch)
    _eager._kernels.clear()
    with torch.set_kernels("llvm"):
        assert all(found is not before[place] for place, found in kernels())
        for call in (*CALLS.values(), *LARGE_CALLS.values()):
            for _ in range(2):
                results(call, torch.float32)
        gelus = {key[3] for key in _eager._kernels if key[0] == "gelu"}
    assert [place for place in places() if not counts[place]] == []
    assert gelus == {"none", "tanh"}
    assert all(found is before[place] for place, found in kernels())


def kernels():
    for place in places():
        module, _, name = place.rpartition(".")
        yield place, getattr(_eager.place_of(module), name)


def test_what_a_replacement_does_not_take_goes_to_the_kernel():
    x = torch.randn(4, 6)
    with torch.set_kernels("llvm"):
        torch.testing.assert_close(x.t().softmax(-1), x.softmax(0).t())
        assert x.bfloat16().softmax(-1).dtype == torch.bfloat16
        assert x[:0].softmax(-1).shape == (0, 6)
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.softmax(2)
        with pytest.raises(IndexError, match="Target 9 is out of bounds"):
            F.nll_loss(x, torch.tensor([0, 9, 1, 2]))
        with pytest.raises(IndexError, match="Target -1 is out of bounds"):
            F.nll_loss(x, torch.tensor([0, -1, 1, 2]))
        with pytest.raises(RuntimeError, match="Expected weight to be of same shape"):
            F.layer_norm(x, (6,), torch.ones(5))
        assert torch.isnan(F.nll_loss(x, torch.full((4,), -100)))


@pytest.mark.parametrize("size", [16, 17, 1000, 1024, 8192, 100_003])
def test_normal_numbers_are_the_same_bits(size):
    def drawn():
        torch.manual_seed(size)
        plain, moved = torch.randn(size), torch.empty(size).normal_(0.3, 2.7)
        return np.concatenate([plain.numpy(), moved.numpy(), torch.randn(5).numpy()]).view(np.int32)

    expected = drawn()
    with torch.set_kernels("llvm"):
        found = drawn()
        if host.host().fma:
            assert any(key[0] in ("box_muller", "_fill_groups") for key in _eager._kernels)
    np.testing.assert_array_equal(found, expected)


def test_extrema_and_pooling_with_equal_elements_infinities_and_nans():
    x = torch.zeros(2, 3, 6, 6)
    x[0, 0], x[0, 1, 0, 0], x[1, 0, 1, 1:3], x[1, 1, 2, 2] = -torch.inf, torch.nan, torch.nan, torch.inf

    def found():
        pooled = F.max_pool2d(x, 3, 1, return_indices=True)
        return *pooled, x.amax(-1), x.amin(-1), x.prod(-1), x.max(), x.min(), x[1, 2].max(), x[0, 0].min(), x.sum()

    expected = found()
    with torch.set_kernels("llvm"):
        for a, b in zip(found(), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        assert F.max_pool2d(x[:1].to(memory_format=torch.channels_last), 2).is_contiguous(
            memory_format=torch.channels_last
        )
        torch.testing.assert_close(F.max_pool2d(x, 2, padding=1, ceil_mode=True)[1, 2], torch.zeros(4, 4))


@pytest.mark.parametrize(
    "settings",
    [{"groups": 2}, {"stride": 3}, {"kernel": 1}, {"dilation": 2}, {"padding": 3}, {"channels": 33}, {"size": (2, 3)}],
    ids=str,
)
@pytest.mark.parametrize("change", [None, "float16", "channels_last", "transposed", "without bias"])
def test_convolutions_that_are_taken_and_those_that_are_not(settings, change):
    settings = dict(settings)
    torch.manual_seed(0)
    kernel, channels, size = settings.pop("kernel", 3), settings.pop("channels", 4), settings.pop("size", (9, 11))
    x = torch.randn(2, 4, *size)
    w, b = torch.randn(channels, 4 // settings.get("groups", 1), kernel, kernel), torch.randn(channels)
    settings.setdefault("padding", 1)
    if change == "float16":
        x, w, b = x.half(), w.half(), b.half()
    elif change == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif change == "transposed":
        x, w = x.transpose(2, 3).contiguous().transpose(2, 3), w.transpose(2, 3)
    elif change == "without bias":
        b = None

    def run():
        leaves = [leaf.detach().requires_grad_() for leaf in (x, w, b) if leaf is not None]
        y = F.conv2d(*leaves, **settings)
        y.backward(torch.ones(y.shape, dtype=y.dtype))
        return [y.detach(), *(leaf.grad for leaf in leaves)]

    expected = run()
    with torch.set_kernels("llvm"):
        found = run()
    for ours, numpy in zip(found, expected, strict=True):
        assert ours.stride() == numpy.stride()
        torch.testing.assert_close(ours, numpy, rtol=1e-4, atol=1e-4)


def test_errors_of_convolutions_are_those_of_numpy():
    x, w = torch.randn(2, 4, 9, 9), torch.randn(5, 4, 3, 3)
    calls = [(x[:, :3].contiguous(), w), (x, w, torch.ones(4)), (x, w.double()), (x[..., :2].contiguous(), w),
             (x, w, None, 0), (x, w, None, 1, -1)]  # fmt: skip
    for arguments in calls:
        messages = []
        for kernels in ("numpy", "llvm"):
            with torch.set_kernels(kernels), pytest.raises(RuntimeError) as raised:
                F.conv2d(*arguments)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


def test_a_number_of_the_input_counts_where_windows_hold_it():
    x = torch.zeros(1, 1, 9, 9)
    x[..., 8] = torch.inf
    w = torch.ones(1, 1, 3, 3, requires_grad=True)
    with torch.set_kernels("llvm"):
        y = F.conv2d(x, w)
        y.backward(torch.ones_like(y))
    assert y[0, 0, :, :6].isfinite().all() and y[0, 0, :, 6].isinf().all()
    assert w.grad[0, 0, :, :2].isfinite().all() and w.grad[0, 0, :, 2].isinf().all()


def test_convolutions_do_not_depend_on_the_number_of_threads():
    leaves = [torch.randn(s, requires_grad=True) for s in [(9, 40, 14, 14), (70, 40, 3, 3)]]
    found = []
    before = torch.get_num_threads()
    with torch.set_kernels("llvm"):
        for threads in (1, 3):
            torch.set_num_threads(threads)
            try:
                y = F.conv2d(*leaves, padding=1)
                found.append((y, *torch.autograd.grad(y.sum(), leaves)))
            finally:
                torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_gather_refuses_indices_out_of_range():
    x = torch.randn(4, 6)
    with torch.set_kernels("llvm"):
        for index in (6, -1):
            with pytest.raises(RuntimeError, match=f"index {index} is out of bounds for dimension 1 with size 6"):
                x.gather(1, torch.tensor([[0, 1], [2, index], [3, 4], [5, 0]]))
        torch.testing.assert_close(x.gather(1, torch.tensor([[2]])), x[:1, 2:3])
        assert x.gather(1, torch.empty(4, 0, dtype=torch.int64)).shape == (4, 0)


def test_tensors_with_a_negative_bit_are_not_taken_for_arrays():
    x = torch.randn(3, 4, dtype=torch.complex64)
    negated = x.conj().imag
    assert negated.is_neg()
    with torch.set_kernels("llvm"):
        torch.testing.assert_close(torch.erf(negated), torch.erf(-x.imag))
        torch.testing.assert_close(negated.softmax(-1), (-x.imag).softmax(-1))
        torch.testing.assert_close(negated.sum(-1), -x.imag.sum(-1))
        torch.testing.assert_close(F.layer_norm(negated, (4,)), F.layer_norm(-x.imag, (4,)))


def test_second_derivatives_and_transforms():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    with torch.set_kernels("llvm"):
        assert torch.autograd.gradgradcheck(lambda x: F.gelu(x).softmax(-1), x)
        per_row = torch.vmap(torch.func.grad(lambda row: row.log_softmax(0)[0]))(x.detach())
        torch.testing.assert_close(per_row, torch.autograd.grad(x.log_softmax(1)[:, 0].sum(), x)[0])


def test_names_are_checked():
    with pytest.raises(ValueError, match="takes 'numpy' or 'llvm', not 'cuda'"):
        torch.set_kernels("cuda")
    original = softmax_kernels.softmax
    torch.set_kernels("llvm")
    torch.set_kernels("llvm")
    torch.set_kernels("numpy")
    assert softmax_kernels.softmax is original


def test_kernels_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(_eager, "KEPT", 3)
    with torch.set_kernels("llvm"):
        for n in range(1, 9):
            torch.ones(2, n).softmax(-1)
        assert len(_eager._kernels) <= 3


def test_a_missing_llvmlite_is_named(monkeypatch):
    monkeypatch.setattr(host, "llvmlite_version", lambda: None)
    with pytest.raises(ImportError, match=r"pip install 'gradloom\[compile\]'"):
        torch.set_kernels("llvm")
    assert torch.get_kernels() == "numpy"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers(kind, bias, bidirectional, packed, dtype):
    """Results and all gradients, with and without a gradient of the steps' results."""
    layer = getattr(torch.nn, kind)
    torch.manual_seed(0)
    net = layer(7, 9, 2, bidirectional=bidirectional, bias=bias, dtype=dtype)
    x = torch.randn(6, 5, 7, dtype=dtype, requires_grad=True)

    def run(with_steps):
        net.zero_grad()
        x.grad = None
        given = torch.nn.utils.rnn.pack_padded_sequence(x, [6, 5, 5, 3, 1]) if packed else x
        out, states = net(given)
        results = [out.data if packed else out, *(states if isinstance(states, tuple) else (states,))]
        taken = results if with_steps else results[1:]
        sum((t * torch.arange(t.numel(), dtype=dtype).reshape(t.shape).cos()).sum() for t in taken).backward()
        return [t.detach() for t in results] + [x.grad, *(p.grad.clone() for p in net.parameters())]

    for with_steps in (True, False):
        expected = run(with_steps)
        with torch.set_kernels("llvm"):
            found = run(with_steps)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-6)


EQUAL_NUMBERS = {
    "copysign": (torch.copysign, 0, -0.0),
    "add": (torch.ops.aten.add.Scalar, 0, -0.0),
    "sub": (torch.ops.aten.sub.Scalar, 0, -0.0),
    "sub of a bool": (torch.ops.aten.sub.Scalar, 1, True),
}


@pytest.mark.parametrize("name", EQUAL_NUMBERS)
def test_numbers_that_are_equal_are_not_the_same_parameter(name, large_from_64):
    """A call that was seen with 0 or 1 tells nothing about one with -0.0 or True."""
    function, first, second = EQUAL_NUMBERS[name]
    x = torch.tensor([0.0, -0.0, 1.0, -2.0] * 32)

    def outcome(number):
        try:
            return function(x, number).numpy()
        except RuntimeError as error:
            return str(error)

    expected = [outcome(number) for number in (first, second)]
    with torch.set_kernels("llvm"):
        for _ in range(3):
            for number, wanted in zip((first, second), expected, strict=True):
                found = outcome(number)
                np.testing.assert_array_equal(found, wanted)
                if not isinstance(found, str):
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_remainder_of_zero_has_the_sign_of_the_dividend(dtype):
    values = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, torch.inf, -torch.inf, torch.nan, 1e-40, 3, -3], dtype=dtype
    )
    x, y = values.repeat(12), values.repeat_interleave(12)
    expected = torch.remainder(x, y).numpy()
    found = [torch.compile(lambda x, y: torch.remainder(x, y) * 1, backend=name)(x, y) for name in ("numpy", "llvm")]
    with torch.set_kernels("llvm"):
        found += [torch.remainder(x, y) for _ in range(2)]
    for result in found:
        np.testing.assert_array_equal(result.numpy(), expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result.numpy())[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("name", ["relu6", "hardtanh", "clamp"])
def test_zeros_keep_their_sign_beside_a_limit_of_zero(name, large_from_64):
    functions = {"relu6": F.relu6, "hardtanh": lambda x: F.hardtanh(x, 0, 1), "clamp": lambda x: x.clamp(0, 1)}
    x = torch.tensor([0.0, -0.0] * 64)
    for kernels in ("numpy", "llvm"):
        with torch.set_kernels(kernels):
            for _ in range(2):
                np.testing.assert_array_equal(np.signbit(functions[name](x).numpy()), np.signbit(x.numpy()))


@pytest.mark.parametrize("kernels", ["numpy", "llvm"])
def test_addcmul_multiplies_from_left_to_right(kernels):
    x, y = torch.tensor([3e38, 1e20] * 8), torch.tensor([1e-3, 1e20] * 8)
    with torch.set_kernels(kernels):
        for _ in range(2):
            assert torch.addcmul(torch.zeros(16), x, y, value=2)[0] == torch.inf
            torch.testing.assert_close(torch.addcmul(torch.zeros(16), x, y, value=1e-20)[1], torch.tensor(1e20))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("exponent", [2, 3, 4, 2.0, 1, 0.5, -1, 0, True])
def test_gradients_of_powers_are_those_of_numpy_to_the_bit(exponent, dtype):
    def gradients():
        x = torch.linspace(-2, 3, 37, dtype=torch.float64).to(dtype).requires_grad_()
        power = x**exponent
        return torch.autograd.grad(power, x, x.detach() + 1, retain_graph=True) + torch.autograd.grad(power.sum(), x)

    expected = gradients()
    with torch.set_kernels("llvm"):
        for _ in range(2):
            found = gradients()
    assert [g.numpy().tobytes() for g in found] == [g.numpy().tobytes() for g in expected]


def test_large_operands_without_elements(large_from_64):
    with torch.set_kernels("llvm"):
        for _ in range(2):
            assert (torch.zeros(70, 0) + torch.ones(70, 1)).shape == (70, 0)
            assert torch.zeros(70, 0).mul_(torch.ones(70, 1)).shape == (70, 0)


def test_threads_that_switch_put_all_kernels_back():
    before, failed = dict(kernels()), []

    def switch(first):
        try:
            for i in range(60):
                torch.set_kernels("numpy" if (i + first) % 2 else "llvm")
        except Exception as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=switch, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        torch.set_kernels("numpy")
    assert not failed
    assert all(found is before[place] for place, found in kernels())
