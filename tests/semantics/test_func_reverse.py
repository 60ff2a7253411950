"""func.grad, func.grad_and_value and func.vjp: derivatives of functions as functions."""

import gc
import weakref
from importlib import import_module

import pytest


@pytest.fixture
def func(torch):
    return import_module(f"{torch.__name__}.func")


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0], dtype=torch.float64)


@pytest.fixture
def two(torch):
    return torch.tensor(2.0, dtype=torch.float64)


def plain(tensor):
    """A result that nobody can differentiate further, as its values."""
    assert not tensor.requires_grad and tensor.grad_fn is None
    return tensor.tolist()


def test_the_gradient_is_a_function_of_the_same_arguments(torch, func, x):
    assert plain(func.grad(lambda t: (t**3).sum())(x)) == [3.0, 12.0]
    assert plain(func.grad(torch.cos)(torch.tensor(0.0))) == 0.0
    assert plain(func.grad(lambda t, scale, power: (scale * t**power).sum())(x, 2.0, power=2)) == [4.0, 8.0]
    assert x.grad is None and not x.requires_grad


def test_the_transformed_function_keeps_its_name(func):
    def energy(t):
        """Half of the square."""
        return (t * t).sum() / 2

    for transform in (func.grad, func.grad_and_value, func.jacrev, func.jacfwd, func.hessian):
        assert transform(energy).__name__ == "energy" and transform(energy).__doc__ == energy.__doc__


@pytest.mark.parametrize(
    "argnums, expected",
    [
        (0, [1.0, 4.0]),
        (1, [2.0, 8.0]),
        (-1, [2.0, 8.0]),
        (-2, [1.0, 4.0]),
        ((0, 1), ([1.0, 4.0], [2.0, 8.0])),
        ((1,), ([2.0, 8.0],)),
        ((1, 0), ([2.0, 8.0], [1.0, 4.0])),
        ((-1, 0), ([2.0, 8.0], [1.0, 4.0])),
    ],
)
def test_argnums_says_which_arguments_are_meant(func, x, argnums, expected):
    found = func.grad(lambda a, b: (a * b * b).sum(), argnums=argnums)(x, x)
    assert (tuple(map(plain, found)) if isinstance(argnums, tuple) else plain(found)) == expected


@pytest.mark.parametrize(
    "argnums, message",
    [
        (2, "Got argnum=2, but only 2 positional inputs"),
        (-3, "Got argnum=-3, but only 2 positional inputs"),
        ((), "argnums must be non-empty"),
        ((0, 0), "argnums elements must be unique"),
        ((1, -1), "argnums elements must be unique"),
        ([0], "argnums must be int or Tuple"),
        (("a",), "argnum must be int, got: <class 'str'>"),
        (None, "argnums must be int or Tuple"),
    ],
)
def test_argnums_that_name_no_argument_are_refused(func, x, argnums, message):
    with pytest.raises(RuntimeError, match=message):
        func.grad(lambda a, b: (a * b).sum(), argnums=argnums)(x, x)


def test_keyword_arguments_are_not_differentiated(func, x):
    with pytest.raises(RuntimeError, match="Got argnum=0, but only 0 positional inputs"):
        func.grad(lambda t: t.sum())(t=x)


def test_arguments_may_be_nested_containers(func, x):
    found = func.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": (x * 3,)})
    assert plain(found["a"]) == [3.0, 6.0] and plain(found["b"][0]) == [1.0, 2.0] and isinstance(found["b"], tuple)
    assert func.grad(lambda d: x.sum())({}) == {}


def test_aux_is_handed_through(torch, func, x):
    gradient, aux = func.grad(lambda t: (t.sum(), {"double": t * 2, "same": t}), has_aux=True)(x)
    assert plain(gradient) == [1.0, 1.0] and plain(aux["double"]) == [2.0, 4.0] and plain(aux["same"]) == [1.0, 2.0]
    gradient, (value, aux) = func.grad_and_value(lambda t: ((t * t).sum(), t), has_aux=True)(x)
    assert plain(gradient) == [2.0, 4.0] and plain(value) == 5.0 and plain(aux) == [1.0, 2.0]


