"""func.jacrev, func.jacfwd and func.hessian."""

from importlib import import_module

import pytest

BOTH = pytest.mark.parametrize("name", ["jacrev", "jacfwd"])


@pytest.fixture
def func(torch):
    return import_module(f"{torch.__name__}.func")


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


@pytest.fixture
def y(torch):
    return torch.tensor([4.0, 5.0], dtype=torch.float64)


def plain(tensor):
    """A result that nobody can differentiate further, as its values."""
    assert not tensor.requires_grad and tensor.grad_fn is None
    return tensor.tolist()


def outer(a, b):
    return a[:, None] * b


@BOTH
def test_the_jacobian_has_the_dimensions_of_output_and_argument(torch, func, x, y, name):
    jacobian = getattr(func, name)
    assert plain(jacobian(lambda t: t**2)(x)) == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    found = jacobian(outer)(x, y)
    assert found.shape == (3, 2, 3) and torch.equal(found, torch.einsum("b,ac->abc", y, torch.eye(3).double()))
    found = jacobian(outer, argnums=1)(x, y)
    assert found.shape == (3, 2, 2) and torch.equal(found, torch.einsum("a,bc->abc", x, torch.eye(2).double()))


@BOTH
def test_numbers_have_no_dimensions(torch, func, x, name):
    jacobian = getattr(func, name)
    assert plain(jacobian(lambda t: t**2)(x[1])) == 4.0
    assert plain(jacobian(lambda t: t.sum())(x)) == [1.0, 1.0, 1.0]
    assert plain(jacobian(lambda t: t * x)(x[1])) == [1.0, 2.0, 3.0]


@BOTH
def test_argnums_in_a_tuple_make_a_tuple(func, x, y, name):
    found = getattr(func, name)(outer, argnums=(0, 1))(x, y)
    assert isinstance(found, tuple) and [tuple(t.shape) for t in found] == [(3, 2, 3), (3, 2, 2)]
    assert isinstance(getattr(func, name)(outer, argnums=(1,))(x, y), tuple)
    assert tuple(func.jacrev(outer, argnums=-1)(x, y).shape) == (3, 2, 2)


def test_negative_argnums_are_right_by_forward_mode_too(gradloom):
    x, y = gradloom.tensor([1.0, 2.0]), gradloom.tensor([3.0, 4.0])
    assert plain(gradloom.func.jacfwd(lambda a, b: a * b, argnums=-1)(x, y)) == [[1.0, 0.0], [0.0, 2.0]]


@BOTH
@pytest.mark.parametrize(
    "argnums, message",
    [
        (2, "Got argnum=2, but only 2 positional inputs"),
        ((), "argnums must be non-empty"),
        ((0, 0), "argnums elements must be unique"),
    ],
)
def test_argnums_that_name_no_argument_are_refused(func, x, y, name, argnums, message):
    with pytest.raises(RuntimeError, match=message):
        getattr(func, name)(outer, argnums=argnums)(x, y)


@BOTH
def test_outputs_and_arguments_may_be_nested_containers(func, x, y, name):
    found = getattr(func, name)(lambda d: {"p": outer(d["x"], d["y"][0]), "s": [d["x"].sum()]})({"x": x, "y": (y,)})
    assert tuple(found["p"]["x"].shape) == (3, 2, 3) and tuple(found["p"]["y"][0].shape) == (3, 2, 2)
    assert plain(found["s"][0]["x"]) == [1.0, 1.0, 1.0] and plain(found["s"][0]["y"][0]) == [0.0, 0.0]
    assert isinstance(found["s"], list) and isinstance(found["p"]["y"], tuple)


@BOTH
def test_aux_is_handed_through(func, x, name):
    found, aux = getattr(func, name)(lambda t: (t.sum(), {"a": t * 2}), has_aux=True)(x)
    assert plain(found) == [1.0, 1.0, 1.0] and plain(aux["a"]) == [2.0, 4.0, 6.0]
    with pytest.raises(RuntimeError, match=r"should be a tuple: \(output, aux\) if has_aux is True"):
        getattr(func, name)(lambda t: t, has_aux=True)(x)


@BOTH
def test_what_is_independent_or_empty(torch, func, x, name):
    jacobian = getattr(func, name)
    assert plain(jacobian(lambda t: torch.ones(2))(x)) == [[0.0] * 3] * 2
    assert jacobian(lambda t: t**2)(torch.zeros(0)).shape == (0, 0)
    assert jacobian(lambda t: t[:0])(x).shape == (0, 3)


@BOTH
def test_complex_numbers_are_refused(func, x, name):
    jacobian = getattr(func, name)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real but received complex tensor"):
        jacobian(lambda t: t.abs())(x * 1j)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real but received complex tensor"):
        jacobian(lambda t: t * 1j)(x)


@BOTH
def test_outputs_of_anything_but_tensors_are_refused(func, x, name):
    with pytest.raises(RuntimeError, match="return only tensors, got unsupported type <class 'float'>"):
        getattr(func, name)(lambda t: 3.0)(x)
    with pytest.raises(RuntimeError, match="non-empty output"):
        getattr(func, name)(lambda t: ())(x)


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, None])
def test_chunks_change_nothing(torch, func, x, y, size):
    whole, chunked = (
        func.jacrev(lambda a, b: (outer(a, b), a.sum()), (0, 1), chunk_size=n)(x, y) for n in (None, size)
    )
    assert all(torch.equal(p, q) for ps, qs in zip(whole, chunked, strict=True) for p, q in zip(ps, qs, strict=True))


