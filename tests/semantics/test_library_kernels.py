"""torch.library.Library: operators from schemas, and kernels for dispatch keys."""

from __future__ import annotations

import gc

import pytest

_numbers = iter(range(10**6))


@pytest.fixture
def ns():
    """A namespace that no other test has."""
    return f"libraries_of_tests{next(_numbers)}"


@pytest.fixture
def lib(torch, ns):
    library = torch.library.Library(ns, "DEF")
    yield library
    library._destroy()


def ops(torch, ns):
    return getattr(torch.ops, ns)


def test_an_operator_is_defined_by_a_schema_and_computed_by_a_kernel(torch, lib, ns):
    assert lib.define("scaled(Tensor x, int n=2) -> Tensor") == "scaled"
    assert str(ops(torch, ns).scaled.default) == f"{ns}.scaled.default"
    with pytest.raises(NotImplementedError, match=f"Could not run '{ns}::scaled' with arguments from the 'CPU' back"):
        ops(torch, ns).scaled(torch.ones(1))
    lib.impl("scaled", lambda x, n=2: x * n, "CPU")
    assert ops(torch, ns).scaled(torch.ones(1)).tolist() == [2]
    assert ops(torch, ns).scaled(torch.ones(1), n=3).tolist() == [3]
    assert ops(torch, ns).scaled.default.has_kernel_for_dispatch_key("CPU")


@pytest.mark.parametrize("tags", ["pointwise", ["bogus"], (3,), 3, None])
def test_anything_but_tags_is_a_type_error_and_defines_nothing(torch, lib, ns, tags):
    with pytest.raises(TypeError):
        lib.define("tagged(Tensor x) -> Tensor", tags=tags)
    assert not hasattr(ops(torch, ns), "tagged")
    lib.define("tagged(Tensor x) -> Tensor", tags=torch.Tag.core)
    assert ops(torch, ns).tagged.default.tags == [torch.Tag.core]


def test_defaults_are_left_to_the_kernel(torch, lib, ns):
    seen = []
    lib.define("see(Tensor x, int[] sizes, int n=2, *, float scale=1.0, str? word=None) -> Tensor")

    def kernel(*args, **kwargs):
        seen.append((args[1:], kwargs))
        return args[0].clone()

    lib.impl("see", kernel, "CPU")
    x = torch.ones(1)
    ops(torch, ns).see(x, (1, 2))
    ops(torch, ns).see(x, [1, 2], 2, scale=1.0)
    ops(torch, ns).see(x, [], 5, scale=2.0, word="a")
    assert seen == [(([1, 2],), {}), (([1, 2],), {}), (([], 5), {"scale": 2.0, "word": "a"})]


