"""Derivatives through vmap and within it: by autograd itself, and of custom Functions."""

from __future__ import annotations

import pytest


@pytest.fixture
def x(torch):
    torch.manual_seed(0)
    return torch.randn(4, 3, dtype=torch.float64)


def close(torch, found, expected):
    assert found.shape == expected.shape and torch.allclose(found, expected)


def test_gradients_flow_to_what_is_mapped_and_to_what_is_shared(torch, x):
    a, w = x.clone().requires_grad_(), x[0].clone().requires_grad_()
    torch.vmap(lambda row: torch.tanh(torch.dot(row, w)) * row.sum())(a).sum().backward()
    b, v = x.clone().requires_grad_(), x[0].clone().requires_grad_()
    (torch.tanh(b @ v) * b.sum(1)).sum().backward()
    close(torch, a.grad, b.grad)
    close(torch, w.grad, v.grad)


def test_gradients_go_through_vmap_twice(torch, x):
    a = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(torch.vmap(lambda r: (r**3).sum())(a).sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), a)
    close(torch, second, 6 * x)


def test_gradcheck_takes_a_function_that_maps(torch, x):
    def f(a, w):
        return torch.vmap(lambda row: torch.softmax(row * w, 0).cumsum(0))(a)

    inputs = (x.clone().requires_grad_(), x[0].clone().requires_grad_())
    assert torch.autograd.gradcheck(f, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, inputs)


def test_is_grads_batched_gives_a_row_for_each_vector(torch, x):
    a = x.clone().requires_grad_()
    y = torch.tanh(a @ x.t())
    vectors = torch.randn(5, *y.shape, dtype=torch.float64)
    (found,) = torch.autograd.grad(y, a, vectors, retain_graph=True, is_grads_batched=True)
    close(torch, found, torch.stack([torch.autograd.grad(y, a, v, retain_graph=True)[0] for v in vectors]))


def test_is_grads_batched_makes_one_pass(torch, x):
    a = x.clone().requires_grad_()
    calls = []
    y = a * 2
    y.register_hook(lambda g: calls.append(1))
    torch.autograd.grad(y.sin(), a, torch.ones(6, 4, 3, dtype=torch.float64), is_grads_batched=True)
    assert len(calls) == 1


def test_batched_gradients_can_be_differentiated(torch, x):
    a = x.clone().requires_grad_()
    eye = torch.eye(3, dtype=torch.float64)
    y = a[0] ** 3
    (rows,) = torch.autograd.grad(y, a, eye, create_graph=True, is_grads_batched=True)
    (second,) = torch.autograd.grad(rows.sum(), a)
    expected = torch.zeros_like(x)
    expected[0] = 6 * x[0]
    close(torch, second, expected)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_jacobians_are_the_same(torch, x, strategy):
    def f(a, b):
        return torch.sin(a) * b.sum(), (a @ b.t()).exp().sum(1), a.new_ones(2)

    plain = torch.autograd.functional.jacobian(f, (x[:2], x[2:]))
    found = torch.autograd.functional.jacobian(f, (x[:2], x[2:]), vectorize=True, strategy=strategy)
    for row, other in zip(plain, found, strict=True):
        for one, two in zip(row, other, strict=True):
            close(torch, two, one)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_hessians_are_the_same(torch, x, strategy):
    def f(a):
        return (a.sin() * a.pow(3)).sum() * a.prod()

    plain = torch.autograd.functional.hessian(f, x[0])
    found = torch.autograd.functional.hessian(f, x[0], vectorize=True, outer_jacobian_strategy=strategy)
    close(torch, found, plain)


def test_a_vectorized_jacobian_can_be_differentiated(torch, x):
    a = x[0].clone().requires_grad_()
    found = torch.autograd.functional.jacobian(lambda t: t**3, a, create_graph=True, vectorize=True)
    (second,) = torch.autograd.grad(found.sum(), a)
    close(torch, second, 6 * x[0])


