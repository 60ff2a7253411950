"""TorchFunctionMode: what a mode sees, how modes nest, and what is left when they are left."""

from __future__ import annotations

import pytest

from tests.waiting import in_threads


@pytest.fixture
def Logging(torch):
    """A mode that notes the functions it sees, and calls them."""

    class Logging(torch.overrides.TorchFunctionMode):
        def __init__(self, log=None, name=None):
            super().__init__()
            self.log, self.name = [] if log is None else log, name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.log.append(func if self.name is None else self.name)
            return func(*args, **(kwargs or {}))

    return Logging


# --- what is seen -------------------------------------------------------------------------------------------------


def test_a_mode_sees_calls_on_plain_tensors(torch, Logging):
    x = torch.ones(2)
    with Logging() as mode:
        torch.sum(x)
        x.clamp(0, 1)
        x + 1
        1 - x
        x[0]
        x.shape  # noqa: B018
        len(x)
    assert mode.log == [
        torch.sum,
        torch.Tensor.clamp,
        torch.Tensor.add,
        torch.Tensor.__rsub__,
        torch.Tensor.__getitem__,
        torch.Tensor.shape.__get__,
        torch.Tensor.__len__,
    ]
    torch.sum(x)
    assert len(mode.log) == 7


def test_a_mode_sees_factories(torch, Logging):
    calls = {
        torch.zeros: (2,),
        torch.ones: (2,),
        torch.rand: (2,),
        torch.randn: (2,),
        torch.arange: (3,),
        torch.eye: (2,),
        torch.full: ((2,), 1.0),
        torch.linspace: (0, 1, 2),
        torch.empty: (2,),
        torch.tensor: ([1.0],),
        torch.as_tensor: ([1.0],),
        torch.asarray: ([1.0],),
        torch.randint: (3, (2,)),
        torch.randperm: (3,),
        torch.tril_indices: (2, 2),
        torch.scalar_tensor: (1.0,),
    }
    with Logging() as mode:
        for function, args in calls.items():
            function(*args)
    assert mode.log == list(calls)


def test_a_mode_sees_functions_written_in_python_and_not_what_they_call(torch, Logging):
    x, F = torch.rand(2, 2), torch.nn.functional
    target = torch.tensor([0, 1])
    calls = {
        F.linear: (x, x),
        F.relu: (x,),
        F.cross_entropy: (x, target),
        F.softmax: (x, -1),
        torch.norm: (x,),
        F.layer_norm: (x, (2,)),
        torch.einsum: ("ij->i", x),
        torch.split: (x, 1),
        torch.tensordot: (x, x, 1),
        torch.cat: ([x, x],),
        torch.block_diag: (x, x),
        torch.result_type: (x, x),
    }
    with Logging() as mode:
        for function, args in calls.items():
            function(*args)
    assert mode.log == list(calls)


def test_what_is_not_about_tensors_is_not_seen(torch, Logging):
    x = torch.ones(2)
    with Logging() as mode:
        torch.is_tensor(x), torch.get_default_dtype(), torch.manual_seed(0), torch.broadcast_shapes((2,), (1,))
        torch.no_grad(), hash(x), x is x, isinstance(x, torch.Tensor), torch.finfo(torch.float32)
        x.as_subclass(torch.Tensor)
    assert mode.log == []


