"""Which tensors are inference tensors: all that come to be in inference mode, by whatever way."""

import copy
import io
import pickle

import numpy as np
import pytest


def saved_and_loaded(torch, value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


MADE = {
    "from_numpy": lambda torch, old: torch.from_numpy(np.ones(2)),
    "an array read": lambda torch, old: torch.from_numpy(old.numpy()),
    "as_tensor of an array": lambda torch, old: torch.as_tensor(np.ones(2)),
    "as_tensor of a list": lambda torch, old: torch.as_tensor([1.0]),
    "asarray": lambda torch, old: torch.asarray([1.0]),
    "from_dlpack": lambda torch, old: torch.from_dlpack(old),
    "Tensor of a list": lambda torch, old: torch.Tensor([1.0]),
    "Tensor of sizes": lambda torch, old: torch.Tensor(2),
    "FloatTensor": lambda torch, old: torch.FloatTensor([1.0]),
    "new": lambda torch, old: old.new([1.0]),
    "copy": lambda torch, old: copy.copy(old),
    "deepcopy": lambda torch, old: copy.deepcopy(old),
    "pickle": lambda torch, old: pickle.loads(pickle.dumps(old)),
    "save and load": saved_and_loaded,
    "parameter of a new module": lambda torch, old: torch.nn.Linear(2, 2).weight,
    "parameter of a new tensor": lambda torch, old: torch.nn.Parameter(torch.ones(2)),
}


@pytest.mark.parametrize("way", MADE)
def test_a_tensor_made_in_inference_mode_is_an_inference_tensor(torch, way):
    old = torch.ones(2)
    with torch.inference_mode():
        made = MADE[way](torch, old)
    assert made.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        made.view(-1).zero_()


@pytest.mark.parametrize("way", MADE)
def test_the_same_outside_of_inference_mode_is_none(torch, way):
    with torch.inference_mode():
        old = torch.ones(2)
    assert not MADE[way](torch, torch.ones(2)).is_inference()
    if way in ("copy", "deepcopy", "pickle", "save and load"):
        assert not MADE[way](torch, old).is_inference()


def test_what_shares_the_memory_of_a_tensor_is_what_that_is(torch):
    old = torch.ones(2)
    with torch.inference_mode():
        new = torch.ones(2)
        assert not torch.nn.Parameter(old).is_inference() and not old.data.is_inference()
        assert not torch.as_tensor(old).is_inference()
        assert torch.nn.Parameter(new).is_inference() and new.data.is_inference()
    assert torch.nn.Parameter(new, requires_grad=False).is_inference()


def test_an_inference_tensor_cannot_become_a_parameter_that_requires_grad(torch):
    with torch.inference_mode():
        values = torch.ones(2)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        torch.nn.Parameter(values)


def test_a_module_made_in_inference_mode_can_be_run_but_not_loaded(torch):
    with torch.inference_mode():
        module = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        module(torch.ones(1, 2, requires_grad=True))
    with torch.no_grad():
        assert not module(torch.ones(1, 2)).requires_grad
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        module.load_state_dict(torch.nn.Linear(2, 2).state_dict())


def test_no_graph_of_a_backward_pass_is_recorded_in_inference_mode(torch):
    a = torch.ones(2, requires_grad=True)
    y = (a * a).sum()
    with torch.inference_mode():
        (found,) = torch.autograd.grad(y, a, create_graph=True)
    assert found.tolist() == [2.0, 2.0] and not found.requires_grad and found.is_inference()


def test_is_inference_takes_a_tensor(torch):
    with pytest.raises(TypeError, match="is_inference.*must be Tensor, not int"):
        torch.is_inference(3)


@pytest.mark.parametrize("detached", [lambda t: t.detach(), lambda t: t.data])
def test_a_detached_inference_tensor_may_be_written_to_but_not_saved(torch, detached):
    with torch.inference_mode():
        a = torch.ones(2)
    b = detached(a)
    assert b.is_inference() and b._version == 0
    b.add_(1)
    b.mul_(3)
    assert a.tolist() == [6.0, 6.0] and b._version == 2 and detached(b)._version == 0
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        a._version  # noqa: B018
    for forbidden in (lambda: b.view(2).add_(1), lambda: a.add_(1)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            forbidden()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        torch.ones(2, requires_grad=True) * b
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        b.requires_grad_()


def test_one_detached_in_inference_mode_may_not_be_written_to_outside(torch):
    with torch.inference_mode():
        a = torch.ones(2)
        b, c = a.detach(), a.data
    for made in (b, c):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            made.add_(1)


def test_a_transform_may_multiply_with_an_inference_tensor(torch):
    with torch.inference_mode():
        factor = torch.tensor([2.0, 3.0])
    assert torch.func.grad(lambda x: (x * factor).sum())(torch.ones(2)).tolist() == [2.0, 3.0]


def test_whether_an_inference_tensor_requires_grad_is_said_in_inference_mode_only(torch):
    with torch.inference_mode():
        a = torch.ones(2).requires_grad_()
        assert a.requires_grad_() is a and a.requires_grad
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        a.requires_grad_()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        a.requires_grad = True
    assert not a.requires_grad_(False).requires_grad


@pytest.mark.parametrize("made_in", ["no_grad", "inference_mode", "enable_grad"])
def test_a_view_of_a_view_that_was_made_in_inference_mode_is_one_wherever_it_is_made(torch, made_in):
    base = torch.ones(4, requires_grad=True) * 1
    with torch.inference_mode():
        part = base[1:]
    with getattr(torch, made_in)():
        further = part[1:]
    with pytest.raises(RuntimeError, match="created in inference mode and is being modified inplace"):
        further.mul_(torch.ones(2, requires_grad=True))
