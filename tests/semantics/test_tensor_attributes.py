"""Attributes that programs give to tensors, and their `__dict__`; shapes of what counts as an integer."""

from __future__ import annotations

import copy

import pytest


def test_dict_has_what_the_program_set(torch):
    x = torch.ones(2, requires_grad=True)
    y = (x * 2)[:1]
    y.retain_grad()
    y.sum().backward()
    assert x.__dict__ == {} and vars(y) == {}
    y.tag = 1
    y.__dict__["other"] = 2
    assert vars(y) == {"tag": 1, "other": 2} and y.other == 2
    vars(y).update(more=3)
    del vars(y)["tag"]
    assert vars(y) == {"other": 2, "more": 3} and not hasattr(y, "tag")
    assert vars(y).pop("more") == 3 and vars(y).setdefault("last", 4) == 4 and y.last == 4
    vars(y).clear()
    assert vars(y) == {} and y.grad.tolist() == [1.0] and y.grad_fn is not None
    assert type(copy.deepcopy(vars(y))) is dict


def test_dict_may_be_replaced(torch):
    x = torch.ones(2, requires_grad=True)
    y = x.view(2)
    y.tag = 1
    y.__dict__ = {"label": "a"}
    assert vars(y) == {"label": "a"} and y.grad_fn is not None and y._is_view()
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    for tensor in (y, torch.ones(2)):  # with fields of its own in the dictionary, and without
        tensor.label = "a"
        tensor.__dict__ |= {"more": 1}
        tensor.__dict__ = tensor.__dict__
        assert vars(tensor) == {"label": "a", "more": 1}


def test_a_class_before_tensor_may_copy_dictionaries_between_tensors(torch):
    class Meta:
        pass

    class Tagged(Meta, torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs)
            if isinstance(result, Tagged):
                result.__dict__ = dict(args[0].__dict__)
            return result

    weight = torch.ones(3, requires_grad=True)
    x = torch.ones(2, 3).as_subclass(Tagged)
    x.tag = "a"
    y = x * weight
    assert y.tag == "a" and set(vars(y)) == {"tag"} and y.requires_grad and y.grad_fn is not None
    z = y[:1]
    z.retain_grad()
    z.sum().backward()
    assert weight.grad.tolist() == [1.0] * 3 and z.grad.shape == (1, 3) and not hasattr(vars(z), "_grad")


def test_sizes_are_integers(torch):
    for one in (torch.tensor(3), torch.tensor([3]), 3):
        size = torch.Size([one, 2])
        assert size == (3, 2) and type(size[0]) is int
    assert torch.Size([1]) + (torch.tensor(2),) == (1, 2) and (torch.tensor(2),) + torch.Size([1]) == (2, 1)
    assert type(torch.Size([True])[0]) is int
    for wrong in (["a"], [1, 1.5], [None], [torch.tensor(1.5)], [torch.tensor([1, 2])]):
        with pytest.raises(TypeError, match=rf"takes an iterable of 'int' \(item {len(wrong) - 1} is "):
            torch.Size(wrong)
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not .*\) to torch.Size"):
        torch.Size([1]) + [2]


def test_handlers_receive_the_operands_of_einsum_one_by_one(torch):
    calls = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append((func, len(args)))
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2, 2).as_subclass(Watched)
    torch.einsum("ij,jk->ik", (x, x))
    torch.einsum("ij,jk->ik", x, x)
    assert [call for call in calls if call[0] is torch.einsum] == [(torch.einsum, 3)] * 2


def test_a_dictionary_that_is_held_gets_no_fields_from_later_operations(torch):
    """accelerate makes a parameter of the meta device from what the old one's dictionary holds."""
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.tag = 3
    held = parameter.__dict__
    result = parameter * 2
    result.sum().backward()
    assert dict(**held) == {"tag": 3}
    held["mark"] = 4
    assert parameter.mark == 4
