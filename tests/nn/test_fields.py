"""Constructors of modules that follow from their fields (Note [Fields of modules] in gradloom.nn.modules._fields)."""

import inspect
import pickle
import typing

import pytest

import gradloom as torch
from gradloom import nn


def test_a_constructor_is_as_if_written():
    made = nn.MultiMarginLoss.__init__
    assert list(inspect.signature(made).parameters)[1:4] == ["p", "margin", "weight"]
    assert made.__qualname__ == "MultiMarginLoss.__init__" and made.__module__ == "gradloom.nn.modules.loss"
    assert "super(MultiMarginLoss, self).__init__(weight=weight" in inspect.getsource(made)
    assert typing.get_type_hints(made)["reduce"] == bool | None
    assert nn.MultiMarginLoss.__init__ is made


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Threshold(1.0), "Threshold.__init__.. missing 1 required positional argument: 'value'"),
        (lambda: nn.Softplus(gamma=1), "Softplus.__init__.. got an unexpected keyword argument 'gamma'"),
        (lambda: nn.GaussianNLLLoss(True), "takes 1 positional argument but 2 were given"),
    ],
)
def test_wrong_arguments_are_refused_as_python_does(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_defaults_are_no_attributes_of_the_class():
    assert not hasattr(nn.Softplus, "beta")
    module = nn.Softplus()
    del module.beta
    with pytest.raises(AttributeError, match="'Softplus' object has no attribute 'beta'"):
        _ = module.beta


def test_subclasses_are_ordinary_classes():
    class Sharper(nn.Softplus):
        note: str = "an attribute, not an argument"

        def __init__(self, factor: float) -> None:
            super().__init__(beta=factor, threshold=5.0)
            self.factor = factor

    module = Sharper(2.0)
    assert (module.beta, module.threshold, module.factor, module.note) == (2.0, 5.0, 2.0, Sharper.note)
    assert repr(module) == "Sharper(beta=2.0, threshold=5.0)"
    assert list(inspect.signature(Sharper).parameters) == ["factor"]


def test_arguments_of_the_base_class_are_passed_on():
    class Note(nn.Module):
        def __init__(self, **kwargs):
            super().__init__()
            self.given = kwargs

    class Both(nn.NLLLoss, Note):
        pass

    weight = torch.ones(3)
    module = nn.NLLLoss(weight, ignore_index=1, reduction="sum")
    assert module.weight is weight and list(module.state_dict()) == ["weight"] and module.reduction == "sum"
    assert set(module.__constants__) == {"ignore_index", "reduction"}
    assert Both(ignore_index=2).given == {} and not hasattr(module, "size_average")


def test_modules_of_fields_are_pickled_by_name():
    module = pickle.loads(pickle.dumps(nn.CELU(0.5, inplace=True)))
    assert repr(module) == "CELU(alpha=0.5, inplace=True)"
