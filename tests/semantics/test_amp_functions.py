"""Custom Functions within autocast: custom_fwd and custom_bwd."""

import collections

import pytest


def product(torch, seen, **options):
    """A Function that multiplies matrices and remembers what autocast made of that, there and back."""

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", **options)
        def forward(ctx, a, b, extra=None):
            ctx.save_for_backward(a, b)
            seen.append((torch.is_autocast_enabled("cpu"), a.dtype, (a @ b).dtype, extra))
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append((torch.is_autocast_enabled("cpu"), g.dtype, (g @ b.t()).dtype))
            return g @ b.t(), a.t() @ g, None

    return Product.apply


@pytest.fixture
def w(torch):
    return torch.ones(2, 2, requires_grad=True)


def test_backward_runs_with_the_autocast_of_forward(torch, w):
    seen = []
    with torch.autocast("cpu", dtype=torch.float16):
        y = product(torch, seen)(w, w)
    y.float().sum().backward()
    assert seen == [(True, torch.float32, torch.float16, None), (True, torch.float16, torch.float16)]
    assert w.grad.dtype is torch.float32
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_backward_runs_without_autocast_where_forward_did(torch, w):
    seen = []
    y = product(torch, seen)(w, w)
    with torch.autocast("cpu"):
        y.sum().backward()
    assert seen == [(False, torch.float32, torch.float32, None), (False, torch.float32, torch.float32)]


def test_arguments_are_cast_and_the_body_runs_without_autocast(torch, w):
    seen = []
    half = torch.ones(2, 2).bfloat16()
    with torch.autocast("cpu"):
        y = product(torch, seen, cast_inputs=torch.float32)(w, half)
    assert y.dtype is torch.float32
    y.sum().backward()
    assert seen == [(False, torch.float32, torch.float32, None), (False, torch.float32, torch.float32)]


def test_arguments_are_not_cast_outside_of_a_region(torch, w):
    seen = []
    half = torch.ones(2, 2).bfloat16()
    product(torch, seen, cast_inputs=torch.float32)(half, half)
    assert seen == [(False, torch.bfloat16, torch.bfloat16, None)]


def test_tensors_in_lists_tuples_and_mappings_are_cast(torch, w):
    seen = []
    half, number = torch.ones(1).bfloat16(), torch.ones(1, dtype=torch.int64)
    with torch.autocast("cpu"):
        product(torch, seen, cast_inputs=torch.float32)(
            w, w, {"a": half, "b": [half, (number, "text")], "c": half.double(), "d": None, "e": 1.5}
        )
    extra = seen[0][3]
    assert extra["a"].dtype is extra["b"][0].dtype is torch.float32
    assert extra["b"][1][0] is number and extra["b"][1][1] == "text"
    assert extra["c"].dtype is torch.float64
    assert (extra["d"], extra["e"]) == (None, 1.5)


def test_named_tuples_keep_their_class(gradloom):
    from gradloom.amp.autocast_mode import _cast

    Pair = collections.namedtuple("Pair", "a b")
    found = _cast(Pair(gradloom.ones(1).half(), 3), "cpu", gradloom.float32)
    assert isinstance(found, Pair) and found.a.dtype is gradloom.float32 and found.b == 3


def test_the_decorators_keep_names_and_documentation(torch, documented):
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx):
        """Forth."""

    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx):
        """Back."""

    assert (forward.__name__, forward.__doc__, backward.__name__, backward.__doc__) == (
        "forward",
        documented("Forth."),
        "backward",
        documented("Back."),
    )


def test_the_device_type_is_a_string_that_has_to_be_given(torch):
    for decorate in (torch.amp.custom_fwd, torch.amp.custom_bwd):
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'device_type'"):
            decorate(lambda ctx: None)
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: "):
            decorate(lambda ctx: None, device_type=torch.device("cpu"))


def test_a_backward_whose_forward_was_not_decorated_is_refused(torch, w):
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            return g

    with pytest.raises(AttributeError, match="_fwd_used_autocast"):
        Half.apply(w).sum().backward()
