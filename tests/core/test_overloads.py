"""The overload parser on a fake tensor: which overload, what its wrapper gets, and what errors say.

That choices and errors are PyTorch's is the subject of tests/conformance/test_overloads.py.
"""

import enum
import inspect
import pydoc
import sys

import numpy as np
import pytest

from gradloom.dispatch.overloads import (
    MISSING,
    GuardedOverload,
    Overloads,
    overloaded_function,
    overloaded_method,
    parsed,
    plain_classes,
    register_types,
)
from tests.core.fake_tensor import (
    FakeDevice,
    FakeGenerator,
    FakeTensor,
    boolean,
    fake_types,
    float32,
    float64,
    int64,
    parameters,
)

pytestmark = pytest.mark.usefixtures(fake_types.__name__)


def record(name):
    """A wrapper that says what it was called with."""

    def wrapper(*args, **kwargs):
        return (name, args, kwargs) if kwargs else (name, args)

    return wrapper


def entry(schema, out_wrapper=None):
    name = schema.partition("(")[0]
    wrapper, taken = record(name), parameters(schema)
    wrapper.__doc__ = schema
    return (taken, wrapper, record(out_wrapper)) if out_wrapper else (taken, wrapper)


def function(*schemas, name="f"):
    return overloaded_function(name, [entry(schema) for schema in schemas])


@pytest.fixture
def x():
    return FakeTensor(np.zeros((2, 3)))


SUM = (
    "sum(Tensor self, *, ScalarType? dtype=None)",
    "sum.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor? out=None)",
)
VIEW = ("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", "view(Tensor(a) self, SymInt[] size) -> Tensor(a)")


class IntEnum(enum.IntEnum):
    ONE = 1


class Indexable:
    def __index__(self):
        return 4


# --- which overload, and with what --------------------------------------------------------------------------


def test_overload_is_chosen_by_number_and_type_of_arguments(x):
    total = function(*SUM)
    for _ in range(2):  # decided, then remembered
        assert total(x) == ("sum", (x, None))
        assert total(x, 0) == ("sum.dim", (x, (0,), False, None))
        assert total(x, None) == ("sum.dim", (x, None, False, None))
        assert total(x, (0, 1), True) == ("sum.dim", (x, (0, 1), True, None))
        assert total(x, dim=[0, 1]) == ("sum.dim", (x, (0, 1), False, None))
        assert total(x, keepdim=True, dim=1) == ("sum.dim", (x, (1,), True, None))
        assert total(x, 1, dtype=float32) == ("sum.dim", (x, (1,), False, float32))
        assert total(x, dtype=float32) == ("sum", (x, float32))
        assert total(input=x) == ("sum", (x, None))
        assert total(input=x, dim=0, keepdim=True, dtype=None) == ("sum.dim", (x, (0,), True, None))


def test_method_binds_its_self(x):
    class T(FakeTensor):
        sum = overloaded_method("sum", [entry(s) for s in SUM])
        where = overloaded_method("where", [entry("where(Tensor condition, Tensor self, Tensor other)")])

    t = T()
    assert t.sum() == ("sum", (t, None))
    assert t.sum(0, True) == ("sum.dim", (t, (0,), True, None))
    assert t.sum(axis=0) == ("sum.dim", (t, (0,), False, None))
    assert t.where(x, t) == ("where", (x, t, t))  # self stands where the schema has it
    with pytest.raises(TypeError, match=r"sum\(\) got an unexpected keyword argument 'out'"):
        t.sum(0, out=x)  # as in PyTorch, no method takes out


