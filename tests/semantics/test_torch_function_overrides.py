"""torch.overrides: asking for oneself, names of functions, and which functions can be answered."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest


@pytest.fixture
def overrides(torch):
    return torch.overrides


@pytest.fixture
def Answers(torch):
    class Answers(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, types, args, kwargs or {}

    return Answers


# --- for functions of one's own -----------------------------------------------------------------------------------


def test_has_torch_function(torch, overrides, Answers):
    class Other:
        __torch_function__ = Answers.__torch_function__

    class Plain(torch.Tensor):
        pass

    class Disabled(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    y = torch.ones(2)
    for value, expected in [
        (y, False),
        (3, False),
        (None, False),
        (torch.nn.Parameter(y), False),
        (Other(), True),
        (y.as_subclass(Plain), True),
        (y.as_subclass(Answers), True),
        (y.as_subclass(Disabled), False),
    ]:
        assert overrides.has_torch_function((value,)) is expected
        assert overrides.has_torch_function([y, value]) is expected
        assert overrides.has_torch_function_unary(value) is expected
        assert overrides.has_torch_function_variadic(y, value) is expected
    x = y.as_subclass(Answers)
    with torch._C.DisableTorchFunctionSubclass():
        assert not overrides.has_torch_function((x,))
    with overrides.BaseTorchFunctionMode():
        assert overrides.has_torch_function((y,)) and overrides.has_torch_function_unary(y)
        assert not overrides.has_torch_function(())
        with torch._C.DisableTorchFunction():
            assert not overrides.has_torch_function((x,))


def test_handle_torch_function(torch, overrides, Answers):
    def own(x, factor=1):
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(own, (x,), x, factor=factor)
        return x * factor

    x = torch.ones(2).as_subclass(Answers)
    func, types, args, kwargs = own(x, 3)
    assert func is own and types == (Answers,) and args[0] is x and kwargs == {"factor": 3}
    assert own(torch.ones(2), 3).tolist() == [3.0, 3.0]

    class Plain(torch.Tensor):
        pass

    assert type(own(torch.ones(2).as_subclass(Plain), 3)) is Plain
    log = []

    class Mode(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(func)
            return func(*args, **(kwargs or {}))

    y = torch.ones(2)
    with Mode():
        own(y, 3)
    assert log == [own]


def test_handle_torch_function_without_an_answer(torch, overrides):
    class Nothing:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    def own(x):
        pass

    with pytest.raises(
        TypeError,
        match=r"no implementation found for '.*own' on types that implement "
        r"__torch_function__: \[<class '.*Nothing'>\]",
    ):
        overrides.handle_torch_function(own, (Nothing(),), Nothing())


def test_wrap_torch_function(torch, overrides, Answers):
    @overrides.wrap_torch_function(lambda a, b=0: (a, b))
    def own(a, b=0):
        return a + b

    x = torch.ones(2).as_subclass(Answers)
    assert own(torch.ones(2), 2).tolist() == [3.0, 3.0] and own.__name__ == "own"
    func, types, args, kwargs = own(1, b=x)
    assert func is own and types == (Answers,) and args == (1,) and kwargs["b"] is x


def test_is_tensor_like(torch, overrides, Answers):
    class Other:
        __torch_function__ = Answers.__torch_function__

    y = torch.ones(2)
    assert [overrides.is_tensor_like(value) for value in (y, y.as_subclass(Answers), Other(), 3, None, [y])] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_the_order_in_which_arguments_are_asked(torch, overrides, Answers):
    class B(torch.Tensor):
        pass

    class Derived(Answers):
        pass

    y = torch.ones(1)
    values = y, y.as_subclass(Answers), y.as_subclass(B), y.as_subclass(Derived), y.as_subclass(Answers), 3
    assert [type(v) for v in overrides._get_overloaded_args(values)] == [Derived, Answers, B, torch.Tensor]


def test_history_is_recorded_again_inside_of_torch_dispatch(torch, overrides):
    seen = []

    class Wrapper(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, value):
            out = torch.Tensor._make_wrapper_subclass(cls, value.shape, dtype=value.dtype)
            out.value = value
            return out

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            y = torch.ones(2, requires_grad=True)
            seen.append((y * 2).requires_grad)
            with overrides.enable_reentrant_dispatch():
                seen.append((y * 2).requires_grad)
            seen.append((y * 2).requires_grad)
            return cls(func(*[a.value if isinstance(a, cls) else a for a in args], **(kwargs or {})))

    x = Wrapper(torch.ones(2))
    x * 2
    assert seen == [False, True, False]
    seen.clear()
    with torch.no_grad():
        x * 2
    assert seen == [False, False, False]
    with (
        pytest.raises(RuntimeError, match="Accessing torch dispatch state outside of '__torch_dispatch__'"),
        overrides.enable_reentrant_dispatch(),
    ):
        pass


# --- names --------------------------------------------------------------------------------------------------------


def test_names_of_functions(torch, overrides):
    F = torch.nn.functional
    for function, name in [
        (torch.sum, "torch.sum"),
        (torch.Tensor.sum, "torch.Tensor.sum"),
        (torch.Tensor.shape.__get__, "torch.Tensor.shape.__get__"),
        (torch.Tensor.grad.__set__, "torch.Tensor.grad.__set__"),
        (torch.Tensor.__getitem__, "torch.Tensor.__getitem__"),
        (F.relu, "torch.nn.functional.relu"),
        (F.linear, "torch.nn.functional.linear"),
        (F.conv1d, "torch.nn.functional.conv1d"),
        (torch.special.i0e, "torch.special.i0e"),
        (torch.is_tensor, "torch.is_tensor"),
        (len, None),
    ]:
        assert overrides.resolve_name(function) == name
    assert overrides.resolve_name(torch.norm) in ("torch.norm", "torch.functional.norm")


def test_methods_and_properties(torch, overrides):
    for function in (
        torch.Tensor.sum,
        torch.Tensor.add,
        torch.Tensor.__getitem__,
        torch.Tensor.shape.__get__,
        torch.Tensor.__add__,
    ):
        assert overrides.is_tensor_method_or_property(function)
    for function in (torch.sum, torch.cat, torch.nn.functional.linear, len):
        assert not overrides.is_tensor_method_or_property(function)


# --- which functions there are ------------------------------------------------------------------------------------


def test_functions_that_can_be_answered(torch, overrides):
    found = overrides.get_overridable_functions()
    F = torch.nn.functional
    for place, function in [
        (torch, torch.sum),
        (torch.Tensor, torch.Tensor.sum),
        (torch.Tensor, torch.Tensor.add),
        (F, F.relu),
        (F, F.cross_entropy),
        (torch.special, torch.special.i0e),
        (torch.Tensor.shape, torch.Tensor.shape.__get__),
    ]:
        assert function in found[place]
    functions = {f for group in found.values() for f in group}
    ignored = overrides.get_ignored_functions()
    for function in (
        torch.is_tensor,
        torch.zeros,
        torch.tensor,
        torch.manual_seed,
        torch.from_numpy,
        torch.get_default_dtype,
        torch.arange,
    ):
        assert function in ignored and function not in functions


def test_stand_ins_for_tests_have_the_signatures_of_the_functions(torch, overrides):
    found = overrides.get_testing_overrides()
    for function in (torch.sum, torch.Tensor.sum, torch.nn.functional.relu, torch.Tensor.shape.__get__):
        assert found[function](1) == -1
    assert list(inspect.signature(found[torch.nn.functional.relu]).parameters)[0] == "input"


@pytest.mark.filterwarnings("ignore")  # names of old among them
def test_every_function_that_can_be_answered_asks_as_in_pytorch(gradloom):
    """What PyTorch's own list has, under the names that gradloom has, is answered."""
    reference = pytest.importorskip("torch")
    theirs = {
        name
        for function in reference.overrides.get_testing_overrides()
        if (name := reference.overrides.resolve_name(function))
    }

    class Stop(Exception):
        pass

    class Answers(gradloom.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise Stop

    x = gradloom.Tensor._make_subclass(Answers, gradloom.ones(2, 2))
    silent, missing = [], []
    for name in sorted(theirs):
        function = find(gradloom, name.replace("torch.functional.", "torch."))
        if function is None:
            missing.append(name)
            continue
        try:
            function(x)
            silent.append(name)
        except Stop:
            pass
        except Exception as error:
            silent.append(f"{name}: {error!r}")
    assert len(theirs) - len(missing) > 700
    assert silent == []


def find(gradloom, name):
    """What a name of PyTorch's is here; None if there is none."""
    found = gradloom
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except (AttributeError, NotImplementedError, ImportError):
            return None
    return found


def test_the_modules_names_are_pytorchs(torch):
    module = import_module(f"{torch.__name__}.overrides")
    assert module is torch.overrides
    for name in (
        "TorchFunctionMode",
        "BaseTorchFunctionMode",
        "enable_reentrant_dispatch",
        "get_ignored_functions",
        "get_overridable_functions",
        "get_testing_overrides",
        "handle_torch_function",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
        "is_tensor_like",
        "is_tensor_method_or_property",
        "resolve_name",
        "wrap_torch_function",
        "get_default_nowrap_functions",
    ):
        assert callable(getattr(module, name))


def test_special_methods_have_pytorchs_names(torch):
    names = {
        "__getitem__": "__getitem__",
        "__setitem__": "__setitem__",
        "__delitem__": "__delitem__",
        "__rsub__": "__rsub__",
        "__invert__": "__invert__",
        "__pow__": "pow",
        "__ipow__": "pow_",
        "__itruediv__": "__idiv__",
        "__rtruediv__": "__rdiv__",
        "__truediv__": "__truediv__",
        "norm": "norm",
    }
    assert {method: getattr(torch.Tensor, method).__name__ for method in names} == names