def test_a_kernel_without_autograd_is_recorded_as_what_it_does_and_backward_warns(torch, lib, ns):
    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: x * 2, "CPU")
    x = torch.ones(2, requires_grad=True)
    y = ops(torch, ns).double(x)
    assert y.grad_fn.name() == "MulBackward0"
    with pytest.warns(UserWarning, match="double: an autograd kernel was not registered to the Autograd key"):
        y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_kernel_that_autograd_cannot_see_into_stops_backward_with_a_warning(torch, lib, ns):
    lib.define("opaque(Tensor x) -> Tensor")
    lib.impl("opaque", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CompositeExplicitAutograd")
    x = torch.ones(2, requires_grad=True)
    y = ops(torch, ns).opaque(x)
    assert y.requires_grad and y.grad_fn.name() == "torch::autograd::WarnNotImplemented"
    with pytest.warns(UserWarning, match="an autograd kernel was not registered to the Autograd key"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("key", ["CompositeImplicitAutograd", ""])
def test_a_composite_is_differentiable_as_what_it_is_made_of(torch, lib, ns, key, recwarn):
    lib.define("made(Tensor x) -> Tensor")
    lib.impl("made", lambda x: x.exp() * 2, key)
    x = torch.zeros(2, requires_grad=True)
    y = ops(torch, ns).made(x)
    y.sum().backward()
    assert y.grad_fn.name() == "MulBackward0" and x.grad.tolist() == [2, 2] and not recwarn.list


def test_a_kernel_for_autograd_calls_the_operator_below_itself(torch, lib, ns):
    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CPU")

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return ops(torch, ns).double(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    lib.impl("double", Double.apply, "Autograd")
    x = torch.ones(2, requires_grad=True)
    y = ops(torch, ns).double(x)
    assert y.tolist() == [2, 2] and y.grad_fn.name() == "DoubleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_register_autograd_gives_an_operator_of_a_library_a_derivative(torch, lib, ns):
    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CPU")
    torch.library.register_autograd(f"{ns}::double", lambda ctx, grad: grad * 2, lib=lib)
    x = torch.ones(2, requires_grad=True)
    y = ops(torch, ns).double(x)
    assert y.grad_fn.name() == f"GeneratedBackwardFor_{ns}_double_defaultBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_overloads_are_chosen_by_their_arguments(torch, lib, ns):
    lib.define("one.a(Tensor x) -> Tensor")
    lib.define("one.b(Tensor x, Tensor y) -> Tensor")
    lib.impl("one.a", lambda x: x + 1, "CPU")
    lib.impl("one.b", lambda x, y: x + y * 10, "CPU")
    x = torch.ones(1)
    assert ops(torch, ns).one(x).tolist() == [2] and ops(torch, ns).one(x, x).tolist() == [11]
    assert sorted(ops(torch, ns).one.overloads()) == ["a", "b"]


def test_what_writes_to_its_argument_returns_it(torch, lib, ns):
    lib.define("twice_(Tensor(a!) x) -> Tensor(a!)")
    lib.impl("twice_", lambda x: x.mul_(2), "CPU")
    x = torch.ones(2)
    assert ops(torch, ns).twice_(x) is x and x.tolist() == [2, 2] and x._version == 1
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        ops(torch, ns).twice_(torch.ones(2, requires_grad=True))


def test_kernels_may_come_before_the_operator_and_from_another_library(torch, lib, ns):
    other = torch.library.Library(ns, "IMPL", "CPU")
    other.impl("later", lambda x: x * 3)
    fragment = torch.library.Library(ns, "FRAGMENT")
    fragment.define("later(Tensor x) -> Tensor")
    assert ops(torch, ns).later(torch.ones(1)).tolist() == [3]
    fragment._destroy()
    other._destroy()


def test_what_a_library_defined_ends_with_it(torch, ns):
    library = torch.library.Library(ns, "FRAGMENT")
    library.define("short(Tensor x) -> Tensor")
    library.impl("short", lambda x: x.clone(), "CPU")
    assert ops(torch, ns).short(torch.ones(1)).tolist() == [1]
    del library
    gc.collect()
    with pytest.raises(AttributeError, match=f"'_OpNamespace' '{ns}' object has no attribute 'short'"):
        ops(torch, ns).short  # noqa: B018
    with torch.library._scoped_library(ns, "FRAGMENT") as scoped:
        scoped.define("scoped(Tensor x) -> Tensor")
        assert ops(torch, ns).scoped is not None
    assert not hasattr(ops(torch, ns), "scoped")


def test_functions_define_and_implement_operators_that_stay(torch, ns):
    torch.library.define(f"{ns}::add5", "(Tensor x) -> Tensor")

    @torch.library.impl(f"{ns}::add5", "cpu")
    def add5(x):
        return x + 5

    assert ops(torch, ns).add5(torch.ones(1)).tolist() == [6]
    torch.library.define(f"{ns}::add6", "(Tensor x) -> Tensor")
    torch.library.impl(f"{ns}::add6", "default", lambda x: x + 6)
    assert ops(torch, ns).add6(torch.ones(1)).tolist() == [7]


def test_decorators_of_a_library(torch, lib, ns):
    @torch.library.define(lib, "inverse(Tensor x) -> Tensor")
    def inverse(x):
        return 1 / x

    lib.define("negated(Tensor x) -> Tensor")

    @torch.library.impl(lib, "negated", "CPU")
    def negated(x):
        return -x

    x = torch.tensor([2.0])
    assert ops(torch, ns).inverse(x).tolist() == [0.5] and ops(torch, ns).negated(x).tolist() == [-2]


def test_mistakes_are_refused(torch, lib, ns):
    Library = torch.library.Library
    with pytest.raises(ValueError, match="prim is a reserved namespace"):
        Library("prim", "DEF")
    with pytest.raises(ValueError, match="Unsupported kind: XX"):
        Library(ns, "XX")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY can be used to register the namespace"):
        Library(ns, "DEF")
    with pytest.raises(RuntimeError, match="Cannot define an operator inside of a TORCH_LIBRARY_IMPL block"):
        Library(ns, "IMPL").define("q(Tensor x) -> Tensor")
    lib.define("twice(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="with the same name and overload name multiple times"):
        lib.define("twice(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="unknown type specifier"):
        lib.define("wrong(Tensr x) -> Tensor")
    with pytest.raises(TypeError, match="Input function is required to be a callable but found type"):
        lib.impl("twice", 3, "CPU")
    with pytest.raises(RuntimeError, match="could not parse dispatch key: Bogus"):
        lib.impl("twice", lambda x: x, "Bogus")
    with pytest.raises(ValueError, match='Expected `qualname` to be of the form "namespace::name", but got foo'):
        torch.library.define("foo", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match='expected schema to look like e.g. "\\(Tensor x\\) -> Tensor" but got'):
        torch.library.define(f"{ns}::foo", "foo(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda,"):
        torch.library.impl(f"{ns}::twice", "xyz", lambda x: x)


def test_opcheck_finds_derivatives_that_nobody_registered_and_memory_that_is_shared(torch, lib, ns):
    lib.define("copied(Tensor x) -> Tensor")
    lib.impl("copied", lambda x: x.clone(), "CPU")
    lib.define("viewed(Tensor x) -> Tensor")
    lib.impl("viewed", lambda x: x.view(-1), "CPU")
    with pytest.raises(Exception, match="does not have an autograd kernel defined at an autograd key"):
        torch.library.opcheck(
            ops(torch, ns).copied.default, (torch.ones(2, requires_grad=True),), test_utils="test_autograd_registration"
        )
    with pytest.raises(Exception, match="Argument x is not defined to alias output but was aliasing"):
        torch.library.opcheck(ops(torch, ns).viewed.default, (torch.ones(2),), test_utils="test_schema")


def test_operators_of_gradloom_keep_their_kernels(gradloom):
    library = gradloom.library.Library("aten", "IMPL")
    with pytest.raises(NotImplementedError, match="aten::sin is an operator of gradloom's own"):
        library.impl("sin", lambda x: x, "CPU")