def test_integers_one_by_one_where_a_list_is_all_there_is(x):
    class T(FakeTensor):
        view = overloaded_method("view", [entry(s) for s in VIEW])

    t = T()
    for _ in range(2):
        for args in [(2, 3), ((2, 3),), ([2, 3],), (np.int64(2), 3), (FakeTensor(2), 3), (2, IntEnum(1) + 2)]:
            assert t.view(*args) == ("view", (t, (2, 3)))
        assert t.view(6) == ("view", (t, (6,)))
        assert t.view(1, 1, 2, 3) == ("view", (t, (1, 1, 2, 3)))
        assert t.view(size=(6,)) == ("view", (t, (6,)))
        assert t.view(()) == ("view", (t, ()))
        assert t.view(Indexable(), 1) == ("view", (t, (4, 1)))
        assert t.view(6, True) == ("view", (t, (6, 1)))
        assert t.view(float32) == ("view.dtype", (t, float32))
        assert t.view(int) == ("view.dtype", (t, int64))
    for args in [(), (True, 6), (None, 6), (2.0, 3), ((2, 3), 4), ("a",), ((2.0, 3),)]:
        with pytest.raises(TypeError, match=r"view\(\) received an invalid combination of arguments"):
            t.view(*args)
    permute = function("permute(Tensor self, int[] dims)")
    assert permute(x, (1, 0)) == ("permute", (x, (1, 0)))
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        permute(x, 1, 0)
    zeros = function("zeros(int[] size, *, ScalarType? dtype=None, Device? device=None)", name="zeros")
    assert zeros(2) == zeros((2,)) == zeros(size=[2]) == ("zeros", ((2,), None, None))
    assert zeros(2, 3, dtype=float32) == ("zeros", ((2, 3), float32, None))
    assert zeros([]) == ("zeros", ((), None, None))


def test_a_plain_tensor_and_ints_skip_the_parser(x):
    expand = overloaded_method("expand", [entry("expand(Tensor self, int[] size, *, bool implicit=False)")])
    assert expand(x, 2, 3) == ("expand", (x, (2, 3), False))
    assert expand(x, (2, 3)) == expand(x, [2, 3]) == ("expand", (x, (2, 3), False))
    assert expand(x, ()) == ("expand", (x, (), False))
    assert expand(x, (2, True)) == expand(x, 2, True) == ("expand", (x, (2, 1), False))
    assert expand(x, 4, implicit=True) == ("expand", (x, (4,), True))
    assert expand(x, size=(4,)) == ("expand", (x, (4,), False))
    for args in [(), (x,), (x, "a"), (x, (2, 3), 4), (x, (2.0,)), (3, 4)]:
        with pytest.raises(TypeError):
            expand(*args)
    both = overloaded_method("both", [entry("both(Tensor self, int[] size)"), entry("both.one(Tensor self, int n)")])
    assert both(x, 2, 3) == ("both", (x, (2, 3)))
    assert both.__wrapped__.call_with_sizes() is None


def test_values_decide_where_classes_do_not(x):
    f = function("a(Tensor self, int[] n)", "b(Tensor self, float[] n)", "c(Tensor self, Tensor[] n)")
    for _ in range(2):  # all four have the same classes, so they share one plan
        assert f(x, [1, 2])[0] == "a"
        assert f(x, [1.0, 2])[0] == "b"
        assert f(x, [x, x]) == ("c", (x, (x, x)))
        assert f(x, [FakeTensor(1), 2])[0] == "a"
    g = function("int(Tensor self, int n)", "list(Tensor self, int[1] n)")
    for _ in range(2):
        assert g(x, FakeTensor(3)) == ("int", (x, 3))
        assert g(x, FakeTensor([3])) == ("list", (x, (3,)))


def test_tensors_are_tried_before_numbers(x):
    zero = FakeTensor(0)
    for schemas in (
        ("eq.S(Tensor self, Scalar other)", "eq.T(Tensor self, Tensor other)"),
        ("max.dim(Tensor self, int dim, bool keepdim=False)", "eq.T(Tensor self, Tensor other)"),
        (
            "p.SS(Tensor self, Scalar a, Scalar b)",
            "p.TS(Tensor self, Tensor a, Scalar b=1)",
            "eq.T(Tensor self, Tensor a, Tensor? b=None)",
        ),
    ):
        assert function(*schemas)(x, zero)[0] == "eq.T"
    assert function("all.dims(Tensor self, int[]? dim=None)", "all(Tensor self)")(x) == ("all", (x,))
    kept = overloaded_function("f", [entry("a(Scalar self, Tensor b)"), entry("b(Tensor self, Scalar b)")])
    assert [str(s) for s in kept.__wrapped__.signatures] == ["(Number self, Tensor b)", "(Tensor input, Number b)"]


