"""Transforms within vmap and around it, and mapped functions that transforms gave: each is a loop over examples."""

from importlib import import_module

import pytest


@pytest.fixture
def func(torch):
    return import_module(f"{torch.__name__}.func")


@pytest.fixture
def random(torch):
    generator = torch.Generator()
    generator.manual_seed(0)
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)


@pytest.fixture
def w(random):
    return random(3, 2)


@pytest.fixture
def x(random):
    return random(5, 3)


@pytest.fixture
def y(random):
    return random(5, 2)


@pytest.fixture
def layer(torch, w):
    return lambda x: torch.tanh(x @ w)


@pytest.fixture
def loss(torch):
    return lambda w, x, y: ((torch.tanh(x @ w) - y) ** 2).sum()


def assert_plain(tensor):
    assert not tensor.requires_grad and tensor.grad_fn is None


def test_per_sample_gradients(torch, func, loss, w, x, y):
    found = func.vmap(func.grad(loss), (None, 0, 0))(w, x, y)
    assert_plain(found)
    assert torch.allclose(found, torch.stack([func.grad(loss)(w, a, b) for a, b in zip(x, y, strict=True)]))
    assert torch.allclose(found.sum(0), func.grad(loss)(w, x, y))


def test_per_sample_gradients_and_values_over_two_batches(torch, func, loss, w, x, y):
    both = func.grad_and_value(loss, (0, 1))
    (of_w, of_x), value = func.vmap(func.vmap(both, (None, 0, None)), (None, None, 0))(w, x, y)
    assert of_w.shape == (5, 5, 3, 2) and of_x.shape == (5, 5, 3) and value.shape == (5, 5)
    (expected_w, expected_x), expected = both(w, x[3], y[1])
    assert torch.allclose(of_w[1, 3], expected_w) and torch.allclose(of_x[1, 3], expected_x)
    assert torch.allclose(value[1, 3], expected)


def test_gradients_of_what_all_examples_share_are_there_for_each(torch, func, w, x):
    found = func.vmap(func.grad(lambda w, x: (w * w).sum()), (None, 0))(w, x)
    assert torch.equal(found, (2 * w).expand(5, 3, 2))
    assert torch.equal(func.vmap(func.grad(lambda w, x: x.sum()), (None, 0))(w, x), torch.zeros_like(found))


def test_per_sample_gradients_reach_the_caller(torch, func, loss, w, x, y):
    expected = func.grad(lambda w: sum((func.grad(loss)(w, a, b) ** 2).sum() for a, b in zip(x, y, strict=True)))(w)
    w.requires_grad_()
    found = func.vmap(func.grad(loss), (None, 0, 0))(w, x, y)
    assert torch.allclose(torch.autograd.grad((found**2).sum(), w)[0], expected)
    with torch.no_grad():
        assert_plain(func.vmap(func.grad(loss), (None, 0, 0))(w, x, y))


def test_a_mapped_function_is_differentiated(torch, func, loss, w, x, y):
    total = lambda w: func.vmap(loss, (None, 0, 0))(w, x, y).sum()  # noqa: E731
    direct = lambda w: loss(w, x, y)  # noqa: E731
    assert torch.allclose(func.grad(total)(w), func.grad(direct)(w))
    assert torch.allclose(func.hessian(total)(w), func.hessian(direct)(w))
    t = torch.ones_like(w)
    assert torch.allclose(func.jvp(total, (w,), (t,))[1], func.jvp(direct, (w,), (t,))[1])


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_of_examples(torch, func, layer, w, x, name):
    jacobian = getattr(func, name)
    found = func.vmap(jacobian(layer))(x)
    assert_plain(found)
    assert found.shape == (5, 2, 3)
    assert torch.allclose(found, torch.stack([jacobian(layer)(a) for a in x]))
    squares = lambda w: (func.vmap(jacobian(lambda a: torch.tanh(a @ w)))(x) ** 2).sum()  # noqa: E731
    one_by_one = lambda w: sum((jacobian(lambda a: torch.tanh(a @ w))(b) ** 2).sum() for b in x)  # noqa: E731
    assert torch.allclose(func.grad(squares)(w), func.grad(one_by_one)(w))


def test_hessians_of_examples(torch, func, layer, x):
    energy = lambda a: layer(a).prod()  # noqa: E731
    assert torch.allclose(func.vmap(func.hessian(energy))(x), torch.stack([func.hessian(energy)(a) for a in x]))


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None)])
def test_products_by_forward_mode(torch, func, layer, random, dims):
    primal, tangent = (random(3) if dim is None else random(4, 3) for dim in dims)
    value, product = func.vmap(lambda a, t: func.jvp(layer, (a,), (t,)), dims, out_dims=(0, 0))(primal, tangent)
    for i in range(4):
        expected = func.jvp(
            layer, (primal if dims[0] is None else primal[i],), (tangent if dims[1] is None else tangent[i],)
        )
        assert torch.allclose(value[i], expected[0]) and torch.allclose(product[i], expected[1])


