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
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        x.pin_memory()


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("size", [0, 2])
def test_only_one_element_becomes_a_number(torch, convert, size):
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        convert(torch.ones(size))
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(size).item()
