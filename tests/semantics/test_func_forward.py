"""func.jvp and func.linearize, and forward mode in and around reverse mode."""

from importlib import import_module

import pytest


@pytest.fixture
def func(torch):
    return import_module(f"{torch.__name__}.func")


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0], dtype=torch.float64)


@pytest.fixture
def v(torch):
    return torch.tensor([1.0, 10.0], dtype=torch.float64)


@pytest.fixture
def one(torch):
    return torch.ones((), dtype=torch.float64)


@pytest.fixture
def two(torch):
    return torch.tensor(2.0, dtype=torch.float64)


def plain(tensor):
    """A result that nobody can differentiate further, as its values."""
    assert not tensor.requires_grad and tensor.grad_fn is None
    return tensor.tolist()


def slope(func, function, one):
    """The derivative of a function of one number, by jvp."""
    return lambda t: func.jvp(function, (t,), (one,))[1]


def test_jvp_gives_the_value_and_the_product(func, x, v):
    value, product = func.jvp(lambda t: t**3, (x,), (v,))
    assert plain(value) == [1.0, 8.0] and plain(product) == [3.0, 120.0]
    assert plain(func.jvp(lambda t: t, (x,), (v,))[1]) == [1.0, 10.0]


def test_jvp_of_several_arguments_and_outputs(func, x, v):
    value, product = func.jvp(lambda a, d: {"p": a * d["b"], "s": (a.sum(),)}, (x, {"b": x}), (v, {"b": x}))
    assert plain(value["p"]) == [1.0, 4.0] and plain(value["s"][0]) == 3.0
    assert plain(product["p"]) == [2.0, 24.0] and plain(product["s"][0]) == 11.0


def test_jvp_hands_aux_through(func, x, v):
    value, product, aux = func.jvp(lambda t: (t * 2, {"k": t * 3}), (x,), (v,), has_aux=True)
    assert plain(value) == [2.0, 4.0] and plain(product) == [2.0, 20.0] and plain(aux["k"]) == [3.0, 6.0]


@pytest.mark.parametrize(
    "primals, tangents, message",
    [
        ("x", "v", "Expected primals to be a tuple"),
        ("[x]", "[v]", "Expected primals to be a tuple"),
        ("(x,)", "(v, v)", "to have the same python structure"),
        ("(x,)", "v", "to have the same python structure"),
        ("(x,)", "[v]", "to have the same python structure"),
        ("()", "()", "Expected primals to contain at least one"),
        ("(3.0,)", "(v,)", "Expected primals to only contain Tensors, got <class 'float'>"),
        ("(x,)", "(3.0,)", "Expected tangents to only contain Tensors, got <class 'float'>"),
        ("(x, x)", "(v, None)", "Expected tangents to only contain Tensors, got <class 'NoneType'>"),
        ("(x,)", "(v[0],)", "forward gradient that has a different size than that of the original"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_primals_and_tangents_must_fit(func, x, v, one, primals, tangents, message, nested):
    def call(_=None):
        return func.jvp(lambda *a: a[0], eval(primals, {"x": x, "v": v}), eval(tangents, {"x": x, "v": v}))[1].sum()

    with pytest.raises(RuntimeError, match=message):
        func.jvp(call, (one,), (one,)) if nested else call()


def test_dtypes_without_derivatives_are_refused(torch, func, x):
    with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
        func.jvp(lambda t: t * 2.0, (torch.tensor([1, 2]),), (x,))
    with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
        func.jvp(lambda t: t * 2.0, (x,), (torch.tensor([1, 2]),))


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda t: 3.0, "return only tensors, got unsupported type <class 'float'>"),
        (lambda t: (t, 3), "return only tensors, got unsupported type <class 'int'>"),
        (lambda t: None, "non-empty output"),
        (lambda t: (), "non-empty output"),
    ],
)
def test_outputs_of_anything_but_tensors_are_refused(func, x, v, result, message):
    with pytest.raises(RuntimeError, match=message):
        func.jvp(result, (x,), (v,))


def test_outputs_that_do_not_depend_on_the_arguments_have_zero_products(torch, func, x, v):
    value, product = func.jvp(lambda t: (torch.ones(3), t.long()), (x,), (v,))
    assert plain(value[0]) == [1.0] * 3 and plain(product[0]) == [0.0] * 3 and plain(product[1]) == [0, 0]
    assert product[0].dtype == torch.float32 and product[1].dtype == torch.int64


def test_strict_refuses_them(torch, func, x, v, one):
    with pytest.raises(RuntimeError, match="The output of f is independent of the inputs"):
        func.jvp(lambda t: torch.ones(3), (x,), (v,), strict=True)
    with pytest.raises(RuntimeError, match="The output of f is independent of the inputs"):
        func.jvp(lambda s: func.jvp(lambda t: torch.ones(3), (x,), (v,), strict=True)[1], (one,), (one,))


def test_without_a_pair_there_is_no_aux(func, x, v):
    with pytest.raises(RuntimeError, match=r"should be a tuple: \(output, aux\) if has_aux is True"):
        func.jvp(lambda t: t, (x,), (v,), has_aux=True)


