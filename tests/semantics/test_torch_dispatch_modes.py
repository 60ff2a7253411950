"""Dispatch modes: every operator within `with mode:` is answered by its `__torch_dispatch__`, below autograd."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.waiting import in_threads


@pytest.fixture
def dispatch(torch):
    return import_module(f"{torch.__name__}.utils._python_dispatch")


@pytest.fixture
def Log(torch, dispatch):
    class Log(dispatch.TorchDispatchMode):
        def __init__(self, log=None, name=""):
            super().__init__()
            self.log, self.name = [] if log is None else log, name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.log.append(f"{self.name}{func}")
            return func(*args, **(kwargs or {}))

    return Log


def log_of(Log, function):
    with Log() as mode:
        function()
    return mode.log


ONE_OPERATOR = {
    "aten.add.Tensor": lambda t, x: x + x,
    "aten.mul.Tensor": lambda t, x: x * 2.5,
    "aten.sub.Tensor": lambda t, x: x - 1,
    "aten.rsub.Scalar": lambda t, x: 1 - x,
    "aten.div.Tensor": lambda t, x: x / 2,
    "aten.neg.default": lambda t, x: -x,
    "aten.pow.Tensor_Scalar": lambda t, x: x**2,
    "aten.pow.Scalar": lambda t, x: 2**x,
    "aten.mm.default": lambda t, x: x @ x,
    "aten.relu.default": lambda t, x: t.nn.functional.relu(x),
    "aten.view.default": lambda t, x: x.reshape(4),
    "aten.sum.default": lambda t, x: x.sum(),
    "aten.sum.dim_IntList": lambda t, x: x.sum(0),
    "aten.mean.dim": lambda t, x: x.mean(1),
    "aten.detach.default": lambda t, x: x.detach(),
    "aten.clone.default": lambda t, x: x.clone(),
    "aten.zeros.default": lambda t, x: t.zeros(2),
    "aten.full.default": lambda t, x: t.full((2,), 3.0),
    "aten.empty.memory_format": lambda t, x: t.empty(2),
    "aten.arange.start_step": lambda t, x: t.arange(1, 5, 2),
    "aten.zeros_like.default": lambda t, x: t.zeros_like(x),
    "aten.new_zeros.default": lambda t, x: x.new_zeros(2),
    "aten.convolution.default": lambda t, x: t.conv2d(IMAGE[t.__name__], KERNEL[t.__name__]),
    "aten._softmax.default": lambda t, x: t.softmax(x, 1),
    "aten.t.default": lambda t, x: x.t(),
    "aten.transpose.int": lambda t, x: x.transpose(0, 1),
    "aten.permute.default": lambda t, x: x.permute(1, 0),
    "aten.unsqueeze.default": lambda t, x: x[None],
    "aten.select.int": lambda t, x: x[0],
    "aten.slice.Tensor": lambda t, x: x[:, 1:],
    "aten.cat.default": lambda t, x: t.cat([x, x]),
    "aten.gt.Scalar": lambda t, x: x > 0,
    "aten.eq.Tensor": lambda t, x: x == x,
    "aten.max.dim": lambda t, x: x.max(1),
    "aten.exp.default": lambda t, x: x.exp(),
    "aten._to_copy.default": lambda t, x: x.to(t.float64),
    "aten.std.correction": lambda t, x: x.std(),
    "aten.gelu.default": lambda t, x: t.nn.functional.gelu(x),
    "aten.split.Tensor": lambda t, x: x.chunk(2),
    "aten.lerp.Scalar": lambda t, x: x.lerp(x, 0.5),
    "aten._local_scalar_dense.default": lambda t, x: SCALAR[t.__name__].item(),
    "aten.lift_fresh.default": lambda t, x: t.tensor([1.0]),
    "aten.equal.default": lambda t, x: t.equal(x, x),
    "aten.mse_loss.default": lambda t, x: t.nn.functional.mse_loss(x, x),
    "aten.stack.default": lambda t, x: t.stack([x]),
    "aten.native_layer_norm.default": lambda t, x: t.nn.functional.layer_norm(x, (2,)),
    "aten.cumsum.default": lambda t, x: x.cumsum(0),
    "aten.gather.default": lambda t, x: x.gather(1, INDEX[t.__name__]),
}
IMAGE, KERNEL, SCALAR, INDEX = {}, {}, {}, {}


@pytest.mark.parametrize("name", ONE_OPERATOR)
def test_a_mode_sees_operators_by_their_names(torch, Log, name):
    IMAGE[torch.__name__], KERNEL[torch.__name__] = torch.ones(1, 2, 4, 4), torch.ones(3, 2, 2, 2)
    SCALAR[torch.__name__], INDEX[torch.__name__] = torch.ones(()), torch.zeros(2, 1, dtype=torch.int64)
    x = torch.ones(2, 2)
    assert log_of(Log, lambda: ONE_OPERATOR[name](torch, x)) == [name]


def test_a_mode_sees_what_composites_are_made_of(torch, Log):
    x, w, b, i = torch.ones(2, 3), torch.ones(4, 3), torch.ones(4), torch.tensor([1, 0])
    F = torch.nn.functional
    assert log_of(Log, lambda: F.linear(x, w)) == ["aten.t.default", "aten.mm.default"]
    assert log_of(Log, lambda: F.linear(x, w, b)) == ["aten.t.default", "aten.addmm.default"]
    assert log_of(Log, lambda: F.cross_entropy(x, i)) == ["aten._log_softmax.default", "aten.nll_loss_forward.default"]
    assert log_of(Log, lambda: F.l1_loss(x, x)) == ["aten.sub.Tensor", "aten.abs.default", "aten.mean.default"]
    assert log_of(Log, lambda: x.t().contiguous()) == ["aten.t.default", "aten.clone.default"]
    assert log_of(Log, lambda: x.contiguous()) == []


def test_arguments_are_as_the_schema_has_them_without_defaults(torch, dispatch):
    seen = []

    class See(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            shown = [a if not isinstance(a, torch.Tensor) else "T" for a in args]
            seen.append(
                (str(func), types, shown, {k: "T" if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()})
            )
            return func(*args, **kwargs)

    x, out = torch.ones(2, 3), torch.empty(2, 3)
    with See():
        x.sum(0, keepdim=True)
        x.sum(dim=(0, 1))
        torch.add(x, x, alpha=2)
        x + 2
        torch.gt(x, 0)
        torch.add(x, x, out=out)
        torch.zeros(2, dtype=torch.float64)
        x.var(0)
        x.view(-1)
    assert seen == [
        ("aten.sum.dim_IntList", (), ["T", [0], True], {}),
        ("aten.sum.dim_IntList", (), ["T", [0, 1]], {}),
        ("aten.add.Tensor", (), ["T", "T"], {"alpha": 2}),
        ("aten.add.Tensor", (), ["T", 2], {}),
        ("aten.gt.Scalar", (), ["T", 0], {}),
        ("aten.add.out", (), ["T", "T"], {"out": "T"}),
        ("aten.zeros.default", (), [[2]], {"dtype": torch.float64, "device": torch.device("cpu"), "pin_memory": False}),
        ("aten.var.correction", (), ["T", [0]], {"correction": 1}),
        ("aten.view.default", (), ["T", [-1]], {}),
    ]


def test_what_a_mode_returns_is_the_result(torch, dispatch):
    class Negate(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.add.Tensor:
                func = torch.ops.aten.sub.Tensor
            return func(*args, **(kwargs or {}))

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with Negate():
        y = x + 10
    assert y.tolist() == [-9, -8] and y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_history_is_recorded_above_the_mode(torch, Log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    seen = []

    class See(Log):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = super().__torch_dispatch__(func, types, args, kwargs)
            seen.append(found.requires_grad)
            return found

    with See() as mode:
        y = (x * x).sum()
    assert y.grad_fn.name() == "SumBackward0" and seen == [False, False]
    y.backward()
    assert x.grad.tolist() == [2, 4] and mode.log == ["aten.mul.Tensor", "aten.sum.default"]


def test_a_backward_pass_within_a_mode_is_seen(torch, Log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    found = log_of(Log, y.backward)
    assert found[:4] == ["aten.ones_like.default", "aten.expand.default", "aten.mul.Tensor", "aten.mul.Tensor"]
    assert x.grad.tolist() == [2, 4]


def test_modes_nest_and_the_innermost_is_asked_first(torch, Log):
    log = []
    x = torch.ones(2)
    with Log(log, "outer "), Log(log, "inner "):
        x + x
    assert log == ["inner aten.add.Tensor", "outer aten.add.Tensor"]
    log.clear()
    x + x
    assert log == []


def test_a_mode_does_not_see_its_own_calls_but_outer_modes_do(torch, dispatch, Log):
    log = []

    class Twice(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return torch.mul(func(*args, **(kwargs or {})), 2)

    x = torch.ones(2)
    with Log(log), Twice():
        y = x + x
    assert y.tolist() == [4, 4] and log == ["aten.add.Tensor", "aten.mul.Tensor"]


def test_a_mode_may_be_entered_again_and_left_by_an_exception(torch, Log):
    mode, x = Log(), torch.ones(2)
    with mode, mode:
        x + x
    assert mode.log == ["aten.add.Tensor"] * 2
    with pytest.raises(ValueError), mode:
        raise ValueError
    mode.log.clear()
    x + x
    assert mode.log == []


def test_writes_count_as_one_version(torch, Log):
    x = torch.ones(3)
    view = x[1:]
    with Log():
        x.add_(1)
        torch.mul(x, 2, out=x)
    assert x.tolist() == [4, 4, 4] and x._version == view._version == 2


def test_in_place_and_views_keep_their_history(torch, Log):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with Log() as mode:
        y = x * 1
        y[1:].mul_(5)
    assert y.grad_fn.name() == "torch::autograd::CopySlices" and y[1:]._is_view()
    y.sum().backward()
    assert x.grad.tolist() == [1, 5, 5] and "aten.mul_.Tensor" in mode.log


def test_factories_make_leaves(torch, Log):
    with Log():
        x = torch.randn(2, requires_grad=True)
    assert x.is_leaf and x.requires_grad


def test_forward_mode_goes_through_a_mode(torch, Log):
    fwad = torch.autograd.forward_ad
    with fwad.dual_level(), Log():
        y = fwad.make_dual(torch.tensor([3.0]), torch.tensor([1.0])) ** 2
        assert fwad.unpack_dual(y).tangent.tolist() == [6]


def test_mistakes_of_modes_are_refused(torch, dispatch):
    x = torch.ones(2)

    class Silent(dispatch.TorchDispatchMode):
        pass

    with pytest.raises(NotImplementedError), Silent():
        x + x

    class OfTheClass(dispatch.TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **kwargs)

    with pytest.raises(RuntimeError, match="classmethod is not supported, please make it a plain method"), OfTheClass():
        x + x

    class Wrong(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return "no tensor"

    with pytest.raises(RuntimeError, match="Unable to cast"), Wrong():
        x + x

    class Declines(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"), Declines():
        torch.add(x, x)


def test_dispatch_can_be_switched_off(torch, Log):
    x = torch.ones(2)
    no_dispatch = import_module(f"{torch.__name__}.utils._mode_utils").no_dispatch
    with Log() as mode:
        with torch._C._DisableTorchDispatch():
            x + x
        with no_dispatch():
            x * x
        x - x
    assert mode.log == ["aten.sub.Tensor"]


def test_modes_can_be_asked_for_and_left(torch, dispatch, Log):
    assert dispatch._get_current_dispatch_mode() is None and not dispatch.is_in_torch_dispatch_mode()
    with Log() as mode:
        assert dispatch._get_current_dispatch_mode() is mode and dispatch.is_in_torch_dispatch_mode()
        with dispatch._disable_current_modes():
            torch.ones(2)
        assert mode.log == []
    assert dispatch._get_current_dispatch_mode() is None


def test_custom_operators_are_seen_whole_and_answered_by_rules(torch, Log):
    def double(x):
        return x * 2

    double.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op("modes_of_tests::double", double, mutates_args=())
    op.register_autograd(lambda ctx, grad: grad * 2)
    x = torch.ones(2, requires_grad=True)
    with Log() as mode:
        y = op(x)
    assert mode.log[0] == "modes_of_tests.double.default" and y.tolist() == [2, 2]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]

    class Ruled(Log):
        pass

    op.register_torch_dispatch(Ruled, lambda mode, func, types, args, kwargs: torch.zeros(2))
    with Ruled():
        assert op(x).tolist() == [0, 0]


def test_another_thread_has_no_modes(torch, Log):
    with Log() as mode:
        in_threads(lambda: torch.ones(2) + 1)
    assert mode.log == []