def test_a_mode_gets_the_arguments_as_they_were_passed(torch):
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((types, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with Mode():
        torch.sum(x, 0, keepdim=True)
        torch.zeros(2, dtype=torch.float64)
    assert len(seen[0][1]) == 2 and seen[0][1][0] is x and seen[0][2] == {"keepdim": True}
    assert seen[1] == ((), (2,), {"dtype": torch.float64})


def test_a_mode_may_change_arguments_and_results(torch):
    class Doubles(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.zeros:
                func = torch.ones
            if func is torch.sum:
                return "the sum"
            return func(*args, **({"dtype": torch.float64} | (kwargs or {}) if func is torch.ones else kwargs or {}))

    with Doubles():
        x = torch.zeros(2)
        assert torch.sum(x) == "the sum"
    assert x.tolist() == [1.0, 1.0] and x.dtype is torch.float64
    assert torch.zeros(2).tolist() == [0.0, 0.0]


def test_backward_under_a_mode_is_one_call(torch, Logging):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with Logging() as mode:
        y = (x * x).sum()
        y.backward()
        torch.autograd.grad((x * x).sum(), x, create_graph=True)
    assert mode.log == [
        torch.Tensor.mul,
        torch.Tensor.sum,
        torch.Tensor.backward,
        torch.Tensor.mul,
        torch.Tensor.sum,
        torch.autograd.grad,
    ]
    assert x.grad.tolist() == [2.0, 4.0]


def test_hooks_see_the_modes_that_are_entered_where_backward_was_called(torch, Logging):
    inner = Logging()

    def hook(grad):
        with inner:
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    x.register_hook(hook)
    (x * 3).sum().backward()
    assert inner.log == [torch.Tensor.mul] and x.grad.tolist() == [6.0, 6.0]


def test_a_forward_of_a_custom_function_is_seen(torch, Logging):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.mul(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    with Logging() as mode:
        y = Double.apply(x)
    assert mode.log == [torch.Tensor.mul] and y.tolist() == [2.0, 2.0]


def test_modules_are_seen_by_the_functions_they_call(torch, Logging):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    x = torch.rand(3, 2)
    with Logging() as mode:
        net(x)
    assert mode.log == [torch.nn.functional.linear, torch.nn.functional.relu]


# --- several modes ------------------------------------------------------------------------------------------------


def test_modes_nest_the_innermost_first(torch, Logging):
    log = []
    x = torch.ones(2)
    with Logging(log, "outer"), Logging(log, "inner"):
        x + 1
    assert log == ["inner", "outer"]
    log.clear()
    with Logging(log, "outer"):
        with Logging(log, "inner"):
            pass
        x + 1
    assert log == ["outer"]


def test_the_same_mode_may_be_entered_twice(torch, Logging):
    mode = Logging()
    with mode, mode:
        torch.ones(2)
    assert mode.log == [torch.ones, torch.ones]


def test_a_mode_may_be_entered_again_where_it_answers(torch):
    seen = []

    class Reentrant(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            if func is torch.Tensor.add:
                with self:
                    return torch.Tensor.mul(*args)
            return func(*args, **(kwargs or {}))

    x = torch.full((2,), 3.0)
    with Reentrant():
        y = x + 2
    assert seen == [torch.Tensor.add, torch.Tensor.mul] and y.tolist() == [6.0, 6.0]


def test_a_mode_that_passes_on_leaves_it_to_the_classes(torch):
    class Passes(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    class Answers(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "the class"

    x, plain = torch.ones(2).as_subclass(Answers), torch.ones(2)
    with Passes():
        assert torch.sum(x) == "the class"
        with pytest.raises(
            TypeError,
            match=r"Multiple dispatch failed for 'torch.sum'; all __torch_function__ "
            r"handlers returned NotImplemented:\n\n  - mode object <.*Passes object",
        ):
            torch.sum(plain)
        with pytest.raises(TypeError, match="unsupported operand type"):
            plain + 1


def test_a_mode_goes_before_classes_and_sees_their_types(torch, Logging):
    order = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append("class")
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(types)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2).as_subclass(Noted)
    with Mode():
        torch.add(x, 1)
    assert order == [(Noted,), "class"]
    order.clear()
    with torch._C.DisableTorchFunctionSubclass(), Mode():
        torch.add(x, 1)
    assert order == [()]


def test_disable_torch_function_switches_modes_off(torch, Logging):
    with Logging() as mode:
        with torch._C.DisableTorchFunction():
            torch.ones(2)
            assert torch._C._is_torch_function_all_disabled()
        assert mode.log == []
        torch.ones(2)
    assert mode.log == [torch.ones]
    with torch._C.DisableTorchFunction(), Logging() as mode:
        torch.ones(2)
    assert mode.log == []


def test_a_mode_is_left_when_an_error_passes(torch, Logging):
    mode = Logging()
    with pytest.raises(KeyError), mode:
        raise KeyError
    with pytest.raises(RuntimeError), mode:
        torch.ones(2).view(3)
    mode.log.clear()
    torch.ones(2)
    assert mode.log == [] and torch.overrides._get_current_function_mode_stack() == []


def test_a_mode_is_back_after_an_error_in_its_answer(torch):
    class Fails(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    with Fails() as mode:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                torch.ones(2)
        assert torch.overrides._get_current_function_mode() is mode


def test_modes_belong_to_their_thread(torch, Logging):
    with Logging() as mode:
        assert in_threads(lambda: torch.ones(2).sum().item()) == [2.0]
        assert mode.log == []
        torch.ones(2)
    assert mode.log == [torch.ones]


def test_the_stack_of_modes_can_be_asked_for(torch, Logging):
    O = torch.overrides  # noqa: E741
    assert O._get_current_function_mode() is None and torch._C._len_torch_function_stack() == 0
    with Logging() as outer, Logging() as inner:
        assert O._get_current_function_mode() is inner and torch._C._len_torch_function_stack() == 2
        assert O._get_current_function_mode_stack() == [outer, inner]
        with O._pop_mode_temporarily() as popped:
            assert popped is inner and O._get_current_function_mode() is outer
        assert O._get_current_function_mode() is inner


def test_a_mode_must_define_its_answer_as_a_plain_method(torch):
    class Nothing(torch.overrides.TorchFunctionMode):
        pass

    class OfTheClass(torch.overrides.TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with pytest.raises(NotImplementedError), Nothing():
        x + 1
    with (
        pytest.raises(
            RuntimeError,
            match="Defining your mode's `__torch_function__` as a classmethod is not "
            "supported, please make it a plain method",
        ),
        OfTheClass(),
    ):
        x + 1


def test_the_base_mode_changes_nothing(torch):
    class Counts(torch.overrides.BaseTorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return super().__torch_function__(func, types, args, kwargs)

    with Counts() as mode, torch.overrides.BaseTorchFunctionMode():
        assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]
    assert mode.calls == 3


def test_operator_objects_are_seen_as_themselves(torch, Logging):
    x = torch.ones(2)
    with Logging() as mode:
        torch.ops.aten.sin(x)
        torch.ops.aten.add.Tensor(x, x)
    assert mode.log == [torch.ops.aten.sin, torch.ops.aten.add.Tensor]
    assert torch.overrides.resolve_name(torch.ops.aten.add.Tensor) == "aten.add.Tensor"

    class Answers(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, len(args)

    assert torch.ops.aten.sin(x.as_subclass(Answers)) == (torch.ops.aten.sin, 1)