@pytest.mark.parametrize(
    "kind, given, expected",
    [
        ("int", 1, 1),
        ("int", np.int8(1), 1),
        ("int", IntEnum.ONE, 1),
        ("int", FakeTensor(1), 1),
        ("float", 1.5, 1.5),
        ("float", 1, 1.0),
        ("float", True, 1.0),
        ("float", np.float32(1.5), 1.5),
        ("float", np.int8(1), 1.0),
        ("float", FakeTensor(1), 1.0),
        ("float", FakeTensor(1.5), 1.5),
        ("Scalar", 1, 1),
        ("Scalar", 1.5, 1.5),
        ("Scalar", True, True),
        ("Scalar", 2j, 2j),
        ("Scalar", np.float64(1.5), 1.5),
        ("Scalar", np.float16(1.5), 1.5),
        ("Scalar", np.bool_(True), 1.0),  # a float, as PyTorch takes it
        ("Scalar", np.complex64(2j), 2j),
        ("Scalar", np.longdouble(1.5), 1.5),
        ("Scalar", FakeTensor(2), 2),
        ("Scalar", IntEnum.ONE, 1),
        ("complex", 1, 1 + 0j),
        ("bool", True, True),
        ("str", "a", "a"),
        ("ScalarType", float, float64),
        ("ScalarType", bool, boolean),
        ("ScalarType", float32, float32),
        ("int[2]", 3, (3, 3)),
        ("int[2]", [3, 4], (3, 4)),
        ("int[2]", (3,), (3,)),
        ("int[2]", np.int8(3), (3, 3)),
        ("int[2]", FakeTensor(3), (3, 3)),
        ("int[1]", FakeTensor([3]), (3,)),
        ("int[2]", [np.int8(3), FakeTensor(4)], (3, 4)),
        ("float[]", [1, 2.5], (1.0, 2.5)),
        ("bool[2]", [True, False], (True, False)),
        ("Scalar[]", [1, 2.5, FakeTensor(3)], (1, 2.5, 3)),
        ("Tensor|number", np.float32(1.5), ("wrapped", 1.5)),
        ("Tensor|number", 2, ("wrapped", 2)),
        ("Tensor|number", True, ("wrapped", True)),
        ("int?", None, None),
        ("int[2]?", None, None),
        ("Tensor?", None, None),
        ("Generator?", None, None),
    ],
)
def test_values_are_normalised(kind, given, expected):
    f = function(f"f({kind} value, int other=0)")
    for _ in range(2):
        for _, (value, _) in (f(given), f(value=given), f(given, 1), f(given, other=1)):
            assert value == expected
            assert type(value) is type(expected)


@pytest.mark.parametrize(
    "kind, given",
    [
        ("int", True),
        ("int", 1.0),
        ("int", None),
        ("int", "1"),
        ("int", FakeTensor(1.0)),
        ("int", FakeTensor([1])),
        ("int", FakeTensor(True)),
        ("int", Indexable()),
        ("int", np.bool_(1)),
        ("int", np.float32(1)),
        ("int?", "1"),
        ("float", 1j),
        ("float", "1"),
        ("float", FakeTensor([1.0])),
        ("float", FakeTensor(1.0, requires_grad=True)),
        ("float", np.complex64(1)),
        ("Scalar", "1"),
        ("Scalar", None),
        ("Scalar", np.array(1)),
        ("Scalar", FakeTensor([1.0])),
        ("Scalar", FakeTensor(1.0, requires_grad=True)),
        ("bool", 1),
        ("bool", None),
        ("bool", np.bool_(1)),
        ("bool", FakeTensor(True)),
        ("str", 1),
        ("ScalarType", "float32"),
        ("ScalarType", str),
        ("ScalarType", np.float32),
        ("Tensor", 1),
        ("Tensor", None),
        ("Tensor", np.zeros(2)),
        ("Tensor|number", "1"),
        ("Tensor|number", None),
        ("Tensor[]", FakeTensor()),
        ("Tensor[]", 1),
        ("Tensor[]", [1]),
        ("Tensor[]", [None]),
        ("Tensor?[]", [1]),
        ("int[]", 1.0),
        ("int[2]", True),
        ("int[2]", (True, 1)),
        ("int[2]", 1.0),
        ("int[2]", "ab"),
        ("float[]", 1.0),
        ("float[]", ["a"]),
        ("bool[2]", [True]),
        ("bool[2]", [1, 0]),
        ("Device", 1.5),
        ("Generator", 3),
        ("Layout", "strided"),
        ("MemoryFormat", 3),
    ],
)
def test_values_are_refused(kind, given):
    f = function(f"f(*, {kind} value)")  # by keyword, so that int[] takes no integers one by one
    for _ in range(2):
        with pytest.raises(TypeError, match=r"^f\(\)|^expected"):
            f(value=given)


