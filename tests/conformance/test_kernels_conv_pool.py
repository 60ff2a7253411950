"""The convolution and pooling kernels against PyTorch's operators on random geometries: values, indices,
errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from gradloom.kernels.conv import convolution as conv
from gradloom.kernels.pool import pooling as pool

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")

aten = torch.ops.aten
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4, torch.complex64: 1e-4}
FLOATS = [torch.float32, torch.float64]
HALVES = [torch.float16, torch.bfloat16]


def array(tensor: Any) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def given(arguments: tuple) -> list:
    return [array(a) if isinstance(a, torch.Tensor) else a for a in arguments]


def compare(theirs: Any, ours: np.ndarray, exact: bool = False) -> None:
    expected = array(theirs)
    assert ours.shape == expected.shape and ours.dtype == expected.dtype and ours.flags.c_contiguous
    if expected.dtype.name == "bfloat16":
        expected, ours = expected.astype(np.float32), ours.astype(np.float32)
    if exact:
        np.testing.assert_array_equal(ours, expected)
    else:
        tolerance = TOLERANCE.get(theirs.dtype, 1e-10)
        scale = max(1.0, float(np.abs(expected).max(initial=0)))  # of terms that cancel
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance * scale)


def tensor(draw: random.Random, shape: tuple, dtype: Any, special: bool = False) -> Any:
    generator = torch.Generator().manual_seed(draw.randrange(1 << 30))
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * 3
    if draw.random() < 0.5:
        values = values.round()  # ties
    if special and dtype.is_floating_point:
        for value in (float("nan"), -float("inf")):
            if draw.random() < 0.3:
                values[torch.rand(shape, generator=generator) < 0.3] = value
    return values.to(dtype)


def per_dimension(draw: random.Random, dims: int, choices: list[int]) -> list[int]:
    return [draw.choice(choices) for _ in range(dims)]


def convolutions(draw: random.Random, dtypes: list) -> tuple:
    """Input, weight, bias and the other arguments of a convolution that may be impossible."""
    dims, groups, transposed = draw.choice([1, 2, 2, 3]), draw.choice([1, 1, 2, 3]), draw.random() < 0.4
    inner, each, dtype = draw.choice([1, 2, 3, 17]), draw.choice([1, 2, 5]), draw.choice(dtypes)
    kernel, stride = per_dimension(draw, dims, [1, 2, 3, 5]), per_dimension(draw, dims, [1, 1, 2, 3])
    padding, dilation = per_dimension(draw, dims, [0, 0, 1, 2]), per_dimension(draw, dims, [1, 1, 2, 3])
    size = per_dimension(draw, dims, [1, 4, 7, 12] if dims < 3 else [1, 4, 6])
    extra = [draw.randrange(max(s, d)) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
    x = tensor(draw, (draw.choice([1, 2, 5]), inner * groups, *size), dtype)
    shape = (inner * groups, each) if transposed else (each * groups, inner)
    w = tensor(draw, (*shape, *kernel), dtype)
    bias = tensor(draw, (each * groups,), dtype) if draw.random() < 0.6 else None
    return x, w, bias, stride, padding, dilation, transposed, extra, groups


@pytest.mark.parametrize("seed", range(150))
def test_convolution_and_its_gradients(seed):
    draw = random.Random(seed)
    x, w, bias, *settings = arguments = convolutions(draw, FLOATS)
    try:
        expected = aten.convolution(*arguments)
    except RuntimeError as error:
        # Whether an empty transposed output is an error depends on PyTorch's backend.
        if "too small" not in str(error):
            with pytest.raises(RuntimeError):
                conv.convolution(*given(arguments))
        return
    compare(expected, conv.convolution(*given(arguments)))
    if expected.numel():
        g = tensor(draw, expected.shape, expected.dtype)
        backward = (g, x, w, [expected.shape[1]], *settings, [True, True, True])
        gradients = conv.convolution_backward(*given(backward))
        for theirs, ours in zip(aten.convolution_backward(*backward), gradients, strict=True):
            compare(theirs, ours)


@pytest.mark.parametrize("seed", range(30))
def test_convolution_of_other_dtypes(seed):
    draw = random.Random(seed)
    arguments = convolutions(draw, [*HALVES, torch.complex64, torch.int64])
    try:
        expected = aten.convolution(*arguments)
    except RuntimeError:
        return
    compare(expected, conv.convolution(*given(arguments)))


def test_complex_gradients_are_those_of_pytorch():
    draw = random.Random(0)
    x = torch.complex(*(tensor(draw, (2, 3, 6, 6), torch.float64) for _ in range(2))).requires_grad_()
    w = torch.complex(*(tensor(draw, (4, 3, 3, 3), torch.float64) for _ in range(2))).requires_grad_()
    out = torch.nn.functional.conv2d(x, w, padding=1)
    g = torch.complex(*(tensor(draw, out.shape, torch.float64) for _ in range(2)))
    arguments = (g, x.detach(), w.detach(), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    ours = conv.convolution_backward(*given(arguments))
    for theirs, gradient in zip(torch.autograd.grad(out, (x, w), g), ours, strict=False):
        np.testing.assert_allclose(gradient, theirs.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(30))
def test_unfold_and_fold(seed):
    draw = random.Random(seed)
    kernel, dilation, padding, stride = (per_dimension(draw, 2, c) for c in ([1, 2, 3], [1, 2], [0, 1], [1, 2]))
    settings = (kernel, dilation, padding, stride)
    size = per_dimension(draw, 2, [3, 6, 9])
    x = tensor(draw, (*draw.choice([(), (3,)]), 2, *size), draw.choice([*FLOATS, torch.complex64]))
    try:
        expected = aten.im2col(x, *settings)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            conv.im2col(x.numpy(), *settings)
        return
    compare(expected, conv.im2col(x.numpy(), *settings), exact=True)
    compare(aten.col2im(expected, size, *settings), conv.col2im(expected.numpy(), size, *settings))


def lifted(dims: int, operator: Callable) -> Callable:
    """PyTorch's two-dimensional operator as one of `dims` dimensions: with one, the last two of a 1 x size
    image.

    A list of one integer gets what leaves the new dimension alone: kernel, stride and dilation 1, padding 0.
    """
    if dims > 1:
        return operator

    def call(*arguments: Any) -> Any:
        lists = iter((1, 1, 0, 1))
        wide = [
            a.unsqueeze(-2) if isinstance(a, torch.Tensor) else [next(lists), *a] if isinstance(a, list) else a
            for a in arguments
        ]
        result = operator(*wide)
        if isinstance(result, tuple):
            return tuple(part.squeeze(-2) for part in result)
        return result.squeeze(-2)

    return call


def pools(draw: random.Random, dims: int) -> tuple:
    """kernel, stride, padding, dilation, ceil_mode and the input's shape."""
    kernel, stride = per_dimension(draw, dims, [1, 2, 3, 5]), per_dimension(draw, dims, [1, 2, 2, 3])
    if draw.random() < 0.3:
        kernel = stride = [2] * dims
    padding = [draw.randint(0, k // 2) for k in kernel]
    size = per_dimension(draw, dims, [1, 4, 7, 12, 33] if dims < 3 else [3, 4, 7])
    shape = (*draw.choice([(3,), (0, 2), (2, 3), (5, 4)]), *size)
    return kernel, stride, padding, per_dimension(draw, dims, [1, 1, 2]), draw.random() < 0.5, shape


def in_padding(settings: list, size: tuple, output: tuple) -> bool:
    """Whether a dilated window lies in the padding whole."""
    kernel, stride, padding, dilation, _ = settings
    return any(
        all(not 0 <= i * s + j * d - p < n for j in range(k))
        for n, o, k, s, p, d in zip(size, output, kernel, stride, padding, dilation, strict=True)
        for i in range(o)
    )


@pytest.mark.parametrize("seed", range(150))
def test_max_pool(seed):
    draw = random.Random(seed)
    dims, dtype = draw.choice([1, 2, 2, 3]), draw.choice([*FLOATS, *HALVES, torch.int64])
    *settings, shape = pools(draw, dims)
    x = tensor(draw, shape, dtype, special=True)
    name = f"max_pool{max(dims, 2)}d_with_indices"
    forward = partial(pool.max_pool_with_indices, dims)
    try:
        out, indices = lifted(dims, getattr(aten, name))(x, *settings)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            forward(array(x), *settings)
        return
    if in_padding(settings, shape[-dims:], out.shape[-dims:]):
        return  # PyTorch's index for such a window leads outside the input, and its backward with it
    ours = forward(array(x), *settings)
    compare(out, ours[0], exact=True)
    compare(indices, ours[1], exact=True)
    if dtype in FLOATS and out.numel():
        g = tensor(draw, out.shape, dtype)
        theirs = lifted(dims, getattr(aten, name + "_backward"))(g, x, *settings, indices)
        compare(theirs, pool.max_pool_with_indices_backward(dims, *given((g, x)), *settings, ours[1]))


@pytest.mark.parametrize("seed", range(100))
def test_avg_pool(seed):
    draw = random.Random(seed)
    dims, dtype = draw.choice([1, 2, 2, 3]), draw.choice([*FLOATS, *HALVES, torch.int64])
    kernel, stride, padding, _, ceil_mode, shape = pools(draw, dims)
    settings = (kernel, stride, padding, ceil_mode, draw.random() < 0.5, draw.choice([None, None, 3, -2]))
    x = tensor(draw, shape, dtype)
    name = f"avg_pool{max(dims, 2)}d"
    try:
        out = lifted(dims, getattr(aten, name))(x, *settings)
    except NotImplementedError:
        return  # dtypes that PyTorch leaves out
    except RuntimeError:
        with pytest.raises(RuntimeError):
            pool.avg_pool(dims, array(x), *settings)
        return
    compare(out, pool.avg_pool(dims, array(x), *settings))
    if dtype.is_floating_point and out.numel():
        g = tensor(draw, out.shape, dtype)
        theirs = lifted(dims, getattr(aten, name + "_backward"))(g, x, *settings)
        compare(theirs, pool.avg_pool_backward(dims, *given((g, x)), *settings))


@pytest.mark.parametrize("seed", range(60))
def test_adaptive_pools(seed):
    draw = random.Random(seed)
    dims, dtype = draw.choice([1, 2, 3]), draw.choice(FLOATS)
    output = per_dimension(draw, dims, [1, 2, 3, 5, 8])
    x = tensor(draw, (*draw.choice([(3,), (2, 3)]), *per_dimension(draw, dims, [1, 4, 6, 9])), dtype)
    for kind in ("avg", "max"):
        leaf = x.clone().requires_grad_()
        result = getattr(torch.nn.functional, f"adaptive_{kind}_pool{dims}d")(
            leaf, output, **({"return_indices": True} if kind == "max" else {})
        )
        out = result[0] if kind == "max" else result
        g = tensor(draw, out.shape, dtype)
        out.backward(g)
        ours = getattr(pool, f"adaptive_{kind}_pool")(dims, x.numpy(), output)
        backward = partial(getattr(pool, f"adaptive_{kind}_pool_backward"), dims)
        if kind == "max":
            compare(result[1], ours[1], exact=True)
            compare(out.detach(), ours[0], exact=True)
            compare(leaf.grad, backward(g.numpy(), x.numpy(), ours[1]))
        else:
            compare(out.detach(), ours)
            compare(leaf.grad, backward(g.numpy(), x.numpy()))


@pytest.mark.parametrize("seed", range(10))
def test_max_unpool(seed):
    draw = random.Random(seed)
    dims = draw.choice([2, 3])
    x = tensor(draw, (2, 3, *[6] * dims), torch.float32)
    out, indices = getattr(aten, f"max_pool{dims}d_with_indices")(x, [2] * dims)
    rest = ([2] * dims, [0] * dims) if dims == 3 else ()
    expected = getattr(aten, f"max_unpool{dims}d")(out, indices, [6] * dims, *rest)
    compare(expected, pool.max_unpool(dims, out.numpy(), indices.numpy(), [6] * dims, *rest))
