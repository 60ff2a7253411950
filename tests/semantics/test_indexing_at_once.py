"""Indices of numbers and slices: one view for a tensor without history, one node for each step where it is recorded."""

from __future__ import annotations

import itertools

import pytest

PARTS = (
    0,
    -1,
    1,
    slice(None),
    slice(1, None),
    slice(-2, None),
    slice(0, 2),
    slice(5, 9),
    slice(None, -1),
    slice(0, 3, 2),
)


def test_views_of_plain_and_recorded_tensors_are_the_same(torch):
    plain = torch.arange(24.0).reshape(2, 3, 4).clone()
    recorded = plain.clone().requires_grad_()
    for index in itertools.chain(*(itertools.product(PARTS, repeat=n) for n in (1, 2, 3))):
        a, b = plain[index], recorded[index]
        assert a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset(), index
        assert a.tolist() == b.tolist() and a._base is plain and b._base is recorded, index
        part = plain.permute(2, 0, 1)[index]
        assert part.stride() == recorded.permute(2, 0, 1)[index].stride() and part._base is plain, index


def test_what_is_out_of_range_is_refused_in_the_same_words(torch):
    x = torch.zeros(2, 3)
    for index in ((2, 0), (0, 3), (0, -4)):
        with pytest.raises(IndexError, match="is out of bounds for dimension"):
            x[index]
        with pytest.raises(IndexError, match="is out of bounds for dimension"):
            x[index] = 1.0
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0] = 1
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[0, ::-1]
    assert x._version == 0


def test_numbers_are_written_as_the_dtype_has_them(torch):
    for dtype, value, expected in (
        (torch.float32, 0.1, torch.tensor(0.1).item()),
        (torch.int64, 2.9, 2),
        (torch.bool, 3, True),
        (torch.uint8, 255, 255),
        (torch.complex64, 2j, 2j),
        (torch.float64, 7, 7.0),
    ):
        x = torch.zeros(2, 3, dtype=dtype)
        x[1] = value
        x[0, 1] = value
        x[0, -1:] = value
        assert x.tolist() == [[0, expected, expected], [expected] * 3] and x._version == 3, dtype


def test_a_write_of_one_number_counts_as_one_and_reaches_views(torch):
    x = torch.zeros(2, 3)
    row = x[1]
    x[1, 2] = 5.0
    assert row.tolist() == [0.0, 0.0, 5.0] and row._version == x._version == 1
    row[0] = torch.tensor(4.0)
    assert x[1, 0].item() == 4.0 and x._version == 2


def test_a_write_to_a_saved_tensor_is_found(torch):
    w, x = torch.ones(2, requires_grad=True), torch.ones(2)
    y = w * x
    x.view(1, 2)[0, 0] = 2.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.since("2.15")
def test_numbers_beyond_half_precision_are_infinite_in_one_element_and_refused_in_several(torch):
    for dtype, number in ((torch.float16, 1e6), (torch.bfloat16, 1e39)):
        x = torch.zeros(2, 3, dtype=dtype)
        x[0, 1] = number
        x[1, -1:] = -number
        assert x.tolist() == [[0, float("inf"), 0], [0, 0, float("-inf")]]
        for index in (1, slice(None), ..., None, True, [0], x == 0, (slice(None), 1), (1, [0])):
            with pytest.raises(RuntimeError, match="value cannot be converted to type c10::B?.* without overflow"):
                x[index] = number


@pytest.mark.since("2.15")
def test_numbers_are_written_where_elements_share_memory_and_tensors_are_not(torch):
    x = torch.zeros(1, 3).expand(2, 3)
    x[:, 0] = 1.0
    x[..., 2] = 2
    assert x.tolist() == [[1, 0, 2]] * 2
    with pytest.raises(RuntimeError, match="unsupported operation"):
        x[:, 0] = torch.tensor(1.0)


@pytest.mark.since("2.15")
def test_a_number_is_written_by_the_operators_that_fill(torch):
    rows, mask = torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, False])
    for index, node in (
        (..., "FillBackward2"),
        ([0], "IndexFillBackward0"),
        ((slice(None), rows), "IndexFillBackward0"),
        (mask, "MaskedFillBackward0"),
        (torch.ones(2, 3) > 0, "MaskedFillBackward0"),
        (([0, 1], [1, 2]), "IndexPutBackward0"),
        (rows.int(), "IndexPutBackward0"),
    ):
        x = torch.ones(2, 3, requires_grad=True)
        y = x * 1
        y[index] = 5.0
        written = torch.zeros(2, 3)
        written[index] = torch.ones(1)
        assert (y.grad_fn.name(), y._version) == (node, 1)
        assert torch.equal(y, torch.where(written > 0, 5.0, 1.0))
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], 1 - written)


def test_inference_tensors_may_not_be_written_outside(torch):
    with torch.inference_mode():
        x = torch.zeros(3)
        x[0] = 1.0
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        x[1] = 1.0


def test_views_made_without_grad_mode_remember_it(torch):
    leaf = torch.zeros(2, 2)
    with torch.no_grad():
        view = leaf[0, :]
    leaf.requires_grad_()
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.mul_(2)


def test_written_values_that_require_grad_are_recorded(torch):
    x, v = torch.zeros(2, 2), torch.tensor(3.0, requires_grad=True)
    x[0, 1] = v
    assert x.requires_grad
    (x * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert v.grad.item() == 2.0


def test_tangents_go_with_values(torch):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        x = torch.zeros(2, 2)
        x[0, 1] = forward.make_dual(torch.tensor(3.0), torch.tensor(1.0))
        assert forward.unpack_dual(x).tangent.tolist() == [[0.0, 1.0], [0.0, 0.0]]
        assert forward.unpack_dual(x[0, 1]).tangent.item() == 1.0