def test_sequences_of_tensors(x):
    cat = function("cat(Tensor[] tensors, int dim=0)")
    for _ in range(2):
        assert cat([x, x]) == ("cat", ((x, x), 0))
        assert cat((x,), dim=1) == ("cat", ((x,), 1))
        assert cat([]) == ("cat", ((), 0))
    index = function("index(Tensor self, Tensor?[] indices)")
    assert index(x, [None, x]) == ("index", (x, (None, x)))


def test_devices_come_from_strings():
    f = function("f(*, Device? device=None, Generator? generator=None)")
    generator = FakeGenerator()
    assert f(generator=generator) == ("f", (None, generator))
    name, (device, _) = f(device="cpu")
    assert type(device) is FakeDevice and device.text == "cpu"
    assert f(device=device) == ("f", (device, None))


def test_out_reaches_its_wrapper(x):
    f = overloaded_function(
        "f",
        [
            entry("f(Tensor self, int n=1, *, Tensor? out=None)", "f_out"),
            entry("g(Tensor self, str s, *, Tensor[2]? out=None)"),
        ],
    )
    out = FakeTensor()
    for _ in range(2):
        assert f(x, out=out) == ("f_out", (x, 1), {"out": out})
        assert f(x, 2, out=None) == ("f", (x, 2))
        assert f(x, "s", out=[out, out]) == ("g", (x, "s"), {"out": (out, out)})
    with pytest.raises(TypeError, match="expected tuple of 2 elements but got 1"):
        f(x, "s", out=(out,))


def test_names_from_numpy(x):
    f = function("f(Tensor self, Tensor other, int dim, bool keepdim=False)")
    expected = ("f", (x, x, 1, True))
    assert (
        f(x, x, axis=1, keepdims=True)
        == f(x=x, x2=x, dim=1, keepdims=True)
        == f(x1=x, other=x, axis=1, keepdim=True)
        == expected
    )
    assert f(a=x, x2=x, axis=1, keepdim=True) == expected
    with pytest.raises(TypeError, match=r"f\(\) got an unexpected keyword argument 'axis'"):
        f(x, x, dim=1, axis=1)
    with pytest.raises(TypeError, match="missing"):
        f(self=x, other=x, dim=1)  # `self` is called input
    power = function("power(Scalar self, Tensor exponent)")
    assert power(self=2, exponent=x) == ("power", (2, x))


def test_defaults_of_every_kind():
    f = function("""f(*, int i=-1, float e=1e-05, float one=1, Scalar s=1, bool b=True, str a="va,(l]id",
                 str? c='fro', int reduction=Mean, int[2] pair=1, int[] none=[], int[1] dims=[-2,-1],
                 ScalarType? t=long, Scalar? n=None)""")
    assert f() == ("f", (-1, 1e-5, 1.0, 1, True, "va,(l]id", "fro", 1, (1, 1), (), (-2, -1), int64, None))
    assert type(f()[1][2]) is float


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((), {}, 'transpose() missing 3 required positional argument: "input", "dim0", "dim1"'),
        (("x", 0), {}, 'transpose() missing 1 required positional arguments: "dim1"'),
        (("x", "a"), {}, "transpose(): argument 'dim0' (position 2) must be int, not str"),
        (("x", 0, 1, 2), {}, "transpose() takes 3 positional arguments but 4 were given"),
        (("x", 0), {"dim1": 1.5}, "transpose(): argument 'dim1' must be int, not float"),
        (("x", 0, 1), {"foo": 1}, "transpose() got an unexpected keyword argument 'foo'"),
        (("x", 0, 1), {"dim0": 1}, "transpose() got multiple values for argument 'dim0'"),
        ((3, 0, 1), {}, "transpose(): argument 'input' (position 1) must be Tensor, not int"),
        ((None, 0, 1), {}, "transpose(): argument 'input' (position 1) must be Tensor, not NoneType"),
        ((np.zeros(2), 0, 1), {}, "transpose(): argument 'input' (position 1) must be Tensor, not numpy.ndarray"),
    ],
)
def test_errors_of_one_signature(x, args, kwargs, message):
    f = function("transpose(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", name="transpose")
    with pytest.raises(TypeError) as info:
        f(*[x if type(a) is str and a == "x" else a for a in args], **kwargs)
    assert str(info.value) == message
    assert info.value.__context__ is None  # what happened inside the parser is no reader's concern


