"""Custom operators: Python functions that autograd does not look into, with a schema and a derivative of their own."""

from __future__ import annotations

from typing import Optional

import numpy as np
import pytest

_numbers = iter(range(10**6))


def setup_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@pytest.fixture
def name():
    """A name that no other test has."""
    return f"custom_ops_of_tests::op{next(_numbers)}"


@pytest.fixture
def sine(torch, name):
    def sine(x):
        return torch.from_numpy(np.sin(x.detach().numpy()))

    sine.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    return torch.library.custom_op(name, mutates_args=())(sine)


def make(torch, name, function, annotations, **options):
    function.__annotations__ = annotations
    return torch.library.custom_op(name, function, mutates_args=options.pop("mutates_args", ()), **options)


def scale(torch, name):
    T = torch.Tensor

    def scale(x, w, k=2.0, *, n=1):
        return x * w * k * n

    return make(torch, name, scale, {"x": T, "w": T, "k": float, "n": int, "return": T})


def test_custom_operators_have_the_tag_of_well_behaved_ones_before_their_own(torch, name):
    op = make(torch, name, lambda x: x + 1, {"x": torch.Tensor, "return": torch.Tensor}, tags=[torch.Tag.pointwise])
    assert op._opoverload.tags == [torch.Tag.pt2_compliant_tag, torch.Tag.pointwise]


def test_a_function_becomes_an_operator_of_its_namespace(torch, sine, name):
    namespace, short = name.split("::")
    op = getattr(getattr(torch.ops, namespace), short)
    x = torch.tensor([0.0, 1.0])
    assert sine(x).tolist() == op(x).tolist() == op.default(x=x).tolist() == pytest.approx(torch.sin(x).tolist())
    assert str(op.default._schema) == f"{name}(Tensor x) -> Tensor"
    assert repr(sine) == f"<CustomOpDef({name})>" and sine._opoverload is op.default


def test_backward_without_a_formula_says_what_to_register(torch, sine, name):
    x = torch.ones(3, requires_grad=True)
    y = sine(x)
    assert y.requires_grad and y.grad_fn.name() == f"GeneratedBackwardFor_{name.replace('::', '_')}_defaultBackward"
    with pytest.raises(RuntimeError, match="but no autograd formula was registered. Please use register_autograd to"):
        y.sum().backward()


def test_a_formula_gives_it_a_derivative(torch, sine):
    seen = []

    def setup_context(ctx, inputs, output):
        seen.append((len(inputs), type(output) is torch.Tensor, output.requires_grad))
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        (x,) = ctx.saved_tensors
        return grad * x.cos()

    sine.register_autograd(backward, setup_context=setup_context)
    x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sine, (x,)) and torch.autograd.gradgradcheck(sine, (x,))
    seen.clear()
    sine(x).sum().backward()
    assert torch.allclose(x.grad, x.detach().cos()) and seen == [(1, True, False), (True,)]


def test_nothing_is_recorded_where_nothing_requires_grad(torch, sine):
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not sine(x).requires_grad
    assert sine(torch.ones(2)).grad_fn is None


def test_arguments_have_defaults_and_names(torch, name):
    op = scale(torch, name)
    x, w = torch.ones(2), torch.full((2,), 3.0)
    assert op(x, w).tolist() == [6, 6] and op(x, w, 1.0).tolist() == [3, 3] and op(x=x, w=w, n=2).tolist() == [12, 12]
    with pytest.raises(RuntimeError, match="is missing value for argument 'w'. Declaration: custom_ops_of_tests::op"):
        op(x)
    with pytest.raises(RuntimeError, match=r"takes 3 positional argument\(s\) but 4 was/were given"):
        op(x, w, 2.0, 3)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'q' for operator"):
        op(x, w, q=3)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x' but instead found type"):
        op(1, w)


def test_setup_context_gets_keyword_only_arguments_apart(torch, name):
    op, seen = scale(torch, name), []

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        seen.append((inputs[2:], keyword_only_inputs))

    op.register_autograd(lambda ctx, grad: (grad, grad, None), setup_context=setup_context)
    x = torch.ones(2, requires_grad=True)
    op(x, x)
    op(x, x, 3.0, n=4)
    assert seen == [((2.0,), {"n": 1}), ((3.0,), {"n": 4})]


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        (lambda g: g, "returned an incorrect number of gradients"),
        (lambda g: None, "returned an incorrect number"),
        (lambda g: (g, "a", None), r"expected Variable or None \(got str\)"),
        (
            lambda g: (g, g, g),
            "returned a gradient different than None at position 3, but the corresponding forward input",
        ),
    ],
)
def test_a_backward_returns_one_gradient_for_each_argument(torch, name, gradients, message):
    op = scale(torch, name)
    op.register_autograd(lambda ctx, grad: gradients(grad))
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=message):
        op(x, x, 3.0).sum().backward()


