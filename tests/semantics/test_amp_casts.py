"""What autocast makes of arguments: which tensors are cast, to what, and what that leaves in the graph."""

import warnings

import pytest


def walk(torch, node):
    """Names of the nodes from one on, depth first."""
    return [node.name()] + [
        name for following, _ in node.next_functions if following is not None for name in walk(torch, following)
    ]


def test_a_cast_is_recorded_and_the_gradient_comes_back_in_the_dtype_of_the_leaf(torch):
    x, w = torch.ones(2, 2), torch.full((2, 2), 3.0, requires_grad=True)
    with torch.autocast("cpu"):
        y = x @ w
    assert walk(torch, y.grad_fn) == ["MmBackward0", "ToCopyBackward0", "torch::autograd::AccumulateGrad"]
    y.float().sum().backward()
    assert w.grad.dtype is torch.float32
    assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_linear_layer_is_cast_as_a_whole(torch):
    layer = torch.nn.Linear(2, 3)
    with torch.autocast("cpu"):
        y = layer(torch.ones(4, 2))
    assert y.dtype is torch.bfloat16
    assert walk(torch, y.grad_fn) == [
        "AddmmBackward0",
        "ToCopyBackward0",
        "torch::autograd::AccumulateGrad",
        "TBackward0",
        "ToCopyBackward0",
        "torch::autograd::AccumulateGrad",
    ]
    y.float().sum().backward()
    assert layer.weight.grad.tolist() == [[4.0, 4.0]] * 3
    assert layer.bias.grad.dtype is torch.float32


def test_what_an_operator_is_made_of_casts_nothing(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.is_autocast_enabled("cpu"))
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    with torch.autocast("cpu"):
        Watch.apply(torch.ones(1))
        loss = torch.nn.functional.cross_entropy(torch.ones(2, 3).bfloat16(), torch.tensor([0, 1]))
    assert seen == [True]  # a custom function is no operator
    assert loss.dtype is torch.float32


def test_double_precision_integers_and_complex_numbers_are_not_cast(torch):
    with torch.autocast("cpu"):
        for dtype in (torch.float64, torch.int64, torch.complex64):
            x = torch.ones(2, 2).to(dtype)
            assert (x @ x).dtype is dtype
        assert torch.nn.functional.mse_loss(torch.ones(2).double(), torch.ones(2).bfloat16()).dtype is torch.float64
        assert torch.prod(torch.tensor([1, 2])).dtype is torch.int64


def test_other_lower_precision_is_cast_too(torch):
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2).half() @ torch.ones(2, 2)).dtype is torch.bfloat16


def test_products_of_what_is_not_cast_with_what_is_are_refused(torch):
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="dtype"):
        torch.ones(2, 2).double() @ torch.ones(2, 2)


def test_losses_are_computed_in_float32(torch):
    p = torch.tensor([0.25, 0.5], requires_grad=True)
    with torch.autocast("cpu"):
        y = p.bfloat16()
        loss = torch.nn.functional.mse_loss(y, torch.ones(2).bfloat16())
    assert loss.dtype is torch.float32
    assert walk(torch, loss.grad_fn)[:2] == ["MseLossBackward0", "ToCopyBackward0"]
    loss.backward()
    assert p.grad.tolist() == [-0.75, -0.5]


def test_joins_take_the_widest_dtype(torch):
    x, h = torch.ones(2), torch.ones(2).bfloat16()
    with torch.autocast("cpu"):
        assert torch.cat([x, h]).dtype is torch.float32
        assert torch.cat([h, h]).dtype is torch.bfloat16
        assert torch.stack([x.double(), x]).dtype is torch.float64
        assert torch.cat([x.int(), h]).dtype is torch.bfloat16
        assert torch.cat([x.int(), x.int()]).dtype is torch.int32
        assert torch.ones(2, 2).index_copy(0, torch.tensor([0]), torch.ones(1, 2).bfloat16()).dtype is torch.float32