def test_errors_of_several_signatures_list_them(x):
    power = overloaded_method(
        "pow", [entry("pow.T(Tensor self, Tensor exponent)"), entry("pow.S(Tensor self, Scalar exponent)")]
    )
    with pytest.raises(TypeError) as info:
        power(x, "a")
    assert str(info.value) == (
        "pow() received an invalid combination of arguments - got (str), but expected one of:\n"
        " * (Tensor exponent)\n"
        "      didn't match because some of the arguments have invalid types: (!str!)\n"
        " * (Number exponent)\n"
        "      didn't match because some of the arguments have invalid types: (!str!)\n"
    )
    with pytest.raises(TypeError) as info:
        function(*SUM, name="sum")(x, (0.5, 1))
    assert str(info.value) == (
        "sum() received an invalid combination of arguments - got (Tensor, tuple), but expected one of:\n"
        " * (Tensor input, *, torch.dtype dtype = None)\n"
        "      didn't match because it takes 1 positional argument but 2 were given\n"
        " * (Tensor input, tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None, "
        "Tensor out = None)\n"
        "      didn't match because some of the arguments have invalid types: "
        "(Tensor, !tuple of (float, int)!)\n"
    )
    with pytest.raises(TypeError, match="some of the keywords were incorrect: foo") as info:
        function(*SUM, name="sum")(x, foo=1)
    assert "got (Tensor, foo=int), but expected one of:" in str(info.value)
    assert "some of the arguments are missing" not in str(info.value)


def test_one_signature_that_takes_as_many_speaks_for_itself(x):
    total = function(*SUM, name="sum")
    for args, kwargs, message in [
        ((3,), {}, "sum(): argument 'input' (position 1) must be Tensor, not int"),
        ((x, 0, 1), {}, "sum(): argument 'keepdim' (position 3) must be bool, not int"),
        ((x, 0, True, 5), {}, "sum() takes from 2 to 3 positional arguments but 4 were given"),
    ]:
        with pytest.raises(TypeError) as info:
            total(*args, **kwargs)
        assert str(info.value) == message


def test_elements_are_named_by_their_place(x):
    view = overloaded_method("view", [entry(s) for s in VIEW])
    with pytest.raises(TypeError) as info:
        view(x, 6, 1.0)
    assert str(info.value) == (
        "view(): argument 'size' failed to unpack the object at pos 2 with error "
        '"type must be tuple of ints,but got float"'
    )
    with pytest.raises(TypeError, match="^expected Tensor as element 1 in argument 0, but got int$"):
        function("cat(Tensor[] tensors, int dim=0)")([x, 3])
    with pytest.raises(
        TypeError,
        match=r"f\(\): argument 'n' must be tuple of floats, but found element of "
        "type str at pos 2",
    ):
        function("f(float[] n)")([1.0, "a"])


def test_the_wrappers_own_errors_pass_unchanged(x):
    calls = []

    def failing(self, dims):
        calls.append(dims)
        raise TypeError("from inside")

    f = overloaded_function("f", [(parameters("f(Tensor self, int[] dims)"), failing)])
    with pytest.raises(TypeError, match="^from inside$") as info:
        f(x, [1])
    assert calls == [(1,)] and info.value.__context__ is None


@pytest.mark.parametrize(
    "schema, message",
    [
        ("f(Dimname x)", "argument type 'Dimname' is not supported"),
        ("f(str[] x)", "not supported"),
        ("f(int x=Maen)", "unknown default 'Maen'"),
    ],
)
def test_a_bad_signature_is_refused_when_it_is_first_used(schema, message):
    with pytest.raises(ValueError, match=message):
        function(schema)(1)


