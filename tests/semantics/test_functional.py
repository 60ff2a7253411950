"""autograd.functional: products with Jacobians and Hessians, and the matrices, of functions of several tensors."""

import pytest


@pytest.fixture
def F(torch):
    return torch.autograd.functional


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


@pytest.fixture
def y(torch):
    return torch.tensor([4.0, 5.0], dtype=torch.float64)


def outer(x, y):
    return x[:, None] * y, x.sum() * y[0]


def cubic(x, y):
    return (x**3).sum() * y.prod()


def test_vjp_of_one_tensor(torch, F, x):
    out, product = F.vjp(lambda t: t**2, x, torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64))
    assert out.tolist() == [1.0, 4.0, 9.0] and product.tolist() == [2.0, 40.0, 600.0]
    assert not out.requires_grad and not product.requires_grad and not x.requires_grad and x.grad is None


def test_vjp_of_tuples_is_a_tuple_over_the_inputs(torch, F, x, y):
    v = (torch.ones(3, 2, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64))
    out, product = F.vjp(outer, (x, y), v)
    assert isinstance(out, tuple) and isinstance(product, tuple)
    assert product[0].tolist() == [17.0, 17.0, 17.0] and product[1].tolist() == [18.0, 6.0]


def test_the_vector_may_be_left_out_for_one_element(torch, F, x):
    assert F.vjp(torch.sum, x)[1].tolist() == [1.0, 1.0, 1.0]
    point = torch.tensor(3.0)
    assert F.jvp(lambda t: t**2, point)[1].item() == 6.0
    with pytest.raises(RuntimeError, match="v can only be None"):
        F.vjp(lambda t: t**2, x)
    with pytest.raises(RuntimeError, match="v can only be None"):
        F.jvp(lambda t: t**2, x)


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_a_vector_that_does_not_fit_is_refused(torch, F, x, y, name):
    product = getattr(F, name)

    def fun(*point):
        if name in ("vhp", "hvp"):
            return sum((t**3).sum() for t in point)
        return point[0] if len(point) == 1 else point

    with pytest.raises(RuntimeError, match="v has invalid size: should be"):
        product(fun, x, torch.ones(4, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="v is a tuple of invalid length: should be 2 but got 1"):
        product(fun, (x, y), (x,))
    with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
        product(fun, x, (x, x))
    with pytest.raises(RuntimeError, match="Entry 1 in v has invalid size"):
        product(fun, (x, y), (x, x))


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"])
def test_what_is_no_tensor_is_refused(torch, F, x, name):
    function = getattr(F, name)
    with pytest.raises(TypeError, match=f"inputs given to {name} must be either a Tensor or a tuple of Tensors"):
        function(lambda t: t.sum(), [x])
    with pytest.raises(TypeError, match="value at index 1 has type <class 'float'>"):
        function(lambda t, _: t.sum(), (x, 1.0))
    vector = () if name in ("jacobian", "hessian") else (x,)
    with pytest.raises(TypeError, match=f"outputs of the user-provided function given to {name} must be"):
        function(lambda t: [t.sum()], x, *vector)


def test_jvp_is_the_directional_derivative(torch, F, x, y):
    out, product = F.jvp(outer, (x, y), (torch.ones_like(x), torch.zeros_like(y)))
    assert product[0].tolist() == [[4.0, 5.0]] * 3 and product[1].item() == 12.0
    out, product = F.jvp(outer, (x, y), (torch.zeros_like(x), torch.ones_like(y)))
    assert product[0].tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]] and product[1].item() == 6.0


def test_products_with_the_hessian(torch, F, x, y):
    v = (torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64))
    for product in (F.vhp, F.hvp):
        value, found = product(cubic, (x, y), v)
        assert value.item() == 720.0
        assert found[0].tolist() == [132.0, 48.0, 828.0] and found[1].tolist() == [321.0, 228.0]


@pytest.mark.parametrize(
    "options",
    [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}],
    ids=lambda o: "-".join(map(str, o.values())) or "plain",
)
def test_the_jacobian_is_nested_by_outputs_then_inputs(torch, F, x, y, options):
    found = F.jacobian(outer, (x, y), **options)
    assert [[tuple(part.shape) for part in row] for row in found] == [[(3, 2, 3), (3, 2, 2)], [(3,), (2,)]]
    assert found[0][0][:, 1].tolist() == [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]]
    assert found[0][1][2].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert found[1][0].tolist() == [4.0] * 3 and found[1][1].tolist() == [6.0, 0.0]
    alone = F.jacobian(lambda t: t**2, x, **options)
    assert alone.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    assert not alone.requires_grad
    several = F.jacobian(lambda t: (t, t.sum()), x, **options)
    assert isinstance(several, tuple) and several[1].tolist() == [1.0] * 3
    one_of_two = F.jacobian(lambda a, b: a.sum(), (x, y), **options)
    assert len(one_of_two) == 2 and one_of_two[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "options",
    [{}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}],
    ids=lambda o: "-".join(map(str, o.values())) or "plain",
)
def test_the_hessian_is_nested_by_inputs(torch, F, x, y, options):
    found = F.hessian(cubic, (x, y), **options)
    assert [[tuple(part.shape) for part in row] for row in found] == [[(3, 3), (3, 2)], [(2, 3), (2, 2)]]
    assert found[0][0].tolist() == [[120.0, 0.0, 0.0], [0.0, 240.0, 0.0], [0.0, 0.0, 360.0]]
    assert found[0][1].tolist() == [[15.0, 12.0], [60.0, 48.0], [135.0, 108.0]]
    assert found[1][1].tolist() == [[0.0, 36.0], [36.0, 0.0]]
    assert F.hessian(lambda t: (t**3).sum(), x, **options).tolist() == [[6.0, 0, 0], [0, 12.0, 0], [0, 0, 18.0]]