@pytest.mark.parametrize("others", [["bfloat16"], ["float32"], ["float64"], []])
def test_joins_refuse_the_other_lower_precision(torch, others):
    tensors = [torch.ones(2).half(), *[torch.ones(2).to(getattr(torch, name)) for name in others]]
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
        torch.cat(tensors)


def test_operators_without_a_rule_take_what_they_get(torch):
    h, x = torch.ones(2, 2).bfloat16(), torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert (h + h).dtype is h.softmax(0).dtype is h.sum().dtype is torch.bfloat16
        assert (h + x).dtype is (x * x).dtype is x.exp().dtype is torch.float32
        assert torch.mv(x, x[0]).dtype is torch.dot(x[0], x[0]).dtype is torch.float32


def test_a_dtype_that_is_asked_for_is_kept(torch):
    h = torch.ones(2, 2).bfloat16()
    with torch.autocast("cpu"):
        assert h.prod().dtype is torch.float32
        assert h.prod(dtype=torch.bfloat16).dtype is torch.bfloat16


def test_in_place_and_out_variants_are_not_cast(torch):
    a, out = torch.ones(2, 2), torch.zeros(2, 2)
    with torch.autocast("cpu"):
        assert a.addmm_(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32
        assert torch.mm(a, a, out=out) is out
        assert (
            torch.cat([torch.ones(1), torch.ones(1).bfloat16()], out=torch.empty(0, dtype=torch.bfloat16)).dtype
            is torch.bfloat16
        )
    assert out.tolist() == [[18.0, 18.0], [18.0, 18.0]]


def test_methods_functions_and_operators_are_cast_alike(torch):
    a = torch.ones(2, 2)
    with torch.autocast("cpu"):
        for found in (
            a @ a,
            a.mm(a),
            torch.mm(a, a),
            torch.matmul(a, a),
            a.matmul(a),
            torch.addmm(a, a, a),
            a.addmm(a, a),
            torch.bmm(a[None], a[None]),
            torch.baddbmm(a[None], a[None], a[None]),
            torch.nn.functional.linear(a, a),
            torch.einsum("ij,jk->ik", a, a),
        ):
            assert found.dtype is torch.bfloat16


def test_convolutions_are_computed_in_lower_precision(torch):
    conv = torch.nn.Conv2d(2, 3, 3)
    with torch.autocast("cpu"):
        y = conv(torch.ones(1, 2, 5, 5))
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert conv.weight.grad.dtype is conv.bias.grad.dtype is torch.float32
    assert conv.bias.grad.tolist() == [9.0, 9.0, 9.0]


def test_a_view_of_what_was_cast_is_a_view_of_the_cast(torch):
    h = torch.ones(2, 2).half()
    with torch.autocast("cpu"):
        v = torch.view_as_complex(h)
    assert v.dtype is torch.complex64
    v.zero_()
    assert h.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_values_are_those_of_the_cast_arguments(torch):
    torch.manual_seed(0)
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    with torch.autocast("cpu"):
        y = a @ b
    assert torch.equal(y, a.bfloat16() @ b.bfloat16())


def test_gradients_of_gradients_go_through_the_casts(torch):
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        y = (x @ w).pow(2).sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    assert g.dtype is torch.float32
    (gg,) = torch.autograd.grad(g.sum(), w)
    assert gg.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_tangents_go_through_the_casts(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), torch.autocast("cpu"):
        d = forward_ad.make_dual(torch.ones(2, 2), torch.full((2, 2), 2.0))
        tangent = forward_ad.unpack_dual(torch.ones(2, 2) @ d).tangent
    assert tangent.dtype is torch.bfloat16
    assert tangent.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_backward_runs_with_the_autocast_of_its_caller(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
            return g

    w = torch.ones(2, requires_grad=True)
    with torch.autocast("cpu"):
        inside = Watch.apply(w).sum()
        outside = Watch.apply(w).sum()
        inside.backward()
    outside.backward()
    assert seen == [torch.bfloat16, torch.float32]


def test_a_backward_pass_within_a_region_computes_in_lower_precision(torch):
    torch.manual_seed(0)
    a, b = torch.randn(4, 5, requires_grad=True), torch.randn(5, 3, requires_grad=True)
    g = torch.randn(4, 3)
    y = a @ b
    with torch.autocast("cpu"):
        y.backward(g)
    assert torch.equal(a.grad, (g.bfloat16() @ b.detach().bfloat16().t()).float())


def test_an_operator_of_a_library_runs_within_the_region(torch):
    seen = []

    @torch.library.custom_op("amp_tests::product", mutates_args=())
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append((x.dtype, y.dtype, torch.is_autocast_enabled("cpu")))
        return x @ y

    x = torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert product(x, x).dtype is torch.bfloat16
    product.register_autocast("cpu", torch.float16)
    with torch.autocast("cpu"):
        assert product(x, x.bfloat16()).dtype is torch.float16
    assert product(x, x).dtype is torch.float32
    assert seen == [
        (torch.float32, torch.float32, True),
        (torch.float16, torch.float16, False),
        (torch.float32, torch.float32, False),
    ]


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_lstm_computes_in_the_dtype_of_autocast(gradloom, options, dtype):
    # PyTorch's kernel needs a processor with instructions for the dtype.
    torch, dtype = gradloom, getattr(gradloom, dtype)
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(4, 3, **options), torch.randn(5, 2, 4, requires_grad=True)
    expected, _ = layer(x)
    expected.sum().backward()
    wanted = [t.grad.clone() for t in (x, *layer.parameters())]
    for states in (None, [torch.zeros(len(layer.all_weights), 2, 3)] * 2):
        x.grad = None
        layer.zero_grad()
        with torch.autocast("cpu", dtype):
            out, (h, c) = layer(x, states)
        assert out.dtype is h.dtype is c.dtype is dtype
        torch.testing.assert_close(out.float(), expected, atol=0.05, rtol=0.05)
        out.float().sum().backward()
        found = [t.grad for t in (x, *layer.parameters())]
        assert all(g.dtype is torch.float32 for g in found)
        torch.testing.assert_close(found, wanted, atol=0.2, rtol=0.1)
        with torch.no_grad(), torch.autocast("cpu", dtype):
            assert torch.equal(layer(x, states)[0], out)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_dtypes_of_recurrent_layers_under_autocast(torch, kind, packed):
    if kind == "LSTM" and not packed:
        layer, wanted = torch.nn.LSTM(4, 3, proj_size=2), (torch.bfloat16, torch.bfloat16, torch.float32)
    else:
        layer = getattr(torch.nn, kind)(4, 3)
        wanted = (torch.bfloat16,) * 2 if kind == "RNN" else (torch.float32,) * 3
    x = torch.randn(5, 2, 4)
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16):
        warnings.simplefilter("ignore")  # PyTorch's, about projections
        out, states = layer(torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3]) if packed else x)
    found = (out.data if packed else out, *(states if kind == "LSTM" else [states]))
    assert tuple(t.dtype for t in found) == wanted[: len(found)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_transformer_layer_in_evaluation_gives_the_dtype_of_autocast(torch, dtype):
    dtype, x = getattr(torch, dtype), torch.randn(2, 3, 8)

    def result(training=False, grad=False, nhead=2, activation="relu", **options):
        layer = torch.nn.TransformerEncoderLayer(
            8, nhead, 16, activation=activation, **{"batch_first": True, **options}
        )
        with torch.autocast("cpu", dtype), torch.set_grad_enabled(grad):
            return layer.train(training)(x).dtype

    assert result() is result(norm_first=True) is result(activation="gelu") is dtype
    others = [{"training": True}, {"grad": True}, {"nhead": 1}, {"activation": torch.tanh}, {"batch_first": False}]
    assert {result(**options) for options in [*others, {"bias": False}]} == {torch.float32}