@pytest.mark.parametrize("result", [lambda t: t.sum(), lambda t: (t.sum(), t, t), lambda t: [t.sum(), t]])
def test_without_a_pair_there_is_no_aux(func, x, result):
    with pytest.raises(RuntimeError, match=r"should be a tuple: \(output, aux\) if has_aux is True"):
        func.grad(result, has_aux=True)(x)


def test_aux_of_anything_but_tensors_is_refused(func, x):
    with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type <class 'int'>"):
        func.grad(lambda t: (t.sum(), (t, 3)), has_aux=True)(x)


def test_grad_and_value_gives_both(func, x):
    gradient, value = func.grad_and_value(lambda t: (t * t).sum())(x)
    assert plain(gradient) == [2.0, 4.0] and plain(value) == 5.0
    gradient, value = func.grad_and_value(lambda t: t)(x[1])
    assert plain(gradient) == 1.0 and plain(value) == 2.0


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda t: t * 2, "return a scalar Tensor, got tensor with 1 dims"),
        (lambda t: t[:1], "return a scalar Tensor"),
        (lambda t: 3.0, "return a Tensor, got <class 'float'>"),
        (lambda t: (t.sum(),), "got <class 'tuple'>"),
        (lambda t: None, "got <class 'NoneType'>"),
        (lambda t: (t * 1j).sum(), "only for real scalar outputs but got"),
    ],
)
def test_other_values_than_one_real_tensor_are_refused(func, x, result, message):
    with pytest.raises(RuntimeError, match=message):
        func.grad(result)(x)


