"""Saved variables: what nodes keep, the version check, and what is shown of it."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom.autograd import forward_ad
from gradloom.core import tangents
from gradloom.core.saved_variable import SavedOutput, SavedVariable


def leaf(*values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_a_saved_input_is_the_tensor_itself():
    x, w = leaf(1.0), leaf(2.0)
    node = (x * w).grad_fn
    assert node._saved_self is x and node._saved_other is w


def test_only_what_a_gradient_needs_is_saved():
    x, c = leaf(1.0), torch.tensor([2.0], dtype=torch.float64)
    node = (x * c).grad_fn
    assert node._saved_self is None and node._saved_other is c


def test_metadata_instead_of_the_tensor():
    node = leaf(1.0, 2.0).sum().grad_fn
    assert node._saved_self_sym_sizes == (2,)
    assert not hasattr(node, "_saved_self")


def test_a_number_shows_as_the_tensor_it_stands_for():
    found = (3 * leaf(1.0)).grad_fn._saved_other
    assert found.dtype is torch.int64 and found.item() == 3 and found.shape == ()


def test_a_write_is_noticed():
    x = leaf(1.0)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation: \[torch.DoubleTensor \[1\]\], which is "
        r"output 0 of .*, is at version 1; expected version 0 instead",
    ):
        z.sum().backward()


def test_a_write_through_a_view_is_noticed():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.view((2, 1)).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_write_before_saving_is_no_harm():
    x = leaf(1.0)
    y = x * 2
    y.add_(1)
    (y * y).sum().backward()
    assert x.grad.tolist() == [12.0]


def test_freed_variables_cannot_be_read():
    y = leaf(1.0) * leaf(2.0)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        _ = y.grad_fn._saved_self


def test_raw_saved_takes_hooks():
    x = leaf(3.0)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v, dtype=torch.float64) * 10)
    y.sum().backward()
    assert x.grad.tolist() == [33.0]


def test_a_new_output_is_kept_in_four_fields_until_hooks_come():
    y = leaf(1.0).exp()
    node = y.grad_fn
    assert type(node.saved_result) is SavedOutput and node._saved_result.grad_fn is node
    node._raw_saved_result.register_hooks(lambda t: t * 2, lambda t: t)
    assert type(node.saved_result) is SavedVariable and node._saved_result.item() == 2 * y.item()


def test_hooks_on_an_output_do_not_hide_that_it_was_written_to():
    y = leaf(1.0).exp()
    handle = y.grad_fn._raw_saved_result
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        _ = y.grad_fn._saved_result
    packed = []
    handle.register_hooks(packed.append, lambda _: torch.ones(1))
    assert packed[0].item() == y.item()


def test_an_output_that_was_written_in_place_is_kept_with_its_version():
    y = leaf(1.0) * 1
    y.add_(1)
    y.exp_()
    assert type(y.grad_fn.saved_result) is SavedVariable
    y.sum().backward()


def test_lists_of_inputs_save_shapes_and_dtypes():
    wide, plain = leaf(1.0, 2.0), torch.ones(3)
    node = torch.cat([wide, plain]).grad_fn
    assert node.next_functions[0][0].variable is wide and node.next_functions[1] == (None, 0)
    torch.cat([plain, wide, wide.detach()]).sum().backward()
    assert wide.grad.tolist() == [1, 1] and wide.grad.dtype is torch.float64
    assert torch.cat([plain, plain]).grad_fn is None


def test_unknown_names_are_attribute_errors():
    node = (leaf(1.0) * 2).grad_fn
    with pytest.raises(AttributeError, match="'MulBackward0' object has no attribute '_saved_nothing'"):
        _ = node._saved_nothing
    assert "_saved_other" in dir(node)


def test_tensors_that_are_gone_leave_nothing_behind_in_forward_mode():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        for _ in range(3000):
            x = x * 1.0
        assert len(tangents._holders) < 2000
        assert forward_ad.unpack_dual(x).tangent.tolist() == [1, 1]