def test_an_argument_may_be_written(func, x, v):
    assert plain(func.jvp(lambda t: t.mul_(2), (x,), (v,))[1]) == [2.0, 20.0] and x.tolist() == [2.0, 4.0]


def test_tangents_that_are_written_in_place_can_be_differentiated(torch, func, x):
    def write(t):
        out = t.clone()
        first = out[0]
        out.mul_(t)
        first.mul_(t[1])
        return out.mul_(2)

    point, t = x.clone().requires_grad_(), torch.tensor([1.0, 3.0], dtype=torch.float64)
    product = func.jvp(write, (point,), (t,))[1]
    assert product.tolist() == [14.0, 24.0]
    assert torch.autograd.grad(product.sum(), point)[0].tolist() == [20.0, 16.0]
    assert func.hessian(lambda a: write(a).sum())(x).tolist() == [[8.0, 4.0], [4.0, 4.0]]


def test_no_grad_does_not_hold_for_forward_mode(torch, func, x, v):
    def square(t):
        with torch.no_grad():
            return t**2

    assert plain(func.jvp(square, (x,), (v,))[1]) == [2.0, 40.0]
    with torch.no_grad():
        assert plain(func.jvp(square, (x.requires_grad_(),), (v,))[1]) == [2.0, 40.0]


def test_results_reach_the_caller(torch, func, x, v):
    x.requires_grad_()
    value, product = func.jvp(lambda t: t**3, (x,), (v,))
    assert torch.autograd.grad(value.sum(), x, retain_graph=True)[0].tolist() == [3.0, 12.0]
    assert torch.autograd.grad(product.sum(), x)[0].tolist() == [6.0, 120.0]
    v.requires_grad_()
    product = func.jvp(lambda t: t**3, (x.detach(),), (v,))[1]
    assert torch.autograd.grad(product.sum(), v)[0].tolist() == [3.0, 12.0]


# --- levels --------------------------------------------------------------------------------------------------------


def test_products_nest_to_any_order(func, one, two):
    derivative = lambda t: t**5  # noqa: E731
    for expected in (80.0, 160.0, 240.0, 240.0):
        derivative = slope(func, derivative, one)
        assert plain(derivative(two)) == expected


def test_an_inner_level_does_not_see_the_outer_variable(func, one, two):
    assert plain(slope(func, lambda a: a * slope(func, lambda b: a + b, one)(one), one)(two)) == 1.0
    assert plain(slope(func, lambda a: a * slope(func, lambda b: a * b, one)(one), one)(two)) == 4.0
    assert plain(slope(func, lambda a: slope(func, lambda b: a * b, one)(a), one)(two)) == 1.0
    assert plain(slope(func, lambda a: slope(func, lambda b: a * a * b * b, one)(a), one)(two)) == 24.0


def test_the_tangent_of_an_inner_level_may_depend_on_the_outer(func, one, two):
    assert plain(func.jvp(lambda a: func.jvp(lambda b: b**3, (a,), (a,))[1], (two,), (one,))[1]) == 36.0
    assert plain(func.jvp(lambda a: func.jvp(lambda b: b**3, (one,), (a,))[1], (two,), (one,))[1]) == 3.0


def test_nested_products_with_containers_and_aux(func, x, v, one):
    def outer(s):
        value, product, aux = func.jvp(
            lambda d: ((d["a"] ** 2, d["a"].sum()), d["a"] * s), ({"a": x * s},), ({"a": v},), has_aux=True
        )
        return value, product, aux

    value, product = func.jvp(outer, (one,), (one,))
    assert plain(value[0][0]) == [1.0, 4.0] and plain(value[1][0]) == [2.0, 40.0] and plain(value[2]) == [1.0, 2.0]
    assert plain(product[0][0]) == [2.0, 8.0] and plain(product[1][0]) == [2.0, 40.0]
    assert plain(product[1][1]) == 0.0 and plain(product[2]) == [2.0, 4.0]


def test_forward_over_reverse_is_a_hessian_vector_product(func, x, v):
    value, product = func.jvp(func.grad(lambda t: (t**3).sum() + t.prod()), (x,), (v,))
    assert plain(value) == [5.0, 13.0] and plain(product) == [16.0, 121.0]


def test_reverse_over_forward_is_one_too(func, x, v):
    found = func.grad(lambda t: func.jvp(lambda u: (u**3).sum() + u.prod(), (t,), (v,))[1])(x)
    assert plain(found) == [16.0, 121.0]


def test_all_mixtures_of_modes_agree(func, one, two):
    reverse, forward = func.grad, lambda f: slope(func, f, one)
    cube = lambda t: t**4  # noqa: E731
    for first in (reverse, forward):
        for second in (reverse, forward):
            assert plain(first(second(cube))(two)) == 48.0
            for third in (reverse, forward):
                assert plain(first(second(third(cube)))(two)) == 48.0