def test_arguments_that_cannot_be_differentiated_are_refused(torch, func, x):
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        func.grad(lambda t: t.sum().float())(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        func.grad(lambda t: t)(3.0)
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        func.grad(lambda t: t[0].sum())([x, 3.0])


def test_values_that_do_not_depend_on_the_argument_have_zero_gradients(torch, func, x):
    assert plain(func.grad(lambda t: torch.tensor(2.0))(x)) == [0.0, 0.0]
    assert plain(func.grad(lambda t: t.sum().long())(x)) == [0.0, 0.0]
    assert [plain(g) for g in func.grad(lambda a, b: a.sum(), (0, 1))(x, x)] == [[1.0, 1.0], [0.0, 0.0]]


def test_complex_arguments_follow_the_convention_of_backward(torch, func):
    found = func.grad(lambda z: (z * z.conj()).real.sum())(torch.tensor([1 + 2j]))
    assert plain(found) == [2 + 4j]


# --- levels --------------------------------------------------------------------------------------------------------


def test_gradients_nest_to_any_order(func, two):
    derivative = lambda t: t**5  # noqa: E731
    for expected in (80.0, 160.0, 240.0, 240.0, 120.0, 0.0):
        derivative = func.grad(derivative)
        assert plain(derivative(two)) == expected


def test_an_inner_level_does_not_see_the_outer_variable(torch, func, two):
    grad, one = func.grad, torch.ones((), dtype=torch.float64)
    assert plain(grad(lambda a: a * grad(lambda b: a + b)(one))(two)) == 1.0
    assert plain(grad(lambda a: a * grad(lambda b: a * b)(one))(two)) == 4.0
    assert plain(grad(lambda a: grad(lambda b: a * b)(a))(two)) == 1.0
    assert plain(grad(lambda a: grad(lambda b: a * a * b * b)(a))(two)) == 24.0
    assert plain(grad(lambda a: grad(lambda b: grad(lambda c: a * b * c * c)(b))(a))(two)) == 16.0


def test_an_inner_gradient_with_respect_to_a_constant_is_one(func, two, x):
    assert plain(func.grad(lambda a: a * func.grad(lambda b: (b**3).sum())(x).sum())(two)) == 15.0


def test_a_result_that_passed_through_a_finished_level_is_plain_again(func, two, x):
    found = func.grad(lambda w: func.grad(lambda t: (t * t * w).sum())(x).sum())(two)
    assert plain(found) == 6.0
    inner = func.grad(lambda w: func.vjp(lambda t: t * t * w, x)[1](x)[0].sum())
    assert plain(inner(two)) == 10.0 and plain(func.grad(inner)(two)) == 0.0


def test_the_same_argument_twice_is_two_variables(func, two):
    assert [plain(g) for g in func.grad(lambda a, b: a * a * b, (0, 1))(two, two)] == [8.0, 4.0]


def test_gradients_reach_tensors_of_the_caller(torch, func, x):
    x.requires_grad_()
    found = func.grad(lambda t: (t**3).sum())(x)
    assert found.requires_grad and x.grad is None
    found.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_gradients_reach_tensors_that_the_function_closes_over(torch, func, x):
    weight = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    gradient, value = func.grad_and_value(lambda t: (t * t * weight).sum())(x)
    (value + gradient.sum()).backward()
    assert gradient.tolist() == [6.0, 16.0] and weight.grad.tolist() == [3.0, 8.0]


def test_a_value_keeps_its_history_outside_of_the_level(torch, func, x):
    x.requires_grad_()
    _, (value, aux) = func.grad_and_value(lambda t: ((t * t).sum(), t * 3), has_aux=True)(x)
    assert [g.tolist() for g in torch.autograd.grad(value, x)] == [[2.0, 4.0]]
    assert [g.tolist() for g in torch.autograd.grad(aux.sum(), x)] == [[3.0, 3.0]]


def test_autograd_grad_works_inside(torch, func, x):
    def slope(t):
        return torch.autograd.grad((t**3).sum(), t, create_graph=True)[0].sum()

    assert plain(func.grad(slope)(x)) == [6.0, 12.0]


def test_the_graph_of_the_caller_is_still_there(torch, func, x):
    x.requires_grad_()
    product = x * x
    for _ in range(2):
        assert func.grad(lambda t: (t * product).sum())(x.detach()).tolist() == [1.0, 4.0]
    product.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


# --- grad modes ----------------------------------------------------------------------------------------------------


def test_no_grad_around_it_does_not_hold_inside(torch, func, x):
    x.requires_grad_()
    with torch.no_grad():
        assert plain(func.grad(lambda t: (t**3).sum())(x)) == [3.0, 12.0]
        gradient, value = func.grad_and_value(lambda t: (t * x).sum())(x)
        assert plain(gradient) == [1.0, 2.0] and plain(value) == 5.0
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_no_grad_inside_makes_constants(torch, func, x, two):
    def half(t):
        with torch.no_grad():
            square = t**2
        return (t * square).sum()

    assert plain(func.grad(half)(x)) == [1.0, 4.0]
    assert plain(func.grad(func.grad(half))(two)) == 0.0


def test_no_grad_between_two_levels_hides_the_inner_from_the_outer(torch, func, two):
    def outer(t):
        with torch.no_grad():
            inner = func.grad(lambda u: u**3)(t)
        return t * inner

    assert plain(func.grad(outer)(two)) == 12.0


def test_detach_inside_makes_constants(func, x, two):
    assert plain(func.grad(lambda t: (t * t.detach()).sum())(x)) == [1.0, 2.0]
    assert plain(func.grad(func.grad(lambda t: t * t.detach()))(two)) == 0.0


def test_inference_mode_around_it_does_not_hold_inside(torch, func, x):
    with torch.inference_mode():
        assert func.grad(lambda t: (t**3).sum())(x).tolist() == [3.0, 12.0]
        made_here = x * 1
        assert func.grad(lambda t: (t**3).sum())(made_here).tolist() == [3.0, 12.0]


def test_grad_mode_is_as_before_after_an_error(torch, func, x):
    with torch.no_grad():
        with pytest.raises(ZeroDivisionError):
            func.grad(lambda t: 1 / 0)(x)
        assert not torch.is_grad_enabled()


# --- writing in place ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", ["leaf", "result", "constant"])
@pytest.mark.parametrize("part", [lambda t: t, lambda t: t[0]])
def test_writing_to_an_argument_is_refused(torch, func, x, outside, part):
    given = x if outside == "constant" else x.requires_grad_() if outside == "leaf" else x.requires_grad_() * 1

    def write(t):
        part(t).mul_(2)
        return t.sum()

    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        func.grad(write)(given)
    assert given.tolist() == [1.0, 2.0]


def test_what_the_function_made_itself_may_be_written(torch, func, x):
    def fill(t):
        out = torch.zeros(2, dtype=torch.float64)
        out[0] = t[1] ** 2
        out[1:] += t[:1]
        return out.mul_(t).sum()

    assert plain(func.grad(fill)(x)) == [6.0, 5.0]


# --- vjp -----------------------------------------------------------------------------------------------------------


def test_vjp_gives_the_value_and_a_function(torch, func, x):
    value, vjp_fn = func.vjp(lambda t: t**3, x)
    assert plain(value) == [1.0, 8.0]
    for factor in (1.0, 2.0):
        (product,) = vjp_fn(torch.tensor([factor, 0.0], dtype=torch.float64))
        assert plain(product) == [3.0 * factor, 0.0]


def test_vjp_of_several_arguments_and_outputs(torch, func, x, two):
    value, vjp_fn = func.vjp(lambda a, d: (a * d["b"], {"sum": a.sum()}), x, {"b": x, "unused": two})
    assert plain(value[0]) == [1.0, 4.0] and plain(value[1]["sum"]) == 3.0
    first, second = vjp_fn((x, {"sum": two}))
    assert plain(first) == [3.0, 6.0] and plain(second["b"]) == [1.0, 4.0] and plain(second["unused"]) == 0.0


def test_vjp_hands_aux_through(func, x):
    value, vjp_fn, aux = func.vjp(lambda t: (t * 2, [t * 3]), x, has_aux=True)
    assert plain(value) == [2.0, 4.0] and plain(aux[0]) == [3.0, 6.0] and plain(vjp_fn(x)[0]) == [2.0, 4.0]


def test_cotangents_must_fit(torch, func, x, two):
    _, vjp_fn = func.vjp(lambda t: t * 2, x)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of"):
        vjp_fn(two)
    with pytest.raises(RuntimeError, match=r"Expected pytree structure of cotangents.*cotangents: \(\*,\), primal"):
        vjp_fn((x,))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got float"):
        vjp_fn(3.0)
    assert plain(vjp_fn(x.float())[0]) == [2.0, 4.0]


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda t: 3.0, "return only tensors, got unsupported type <class 'float'>"),
        (lambda t: (t, 3), "return only tensors, got unsupported type <class 'int'>"),
        (lambda t: None, "non-empty output"),
        (lambda t: (), "non-empty output"),
        (lambda t: t.long(), "must be floating-point or complex Tensors, got Tensor with dtype"),
        (lambda t: (t, t.long()), "must be floating-point or complex Tensors"),
    ],
)
def test_outputs_of_anything_but_floating_tensors_are_refused(func, x, result, message):
    with pytest.raises(RuntimeError, match=message):
        func.vjp(result, x)