def test_with_create_graph_results_depend_on_the_callers_tensors(torch, F):
    p = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    out, product = F.vjp(lambda t: (t**3).sum(), p, create_graph=True)
    assert out.requires_grad and product.requires_grad
    product.sum().backward()
    assert p.grad.tolist() == [6.0, 12.0]
    p.grad = None
    F.jacobian(lambda t: t**3, p, create_graph=True).sum().backward()
    assert p.grad.tolist() == [6.0, 12.0]
    p.grad = None
    F.hessian(lambda t: (t**3).sum(), p, create_graph=True).sum().backward()
    assert p.grad.tolist() == [6.0, 6.0]
    p.grad = None
    F.hvp(lambda t: (t**3).sum(), p, torch.ones_like(p), create_graph=True)[1].sum().backward()
    assert p.grad.tolist() == [6.0, 6.0]
    p.grad = None
    F.jvp(lambda t: t**3, p, torch.ones_like(p), create_graph=True)[1].sum().backward()
    assert p.grad.tolist() == [6.0, 12.0]


def test_without_create_graph_nothing_reaches_the_callers_tensors(torch, F):
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    for found in (
        F.jacobian(lambda t: t**2, p),
        F.hessian(lambda t: (t**2).sum(), p),
        *F.vjp(lambda t: t**2, p, torch.ones(2)),
    ):
        assert not found.requires_grad
    assert p.grad is None


def test_what_does_not_depend_on_the_input_gives_zeros(torch, F, x, y):
    constant = torch.ones(2, dtype=torch.float64)
    assert F.vjp(lambda t: constant, x, constant)[1].tolist() == [0.0] * 3
    assert F.jvp(lambda t: constant, x, x)[1].tolist() == [0.0, 0.0]
    assert F.jacobian(lambda t: constant, x).tolist() == [[0.0] * 3] * 2
    assert F.hessian(lambda t: t.sum(), x).tolist() == [[0.0] * 3] * 3
    assert F.vhp(lambda t: t.sum(), x, x)[1].tolist() == [0.0] * 3
    assert F.hvp(lambda t: t.sum(), x, x)[1].tolist() == [0.0] * 3


def test_strict_mode_refuses_it(torch, F, x, y):
    constant = torch.ones(2, dtype=torch.float64)
    cases = [
        (lambda: F.vjp(lambda t: constant, x, constant, strict=True), "does not require gradients"),
        (lambda: F.jvp(lambda t: constant, x, x, strict=True), "does not require gradients"),
        (lambda: F.jacobian(lambda t: constant, x, strict=True), "does not require gradients"),
        (lambda: F.vjp(lambda a, b: a.sum(), (x, y), strict=True), "independent of input 1"),
        (lambda: F.jacobian(lambda a, b: a.sum(), (x, y), strict=True), "Output 0 .* independent of input 1"),
        (lambda: F.vhp(lambda t: t.sum(), x, x, strict=True), "jacobian .* with respect to input 0 is independent"),
        (lambda: F.hvp(lambda t: t.sum(), x, x, strict=True), "jacobian .* with respect to input 0 is independent"),
        (lambda: F.hessian(lambda t: t.sum(), x, strict=True), "jacobian .* with respect to input 0 is independent"),
        (lambda: F.jvp(lambda t: t * 2, x, x, strict=True, create_graph=True), "independent of input 0"),
        (lambda: F.jacobian(lambda t: t * 2, x, strict=True, create_graph=True), "independent of input 0"),
    ]
    for call, message in cases:
        with pytest.raises(RuntimeError, match=message):
            call()


def test_a_hessian_wants_one_value(torch, F, x):
    for name, vector in (("hessian", ()), ("vhp", (x,)), ("hvp", (x,))):
        with pytest.raises(RuntimeError, match=f"function given to {name} should return a single Tensor"):
            getattr(F, name)(lambda t: (t.sum(), t.sum()), x, *vector)
        with pytest.raises(RuntimeError, match=f"given to {name} should contain a single element"):
            getattr(F, name)(lambda t: t**2, x, *vector)


