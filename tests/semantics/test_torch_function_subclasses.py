"""Subclasses of Tensor with __torch_function__: what they see, what comes out, who is asked first."""

from __future__ import annotations

import copy
import operator
import pickle

import pytest


@pytest.fixture
def logging(torch):
    """A subclass that notes every function it sees, and its arguments, and answers as Tensor does."""

    class Logging(torch.Tensor):
        log: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.log.append((func, types, args, kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs or {})

        @classmethod
        def seen(cls):
            found = [entry[0] for entry in cls.log]
            cls.log.clear()
            return found

    return Logging


@pytest.fixture
def plain(torch):
    class Plain(torch.Tensor):
        pass

    return Plain


def make(torch, cls, values=(1.0, 2.0), **options):
    return torch.tensor(values, **options).as_subclass(cls)


# --- what is seen -------------------------------------------------------------------------------------------------


def test_functions_and_methods_are_seen_with_the_arguments_as_they_were_passed(torch, logging):
    x, y = make(torch, logging), torch.ones(2)
    result = torch.sum(x, dim=0)
    assert logging.log.pop() == (torch.sum, (logging,), (x,), {"dim": 0})
    assert type(result) is logging
    torch.add(y, x)
    func, types, (first, second), kwargs = logging.log.pop()
    assert func is torch.add and types == (logging,) and first is y and second is x and kwargs == {}
    x.clamp(0, 1)
    func, _, args, kwargs = logging.log.pop()
    assert func is torch.Tensor.clamp and args[1:] == (0, 1) and kwargs == {}
    torch.add(other=x, input=y)
    func, _, args, kwargs = logging.log.pop()
    assert args == () and list(kwargs) == ["other", "input"]
    assert logging.log == []


BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "__floordiv__",
    "mod": "remainder",
    "pow": "__pow__",
    "matmul": "matmul",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "ne": "ne",
    "eq": "__eq__",
    "iadd": "add_",
    "isub": "sub_",
    "imul": "mul_",
    "itruediv": "div_",
    "ifloordiv": "floor_divide_",
    "imod": "remainder_",
    "ipow": "__ipow__",
}


@pytest.mark.parametrize("name", BINARY)
def test_pythons_operators_are_seen_as_methods(torch, logging, name):
    x, y = make(torch, logging), torch.full((2,), 3.0)
    result = getattr(operator, name)(x, y)
    ((func, types, args, kwargs),) = logging.log
    assert func == getattr(torch.Tensor, BINARY[name])
    assert logging in types and args[0] is x and args[1] is y and kwargs == {}
    assert type(result) is logging


REFLECTED = {
    "add": "add",
    "sub": "__rsub__",
    "mul": "mul",
    "truediv": "__rtruediv__",
    "floordiv": "__rfloordiv__",
    "mod": "__rmod__",
    "pow": "__rpow__",
    "lt": "gt",
    "ge": "le",
}


@pytest.mark.parametrize("name", REFLECTED)
def test_reflected_operators_are_seen_with_the_tensor_first(torch, logging, name):
    x = make(torch, logging)
    assert type(getattr(operator, name)(2, x)) is logging
    ((func, _, args, _),) = logging.log
    assert func == getattr(torch.Tensor, REFLECTED[name]) and args[0] is x and args[1] == 2


@pytest.mark.parametrize(
    "name, method",
    [("and_", "__and__"), ("or_", "__or__"), ("xor", "__xor__"), ("lshift", "__lshift__"), ("rshift", "__rshift__")],
)
def test_bitwise_operators(torch, logging, name, method):
    x = torch.tensor([5, 6]).as_subclass(logging)
    assert type(getattr(operator, name)(x, 1)) is logging
    assert logging.seen() == [getattr(torch.Tensor, method)]


def test_unary_operators(torch, logging):
    x = torch.tensor([5, -6]).as_subclass(logging)
    assert [type(f(x)) for f in (operator.neg, operator.pos, abs, operator.invert)] == [logging] * 4
    names = "neg", "positive", "abs", "__invert__"
    assert logging.seen() == [getattr(torch.Tensor, name) for name in names]


