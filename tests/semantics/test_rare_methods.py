"""Methods that few programs call: element by element in Python, exchange with other libraries, replay of a view."""

import numpy as np
import pytest


def test_apply_replaces_elements_by_what_a_function_of_them_gives(torch):
    x = torch.arange(4.0).view(2, 2)
    y = x.t()
    assert y.apply_(lambda v: v * 10) is y
    assert x.tolist() == [[0.0, 10.0], [20.0, 30.0]] and x._version == 0
    assert torch.tensor([1, 2]).apply_(lambda v: v + 1.7).tolist() == [2, 3]


def test_map_takes_the_elements_of_other_tensors_in_turn(torch):
    x = torch.ones(2, 2)
    assert x.map_(torch.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [[2.0, 3.0], [2.0, 3.0]]
    assert x.map2_(x, torch.ones(2, 2), lambda a, b, c: a + b + c).tolist() == [[5.0, 7.0], [5.0, 7.0]]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda torch, x: x.map_(3, max), TypeError),
        (lambda torch, x: x.map_(torch.ones(3), max), RuntimeError),
        (lambda torch, x: x.map_(torch.ones(2, dtype=torch.float64), max), TypeError),
        (lambda torch, x: x.apply_(3), TypeError),
        (lambda torch, x: x.requires_grad_().apply_(abs), RuntimeError),
        (lambda torch, x: x.map_(torch.ones(2, requires_grad=True), max), RuntimeError),
    ],
)
def test_what_apply_and_map_refuse(torch, call, error):
    with pytest.raises(error):
        call(torch, torch.ones(2))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3)[:, ::2],
        np.arange(6).reshape(2, 3).T,
        np.array([True, False]),
        np.array([1 + 2j]),
        np.broadcast_to(np.float32(3), (2, 2)),
        np.empty((0, 2), np.int8),
        np.array(7, np.uint16),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays_go_through_dlpack_and_back(torch, array):
    x = torch.from_dlpack(array)
    assert str(x.dtype) == f"torch.{array.dtype}" and x.tolist() == array.tolist()
    assert x.numel() < 2 or x.stride() == tuple(step // array.itemsize for step in array.strides)
    back = np.from_dlpack(x)
    assert back.dtype == array.dtype and back.tolist() == array.tolist()
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr() or not x.numel()
    assert torch.equal(torch.from_dlpack(x, device="cpu", copy=False), x)


def test_bfloat16_goes_through_dlpack(torch):
    x = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    y = torch.from_dlpack(x)
    assert y.dtype == torch.bfloat16 and y.data_ptr() == x.data_ptr()
    with pytest.raises((BufferError, RuntimeError), match="dtype"):
        np.from_dlpack(x)


def test_none_stands_for_an_empty_list(torch):
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert torch.amax(x, None).item() == 23 and x.amin(dim=None, keepdim=True).shape == (1, 1, 1)
    assert torch.roll(x, 1, dims=None).flatten()[:2].tolist() == [23, 0]
    assert torch.max_pool2d(x, 2, None).shape == torch.nn.functional.avg_pool2d(x, 2, None).shape == (2, 1, 2)
    with pytest.raises(TypeError, match="must be tuple of ints, not NoneType"):
        torch.flip(x, None)
    with pytest.raises((TypeError, RuntimeError)):
        torch.ops.aten.amax(x, None)


def test_signs_of_zeros_in_complex_reciprocals(torch):
    x = torch.tensor([complex(0, -1), complex(-0.0, 1), complex(1, 0), complex(-1, -0.0), complex(-0.0, 0)])
    y = torch.reciprocal(x)
    assert torch.signbit(y.real).tolist()[:4] == [True, False, False, True] and y[4].real == float("inf")
    assert torch.signbit(y.imag).tolist()[:4] == [False, True, False, True]


def test_memory_is_exchanged_by_dlpack(torch):
    x = torch.ones(2, 3)
    array = np.from_dlpack(x)
    array[0, 0] = 5 if array.flags.writeable else array[0, 0]
    assert x.__dlpack_device__()[0] == 1 and array.tolist() == x.tolist()
    y = torch.from_dlpack(np.arange(3.0))
    assert y.dtype is torch.float64 and y.tolist() == [0.0, 1.0, 2.0]
    assert torch.utils.dlpack.from_dlpack(x).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        x.requires_grad_().__dlpack__()
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        torch.from_dlpack(3)


def test_a_view_is_replayed_on_another_base(torch):
    base = torch.arange(6.0)
    view = base.view(2, 3)[1]
    other = torch.full((6,), 7.0, requires_grad=True)
    again = view._view_func(other)
    assert again.tolist() == [7.0] * 3
    again.sum().backward()
    assert other.grad.tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert base._view_func(other) is None


def test_the_order_of_dimensions_in_memory(torch):
    assert torch.ones(2, 3).dim_order() == (0, 1) and torch.ones(2, 3).t().dim_order() == (1, 0)
    assert torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).dim_order() == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        torch.ones(2, 1).dim_order(ambiguity_check=True)


def test_what_a_dense_tensor_on_the_cpu_says_of_itself(torch):
    x = torch.ones(2, 3)
    assert x.dense_dim() == 2 and x.sparse_dim() == 0 and x.to_dense() is x
    assert not (x.is_shared() or x.is_pinned() or x.is_distributed())
    assert not (x.is_sparse_csr or x.is_xla or x.is_ipu or x.is_maia or x.is_mtia)
    assert x.const_data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available|NVIDIA"):
        x.pin_memory()


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("size", [0, 2])
def test_only_one_element_becomes_a_number(torch, convert, size):
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        convert(torch.ones(size))
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(size).item()


@pytest.mark.since("2.15")
def test_a_gamma_distribution_draws_from_a_generator(torch):
    gamma = torch.distributions.Gamma(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 3.0]))
    draws = [draw((3,), generator=torch.Generator().manual_seed(7)) for draw in (gamma.sample, gamma.rsample)]
    torch.manual_seed(7)
    assert torch.equal(draws[0], draws[1]) and torch.equal(draws[0], gamma.sample((3,)))