def test_a_setup_context_without_the_keyword_only_arguments_is_refused(torch, name):
    op = scale(torch, name)
    op.register_autograd(lambda ctx, grad: (grad, grad, None), setup_context=setup_inputs)
    with pytest.raises(TypeError, match="keyword_only_inputs"):
        op(torch.ones(2, requires_grad=True), torch.ones(2))


def test_lists_of_tensors_have_lists_of_gradients(torch, name):
    T = torch.Tensor

    def double(xs, y, z):
        return [x * 2 for x in xs]

    op = make(torch, name, double, {"xs": list[T], "y": Optional[T], "z": T, "return": list[T]})  # noqa: UP045
    assert str(op._opoverload._schema).endswith("(Tensor[] xs, Tensor? y, Tensor z) -> Tensor[]")
    seen = []

    def backward(ctx, grads):
        seen.append((type(grads), len(grads), ctx.needs_input_grad))
        return [g * 2 for g in grads], None, None

    op.register_autograd(backward)
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    found = op([a, b], None, torch.ones(1))
    assert type(found) is list and all(t.requires_grad for t in found)
    (found[0].sum() + found[1].sum() * 3).backward()
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [6, 6]
    assert seen == [(list, 2, ([True, True], False, False))]


@pytest.mark.parametrize(
    "wrong", [lambda g: (g[0], None, None), lambda g: (None, None, None), lambda g: ([g[0]], None, None)]
)
def test_gradients_of_a_list_have_its_structure(torch, name, wrong):
    T = torch.Tensor
    types = {"xs": list[T], "y": Optional[T], "z": T, "return": list[T]}  # noqa: UP045
    op = make(torch, name, lambda xs, y, z: [x * 2 for x in xs], types)
    op.register_autograd(lambda ctx, grads: wrong(grads))
    a = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Expected the return from backward to be of the same structure as"):
        op([a, a * 2], None, a)[0].sum().backward()


def test_several_results_of_which_some_are_no_floating_tensors(torch, name):
    T, seen = torch.Tensor, []
    op = make(torch, name, lambda x: (x * 2, x.to(torch.int64), 3), {"x": T, "return": tuple[T, T, int]})

    def backward(ctx, *grads):
        seen.append([g if g is None else g.tolist() for g in grads])
        return grads[0] * 2

    op.register_autograd(backward)
    x = torch.ones(2, requires_grad=True)
    doubled, whole, number = op(x)
    assert doubled.requires_grad and not whole.requires_grad and number == 3
    doubled.sum().backward()
    assert seen == [[[1, 1], [0, 0], None]] and x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.view(-1), lambda x: x[0]])
def test_results_must_not_share_memory_with_arguments(torch, name, function):
    op = make(torch, name, lambda x: function(x), {"x": torch.Tensor, "return": torch.Tensor})
    for x in (torch.ones(2), torch.ones(2, requires_grad=True)):
        with pytest.raises(RuntimeError, match=r"\(2\) may not alias any inputs to this custom operator"):
            op(x)


def test_results_must_not_share_memory_with_one_another(torch, name):
    T = torch.Tensor

    def twice(x):
        y = x.clone()
        return y, y

    op = make(torch, name, twice, {"x": T, "return": tuple[T, T]})
    with pytest.raises(RuntimeError, match="may not alias any inputs to this custom operator or other returns"):
        op(torch.ones(2))


def test_results_are_what_the_schema_says(gradloom, name):
    """PyTorch 2.15 returns some other results as they are."""
    T = gradloom.Tensor
    with pytest.raises(RuntimeError, match="Unable to cast 3 to Tensor"):
        make(gradloom, name, lambda x: 3, {"x": T, "return": T})(gradloom.ones(1))
    with pytest.raises(TypeError, match="'Tensor'.* is not an instance of 'sequence'"):
        make(gradloom, name + "b", lambda x: x.clone(), {"x": T, "return": tuple[T, T]})(gradloom.ones(1))
    with pytest.raises(RuntimeError, match="Unable to cast 3 to Tensor"):
        make(gradloom, name + "c", lambda x: [x.clone(), 3], {"x": T, "return": list[T]})(gradloom.ones(1))


