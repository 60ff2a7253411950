"""Wrapper subclasses as parameters of optimizers, in files, and copied with what they carry."""

from __future__ import annotations

import copy
import io
from importlib import import_module

import pytest

_MADE: dict = {}


def _pair(torch):
    """A class of two tensors that go the same ways; at module level, where pickles find it."""
    if torch.__name__ in _MADE:
        return _MADE[torch.__name__]
    tree = import_module(f"{torch.__name__}.utils._pytree")

    class Pair(torch.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a, b):
            self.a, self.b = a, b

        def __repr__(self):
            return f"Pair({self.a}, {self.b})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            one, other = (
                func(*tree.tree_map_only(cls, part, args), **tree.tree_map_only(cls, part, kwargs))
                for part in (lambda t: t.a, lambda t: t.b)
            )
            if func._schema.name.endswith("_"):
                return args[0]
            return tree.tree_map(lambda a, b: cls(a, b) if isinstance(a, torch.Tensor) else a, one, other)

    Pair.__qualname__ = f"Pair_{torch.__name__}"
    globals()[Pair.__qualname__] = _MADE[torch.__name__] = Pair
    return Pair


_OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {"lr": 0.1, "amsgrad": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Rprop", {}),
    ("ASGD", {}),
    ("LBFGS", {"lr": 0.1}),
]


@pytest.mark.parametrize(("name", "options"), _OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_an_optimizer_moves_what_a_wrapper_subclass_wraps_as_it_moves_plain_parameters(torch, name, options):
    Pair = _pair(torch)
    values = torch.tensor([1.0, 0.5, 2.0]), torch.tensor([0.0, 1.5, 2.5])

    def trained(start):
        parameter = torch.nn.Parameter(start)
        optimizer = getattr(torch.optim, name)([parameter], **options)

        def closure():
            optimizer.zero_grad()
            loss = ((parameter - 1) * (parameter - 1) * parameter).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return parameter, optimizer.state[parameter]

    if name == "LBFGS":  # its sums would be of both halves: one state for two problems needs equal halves
        values = values[0], values[0].clone()
    both, state = trained(Pair(*[v.clone() for v in values]))
    for half, start in zip("ab", values, strict=True):
        plain, kept = trained(start.clone())
        assert not torch.equal(plain, start)
        assert torch.allclose(getattr(both, half), plain.detach(), rtol=1e-5, atol=1e-6)
        for key, value in kept.items():
            if isinstance(value, torch.Tensor) and value.shape == start.shape and name != "LBFGS":
                assert type(state[key]) is Pair
                assert torch.allclose(getattr(state[key], half), value, rtol=1e-5, atol=1e-6)


def _again(torch, value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def test_a_wrapper_subclass_is_saved_with_what_it_wraps(torch):
    Pair = _pair(torch)
    found = _again(torch, Pair(torch.ones(2, 3), torch.zeros(2, 3)), weights_only=False)
    assert type(found) is Pair and found.shape == (2, 3) and found.stride() == (3, 1) and found.layout == torch.strided
    assert torch.equal(found.a, torch.ones(2, 3)) and torch.equal(found.b, torch.zeros(2, 3))


def test_loading_weights_only_needs_the_class_to_be_allowed(torch):
    Pair = _pair(torch)
    pair = Pair(torch.ones(2), torch.zeros(2))
    with pytest.raises(Exception, match="Weights only load failed"):
        _again(torch, pair)
    with torch.serialization.safe_globals([Pair]):
        assert torch.equal(_again(torch, pair).b, torch.zeros(2))


def test_a_parameter_that_is_a_wrapper_subclass_is_one_in_the_file_and_in_copies(torch):
    Pair = _pair(torch)
    parameter = torch.nn.Parameter(Pair(torch.ones(2), torch.zeros(2)))
    parameter.note = ["kept"]
    for other in _again(torch, parameter, weights_only=False), copy.deepcopy(parameter):
        assert type(other) is Pair and isinstance(other, torch.nn.Parameter) and other.requires_grad
        assert other.note == ["kept"] and other.note is not parameter.note
        assert torch.equal(other.a, parameter.a) and other.a is not parameter.a


def test_a_state_dict_and_an_optimizers_state_with_wrapper_subclasses_come_back_from_a_file(torch):
    Pair = _pair(torch)
    model = torch.nn.Linear(2, 2, bias=False)
    model.weight = torch.nn.Parameter(Pair(torch.ones(2, 2), torch.zeros(2, 2)))
    optimizer = torch.optim.Adam(model.parameters())
    (model.weight * 2).sum().backward()
    optimizer.step()
    saved = _again(torch, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, weights_only=False)
    other = torch.nn.Linear(2, 2, bias=False)
    other.load_state_dict(saved["model"], assign=True)
    assert torch.equal(other.weight.a, model.weight.a) and torch.equal(other.weight.b, model.weight.b)
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(saved["optimizer"])
    assert torch.equal(again.state[other.weight]["exp_avg"].b, optimizer.state[model.weight]["exp_avg"].b)