def test_pythons_protocols_are_seen(torch, logging):
    x, s = make(torch, logging), torch.tensor(2).as_subclass(logging)
    assert [len(x), bool(s), int(s), float(s), complex(s), operator.index(s)] == [2, True, 2, 2.0, 2 + 0j, 2]
    assert logging.seen() == [
        getattr(torch.Tensor, f"__{name}__") for name in ("len", "bool", "int", "float", "complex", "index")
    ]
    assert x[0].item() == 1.0 and 2.0 in x and x.tolist() == [1.0, 2.0]
    assert logging.seen() == [
        torch.Tensor.__getitem__,
        torch.Tensor.item,
        torch.Tensor.__contains__,
        torch.Tensor.tolist,
    ]
    x[0] = 3.0
    assert logging.seen() == [torch.Tensor.__setitem__]
    assert repr(x) == "Logging([3., 2.])" and logging.seen() == [torch.Tensor.__repr__]
    assert {type(element) for element in x} == {logging}
    assert torch.Tensor.unbind in logging.seen()
    assert type(reversed(x)) is logging and logging.seen() == [torch.Tensor.__reversed__]
    assert hash(x) == id(x) and logging.seen() == []


PROPERTIES = (
    "shape",
    "dtype",
    "device",
    "layout",
    "ndim",
    "itemsize",
    "nbytes",
    "requires_grad",
    "is_leaf",
    "grad_fn",
    "grad",
    "data",
    "output_nr",
    "retains_grad",
    "name",
    "_version",
    "_base",
    "T",
    "mT",
    "H",
    "mH",
    "real",
    "is_sparse",
    "is_cuda",
    "is_cpu",
    "is_meta",
    "is_quantized",
    "is_nested",
    "is_mkldnn",
)


@pytest.mark.parametrize("name", PROPERTIES)
def test_reading_an_attribute_is_seen_as_its_getter(torch, logging, name):
    x = torch.ones(2, 2).as_subclass(logging)
    getattr(x, name)
    ((func, types, args, kwargs),) = logging.log
    assert func == getattr(torch.Tensor, name).__get__ and func.__name__ == "__get__"
    assert types == (logging,) and len(args) == 1 and args[0] is x and kwargs == {}


@pytest.mark.parametrize("name, value", [("grad", None), ("requires_grad", True), ("data", "other")])
def test_setting_an_attribute_is_seen_as_its_setter(torch, logging, name, value):
    x = torch.Tensor._make_subclass(logging, torch.ones(2))
    value = torch.zeros(2) if value == "other" else value
    setattr(x, name, value)
    ((func, _, args, _),) = logging.log
    assert func == getattr(torch.Tensor, name).__set__ and args[0] is x and args[1] is value


def test_lists_of_tensors_are_looked_into(torch, logging):
    x, y = make(torch, logging), torch.ones(2)
    for function in (torch.cat, torch.stack, torch.hstack):
        assert type(function([y, x])) is logging and type(function((x, y))) is logging
        assert logging.seen() == [function] * 2
    assert type(torch.cat([y, y])) is torch.Tensor and logging.seen() == []


def test_functions_written_in_python_are_seen_as_such(torch, logging):
    x, y, F = torch.rand(2, 2).as_subclass(logging), torch.rand(2, 2), torch.nn.functional
    target = torch.tensor([0, 1])
    calls = {
        torch.norm: (x,),
        torch.split: (x, 1),
        torch.unique: (x,),
        torch.tensordot: (x, y, 1),
        torch.cdist: (y, x),
        torch.block_diag: (x, y),
        torch.broadcast_tensors: (x, y),
        torch.einsum: ("ij->i", x),
        torch.atleast_1d: (x,),
        F.linear: (x, y),
        F.relu: (x,),
        F.softmax: (x, -1),
        F.cross_entropy: (x, target),
        F.mse_loss: (y, x),
        F.gelu: (x,),
        F.layer_norm: (x, (2,)),
        F.normalize: (x,),
        F.pad: (x, (1, 1)),
        F.embedding: (target, x),
        F.dropout: (x,),
        F.one_hot: (target,),
        torch.nn.init.uniform_: (x,),
        torch.nn.init.constant_: (x, 1.0),
        torch.Tensor.norm: (x,),
        torch.Tensor.split: (x, 1),
        torch.Tensor.unique: (x,),
    }
    for function, args in calls.items():
        result = function(*args)
        seen = logging.seen()
        assert seen == ([] if function is F.one_hot else [function]), function
        found = result if isinstance(result, (tuple, list)) else (result,)
        assert {type(r) for r in found} == ({torch.Tensor} if function is F.one_hot else {logging}), function


def test_modules_call_functions(torch, logging):
    x = torch.rand(3, 2).as_subclass(logging)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert type(net(x)) is logging
    assert logging.seen() == [torch.nn.functional.linear, torch.nn.functional.relu]


