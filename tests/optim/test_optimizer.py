"""What the sessions cannot show: hooks of all optimizers, layouts and sizes, refusals of gradloom's own."""

import numpy as np
import pytest

import gradloom as gl
from gradloom import nn, optim
from gradloom.optim import optimizer as base


def parameter(values=(1.0, -2.0), **options):
    p = nn.Parameter(gl.tensor(values, **options))
    p.grad = gl.ones_like(p)
    return p


def test_an_optimizer_that_stands_for_another_has_no_hooks_of_its_own():
    class Wrapper(gl.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    parameter, steps = gl.nn.Parameter(gl.ones(1)), []
    parameter.grad = gl.ones(1)
    inner = gl.optim.SGD([parameter], lr=1.0)
    inner.register_step_post_hook(lambda *call: steps.append(parameter.item()))
    Wrapper(inner).step()
    assert steps == [0.0]


def test_global_step_hooks_run_outside_of_an_optimizers_own():
    seen = []
    o = optim.SGD([parameter()], lr=0.1)
    o.register_step_pre_hook(lambda *_: seen.append("pre"))
    o.register_step_post_hook(lambda *_: seen.append("post"))
    with (
        base.register_optimizer_step_pre_hook(lambda *_: seen.append("global pre")),
        base.register_optimizer_step_post_hook(lambda *_: seen.append("global post")),
    ):
        o.step()
    o.step()
    assert seen == ["global pre", "pre", "post", "global post", "pre", "post"]


def test_a_required_option_must_be_given():
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        base.Optimizer([parameter()], {"lr": base.required})
    given = base.Optimizer([{"params": parameter(), "lr": 3}], {"lr": base.required})
    assert given.param_groups[0]["lr"] == 3


def test_a_base_optimizer_has_no_step():
    with pytest.raises(NotImplementedError, match="does not define step"):
        optim.Optimizer([parameter()], {}).step()


KINDS = [
    ("SGD", {"momentum": 0.9, "lr": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True, "lr": 0.1}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Rprop", {}),
    ("ASGD", {}),
]


@pytest.mark.parametrize("kind, options", KINDS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "transposed gradient"])
def test_layout_and_size_make_no_difference(kind, options, layout, request):
    """Twelve elements move alike in one block, in several, and laid out in another order."""
    values = np.linspace(-1, 1, 12).reshape(3, 4)
    gradients = [np.cos(values * k) for k in range(1, 6)]

    def run(transpose_parameter=False, transpose_gradient=False):
        def tensor(array, transpose):
            return gl.from_numpy(array.T.copy().T if transpose else array.copy())

        p = nn.Parameter(tensor(values, transpose_parameter))
        o = getattr(optim, kind)([p], **options)
        for gradient in gradients:
            p.grad = tensor(gradient, transpose_gradient)
            o.step()
        return p.detach().numpy()

    expected = run()
    request.getfixturevalue("blocks_of_5")
    found = run(layout == "transposed", layout != "contiguous")
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_parameters_move(kind, dtype):
    p = parameter(dtype=getattr(gl, dtype))
    o = getattr(optim, kind)([p], lr=0.125)
    o.step()
    assert p.dtype is getattr(gl, dtype)
    # RMSprop's first step is ten times the rate: the running mean of g ** 2 has seen one hundredth of it.
    step = 1.25 if kind == "RMSprop" else 0.125
    assert p.float().tolist() == pytest.approx([1 - step, -2 - step], rel=1e-2)


def test_a_parameter_without_gradient_stays():
    p, still = parameter(), nn.Parameter(gl.tensor([5.0]))
    o = optim.Adam([p, still], lr=0.1)
    o.step()
    assert still.tolist() == [5.0] and still not in o.state and p in o.state