def test_vjp_of_a_constant_is_zero(torch, func, x):
    assert plain(func.vjp(lambda t: torch.ones(2), x)[1](torch.ones(2))[0]) == [0.0, 0.0]


def test_products_can_be_differentiated_where_there_is_anything_to_differentiate(torch, func, x):
    vector = torch.tensor([1.0, 10.0], dtype=torch.float64, requires_grad=True)
    _, vjp_fn = func.vjp(lambda t: t**3, x)
    assert plain(vjp_fn(x)[0]) == [3.0, 24.0]
    product = vjp_fn(vector)[0]
    assert torch.autograd.grad(product.sum(), vector)[0].tolist() == [3.0, 12.0]
    with torch.no_grad():
        plain(vjp_fn(vector)[0])


def test_values_and_products_of_vjp_reach_the_caller(torch, func, x):
    x.requires_grad_()
    value, vjp_fn = func.vjp(lambda t: t**3, x)
    assert torch.autograd.grad(value.sum(), x, retain_graph=True)[0].tolist() == [3.0, 12.0]
    assert torch.autograd.grad(vjp_fn(x.detach())[0].sum(), x)[0].tolist() == [6.0, 24.0]


def test_vjp_made_without_grad_mode(torch, func, x):
    x.requires_grad_()
    with torch.no_grad():
        value, vjp_fn = func.vjp(lambda t: t**3, x)
        assert plain(value) == [1.0, 8.0] and plain(vjp_fn(x)[0]) == [3.0, 24.0]