def test_a_gradient_inside_of_a_product_sees_the_tangents_of_what_it_closes_over(func, one, two):
    assert plain(slope(func, lambda a: func.grad(lambda b: a**3 * b**2)(a.detach()), one)(two)) == 48.0
    assert plain(slope(func, lambda a: func.grad(lambda b: a**3 * b**2)(one), one)(two)) == 24.0


def test_a_value_inside_of_a_product_keeps_its_tangent(func, one, two):
    def both(a):
        gradient, (value, aux) = func.grad_and_value(lambda b: (b**3, b * 5), has_aux=True)(a)
        output, vjp_fn = func.vjp(lambda b: b**3, a)
        return gradient, value, aux, output, vjp_fn(a)[0]

    values, products = func.jvp(both, (two,), (one,))
    assert [plain(t) for t in values] == [12.0, 8.0, 10.0, 8.0, 24.0]
    assert [plain(t) for t in products] == [12.0, 12.0, 5.0, 12.0, 36.0]


def test_the_derivative_of_a_hessian_vector_product_by_its_vector(func, x, v):
    found = func.grad(lambda u: func.jvp(func.grad(lambda t: (t**3).sum()), (x,), (u,))[1].sum())(v)
    assert plain(found) == [6.0, 12.0]


# --- linearize -----------------------------------------------------------------------------------------------------


def test_linearize_gives_the_value_and_a_linear_function(func, x, v):
    calls = []

    def cube(t):
        calls.append(t)
        return t**3

    value, jvp_fn = func.linearize(cube, x)
    assert plain(value) == [1.0, 8.0]
    before = len(calls)
    assert plain(jvp_fn(v)) == [3.0, 120.0] and plain(jvp_fn(v * 2)) == [6.0, 240.0] and len(calls) == before


def test_linearize_with_containers(torch, func, x, v):
    value, jvp_fn = func.linearize(lambda d, y: {"o": d["a"] * y, "c": torch.ones(2)}, {"a": x}, x)
    assert plain(value["o"]) == [1.0, 4.0]
    product = jvp_fn({"a": v}, x)
    assert plain(product["o"]) == [2.0, 24.0] and product["c"].tolist() == [0.0, 0.0]


def test_tangents_must_fit_what_was_linearized(func, x, v, one):
    _, jvp_fn = func.linearize(lambda t: t**2, x)
    with pytest.raises(RuntimeError, match=r"tangent:0 with shape torch.Size\(\[\]\) in flattened pytree"):
        jvp_fn(one)
    with pytest.raises(RuntimeError, match="tangent:0 with dtype torch.float32 in flattened pytree doesn't match"):
        jvp_fn(v.float())
    with pytest.raises(RuntimeError, match="to have the same argspec as the primals"):
        jvp_fn(v, v)


def test_linear_functions_can_be_differentiated(torch, func, x, v):
    v.requires_grad_()
    _, jvp_fn = func.linearize(lambda t: t**3, x)
    assert torch.autograd.grad(jvp_fn(v).sum(), v)[0].tolist() == [3.0, 12.0]


def test_a_linearized_derivative_depends_on_the_point(gradloom):
    linearize, grad = gradloom.func.linearize, gradloom.func.grad
    one, two = gradloom.ones(()), gradloom.tensor(2.0)
    assert plain(grad(lambda t: linearize(lambda u: u**3, t)[1](one))(two)) == 12.0


def test_no_grad_is_refused_where_two_reverse_passes_stand_for_forward_mode(gradloom):
    one, two = gradloom.ones(()), gradloom.tensor(2.0)

    def square(t):
        with gradloom.no_grad():
            return t**2

    with pytest.raises(NotImplementedError, match="^linearize: the function uses no_grad"):
        gradloom.func.linearize(square, two)
    with pytest.raises(NotImplementedError, match="^jvp: the function uses no_grad"):
        slope(gradloom.func, slope(gradloom.func, square, one), one)(two)


@pytest.mark.parametrize("name", ["batch", "layer", "group", "instance"])
def test_tangents_of_normalisations_can_be_differentiated(gradloom, name):
    torch, F, func = gradloom, gradloom.nn.functional, gradloom.func
    torch.manual_seed(0)
    x, t, u, c = (torch.randn(3, 4, 2, dtype=torch.float64) for _ in range(4))
    w = torch.randn(4, dtype=torch.float64)
    normalised = {
        "batch": lambda a: F.batch_norm(a, None, None, w, training=True),
        "group": lambda a: F.group_norm(a, 2, w),
        "layer": lambda a: F.layer_norm(a, (4, 2)),
        "instance": F.instance_norm,
    }[name]

    def pushed(a):
        return func.jvp(normalised, (a,), (t,))[1]

    h = 1e-5
    expected = (pushed(x + h * u) - pushed(x - h * u)) / (2 * h)
    assert torch.allclose(func.jvp(pushed, (x,), (u,))[1], expected, atol=1e-5)
    assert torch.allclose((func.vjp(pushed, x)[1](c)[0] * u).sum(), (expected * c).sum(), atol=1e-5)