def test_a_method_needs_a_self():
    with pytest.raises(ValueError, match="a method needs a parameter named self"):
        overloaded_method("f", [entry("f(Tensor input)")])(FakeTensor())


def test_unknown_types_are_not_registered():
    with pytest.raises(TypeError, match="unexpected keyword argument 'Tenser'"):
        register_types(Tenser=int)


# --- subclasses ---------------------------------------------------------------------------------------------


class Overriding:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("the hook decides when to call it")


def test_objects_with_an_override_go_to_the_hook(x):
    total, d = function(*SUM), Overriding()
    cat = function("cat(Tensor[] tensors, int dim=0)")
    for _ in range(2):
        assert total(d) == ("overridden", total, (d,), {})
        assert total(x, d) == ("overridden", total, (x, d), {})  # for a number, too, as in PyTorch
        assert total(x, dim=d) == ("overridden", total, (x,), {"dim": d})
        assert cat([x, d], dim=1) == ("overridden", cat, ([x, d],), {"dim": 1})
        assert cat([x, x])[0] == "cat"
    with pytest.raises(TypeError):
        total(d, "a")  # but the call must make sense


def test_plain_subclasses_are_tensors(x):
    class Plain(FakeTensor):
        pass

    class Disabled(FakeTensor):
        __torch_function__ = staticmethod(len)

    register_types(disabled_torch_function=len)
    total = function(*SUM)
    for cls in (Plain, Disabled):
        t = cls()
        assert total(t, 0) == ("sum.dim", (t, (0,), False, None))


# --- guarded wrappers ---------------------------------------------------------------------------------------


@pytest.fixture
def unsqueeze():
    def unsqueeze(input, dim=MISSING, *, fast=False, out=None, axis=MISSING):
        if type(dim) is not int or type(input) not in plain_classes or axis is not MISSING:
            return guard(input, dim, fast=fast, out=out, axis=axis)
        return "done", input, dim, out

    schema = "unsqueeze(Tensor self, int dim, *, bool fast=False, Tensor? out=None)"
    guard = GuardedOverload("unsqueeze", [(parameters(schema), unsqueeze)])
    return unsqueeze


def test_a_guarded_wrapper_is_called_again_with_normal_arguments(x, unsqueeze):
    class Plain(FakeTensor):
        pass

    p, out, d = Plain(), FakeTensor(), Overriding()
    for _ in range(2):
        assert unsqueeze(x, np.int64(1)) == ("done", x, 1, None)
        assert unsqueeze(p, 1) == ("done", p, 1, None)  # a class that was new
        assert unsqueeze(x, FakeTensor(1), out=out) == ("done", x, 1, out)
        assert unsqueeze(x, axis=2) == ("done", x, 2, None)
        assert unsqueeze(d, 1) == ("overridden", unsqueeze, (d, 1), {"fast": False, "out": None})
        plain_classes.clear()  # as it is when it is full


def test_a_guarded_wrapper_raises_what_pytorch_raises(x, unsqueeze):
    for args, kwargs, message in [
        ((x,), {}, 'unsqueeze() missing 1 required positional arguments: "dim"'),
        ((x, 1.0), {}, "unsqueeze(): argument 'dim' (position 2) must be int, not float"),
        ((3, 1), {}, "unsqueeze(): argument 'input' (position 1) must be Tensor, not int"),
        ((x, 1), {"axis": 1}, "unsqueeze() got an unexpected keyword argument 'axis'"),
    ]:
        with pytest.raises(TypeError) as info:
            unsqueeze(*args, **kwargs)
        assert str(info.value) == message


def test_arguments_after_a_missing_one_keep_their_places(x):
    def roll(input=MISSING, shifts=MISSING, wrap=False):
        return guard(input, shifts, wrap)

    guard = GuardedOverload("roll", [(parameters("roll(Tensor self, int shifts, bool wrap=False)"), roll)])
    for call, message in [
        (lambda: roll(), 'roll() missing 2 required positional argument: "input", "shifts"'),
        (lambda: roll(x), 'roll() missing 1 required positional arguments: "shifts"'),
        (lambda: roll(x, wrap=True), 'roll() missing 1 required positional arguments: "shifts"'),
        (lambda: roll(shifts=1), 'roll() missing 1 required positional arguments: "input"'),
        (lambda: roll(shifts=1, wrap=2), 'roll() missing 1 required positional arguments: "input"'),
    ]:
        with pytest.raises(TypeError) as info:
            call()
        assert str(info.value) == message