def test_results_that_are_numbers_have_the_schema_s_type(torch, name):
    def giving(number):
        return lambda x: number

    for place, (number, kind) in enumerate(((3, float), (1, bool), (True, int))):
        op = make(torch, f"{name}{place}", giving(number), {"x": torch.Tensor, "return": kind})
        found = op(torch.ones(1))
        assert found == number and type(found) is kind


def test_what_is_written_to_has_a_new_version_and_no_derivative(torch, name):
    T = torch.Tensor

    def increase(x, y):
        x.add_(y)

    op = make(torch, name, increase, {"x": T, "y": T, "return": None}, mutates_args={"x"})
    assert str(op._opoverload._schema).endswith("(Tensor(a0!) x, Tensor y) -> ()") and op._opoverload._schema.is_mutable
    x = torch.ones(2)
    assert op(x, torch.ones(2)) is None and x.tolist() == [2, 2] and x._version == 2
    leaf = torch.ones(2, requires_grad=True)
    square = leaf * leaf.detach().clone().requires_grad_()
    saved = square.exp()
    op(saved, torch.ones(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        op.register_autograd(lambda ctx, grad: grad)


def test_kernels_are_chosen_by_the_device(torch, name):
    op = make(torch, name, lambda x: x * 2, {"x": torch.Tensor, "return": torch.Tensor}, device_types="cuda")
    with pytest.raises(NotImplementedError, match="Could not run '.*' with arguments from the 'CPU' backend"):
        op(torch.ones(1))
    op.register_kernel("cpu")(lambda x: x * 4)
    assert op(torch.ones(1)).tolist() == [4]
    general = make(torch, name + "b", lambda x: x * 2, {"x": torch.Tensor, "return": torch.Tensor})
    assert general(torch.ones(1)).tolist() == [2]
    general.register_kernel("cpu", lambda x: x * 7)
    assert general(torch.ones(1)).tolist() == [7]


def test_an_operator_may_be_defined_again(torch, sine, name):
    make(torch, name, lambda x: x * 5, {"x": torch.Tensor, "return": torch.Tensor})
    namespace, short = name.split("::")
    assert getattr(getattr(torch.ops, namespace), short)(torch.ones(1)).tolist() == [5]


def test_a_schema_may_be_given_instead_of_annotations(torch, name):
    op = torch.library.custom_op(name, lambda x, y=3: x * y, mutates_args=(), schema="(Tensor x, int y=3) -> Tensor")
    assert op(torch.ones(1)).tolist() == [3] and op(torch.ones(1), 4).tolist() == [4]
    with pytest.raises(ValueError, match="Please make these consistent"):
        torch.library.custom_op(name, lambda x: None, mutates_args=(), schema="(Tensor(a!) x) -> ()")
    with pytest.raises(ValueError, match="Please make these consistent"):
        torch.library.custom_op(name, lambda x: None, mutates_args={"x"}, schema="(Tensor x) -> Tensor")


def test_functions_of_the_library_take_names_and_operators(torch, sine, name):
    x = torch.ones(2, requires_grad=True)
    torch.library.register_autograd(name, lambda ctx, grad: grad * 5)
    sine(x).sum().backward()
    assert x.grad.tolist() == [5, 5]
    torch.library.register_kernel(name, "cpu", lambda x: x * 7)
    assert sine(torch.ones(1)).tolist() == [7]
    torch.library.register_fake(name)(lambda x: torch.empty_like(x))
    with pytest.raises(RuntimeError, match="operator custom_ops_of_tests::nothing does not exist"):
        torch.library.register_fake("custom_ops_of_tests::nothing")(lambda x: x)


def test_names_have_a_namespace_and_tensors_are_positional(torch, name):
    T = torch.Tensor
    with pytest.raises(ValueError):
        make(torch, "nameless", lambda x: x, {"x": T, "return": T})
    with pytest.raises(TypeError, match="mutates_args"):
        torch.library.custom_op(name)

    def keyword_only(x, *, y):
        return x * y

    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        make(torch, name, keyword_only, {"x": T, "y": T, "return": T})


def test_autocast_converts_the_arguments_of_operators_that_ask_for_it(torch, name):
    seen = []

    def see(x):
        seen.append(x.dtype)
        return x.clone()

    op = make(torch, name, see, {"x": torch.Tensor, "return": torch.Tensor})
    op.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        op(torch.ones(1))
    op(torch.ones(1))
    assert seen == [torch.bfloat16, torch.float32]


# --- schemas from annotations ---------------------------------------------------------------------------------


def test_a_schema_is_inferred_from_annotations(torch):
    T, infer = torch.Tensor, torch.library.infer_schema

    def many(a, b, c, d, e, f, g=None, h="q", *, i=2.5, j=True, k=torch.float32, m=None):
        pass

    many.__annotations__ = {
        "a": T,
        "b": Optional[T],  # noqa: UP045
        "c": list[T],
        "d": list[T | None],
        "e": int,
        "f": torch.types.Number,
        "g": list[int] | None,
        "h": str,
        "i": float,
        "j": bool,
        "k": torch.dtype,
        "m": torch.device | None,
        "return": tuple[T, list[T], int, float, bool],
    }
    if torch.__name__ == "gradloom":  # PyTorch's Number has no complex
        many.__annotations__["f"] = int | float | bool
    assert infer(many, mutates_args=()) == (
        '(Tensor a, Tensor? b, Tensor[] c, Tensor?[] d, SymInt e, Scalar f, SymInt[]? g=None, str h="q", *, '
        "float i=2.5, bool j=True, ScalarType k=float32, Device? m=None) -> (Tensor, Tensor[], SymInt, float, bool)"
    )
    assert infer(many, mutates_args={"c"}).startswith("(Tensor a, Tensor? b, Tensor(a2!)[] c")
    assert infer(many, mutates_args=(), op_name="my::many").startswith("my::many(Tensor a")


def test_mutates_args_is_unknown_or_the_names_of_tensors(torch):
    T, infer = torch.Tensor, torch.library.infer_schema

    def f(x, y, n):
        pass

    f.__annotations__ = {"x": T, "y": T, "n": int, "return": None}
    assert infer(f, mutates_args="unknown") == "(Tensor(a0!) x, Tensor(a1!) y, SymInt n) -> ()"
    assert infer(f, mutates_args={"y"}) == "(Tensor x, Tensor(a1!) y, SymInt n) -> ()"
    with pytest.raises(ValueError, match="were not found in the custom op's signature"):
        infer(f, mutates_args={"q"})
    with pytest.raises(ValueError, match="only Tensors or collections of Tensors can be mutated"):
        infer(f, mutates_args={"n"})


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"return": "T"}, "Parameter x must have a type annotation"),
        ({"x": "T"}, "No return type annotation was"),
        ({"x": dict, "return": "T"}, "Parameter x has unsupported type"),
        ({"x": list, "return": "T"}, "Parameter x has unsupported type"),
        ({"x": "T", "return": dict}, "Return has unsupported type"),
        ({"x": "T", "return": str}, "Return has unsupported"),
    ],
)
def test_what_has_no_word_in_schemas_is_refused(torch, annotations, message):
    def f(x):
        pass

    f.__annotations__ = {name: torch.Tensor if a == "T" else a for name, a in annotations.items()}
    with pytest.raises(ValueError, match=message):
        torch.library.infer_schema(f, mutates_args=())