def test_what_is_about_the_object_is_not_seen(torch, logging):
    x = make(torch, logging)
    torch.is_tensor(x), torch.tensor([1.0]), x.as_subclass(torch.Tensor), id(x), isinstance(x, torch.Tensor)
    torch.Tensor._make_subclass(logging, x)
    assert type(torch.as_tensor(x)) is logging and type(torch.full((2,), x[0])) is torch.Tensor
    assert logging.seen() == [torch.Tensor.__getitem__]


def test_saved_tensors_are_not_seen_while_backward_runs(torch, logging):
    x = torch.Tensor._make_subclass(logging, torch.tensor([1.0, 2.0]), True)
    y = (x * x).exp().sum().as_subclass(torch.Tensor)
    logging.seen()
    torch.autograd.backward(y)
    assert logging.seen() == []
    (gradient,) = torch.autograd.grad((x * x * x).sum().as_subclass(torch.Tensor), x, create_graph=True)
    assert torch.autograd.grad in logging.seen() and type(gradient) is logging


# --- what comes out -----------------------------------------------------------------------------------------------


def test_results_of_a_plain_subclass_are_of_that_class(torch, plain):
    x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(plain), torch.ones(2, 2)
    for result in (
        x + 1,
        1 + x,
        y + x,
        x.sum(),
        torch.stack([y, x]),
        x[0],
        x.view(4),
        x.T,
        x.data,
        x.detach(),
        x.clone(),
        x > 1,
        x.double(),
        torch.zeros_like(x),
        x.new_zeros(3),
        torch.rand_like(x),
    ):
        assert type(result) is plain
    assert type(x.shape) is torch.Size and type(x.tolist()) is list and type(x.sum().item()) is float
    assert repr(x[0]) == "Plain([1., 2.])" and repr(x[0].int()) == "Plain([1, 2], dtype=torch.int32)"


def test_tuples_and_named_results_hold_tensors_of_the_class(torch, plain):
    x = make(torch, plain)
    found = x.max(0)
    assert type(found) is type(torch.ones(2).max(0)) and type(found.values) is type(found.indices) is plain
    assert [type(part) for part in x.split(1)] == [plain, plain]


def test_in_place_and_out_return_the_tensor_itself(torch, plain):
    x, y = make(torch, plain), torch.zeros(2)
    assert x.add_(1) is x and x.tolist() == [2.0, 3.0]
    x += 1
    assert type(x) is plain and x.tolist() == [3.0, 4.0]
    found = torch.add(x, 1, out=y)
    assert type(found) is plain and found.data_ptr() == y.data_ptr() and y.tolist() == [4.0, 5.0]
    assert torch.add(y, 1, out=x) is x


def test_attributes_of_an_instance_stay_with_it(torch):
    class Marked(torch.Tensor):
        def __new__(cls, data, mark=None):
            return torch.as_tensor(data).as_subclass(cls)

        def __init__(self, data, mark=None):
            self.mark = mark

    x = Marked([1.0, 2.0], mark="km")
    assert type(x) is Marked and x.mark == "km" and not hasattr(x + 1, "mark")
    for made in (pickle.loads, copy.copy):
        again = made(dumps(x)) if made is pickle.loads else made(x)
        assert type(again) is Marked and again.mark == "km" and again.tolist() == [1.0, 2.0]


def dumps(x):
    """Pickled as if its class could be imported."""
    import sys

    cls = type(x)
    cls.__qualname__ = cls.__name__
    setattr(sys.modules[cls.__module__], cls.__name__, cls)
    return pickle.dumps(x)


def test_subclasses_are_saved_and_loaded(torch, tmp_path):
    class Saved(torch.Tensor):
        pass

    x = make(torch, Saved)
    x.note = "kept"
    dumps(x)
    torch.save(x, tmp_path / "x.pt")
    again = torch.load(tmp_path / "x.pt", weights_only=False)
    assert type(again) is Saved and again.note == "kept" and again.tolist() == [1.0, 2.0]


def test_a_deep_copy_of_a_subclass_that_makes_its_own_new_tensors(torch):
    class Own(torch.Tensor):
        def new_empty(self, *size, **options):
            return torch.empty(*size, **options).as_subclass(Own)

    x = torch.Tensor._make_subclass(Own, torch.ones(2))
    x.note = ["kept"]
    again = copy.deepcopy(x)
    assert type(again) is Own and again.note == ["kept"] and again.note is not x.note
    assert again.tolist() == [1.0, 1.0] and again.data_ptr() != x.data_ptr()