def test_a_guard_that_refuses_normal_arguments_does_not_recurse(x):
    def stubborn(input, dims=MISSING, axis=MISSING):
        return guard(input, dims, axis=axis)

    guard = GuardedOverload("stubborn", [(parameters("stubborn(Tensor self, int[] dims=[])"), stubborn)])
    with pytest.raises(TypeError, match="guard refuses"):
        stubborn(x)
    for dims in [(1, 2), [1, 2], [np.int64(1), True]]:
        with pytest.raises(TypeError, match="guard refuses arguments that its signature accepts"):
            stubborn(x, dims)


def test_a_python_function_gets_a_parser(x):
    @parsed(("self", "Tensor"), ("dim", "int", 0))
    def size(input, dim=0):
        """Return a size."""
        return input, dim

    assert size(x) == size(input=x, dim=0) == (x, 0) and size(x, axis=np.int64(1)) == (x, 1)
    assert (size.__name__, size.__doc__) == ("size", "" if sys.flags.optimize > 1 else "Return a size.")
    for call, message in [
        (lambda: size(), 'size() missing 1 required positional arguments: "input"'),
        (lambda: size(x, 1, 2), "size() takes from 1 to 2 positional arguments but 3 were given"),
        (lambda: size(x, d=1), "size() got an unexpected keyword argument 'd'"),
        (lambda: size(x, "a"), "size(): argument 'dim' (position 2) must be int, not str"),
    ]:
        with pytest.raises(TypeError) as info:
            call()
        assert str(info.value) == message


# --- the public function ------------------------------------------------------------------------------------


def test_public_functions_present_themselves(x):
    total = overloaded_function("sum", [entry(s) for s in SUM])
    method = overloaded_method("sum", [entry(s) for s in SUM])
    assert (total.__name__, total.__qualname__, total.__module__) == ("sum", "sum", "gradloom")
    assert method.__qualname__ == "Tensor.sum"
    assert total.__doc__ == "\n".join(SUM)
    assert overloaded_function("sum", [entry(s) for s in SUM], doc="Adds.").__doc__ == "Adds."
    assert str(inspect.signature(total)) == "(*args, **kwargs)"
    assert str(inspect.signature(method)) == "(self, /, *args, **kwargs)"
    one = function("clamp(Tensor self, Scalar? min=None, *, Tensor? out=None)", name="clamp")
    assert str(inspect.signature(one)) == "(input, min=None, *, out=None)"
    assert "clamp(input, min=None, *, out=None)" in pydoc.plain(pydoc.render_doc(one))
    assert repr(one.__wrapped__) == ("<overloads of clamp: (Tensor input, Number min = None, *, Tensor out = None)>")


def test_signatures_are_made_on_first_use():
    overloads = Overloads("f", [((("x", "nonsense"),), None)])
    with pytest.raises(ValueError):
        overloads(1)


def test_remembered_calls_are_bounded(x):
    f = function("f(Tensor self, *, int n=0)")
    for i in range(1000):
        t = type(f"T{i}", (FakeTensor,), {})()
        assert f(t) == ("f", (t, 0))
    assert len(f.__wrapped__.plans) <= 256


def test_a_wrapper_with_the_defaults_of_its_schema_is_called_without_them(x):
    calls = []

    def same(a, n=0, flag=False):
        calls.append((a, n, flag))

    def other(a, n=1, flag=0):
        calls.append((a, n, flag))

    parameters = (("self", "Tensor"), ("n", "int", 0), ("flag", "bool", False))
    for wrapper in (same, other):
        f = overloaded_function("f", [(parameters, wrapper)])
        f(x), f(x, 2), f(x, flag=True), f(x, 2, True)
        assert [*map(repr, calls)] == [*map(repr, [(x, 0, False), (x, 2, False), (x, 0, True), (x, 2, True)])]
        calls.clear()
    of_same = overloaded_function("f", [(parameters, same)])
    of_same(x)
    assert of_same.__wrapped__.plans == {type(x): same}
