"""Names and classes of nn: when they are imported, and methods of modules that follow from their fields (Note [Fields
of modules] in gradloom.nn.modules._fields).
"""

import inspect
import pickle
import subprocess
import sys
import typing

import pytest

import gradloom as torch
from gradloom import nn
from gradloom.nn import functional as F
from tests.waiting import LIMIT


def test_importing_gradloom_imports_neither():
    program = """
import sys
import gradloom
assert not [name for name in sys.modules if name.startswith(("gradloom.nn", "gradloom.optim"))]
assert gradloom.nn.Linear and gradloom.optim.SGD
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def test_every_exported_name_exists():
    from gradloom import nn, optim

    for module in (nn, nn.modules, nn.init, nn.utils, optim, optim.lr_scheduler):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"


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


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (nn.Softplus, "F.softplus(input, self.beta, self.threshold)"),
        (nn.GELU, "F.gelu(input, approximate=self.approximate)"),
        (nn.Dropout, "F.dropout(input, self.p, self.training, self.inplace)"),
        (
            nn.NLLLoss,
            "F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)",
        ),
        (nn.MaxUnpool2d, "F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)"),
    ],
)
def test_forward_is_as_if_written(module, call):
    assert inspect.getsource(module.forward).endswith(f"return {call}\n")
    assert typing.get_type_hints(module.forward)["input"] is torch.Tensor


def test_forward_calls_what_stands_in_functional_at_that_moment(monkeypatch):
    module, given = nn.Hardshrink(0.25), []
    monkeypatch.setattr(F, "hardshrink", lambda *args: given.append(args))
    assert module(torch.ones(1)) is None and given[0][1] == 0.25


def test_forward_can_be_extended_and_compiled():
    class Twice(nn.ELU):
        def forward(self, input):
            return super().forward(super().forward(input))

    x = torch.tensor([-1.0, 2.0])
    expected = F.elu(F.elu(x, 0.5), 0.5)
    assert torch.equal(Twice(0.5)(x), expected)
    assert torch.equal(torch.compile(Twice(0.5), fullgraph=True)(x), expected)


def test_an_error_in_forward_shows_the_call():
    with pytest.raises(IndexError) as caught:
        nn.GLU(3)(torch.ones(2))
    assert any("F.glu(input, self.dim)" in str(entry.statement) for entry in caught.traceback)