# --- autograd -----------------------------------------------------------------------------------------------------


def test_gradients_are_plain_and_the_graph_has_aliases(torch, plain):
    x = torch.Tensor._make_subclass(plain, torch.tensor([1.0, 2.0]), True)
    y = x * 2
    assert type(y) is plain and y.grad_fn.name() == "AliasBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    y.sum().backward()
    assert type(x.grad) is torch.Tensor and x.grad.tolist() == [2.0, 2.0] and x.is_leaf
    (gradient,) = torch.autograd.grad((x * x).sum(), x)
    assert type(gradient) is plain
    seen = []
    x.register_hook(lambda g: seen.append(type(g)))
    (x * x).sum().backward()
    assert seen == [torch.Tensor]


def test_second_derivatives_through_a_subclass(torch, plain):
    x = torch.Tensor._make_subclass(plain, torch.tensor([1.0, 2.0]), True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]


def test_as_subclass_is_differentiable(torch, plain):
    leaf = torch.ones(2, requires_grad=True)
    x = leaf.as_subclass(plain)
    assert type(x) is plain and not x.is_leaf and x.grad_fn.name() == "AliasBackward0" and x._base is leaf
    (x * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0]
    x.detach().add_(1)
    assert leaf._version == 1


def test_make_subclass_is_a_leaf_on_the_same_memory(torch, plain):
    source = torch.ones(2, requires_grad=True) * 1
    x = torch.Tensor._make_subclass(plain, source)
    assert x.is_leaf and not x.requires_grad and x.data_ptr() == source.data_ptr()
    assert torch.Tensor._make_subclass(plain, source, True).requires_grad


def test_parameters_of_a_subclass(torch, plain):
    p = torch.nn.Parameter(make(torch, plain))
    assert type(p) is plain and isinstance(p, torch.nn.Parameter) and p.requires_grad and p.is_leaf
    assert repr(p) == "Parameter(Plain([1., 2.], requires_grad=True))"
    assert not isinstance(make(torch, plain), torch.nn.Parameter)
    module = torch.nn.Module()
    module.weight = p
    assert [q is p for q in module.parameters()] == [True]


def test_parameters_and_buffers_are_plain_tensors_to_functions(torch):
    p = torch.nn.Parameter(torch.ones(2))
    assert type(p * 1) is type(torch.cat([p, p])) is type(p.detach()) is torch.Tensor
    b = torch.nn.Buffer(torch.ones(2))
    assert type(b + 1) is torch.Tensor


# --- who answers ---------------------------------------------------------------------------------------------------


def answering(torch, name, answer, base=None):
    def answers(cls, func, types, args=(), kwargs=None):
        return answer(cls, func, types, args, kwargs or {})

    return type(name, (base or torch.Tensor,), {"__torch_function__": classmethod(answers)})


def test_subclasses_answer_before_their_bases_else_from_left_to_right(torch):
    order = []

    def note(cls, func, types, args, kwargs):
        order.append(cls.__name__)
        return NotImplemented

    A = answering(torch, "A", note)
    B = answering(torch, "B", note)
    A2 = answering(torch, "A2", note, A)
    a, b, a2 = (torch.ones(1).as_subclass(cls) for cls in (A, B, A2))
    for args, expected in [
        ((a, b), "A B"),
        ((b, a), "B A"),
        ((a, a2), "A2 A"),
        ((a2, a), "A2 A"),
        ((b, a2), "B A2"),
        ((a, a), "A"),
    ]:
        order.clear()
        with pytest.raises(
            TypeError,
            match="Multiple dispatch failed for 'torch.add'; all __torch_function__ handlers returned NotImplemented",
        ):
            torch.add(*args)
        assert order == expected.split()
    order.clear()
    with pytest.raises(
        TypeError,
        match="tensor subclass <class '.*A2'>\n  - tensor subclass <class '.*A'>\n  - tensor subclass <class '.*B'>",
    ):
        torch.cat([a, b, a2])
    assert order == ["A2", "A", "B"]


def test_types_are_the_overriding_classes(torch):
    A = answering(torch, "A", lambda cls, func, types, args, kwargs: types)
    B = answering(torch, "B", lambda cls, func, types, args, kwargs: types)
    a, b, y = torch.ones(1).as_subclass(A), torch.ones(1).as_subclass(B), torch.ones(1)
    assert torch.where(y > 0, a, b) == (A, B) and torch.add(y, b) == (B,) and torch.add(a, a) == (A,)
    assert torch.add(y, y, out=b) == (B,) and torch.stack([y, b, a]) == (B, A)