def test_parameters_of_operators_have_names(torch):
    def f(x, *rest):
        pass

    f.__annotations__ = {"x": torch.Tensor, "rest": torch.Tensor, "return": torch.Tensor}
    with pytest.raises(ValueError, match="We do not support positional-only args, varargs, or varkwargs"):
        torch.library.infer_schema(f, mutates_args=())


# --- opcheck --------------------------------------------------------------------------------------------------

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def test_opcheck_passes_an_operator_that_is_what_it_says(torch, sine):
    sine.register_fake(lambda x: torch.empty_like(x))
    sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=setup_inputs)
    assert torch.library.opcheck(sine, (torch.ones(2, requires_grad=True),), test_utils=CHECKS) == dict.fromkeys(
        CHECKS, "SUCCESS"
    )
    assert torch.library.opcheck(sine._opoverload, (torch.ones(2),), test_utils="test_schema") == {
        "test_schema": "SUCCESS"
    }


def test_opcheck_finds_writes_that_the_schema_does_not_say(torch, name):
    def lies(x):
        x.add_(1)
        return x.clone()

    op = make(torch, name, lies, {"x": torch.Tensor, "return": torch.Tensor})
    with pytest.raises(
        torch.library.opcheck.__globals__.get("OpCheckError", Exception),
        match="test_schema failed with Argument x is not defined as mutable but was mutated",
    ):
        torch.library.opcheck(op, (torch.ones(2),), test_utils="test_schema")
    found = torch.library.opcheck(op, (torch.ones(2),), test_utils="test_schema", raise_exception=False)
    assert "mutated" in str(found["test_schema"])