def test_the_graph_of_vjp_is_freed_if_asked(func, x):
    _, vjp_fn = func.vjp(lambda t: t**3, x)
    vjp_fn(x, retain_graph=False)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        vjp_fn(x)


def test_vjp_notices_that_its_point_was_written(gradloom):
    x = gradloom.tensor([1.0, 2.0])
    _, vjp_fn = gradloom.func.vjp(lambda t: t**3, x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        vjp_fn(x)


def test_vjp_in_grad(torch, func, x):
    def inner(t):
        _, vjp_fn = func.vjp(lambda u: u**3, t)
        return vjp_fn(t)[0].sum()

    assert plain(func.grad(inner)(x)) == [9.0, 36.0]


def test_functions_without_arguments_have_a_vjp_without_products(func, two):
    value, vjp_fn = func.vjp(lambda: two)
    assert plain(value) == 2.0 and vjp_fn(two) == ()


# --- lifetimes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grad", "vjp", "jvp", "jvp in jvp", "linearize", "jacrev", "jacfwd", "hessian"])
def test_what_the_function_saw_is_freed_without_the_collector(gradloom, name):
    torch, func, seen = gradloom, gradloom.func, []
    x = torch.ones(2)

    def energy(t):
        squares = t * t
        seen.extend([weakref.ref(t), weakref.ref(squares)])
        return squares.sum()

    calls = {
        "grad": lambda: func.grad(energy)(x),
        "vjp": lambda: func.vjp(energy, x)[1](torch.tensor(1.0)),
        "jvp": lambda: func.jvp(energy, (x,), (x,)),
        "linearize": lambda: func.linearize(energy, x)[1](x),
        "jvp in jvp": lambda: func.jvp(lambda t: func.jvp(energy, (t,), (x,))[1], (x,), (x,)),
        "jacrev": lambda: func.jacrev(energy)(x),
        "jacfwd": lambda: func.jacfwd(energy)(x),
        "hessian": lambda: func.hessian(energy)(x),
    }
    calls[name]()
    seen.clear()
    gc.disable()
    try:
        result = calls[name]()
        assert result is not None and seen and all(reference() is None for reference in seen)
    finally:
        gc.enable()


def test_a_leaf_that_the_function_makes_leaves_no_history_behind(torch, func, x):
    def inner(t):
        weight = torch.full((2,), 2.0, dtype=torch.float64, requires_grad=True)
        return (t * weight * weight).sum()

    assert plain(func.grad(inner)(x)) == [4.0, 4.0]
    value, vjp_fn = func.vjp(inner, x)
    assert plain(value) == 12.0 and plain(vjp_fn(torch.ones_like(value))[0]) == [4.0, 4.0]
    assert not func.grad(lambda t: (t.sum(), torch.ones(1, requires_grad=True) * 2), has_aux=True)(x)[1].requires_grad
    nested = func.grad(lambda t: (func.grad(inner)(t) * t).sum())
    assert plain(nested(x)) == [4.0, 4.0]
    assert plain(func.hessian(lambda t: inner(t * t))(x)) == [[8.0, 0.0], [0.0, 8.0]]
    made_within = func.grad(lambda t: func.grad(lambda u: (torch.nn.Linear(2, 1, dtype=u.dtype)(u) * t).sum())(t).sum())
    plain(made_within(x))


def test_a_leaf_from_outside_keeps_its_history_where_the_function_makes_others(torch, func, x):
    outside = torch.tensor([3.0, 5.0], dtype=torch.float64, requires_grad=True)
    found = func.grad(lambda t: (t * outside * torch.ones(2, requires_grad=True)).sum())(x)
    found.sum().backward()
    assert outside.grad.tolist() == [1.0, 1.0]


def test_a_leaf_that_the_function_makes_can_be_differentiated_there(torch, func, x):
    def f(t):
        weight = torch.full((2,), 2.0, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad((weight**2 * t).sum(), weight, create_graph=True)
        return (slope * t).sum()

    assert plain(func.grad(f)(x)) == [8.0, 16.0]