def test_gradcheck_of_batched_gradients_wants_operators_that_vmap_knows(torch, x):
    class Item(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * float(g.sum().item() < 1e9) * 2

        @staticmethod
        def jvp(ctx, t):
            return t * float(t.sum().item() < 1e9) * 2

    inputs = (x[0].clone().requires_grad_(),)
    assert torch.autograd.gradcheck(Item.apply, inputs)
    with pytest.raises(RuntimeError, match="failed while testing batched gradient"):
        torch.autograd.gradcheck(Item.apply, inputs, check_batched_grad=True)
    with pytest.raises(RuntimeError, match="failed while testing batched gradient computation with forward-mode AD"):
        torch.autograd.gradcheck(Item.apply, inputs, check_forward_ad=True, check_batched_forward_grad=True)
    assert torch.autograd.gradcheck(
        torch.sin, inputs, check_batched_grad=True, check_forward_ad=True, check_batched_forward_grad=True
    )


# --- custom Functions -------------------------------------------------------------------------------------------------


def product(torch, **members):
    """A Function of two tensors and a number."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(a, b, k):
            return a * b * k, a + b

        @staticmethod
        def setup_context(ctx, inputs, output):
            a, b, ctx.k = inputs
            ctx.save_for_backward(a, b)
            ctx.save_for_forward(a, b)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            a, b = ctx.saved_tensors
            return g * b * ctx.k, g * a * ctx.k, None

        @staticmethod
        def jvp(ctx, a_t, b_t, _):
            a, b = ctx.saved_tensors
            return a_t * b * ctx.k + a * b_t * ctx.k, None

    for name, value in members.items():
        setattr(Product, name, value)
    return Product


def test_a_generated_rule_batches_forward_and_backward(torch, x):
    Product = product(torch, generate_vmap_rule=True)
    a, w = x.clone().requires_grad_(), x[0].clone().requires_grad_()
    found, total = torch.vmap(lambda row: Product.apply(row, w, 2.0))(a)
    close(torch, found, x * x[0] * 2)
    close(torch, total, x + x[0])
    assert found.grad_fn.name() == "VmappedProductBackward"
    found.sum().backward()
    close(torch, a.grad, (2 * x[0]).expand(4, 3))
    close(torch, w.grad, 2 * x.sum(0))


def test_a_generated_rule_works_nested_and_under_grad(torch, x):
    Product = product(torch, generate_vmap_rule=True)

    def f(a, b):
        return Product.apply(a, b, 3.0)[0].sum()

    close(torch, torch.vmap(torch.func.grad(f), in_dims=(0, None))(x, x[0]), (3 * x[0]).expand(4, 3))
    nested = torch.vmap(torch.vmap(lambda a, b: Product.apply(a, b, 1.0)[0], (None, 0)), (0, None))(x, x)
    close(torch, nested, x.unsqueeze(1) * x.unsqueeze(0))


def test_a_generated_rule_batches_jvp(torch, x):
    Product = product(torch, generate_vmap_rule=True)
    found = torch.vmap(lambda a, t: torch.func.jvp(lambda p: Product.apply(p, x[0], 2.0)[0], (a,), (t,))[1])(x, x)
    close(torch, found, x * x[0] * 2)


def test_a_vmap_staticmethod_is_given_what_it_needs(torch, x):
    seen = []

    def rule(info, in_dims, a, b, k):
        seen.append((info.batch_size, info.randomness, in_dims, tuple(a.shape), tuple(b.shape), k))
        return (a * b * k, (a + b).t()), (0, 1)

    Product = product(torch, vmap=staticmethod(rule))
    found, total = torch.vmap(lambda row: Product.apply(row, x[0], 2.0), randomness="same")(x)
    assert seen == [(4, "same", (0, None, None), (4, 3), (3,), 2.0)]
    close(torch, found, x * x[0] * 2)
    close(torch, total, x + x[0])


def test_functions_without_a_rule_are_refused(torch, x):
    Product = product(torch)
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        torch.vmap(lambda row: Product.apply(row, x[0], 2.0))(x)
    Both = product(torch, generate_vmap_rule=True, vmap=staticmethod(lambda *_: None))
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        torch.vmap(lambda row: Both.apply(row, x[0], 2.0))(x)
    Wrong = product(torch, vmap=staticmethod(lambda info, in_dims, a, b, k: a))
    with pytest.raises(RuntimeError, match="Expected the vmap staticmethod to have two returns"):
        torch.vmap(lambda row: Wrong.apply(row, x[0], 2.0))(x)
    Dims = product(torch, vmap=staticmethod(lambda info, in_dims, a, b, k: (a, (0, 0))))
    with pytest.raises(RuntimeError, match=r"incompatible \(output, out_dims\) tuple"):
        torch.vmap(lambda row: Dims.apply(row, x[0], 2.0))(x)


def test_a_function_that_takes_ctx_in_forward_is_refused(torch, x):
    class Old(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        torch.vmap(Old.apply)(x)


def test_a_function_of_nothing_that_is_mapped_needs_no_rule(gradloom):
    t = gradloom.arange(6.0).reshape(2, 3)
    Product = product(gradloom)
    found = gradloom.vmap(lambda row: Product.apply(t[0], t[1], 1.0)[0] + row)(t)
    assert gradloom.equal(found, t[0] * t[1] + t)


def test_outputs_marked_as_not_differentiable_stay_so_when_batched(gradloom):
    t = gradloom.ones(2, 3, requires_grad=True)
    Product = product(gradloom, generate_vmap_rule=True)
    found, total = gradloom.vmap(lambda row: Product.apply(row, gradloom.ones(3), 2.0))(t)
    assert found.requires_grad and not total.requires_grad


def test_autograd_grad_within_vmap_is_that_of_each_example(gradloom):
    t = gradloom.arange(6.0).reshape(2, 3)

    def f(a):
        a = a.detach().requires_grad_()
        (first,) = gradloom.autograd.grad((a**3).sum(), a, create_graph=True)
        (second,) = gradloom.autograd.grad(first.sum(), a)
        return first.detach(), second

    first, second = gradloom.vmap(f)(t)
    assert gradloom.equal(first, 3 * t**2) and gradloom.equal(second, 6 * t)


def test_hooks_on_a_mapped_tensor_see_a_gradient_of_each_example(gradloom):
    t = gradloom.ones(2, 3, requires_grad=True)
    shapes = []

    def f(a):
        b = a * 2
        b.register_hook(lambda g: shapes.append(tuple(g.shape)) or g * 10)
        return b.sum()

    gradloom.vmap(f)(t).sum().backward()
    assert shapes == [(3,)] and t.grad.tolist() == [[20.0] * 3] * 2


# --- custom functions whose arguments and results hold tensors in lists and dicts ------------------------------------


def of_lists(torch, **members):
    class Made(torch.autograd.Function):
        @staticmethod
        def forward(values, named):
            return values[0] * 2 + named["b"], [values[0], {"all": values[0] * 3}]

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.first = inputs[0][0]

    for name, member in members.items():
        setattr(Made, name, member)
    return Made.apply


def test_a_vmap_staticmethod_is_told_of_tensors_in_lists_and_dicts(torch):
    seen = []

    def vmap(info, in_dims, values, named):
        seen.append((in_dims, values[0].shape))
        return (values[0] * 2 + named["b"], [values[0], {"all": values[0] * 3}]), (0, [0, {"all": 0}])

    function = of_lists(torch, vmap=staticmethod(vmap))
    y = torch.ones(2, 4)
    found = torch.vmap(lambda y: function([y, 3], {"b": torch.ones(4)}))(y)
    assert found[0].tolist() == [[3.0] * 4] * 2 and found[1][1]["all"].shape == (2, 4)
    torch.vmap(lambda y: function((torch.ones(4), None), {"b": y}))(y)
    assert seen == [(([0, None], {"b": None}), (2, 4)), (((None, None), {"b": 0}), (4,))]


def test_a_generated_rule_sees_tensors_in_lists_and_dicts(torch):
    function = of_lists(torch, generate_vmap_rule=True)
    y = torch.arange(4.0).reshape(2, 2)
    found = torch.vmap(lambda y: function([y, 3], {"b": torch.ones(2)}))(y)
    assert found[0].tolist() == (y * 2 + 1).tolist()
    assert found[1][0].tolist() == y.tolist() and found[1][1]["all"].tolist() == (y * 3).tolist()
    found = torch.vmap(lambda y: function((torch.ones(2), "x"), {"b": y})[0])(y)
    assert found.tolist() == (y + 2).tolist()


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:There is a performance drop")
@pytest.mark.parametrize("reduce", ["mean", "amax", "amin"])
def test_gradients_flow_through_index_reduce_in_place(torch, x, reduce):
    index, source = torch.tensor([0, 1, 1]), torch.full((3,), 0.5, dtype=x.dtype)

    def f(row):
        return (row * 1).index_reduce_(0, index, source, reduce).square().sum()

    close(torch, torch.vmap(torch.func.grad(f))(x), torch.stack([torch.func.grad(f)(row) for row in x]))