def test_nested_products_by_forward_mode(torch, func, layer, x, random):
    t = random(5, 3)

    def second(a, t):
        return func.jvp(lambda b: func.jvp(layer, (b,), (t,))[1], (a,), (t,))[1]

    assert torch.allclose(func.vmap(second)(x, t), torch.stack([second(a, b) for a, b in zip(x, t, strict=True)]))


def test_hessian_vector_products_of_examples(torch, func, layer, x, random):
    t = random(5, 3)

    def hvp(a, t):
        return func.jvp(func.grad(lambda b: layer(b).prod()), (a,), (t,))[1]

    assert torch.allclose(func.vmap(hvp)(x, t), torch.stack([hvp(a, b) for a, b in zip(x, t, strict=True)]))


def test_products_by_reverse_mode(torch, func, layer, x, y):
    found = func.vmap(lambda a, c: func.vjp(layer, a)[1](c)[0])(x, y)
    assert torch.allclose(found, func.vjp(layer, x)[1](y)[0])


def test_the_function_of_vjp_is_mapped_over_vectors(torch, func, layer, x, random):
    _, vjp_fn = func.vjp(layer, x)
    vectors = random(2, 4, 5, 2)
    (found,) = func.vmap(func.vmap(vjp_fn))(vectors)
    assert found.shape == (2, 4, 5, 3)
    assert torch.allclose(found[1, 2], vjp_fn(vectors[1, 2])[0])


def test_the_function_of_linearize_is_mapped_over_vectors(torch, func, layer, x, random):
    _, jvp_fn = func.linearize(layer, x)
    vectors = random(4, 5, 3)
    found = func.vmap(jvp_fn)(vectors)
    assert torch.allclose(found[2], func.jvp(layer, (x,), (vectors[2],))[1])


def test_linearize_within_vmap(gradloom):
    x, t = gradloom.tensor([[1.0, 2.0], [3.0, 4.0]]), gradloom.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = gradloom.func.vmap(lambda a, b: gradloom.func.linearize(lambda c: c**2, a)[1](b))(x, t)
    assert found.tolist() == [[2.0, 0.0], [0.0, 8.0]]


def test_per_sample_gradients_of_a_module(torch, func, x, y):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(parameters, a, b):
        return torch.nn.functional.mse_loss(func.functional_call(net, parameters, (a,)), b)

    found = func.vmap(func.grad(loss), (None, 0, 0))(parameters, x, y)
    for i in range(5):
        expected = func.grad(loss)(parameters, x[i], y[i])
        assert all(torch.allclose(found[name][i], expected[name]) for name in parameters)


def test_per_sample_gradients_of_a_convolution(torch, func, random):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    parameters = {name: p.detach() for name, p in net.double().named_parameters()}
    images, targets = random(4, 1, 4, 4), torch.tensor([0, 2, 1, 1])

    def loss(parameters, image, target):
        out = func.functional_call(net, parameters, (image[None],))
        return torch.nn.functional.cross_entropy(out, target[None])

    found = func.vmap(func.grad(loss), (None, 0, 0))(parameters, images, targets)
    for i in range(4):
        expected = func.grad(loss)(parameters, images[i], targets[i])
        assert all(torch.allclose(found[name][i], expected[name]) for name in parameters)


def test_an_ensemble_of_modules(torch, func, x):
    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2).double() for _ in range(4)]
    parameters, _ = func.stack_module_state(models)
    found = func.vmap(lambda p: func.functional_call(models[0], p, (x,)))(parameters)
    assert torch.allclose(found, torch.stack([model(x) for model in models]))
    found.sum().backward()
    assert parameters["bias"].grad.tolist() == [[5.0, 5.0]] * 4


def test_random_operators_in_jacfwd_do_as_it_is_told(torch, func, x):
    noisy = lambda a: a * torch.rand(3, dtype=torch.float64)  # noqa: E731
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        func.jacfwd(noisy)(x[0])
    for randomness in ("same", "different"):
        found = func.jacfwd(noisy, randomness=randomness)(x[0])
        assert found.shape == (3, 3) and torch.equal(found, torch.diag(found.diagonal()))


def test_writing_to_an_argument_is_refused_for_examples_too(torch, func, x):
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        func.vmap(func.grad(lambda a: a.mul_(2).sum()))(x)


def test_tensors_within_transforms_can_be_looked_at(torch, func, x):
    seen = []

    def look(a):
        seen.append(func.debug_unwrap(a))
        return a.sum()

    func.vmap(func.grad(look))(x)
    func.grad(look)(x)
    assert all(torch.equal(found, x) and not found.requires_grad for found in seen) and len(seen) == 2


def test_gradients_that_are_batched_are_added_to_those_that_are_not(torch, func, x):
    scales = torch.tensor([1.0, 2.0], dtype=torch.float64)

    def several(a):
        return a * 2, a * 3, a * 5, a * 7

    _, vjp_fn = func.vjp(several, x)
    found = func.vmap(lambda s: vjp_fn((s * x, x, x, x)))(scales)[0]
    assert torch.allclose(found, torch.stack([(15 + 2 * s) * x for s in scales]))
    found = func.vmap(lambda s: vjp_fn((x, s * x, x, s * x)))(scales)[0]
    assert torch.allclose(found, torch.stack([(7 + 10 * s) * x for s in scales]))