def test_unrelated_classes_do_not_mix_by_default(torch, plain):
    class Other(torch.Tensor):
        pass

    class Derived(plain):
        pass

    x, other, derived = (torch.ones(1).as_subclass(cls) for cls in (plain, Other, Derived))
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        torch.add(x, other)
    assert type(torch.add(x, derived)) is type(torch.add(derived, x)) is Derived
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Plain' and 'Other'"):
        x + other


def test_an_operator_that_nobody_answers_is_pythons_error(torch):
    N = answering(torch, "N", lambda *args: NotImplemented)
    n = torch.ones(1).as_subclass(N)
    for call in (lambda: n + 1, lambda: n + n, lambda: 1 - n, lambda: n @ n):
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for"):
            call()


def test_the_answer_may_be_anything(torch):
    A = answering(torch, "A", lambda cls, func, types, args, kwargs: "answer")
    a = torch.ones(2).as_subclass(A)
    assert a + 1 == torch.sum(a) == a.shape == a.sum() == a[0] == torch.nn.functional.relu(a) == "answer"


def test_errors_of_an_answer_pass_through(torch):
    def fail(cls, func, types, args, kwargs):
        raise ValueError("not today")

    a = torch.ones(2).as_subclass(answering(torch, "A", fail))
    for call in (lambda: torch.sum(a), lambda: a + 1, lambda: a.shape):
        with pytest.raises(ValueError, match="not today"):
            call()


def test_a_disabled_torch_function_makes_a_plain_tensor(torch):
    class Disabled(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    x = torch.ones(2).as_subclass(Disabled)
    assert type(x + 1) is type(x[0]) is type(torch.cat([x, x])) is torch.Tensor
    assert repr(x + 1) == "tensor([2., 2.])"


def test_subclasses_can_be_switched_off(torch, logging):
    x = make(torch, logging)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is type(x.sum()) is torch.Tensor and x.shape == (2,)
        assert not torch._C._is_torch_function_enabled()
        with torch._C.DisableTorchFunctionSubclass():
            pass
        assert not torch._C._is_torch_function_enabled()
    assert logging.seen() == [] and torch._C._is_torch_function_enabled()
    with torch._C.DisableTorchFunction():
        assert type(x * 2) is torch.Tensor
    with pytest.raises(KeyError), torch._C.DisableTorchFunctionSubclass():
        raise KeyError
    assert torch._C._is_torch_function_enabled()


def test_an_answer_may_call_the_function_on_plain_tensors(torch):
    def unwrap(cls, func, types, args, kwargs):
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, cls) else a for a in args]
        return ("unwrapped", func(*plain, **kwargs))

    a = torch.ones(2).as_subclass(answering(torch, "A", unwrap))
    label, result = torch.add(a, 1, alpha=2)
    assert label == "unwrapped" and type(result) is torch.Tensor and result.tolist() == [3.0, 3.0]


def test_a_custom_function_gets_and_gives_subclasses(torch, plain):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.Tensor._make_subclass(plain, torch.ones(2), True)
    y = Double.apply(x)
    assert type(y) is plain and y.tolist() == [2.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_tensor_with_units(torch):
    class Quantity(torch.Tensor):
        handled: dict = {}

        def __new__(cls, data, unit=None):
            return torch.as_tensor(data).as_subclass(cls)

        def __init__(self, data, unit=""):
            self.unit = unit

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            units = [getattr(a, "unit", "") for a in args]
            result = super().__torch_function__(func, types, args, kwargs or {})
            if func in (torch.mul, torch.Tensor.mul):
                result.unit = "*".join(sorted(u for u in units if u))
            elif func in (torch.add, torch.Tensor.add):
                if units[0] != units[1]:
                    raise ValueError(f"cannot add {units[0]} and {units[1]}")
                result.unit = units[0]
            elif isinstance(result, cls) and not hasattr(result, "unit"):
                result.unit = units[0]
            return result

    length, time = Quantity([2.0], "m"), Quantity([3.0], "s")
    assert (length * time).unit == "m*s" and torch.mul(length, 2).unit == "m" and (length + length).unit == "m"
    assert length.sum().unit == "m"
    with pytest.raises(ValueError, match="cannot add m and s"):
        length + time