def test_opcheck_finds_a_fake_of_another_shape(torch, sine):
    sine.register_fake(lambda x: x.new_empty(3))
    with pytest.raises(Exception, match=r"Shapes torch.Size\(\[2\]\) and torch.Size\(\[3\]\) are not equal!"):
        torch.library.opcheck(sine, (torch.ones(2),), test_utils="test_faketensor")


def test_opcheck_takes_operators_and_names_of_its_checks_only(torch, sine):
    with pytest.raises(ValueError, match="op must be instance of torch._ops.OpOverload"):
        torch.library.opcheck(3, (torch.ones(2),))
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        torch.library.opcheck(sine, (torch.ones(2),), test_utils="bogus")


def test_opcheck_runs_backward(gradloom, name):
    sine = make(gradloom, name, lambda x: x.sin(), {"x": gradloom.Tensor, "return": gradloom.Tensor})
    with pytest.raises(gradloom.library.OpCheckError, match="test_backward failed with Trying to backward through"):
        gradloom.library.opcheck(sine, (gradloom.ones(2, requires_grad=True),))


def test_extents_that_depend_on_values_are_asked_of_the_context(gradloom, name):
    T = gradloom.Tensor
    op = make(gradloom, name, lambda x: x[x > 0].clone(), {"x": T, "return": T})
    op.register_fake(lambda x: x.new_empty([gradloom.library.get_ctx().new_dynamic_size()]))
    assert gradloom.library.opcheck(op, (gradloom.tensor([1.0, -1.0]),))["test_faketensor"] == "SUCCESS"
    assert gradloom.library.get_ctx() is None


def test_tangents_are_refused_rather_than_dropped(gradloom, name):
    sine = make(gradloom, name, lambda x: x.sin(), {"x": gradloom.Tensor, "return": gradloom.Tensor})
    with gradloom.autograd.forward_ad.dual_level():
        x = gradloom.autograd.forward_ad.make_dual(gradloom.ones(2), gradloom.ones(2))
        with pytest.raises(NotImplementedError, match="forward AD"):
            sine(x)


def test_classes_and_modes_that_answer_functions_see_the_operator(torch, name):
    seen = []

    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(f"mode {func}")
            return func(*args, **(kwargs or {}))

    op = make(torch, name, lambda x: x * 2, {"x": torch.Tensor, "return": torch.Tensor})
    plain, x = torch.ones(2), torch.ones(2).as_subclass(Seeing)
    seen.clear()
    assert type(op(x)) is Seeing
    with Mode():
        op(plain)
    assert seen == [str(op._opoverload), f"mode {op._opoverload}"]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_calls_an_operator_for_each_example_or_by_its_rule(torch, name):
    seen = []

    def add_twice(x, y, *, n=2):
        return torch.from_numpy(x.detach().numpy() * n + y.detach().numpy())

    T = torch.Tensor
    op = make(torch, name, add_twice, {"x": T, "y": T, "n": int, "return": T})
    x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True), torch.ones(2)
    expected = (x * 3 + y).tolist()
    assert torch.vmap(lambda x, y: op(x, y, n=3), in_dims=(0, None))(x.detach(), y).tolist() == expected

    def rule(info, in_dims, x, y, *, n=2):
        seen.append((info.batch_size, in_dims, x.shape, y.shape, n))
        return op(x, y.expand(info.batch_size, 2), n=n), 0

    op.register_vmap(rule)
    op.register_autograd(lambda ctx, grad: (grad * 3, grad))
    found = torch.vmap(lambda x, y: op(x, y, n=3), in_dims=(0, None))(x, y)
    assert found.tolist() == expected and seen == [(3, (0, None), (3, 2), (2,), 3)]
    assert torch.autograd.grad(found.sum(), x)[0].tolist() == [[3, 3]] * 3