@pytest.mark.parametrize("size", [0, -1])
def test_chunks_must_hold_something(func, size):
    with pytest.raises(ValueError, match="jacrev: `chunk_size` should be greater than 0"):
        func.jacrev(outer, chunk_size=size)


def test_randomness_is_one_of_three(func, x):
    with pytest.raises(RuntimeError, match="Only allowed values for randomness are 'error', 'different', or 'same'"):
        func.jacfwd(lambda t: t, randomness="maybe")(x)


@BOTH
def test_jacobians_reach_the_caller(torch, func, x, name):
    x.requires_grad_()
    found = getattr(func, name)(lambda t: t**3)(x)
    assert torch.autograd.grad(found.sum(), x)[0].tolist() == [6.0, 12.0, 18.0]
    with torch.no_grad():
        plain(getattr(func, name)(lambda t: t**3)(x))


def test_the_hessian_is_the_jacobian_of_the_gradient(func, x, y):
    assert plain(func.hessian(lambda t: (t**3).sum())(x)) == [[6.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 18.0]]
    (xx, xy), (yx, yy) = func.hessian(lambda a, b: a.prod() * b.prod(), argnums=(0, 1))(x, y)
    assert plain(xx) == [[0.0, 60.0, 40.0], [60.0, 0.0, 20.0], [40.0, 20.0, 0.0]]
    assert plain(yy) == [[0.0, 6.0], [6.0, 0.0]] and plain(xy) == plain(yx.T)
    assert plain(func.hessian(lambda t: t**3)(x[1])) == 12.0


@pytest.mark.parametrize("first", ["jacrev", "jacfwd"])
@BOTH
def test_jacobians_nest(func, x, name, first):
    found = getattr(func, name)(getattr(func, first)(lambda t: t**3))(x)
    assert found.shape == (3, 3, 3)
    assert [found[i, j, k].item() for i in range(3) for j in range(3) for k in range(3) if i != j or i != k] == [0] * 24
    assert [found[i, i, i].item() for i in range(3)] == [6.0, 12.0, 18.0]


def test_third_derivatives(func, x):
    found = func.jacfwd(func.hessian(lambda t: t.prod()))(x)
    assert found.shape == (3, 3, 3) and found[0, 1, 2].item() == 1.0 and found.sum().item() == 6.0


def test_a_jacobian_in_a_gradient(func, x):
    assert plain(func.grad(lambda t: func.jacrev(lambda u: u**3)(t).sum())(x)) == [6.0, 12.0, 18.0]
    assert plain(func.grad(lambda t: func.jacfwd(lambda u: u**3)(t).sum())(x)) == [6.0, 12.0, 18.0]


def fill(torch, x):
    out = torch.zeros(4, dtype=torch.float64)
    out[0] = x[0] * x[1]
    out[1:] = x**2
    return out


def add(torch, x):
    out = torch.zeros(3, dtype=torch.float64)
    out += x
    return out.mul_(x)


def scale_a_part(torch, x):
    out = x.new_zeros(3)
    out.copy_(x)
    out[0].mul_(3)
    return out * x


def write_through_views(torch, x):
    out = torch.zeros(3, 3, dtype=torch.float64)
    row, column = out[1], out.t()[1]
    row.copy_(x)
    column.add_(x * x)
    return out


@pytest.mark.parametrize("write", [fill, add, scale_a_part, write_through_views])
@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_functions_may_write_to_what_they_made(torch, func, x, write, name):
    if write is write_through_views and torch.__name__ == "torch":
        pytest.skip("PyTorch takes a view that was made before a write to another one for a leaf")
    found = getattr(func, name)(lambda t: write(torch, t))(x)
    h = 1e-6
    rows = [(write(torch, x + h * e) - write(torch, x - h * e)) / (2 * h) for e in torch.eye(3, dtype=torch.float64)]
    assert torch.allclose(found, torch.stack(rows, -1), atol=1e-8)
    energy = lambda t: (write(torch, t) ** 2).sum()  # noqa: E731
    hessian = func.hessian(energy)(x)
    assert torch.allclose(hessian, func.jacrev(func.jacrev(energy))(x)) and torch.allclose(hessian, hessian.T)
    assert torch.allclose(hessian, func.jacfwd(func.jacfwd(energy))(x))


@pytest.mark.filterwarnings("ignore:Converting a tensor")
@pytest.mark.parametrize(
    "transforms",
    [
        ("jacrev",),
        ("jacfwd",),
        ("jacfwd", "jacrev"),
        ("jacrev", "jacfwd"),
        ("jacfwd", "jacfwd"),
        ("jacrev", "jacrev"),
        ("hessian",),
    ],
)
def test_functions_may_look_at_their_values(torch, func, x, transforms):
    def branches(t):
        return t**3 if t.sum() > float(t[0]) else -t

    found, expected = branches, lambda t: t**3
    for name in reversed(transforms):
        found, expected = getattr(func, name)(found), getattr(func, name)(expected)
    assert torch.equal(found(x), expected(x))


def test_jacobians_of_batches_of_tensors_that_are_closed_over(torch, func, x):
    scales = torch.tensor([1.0, 2.0], dtype=torch.float64)
    for jacobian in (func.jacrev, func.jacfwd):
        found = func.vmap(lambda s, jacobian=jacobian: jacobian(lambda t: s * t**2)(x))(scales)
        assert torch.equal(found, torch.stack([torch.diag(2 * s * x) for s in scales]))
    assert torch.equal(
        func.vmap(lambda s: func.hessian(lambda t: (s * t**3).sum())(x))(scales),
        torch.stack([torch.diag(6 * s * x) for s in scales]),
    )
