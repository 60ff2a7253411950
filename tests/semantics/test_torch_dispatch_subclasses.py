"""Subclasses with `__torch_dispatch__`: tensors that stand for others, or watch over what is done to their values."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest


@pytest.fixture
def dispatch(torch):
    return import_module(f"{torch.__name__}.utils._python_dispatch")


@pytest.fixture
def TwoTensor(torch, dispatch):
    """Two tensors of one shape that go the same ways."""
    tree = import_module(f"{torch.__name__}.utils._pytree")

    class TwoTensor(torch.Tensor):
        calls: list = []
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, a, b, requires_grad=False):
            return torch.Tensor._make_wrapper_subclass(
                cls,
                a.size(),
                strides=a.stride(),
                storage_offset=a.storage_offset(),
                device=a.device,
                layout=a.layout,
                requires_grad=requires_grad,
                dtype=a.dtype,
            )

        def __init__(self, a, b, requires_grad=False):
            self.a, self.b = a, b

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, meta, outer_size, outer_stride):
            return TwoTensor(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            cls.calls.append(str(func))
            first = tree.tree_map_only(TwoTensor, lambda t: t.a, (args, kwargs))
            second = tree.tree_map_only(TwoTensor, lambda t: t.b, (args, kwargs))
            leaves, spec = tree.tree_flatten(func(*first[0], **first[1]))
            others = tree.tree_leaves(func(*second[0], **second[1]))
            out = tree.tree_unflatten(
                [TwoTensor(x, y) if isinstance(x, torch.Tensor) else x for x, y in zip(leaves, others, strict=True)],
                spec,
            )
            return dispatch.return_and_correct_aliasing(func, args, kwargs, out)

    return TwoTensor


@pytest.fixture
def two(torch, TwoTensor):
    def two(requires_grad=False):
        a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        return TwoTensor(a, a * 10, requires_grad)

    return two


def both(tensor):
    return [tensor.a.tolist(), tensor.b.tolist()]


def test_a_wrapper_has_a_shape_and_a_dtype(torch, two):
    x = two()
    assert x.shape == (2, 2) and x.dtype is torch.float32 and x.stride() == (2, 1) and x.numel() == 4 and x.dim() == 2
    assert x.is_contiguous() and len(x) == 2 and x.device == torch.device("cpu") and not x.requires_grad
    assert x.t().stride() == (1, 2) and not x.t().is_contiguous()


def test_operators_reach_what_is_wrapped(torch, TwoTensor, two):
    x, one = two(), torch.ones(2, 2)
    assert both(x + x) == [[[2, 4], [6, 8]], [[20, 40], [60, 80]]]
    assert both(1 - x)[0] == [[0, -1], [-2, -3]] and type(1 - x) is TwoTensor
    assert both(x + one) == both(one + x) == both(torch.add(one, x))
    assert both(x @ x)[0] == [[7, 10], [15, 22]]
    assert [both(t)[0] for t in x.max(0)] == [[3, 4], [1, 1]]
    assert both(torch.cat([x, x]).sum(0))[1] == [80, 120]
    assert [both(t)[0] for t in x] == [[1, 2], [3, 4]]
    assert both(x[0, 1:]) == [[2], [20]] and both(x[torch.tensor([1])])[0] == [[3, 4]]
    assert x.to(torch.float64).dtype is torch.float64 and type(torch.zeros_like(x)) is TwoTensor
    assert both(torch.nn.functional.linear(x, one, torch.ones(2)))[0] == [[4, 4], [8, 8]]


def test_composites_are_taken_apart_before_the_class_is_asked(torch, TwoTensor, two):
    x = two()
    TwoTensor.calls.clear()
    torch.nn.functional.linear(x, torch.ones(2, 2))
    x.reshape(-1).square()
    assert TwoTensor.calls == ["aten.mm.default", "aten.view.default", "aten.pow.Tensor_Scalar"]


def test_history_is_recorded_of_the_wrapper(torch, TwoTensor, two):
    x = two(True)
    y = (x * x).sum()
    assert y.requires_grad and y.grad_fn.name() == "SumBackward0" and not y.a.requires_grad
    y.backward()
    assert type(x.grad) is TwoTensor and both(x.grad) == [[[2, 4], [6, 8]], [[20, 40], [60, 80]]]
    (x * 3).sum().backward()
    assert both(x.grad)[0] == [[5, 7], [9, 11]]


def test_gradients_of_gradients(torch, two):
    x = two(True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert both(second) == [[[6, 12], [18, 24]], [[60, 120], [180, 240]]]


def test_saved_results_are_wrappers_again(torch, two):
    x = two(True)
    y = (x / 10).exp().sigmoid()
    saved = y.grad_fn._saved_result
    assert type(saved) is type(x) and saved.grad_fn is y.grad_fn
    (grad,) = torch.autograd.grad(y.sum(), x)
    result = torch.sigmoid((x.a / 10).exp())
    slope = result * (1 - result) * (x.a / 10).exp() / 10
    assert both(grad)[0] == [pytest.approx(row, rel=1e-5) for row in slope.tolist()]


def test_in_place_operators_give_back_the_wrapper(torch, two):
    x = two()
    assert x.add_(1) is x and both(x)[0] == [[2, 3], [4, 5]] and x._version == 1
    leaf = two(True)
    y = leaf * 2
    y.mul_(leaf)
    y.sum().backward()
    assert both(leaf.grad) == [[[4, 8], [12, 16]], [[40, 80], [120, 160]]]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf.add_(1)


@pytest.mark.parametrize("row", [0, 1])
def test_writes_into_views_reach_the_base_and_its_history(torch, two, row):
    x = two(True)
    y = x * 2
    y[row].mul_(5)
    assert y.grad_fn.name() == "torch::autograd::CopySlices" and both(y)[0][row] == both(x * 10)[0][row]
    y.sum().backward()
    expected = [[2, 2], [2, 2]]
    expected[row] = [10, 10]
    assert both(x.grad) == [expected, expected]


def test_views_are_views_of_the_wrapper(torch, two):
    x = two(True)
    view = x.view(4)
    assert view._base is x and view._is_view() and view.grad_fn.name() == "ViewBackward0"
    assert view.detach().grad_fn is None


def test_item_and_truth_ask_the_class(torch, TwoTensor, two):
    x = two()
    TwoTensor.calls.clear()
    assert x.sum().item() == 10 and float(x.sum()) == 10 and bool(x[0, 0] > 0)
    assert TwoTensor.calls.count("aten._local_scalar_dense.default") == 3
    for method in ("numpy", "tolist"):
        with pytest.raises(RuntimeError, match=f".{method}.. is not supported for tensor subclasses"):
            getattr(x, method)()


def test_what_looks_at_gradients_takes_wrappers(torch, TwoTensor, two):
    seen = []

    def pack(tensor):
        seen.append(type(tensor))
        return tensor

    x = two(True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = (x.exp() * x).sum()
    y.backward()
    assert seen == [TwoTensor] * 3 and both(x.grad)[0][0][0] == pytest.approx(2 * 2.7182818)
    assert torch.nn.utils.clip_grad_norm_([x], 1.0).a.item() > 1 and torch.linalg.vector_norm(x.grad).a.item() < 1.001
    assert two().data_ptr() == 0


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_anomaly_mode_looks_for_nans_in_wrappers(torch, two):
    with torch.autograd.detect_anomaly():
        (two(True) * 2).sum().backward()
        with pytest.raises(RuntimeError, match="returned nan values in its 0th output"):
            (two(True) * float("nan")).sum().backward()


def test_wrappers_are_copied_and_become_parameters(torch, TwoTensor, two):
    x = two(True)
    found = copy.deepcopy(x)
    assert type(found) is TwoTensor and both(found) == both(x) and found.a is not x.a and found.requires_grad
    parameter = torch.nn.Parameter(two())
    (parameter * 2).sum().backward()
    assert both(parameter.grad)[0] == [[2, 2], [2, 2]]


def test_return_and_correct_aliasing_and_flattening(torch, dispatch, two):
    x = two()
    assert dispatch.is_traceable_wrapper_subclass(x) and not dispatch.is_traceable_wrapper_subclass(torch.ones(1))
    doubled = dispatch.transform_subclass(x, lambda name, t: t * 2)
    assert both(doubled) == both(x * 2)


def test_modes_are_asked_before_classes_and_told_of_them(torch, dispatch, TwoTensor, two):
    seen = []

    class See(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), types))
            return func(*args, **(kwargs or {}))

    x = two()
    TwoTensor.calls.clear()
    with See():
        y = x + x
    assert seen == [("aten.add.Tensor", (TwoTensor,))] and TwoTensor.calls == ["aten.add.Tensor"]
    assert both(y) == both(x * 2)


def test_a_class_of_another_class_is_asked_first_and_may_decline(torch):
    asked = []

    def answer(cls, func, types, args=(), kwargs=None):
        asked.append((cls.__name__, [t.__name__ for t in types]))
        return NotImplemented if cls.__name__ != "Base" else "answer" and torch.zeros(1)

    def make(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (1,), dtype=torch.float32)

    Base = type(
        "Base",
        (torch.Tensor,),
        {"__torch_dispatch__": classmethod(answer), "__torch_function__": torch._C._disabled_torch_function_impl},
    )
    Derived = type("Derived", (Base,), {"__torch_dispatch__": classmethod(answer)})
    assert torch.add(make(Base), make(Derived)).tolist() == [0]
    assert asked == [("Derived", ["Derived", "Base"]), ("Base", ["Derived", "Base"])]
    asked.clear()
    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"):
        torch.add(make(Derived), make(Derived))


# --- a tensor that holds its values in another ----------------------------------------------------------------


@pytest.fixture
def LoggingTensor(torch):
    tree = import_module(f"{torch.__name__}.utils._pytree")

    class LoggingTensor(torch.Tensor):
        calls: list = []
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            out = torch.Tensor._make_wrapper_subclass(
                cls,
                elem.size(),
                strides=elem.stride(),
                dtype=elem.dtype,
                device=elem.device,
                requires_grad=requires_grad,
            )
            out.elem = elem
            return out

        def __repr__(self):
            return f"LoggingTensor({self.elem})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(str(func))
            args, kwargs = tree.tree_map_only(cls, lambda t: t.elem, (args, kwargs or {}))
            return tree.tree_map_only(torch.Tensor, cls, func(*args, **kwargs))

    return LoggingTensor


def test_a_logging_tensor_sees_forward_and_backward(torch, LoggingTensor):
    x = LoggingTensor(torch.tensor([1.0, 2.0]), True)
    y = (x * x).sum()
    (grad,) = torch.autograd.grad(y, x)
    assert grad.elem.tolist() == [2, 4] and repr(grad) == "LoggingTensor(tensor([2., 4.]))"
    assert LoggingTensor.calls[:4] == [
        "aten.mul.Tensor",
        "aten.sum.default",
        "aten.ones_like.default",
        "aten.expand.default",
    ]


def test_a_network_of_plain_parameters_takes_wrappers(torch, LoggingTensor):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    x = LoggingTensor(torch.ones(4, 2))
    LoggingTensor.calls.clear()
    loss = net(x).mean()
    assert isinstance(loss, LoggingTensor)
    assert LoggingTensor.calls.count("aten.addmm.default") == 2 and "aten.mean.default" in LoggingTensor.calls
    loss.backward()
    assert isinstance(net[0].weight.grad, LoggingTensor)


# --- subclasses with values of their own -----------------------------------------------------------------------


def test_a_subclass_made_on_values_is_computed_with_where_its_answering_is_off(torch):
    class Counting(torch.Tensor):
        count = 0
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_subclass(cls, data)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.count += 1
            with torch._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    x = Counting(torch.tensor([1.0, 2.0]))
    y = x * 2 + torch.ones(2)
    assert y.tolist() == [3, 5] and Counting.count == 1 and type(y) is torch.Tensor
    x.requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_a_disabled_answer_makes_a_plain_tensor(torch):
    class Plain(torch.Tensor):
        __torch_dispatch__ = torch._C._disabled_torch_dispatch_impl

    x = torch.Tensor._make_subclass(Plain, torch.ones(2))
    assert (x + 1).tolist() == [2, 2]


def test_a_quantized_tensor_keeps_small_integers(torch):
    class Quantized(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, codes, scale):
            return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)

        def __init__(self, codes, scale):
            self.codes, self.scale = codes, scale

        @classmethod
        def of(cls, x):
            scale = x.abs().max().item() / 127
            return cls((x / scale).round().to(torch.int8), scale)

        def values(self):
            return self.codes.to(torch.float32) * self.scale

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.detach.default:
                return cls(args[0].codes, args[0].scale)
            args = [a.values() if isinstance(a, cls) else a for a in args]
            return func(*args, **(kwargs or {}))

    weight = torch.nn.Parameter(Quantized.of(torch.tensor([[1.0, -0.5], [0.25, 1.0]])), requires_grad=False)
    x = torch.ones(1, 2, requires_grad=True)
    y = torch.mm(x, weight)
    assert y.tolist() == [pytest.approx([1.25, 0.5], abs=0.02)] and y.grad_fn.name() == "MmBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [pytest.approx([0.5, 1.25], abs=0.02)]


def test_a_wrapper_needs_a_torch_dispatch(torch):
    class Nothing(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="Nothing must define.*__torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Nothing, (2,))


def test_values_that_are_not_there_are_never_read(gradloom):
    class Empty(gradloom.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = gradloom.Tensor._make_wrapper_subclass(Empty, (2, 2))
    assert repr(x) == "Empty(..., size=(2, 2))"
    with gradloom._C._DisableTorchDispatch(), pytest.raises(TypeError, match="no implementation of add.Tensor"):
        gradloom.add(x, 1)
    for read in (lambda: x.untyped_storage().tolist(), lambda: gradloom.from_numpy(x._array)):
        with pytest.raises((RuntimeError, TypeError, AttributeError)):
            read()


def test_history_is_recorded_within_an_answer_only_if_that_is_asked_for(torch):
    overrides = import_module(f"{torch.__name__}.overrides")
    seen = []

    class Wrapper(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, elem):
            out = torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)
            out.elem = elem
            return out

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            elem = args[0].elem
            seen.append(((elem * 2).requires_grad, torch.is_grad_enabled()))
            with overrides.enable_reentrant_dispatch():
                seen.append(((elem * 2).requires_grad, torch.is_grad_enabled()))
            seen.append(((elem * 2).requires_grad, torch.is_grad_enabled()))
            return cls(elem.detach() + 1)

    x = Wrapper(torch.ones(2, requires_grad=True))
    torch.add(x, 1)
    assert seen == [(False, True), (True, True), (False, True)]
    seen.clear()
    with torch.no_grad():
        torch.add(x, 1)
    assert seen == [(False, False)] * 3
