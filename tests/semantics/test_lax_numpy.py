"""Arguments that NumPy's functions take, or read in their own way, where PyTorch refuses them, or has other strides."""

import pytest

MAX = 2**63 - 1


@pytest.mark.parametrize("size, pad", [(1, [1, -2]), (1, [-3, 5]), (2, [3, -3]), (0, [2, -2]), (4, [-3, -2])])
def test_padding_cannot_crop_more_than_there_is(torch, size, pad):
    with pytest.raises(RuntimeError, match="length must be non-negative"):
        torch.nn.functional.pad(torch.zeros(3, size), pad)
    assert torch.nn.functional.pad(torch.ones(3, 2), [-2, 3]).tolist() == [[0, 0, 0]] * 3


def test_ranges_do_not_wrap_around(torch):
    with pytest.raises(RuntimeError, match="invalid size"):
        torch.arange(-1, MAX)
    with pytest.raises(RuntimeError):
        torch.arange(0, MAX)
    assert torch.arange(MAX - 2, MAX).tolist() == [MAX - 2, MAX - 1]


@pytest.mark.parametrize("method", ["size", "stride"])
def test_a_bool_is_no_dimension(torch, method):
    with pytest.raises(TypeError, match=rf"{method}\(\): argument 'dim' .*must be int, not bool"):
        getattr(torch.ones(2, 3), method)(True)


def test_rolls_of_nothing_do_not_look_at_dimensions(torch):
    assert torch.ones(0, 3).roll((1, 2), (-3, 5)).shape == (0, 3)
    with pytest.raises(IndexError):
        torch.ones(1, 3).roll((1, 2), (-3, 5))


@pytest.mark.parametrize("rows, words", [(2, "expected scalar type Float but found Double"), (30, "same dtype")])
def test_distances_of_two_dtypes_are_refused(torch, rows, words):
    with pytest.raises(RuntimeError, match=words):
        torch.cdist(torch.ones(rows, 3), torch.ones(rows, 3, dtype=torch.float64))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_distances_in_half_precision_need_a_product(torch, dtype):
    x = torch.ones(30, 3, dtype=getattr(torch, dtype))
    assert torch.cdist(x, x).dtype is x.dtype
    with pytest.raises(NotImplementedError, match="cdist"):
        torch.cdist(x, x, p=1.0)


# What is taken from an array of shape (2, 3, 4), and the strides of its unsqueeze(dim). To NumPy the stride of a
# dimension of size 1 does not matter, and such an array is contiguous.
UNSQUEEZED = {
    "a part of size 1": (lambda x: x[::2], 0, (24, 24, 4, 1)),
    "after it": (lambda x: x[::2], 1, (24, 12, 4, 1)),
    "at the end": (lambda x: x[::2], -1, (24, 4, 1, 1)),
    "a transposed column": (lambda x: x[0, :1].t(), 0, (4, 1, 4)),
    "contiguous": (lambda x: x, 1, (12, 12, 4, 1)),
    "transposed": (lambda x: x.transpose(0, 2), 2, (1, 4, 24, 12)),
    "transposed, at the end": (lambda x: x.transpose(0, 2), 3, (1, 4, 12, 1)),
    "expanded": (lambda x: x[:1, 0, 0].expand(5, 1), 1, (0, 12, 12)),
    "a number": (lambda x: x[0, 0, 0], 0, (1,)),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("part, dim, strides", UNSQUEEZED.values(), ids=UNSQUEEZED)
def test_strides_of_unsqueeze(torch, part, dim, strides, dtype):
    x = part(torch.arange(24, dtype=getattr(torch, dtype)).reshape(2, 3, 4))
    y = x.unsqueeze(dim)
    assert y.stride() == strides and y.squeeze(dim).tolist() == x.tolist()
    y.zero_()
    assert not x.any()


def test_ends_of_spaces_are_converted_to_the_dtype_first(torch):
    assert torch.logspace(4.3, -3, 2, dtype=torch.bfloat16)[0].item() == 20480  # of 4.3125
    assert torch.logspace(4.3, -3, 2, dtype=torch.int32)[0].item() == 10**4
    for space in (torch.linspace, torch.logspace):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
            space(300.5, 1, 2, dtype=torch.int8)


def test_a_space_of_one_number_is_converted_at_the_end(torch):
    assert torch.logspace(4.3, -3, 1, dtype=torch.bfloat16).item() == 19968
    assert torch.logspace(4.3, -3, 1, dtype=torch.int32).item() == 19952
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
        torch.logspace(4.3, -3, 1, dtype=torch.int8)
    assert torch.linspace(300.5, 1, 0, dtype=torch.int8).shape == (0,)


def test_norms_of_high_order_have_gradients_in_half_precision(torch):
    x = torch.tensor([8.0, 4.0], dtype=torch.float16, requires_grad=True)  # 8 ** 6 is infinite
    norm = torch.linalg.vector_norm(x.float(), 6).half()
    torch.linalg.vector_norm(x, 6).backward(norm / norm)
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3, 0)])
def test_the_mean_loss_of_no_distributions_is_nan(torch, shape):
    logits = torch.ones(shape)
    assert torch.nn.functional.cross_entropy(logits, logits).isnan()
    assert torch.nn.functional.cross_entropy(logits, logits, reduction="sum") == 0