def test_options_that_exclude_each_other(torch, F, x):
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        F.jacobian(torch.sum, x, strategy="sideways")
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        F.hessian(torch.sum, x, outer_jacobian_strategy="sideways")
    with pytest.raises(NotImplementedError, match="not supported together"):
        F.jacobian(torch.sum, x, create_graph=True, strategy="forward-mode")
    with pytest.raises(RuntimeError, match="not supported together"):
        F.jacobian(torch.sum, x, strict=True, vectorize=True, strategy="forward-mode")
    with pytest.raises(RuntimeError, match="not supported together"):
        F.jacobian(torch.sum, x, strict=True, vectorize=True)
    with pytest.raises(NotImplementedError, match="only implemented for `vectorize=True`"):
        F.jacobian(torch.sum, x, strategy="forward-mode")


def test_complex_functions_follow_the_conjugate_convention(torch, F):
    z = torch.tensor([1.0 + 2.0j, 3.0 - 1.0j], dtype=torch.complex128)
    assert F.vjp(lambda t: t * 2j, z, torch.ones_like(z))[1].tolist() == [-2j, -2j]
    assert F.jvp(lambda t: t * 2j, z, torch.ones_like(z))[1].tolist() == [2j, 2j]


def test_the_jacobian_of_a_complex_function(gradloom):
    """PyTorch refuses this one, though it takes the products."""
    z = gradloom.tensor([1.0 + 2.0j, 3.0 - 1.0j], dtype=gradloom.complex128)
    assert gradloom.autograd.functional.jacobian(lambda t: t * t, z).tolist() == [[2 - 4j, 0], [0, 6 + 2j]]


def test_it_works_under_no_grad_too(torch, F, x):
    with torch.no_grad():
        assert F.jacobian(lambda t: t**2, x).diagonal().tolist() == [2.0, 4.0, 6.0]
        assert F.hessian(lambda t: (t**2).sum(), x).diagonal().tolist() == [2.0, 2.0, 2.0]
        assert F.jvp(lambda t: t**2, x, x)[1].tolist() == [2.0, 8.0, 18.0]


def test_an_integer_point_is_refused(torch, F):
    with pytest.raises(RuntimeError, match="floating point"):
        F.jacobian(lambda t: t * 2, torch.tensor([1, 2]))


def test_empty_inputs_and_outputs(torch, F):
    e = torch.zeros(0, dtype=torch.float64)
    assert tuple(F.jacobian(lambda t: t.sum(), e).shape) == (0,)
    assert F.vjp(lambda t: t * 2, e, e)[1].numel() == 0


@pytest.mark.parametrize("options", [{}, {"create_graph": True}, {"strict": True}])
@pytest.mark.parametrize("outputs", [lambda t: t[:0], lambda t: (t, t[:0]), lambda t: t[:, None] * t[None, :0]])
def test_the_jacobian_of_an_output_without_elements_is_refused(torch, F, x, outputs, options):
    with pytest.raises(RuntimeError, match="stack expects a non-empty TensorList"):
        F.jacobian(outputs, x, **options)


def test_one_pass_for_no_elements_is_refused(torch, F, x):
    with pytest.raises(IndexError, match="index 0 is out of bounds for dimension 0 with size 0"):
        F.jacobian(lambda t: t[:0], x, vectorize=True)
    full, empty = F.jacobian(lambda t: (t, t[:0]), x, vectorize=True)
    assert tuple(full.shape) == (3, 3) and tuple(empty.shape) == (0, 3)
    assert tuple(F.jacobian(lambda t: t[:0], x, vectorize=True, strategy="forward-mode").shape) == (0, 3)
    assert tuple(torch.func.jacrev(lambda t: t[:0])(x).shape) == (0, 3)


def test_the_hessian_at_a_point_without_elements_is_refused(torch, F):
    with pytest.raises(RuntimeError, match="stack expects a non-empty TensorList"):
        F.hessian(lambda t: (t**3).sum(), torch.zeros(0))


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_a_vector_that_is_no_tensor_is_refused_by_the_name_of_the_function(torch, name):
    function = getattr(torch.autograd.functional, name)
    x = torch.ones(2)
    with pytest.raises(
        TypeError,
        match=f"The v given to {name} must be either a Tensor or a tuple of Tensors but the "
        "given v has type <class 'float'>",
    ):
        function(lambda a: (a**2).sum() if name in ("vhp", "hvp") else a, x, 1.0)
    with pytest.raises(TypeError, match="the value at index 1 has type <class 'int'>"):
        function(lambda a: (a**2).sum() if name in ("vhp", "hvp") else a, x, (x, 2))


def test_the_unit_vectors_of_several_tensors_are_cut_into_their_parts(torch):
    build = torch.autograd.functional._construct_standard_basis_for
    first, second = build((torch.zeros(2), torch.zeros(1, 1, dtype=torch.float64)), (2, 1))
    assert first.tolist() == [[1, 0], [0, 1], [0, 0]] and second.tolist() == [[0], [0], [1]]
    assert first.dtype is torch.float32 and second.dtype is torch.float64
    with pytest.raises(AssertionError):
        build((), ())
