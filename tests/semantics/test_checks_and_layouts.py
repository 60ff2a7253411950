"""What random programs found: the layout of results, dtypes of `out=`, and which check of a call comes first."""

import pytest

VALUES = {
    # Casts of expanded operands keep the order of their dimensions; a number to a power makes a new, row-major tensor.
    "(torch.ones(3, dtype=torch.float16).expand(4, 3) * 2).stride()": (3, 1),
    "torch.ones(3, dtype=torch.int8).expand(2, 4, 3).cos().stride()": (12, 3, 1),
    "torch.pow(2.0, torch.ones(3, 2).t()).stride()": (3, 1),
    "torch.ones(3, 2).t().pow(1).stride()": (1, 2),
    "torch.ones(1, 3, dtype=torch.bfloat16).expand(1, 3).stride()": (3, 1),
    # A dtype argument is by default that of out=; cat says so in words of its own.
    "torch.sum(torch.tensor([1.5, 1.5]), 0, out=torch.zeros((), dtype=torch.int64)).item()": 2,
    "torch.cumsum(torch.tensor([1.5, 1.5]), 0, out=torch.zeros(2, dtype=torch.int64)).tolist()": [1, 2],
    "torch.prod(torch.tensor([2, 3]), 0, out=torch.zeros((), dtype=torch.bool)).item()": True,
    "str(torch.tensor(True).pow(False).dtype)": "torch.bool",
    "torch.zeros(0, 3, dtype=torch.int64).log_softmax(1).shape": (0, 3),
    "torch.zeros(0, 3, dtype=torch.int64).view(torch.int32).shape": (0, 6),
    "torch.tensor(1j).mode().values.item()": 1j,
    "torch.ones(2, requires_grad=True).logical_not_().tolist()": [0.0, 0.0],
    "torch.nn.InstanceNorm2d(2, 1e-5, 0.1, False, True)(torch.ones(1, 2, 2, 2).double()).shape": (1, 2, 2, 2),
    # Joins resize out= before they look at its memory.
    "torch.cat([torch.ones(2), torch.ones(1)], out=torch.zeros(1).expand(4)).stride()": (1,),
    "torch.stack([torch.ones(2)], out=torch.zeros(1, 1).expand(4, 1)).shape": (1, 2),
    "torch.tensor([100, 100], dtype=torch.int8).cumsum_(0).tolist()": [100, -56],
    "torch.tensor([3, 4], dtype=torch.int8).t().cumprod_(0, dtype=torch.int8).tolist()": [3, 12],
}

ERRORS = {
    "torch.ones(2, requires_grad=True).sum(dtype=torch.int32)": (RuntimeError, "Autograd not support dtype: Int"),
    "torch.cat([torch.ones(2)], out=torch.zeros(2, dtype=torch.int64))": (TypeError, "torch.cat(): input types can't"),
    "torch.ones(3)[torch.tensor(1.5)]": (IndexError, "tensors used as indices must be long, int, byte or bool"),
    "torch.addcdiv(torch.ones(1), torch.tensor([1]), torch.tensor([2]))": (RuntimeError, "Integer division with addc"),
    "torch.tensor(3).repeat_interleave(2, 0)": (IndexError, "Dimension out of range"),
    "torch.ones(2, dtype=torch.complex64).sort(3)": (IndexError, "Dimension out of range"),
    "torch.ones(2).logcumsumexp(1)": (IndexError, "Dimension out of range"),
    "torch.ones(2).long().unfold(1, 2, 0)": (IndexError, "Dimension out of range"),
    "torch.ones(2).baddbmm(torch.ones(2), torch.ones(2))": (IndexError, "Dimension out of range"),
    "torch.ones(3).index_fill(0, torch.tensor([0.5]), 1j)": (IndexError, "index_fill_(): Expected dtype int64"),
    "torch.ones(3).index_put((torch.tensor([0.5]),), torch.tensor([1]))": (IndexError, "tensors used as"),
    "torch.ones(3).index_add(0, torch.tensor([5]), torch.ones(1))": (IndexError, "index out of range in self"),
    "torch.ones(2, 2).renorm(2, 0, 1j)": (RuntimeError, "renorm: maxnorm must be real-valued"),
    "torch.arange(1j)": (RuntimeError, "value cannot be converted to type double without overflow"),
    "torch.linspace(0, 1j, 3, dtype=torch.float32)": (RuntimeError, "torch.linspace(): inferred dtype"),
    "torch.ones(2, 3).dist(torch.ones(2, 2))": (RuntimeError, "The size of tensor a (3) must match"),
    "torch.ones(1, dtype=torch.uint8).masked_fill(torch.tensor([True]), torch.tensor(300))": (RuntimeError, "value"),
    "torch.ones(2, dtype=torch.complex64).unique()": (NotImplementedError, '"unique" not implemented for'),
    "torch.diff(torch.ones(2, 3), prepend=torch.ones(3, 3), dim=1)": (RuntimeError, "diff expects the shape of tensor"),
    "torch.cat([torch.ones(4)], out=torch.zeros(1).expand(4))": (RuntimeError, "unsupported operation: more than one"),
    "torch.nn.Hardtanh(2, 1)": (AssertionError, "max_val (1) must be greater than min_val (2)"),
    "torch.nn.AvgPool2d(2)(torch.ones(()))": (IndexError, "Dimension specified as -3 but tensor has no dimensions"),
    "torch.nn.LPPool2d(2, 2)(torch.ones(4, 4))": (IndexError, "Dimension out of range (expected to be in range of [-2"),
    "torch.nn.AvgPool1d(2)(torch.ones(4))": (RuntimeError, "Expected 2 to 3 dimensions, but got 1-dimensional tensor"),
    "torch.nn.MaxPool1d(2)(torch.ones(4))": (RuntimeError, "max_pool1d: Expected 2D or 3D (batch mode) tensor with"),
    "torch.nn.MaxPool2d(2)(torch.ones(4))": (RuntimeError, "non-empty 3D or 4D (batch mode) tensor expected for input"),
    "torch.nn.AvgPool2d(2)(torch.ones(0, 4, 4))": (RuntimeError, "Expected 3D or 4D (batch mode) tensor with optional"),
    "torch.nn.Unfold(2)(torch.ones(4, 4))": (IndexError, "Dimension out of range (expected to be in range of [-2, 1]"),
    "torch.nn.BatchNorm2d(2)(torch.ones(1, 2, 2, 2).double())": (RuntimeError, "mixed dtype (CPU): all inputs must"),
    "torch.nn.LayerNorm(2)(torch.ones(2).long())": (RuntimeError, "mixed dtype (CPU): all inputs must share same"),
    "torch.nn.GroupNorm(1, 2).double()(torch.ones(1, 2).half())": (RuntimeError, "mixed dtype (CPU): expect parameter"),
    "torch.tensor([True]).cumsum_(0)": (NotImplementedError, "\"cumsum_out_cpu\" not implemented for 'Bool'"),
    "torch.ones(2).cumprod_(0, dtype=torch.int64)": (RuntimeError, "Bad in-place call: input tensor dtype float and"),
    "torch.ones(2).long().masked_fill(torch.tensor(True), FLOAT)": (RuntimeError, "Autograd not support dtype: Long"),
    "torch.ones(2).bool().index_fill(0, torch.tensor([0]), FLOAT)": (RuntimeError, "Autograd not support dtype: Bool"),
    "torch.fill(torch.ones(2).int(), FLOAT)": (RuntimeError, "Autograd not support dtype: Int"),
    "torch.ones(2).byte().index_put((torch.tensor([True, False]),), FLOAT)": (RuntimeError, "Autograd not support dty"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("expression", VALUES)
def test_result(torch, expression):
    assert eval(expression) == VALUES[expression]


@pytest.mark.parametrize("expression", ERRORS)
def test_error(torch, expression):
    kind, words = ERRORS[expression]
    with pytest.raises(kind) as caught:
        eval(expression, {"torch": torch, "FLOAT": torch.tensor(1.0, requires_grad=True)})
    assert type(caught.value) is kind
    assert str(caught.value).startswith(words)


def test_averages_of_no_channels_are_empty(torch):
    assert torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 0, 4, 4), 3).shape == (1, 0, 3, 3)
    with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
        torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 2, 0, 4), 3)


def test_an_out_that_is_an_operand_is_not_resized(torch):
    x, y = torch.ones(2), torch.ones(3, 2)
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        torch.add(x, y, out=x)
    assert x.shape == (2,) and torch.add(y, x, out=y).tolist() == [[2.0, 2.0]] * 3


def test_views_keep_the_strides_of_dimensions_of_size_1(torch):
    x = torch.ones(1, 3, 1)[:, ::2]
    assert x.stride() == (3, 2, 1) and x[:, :1].view(1, 1).stride() == (1, 1)
    assert torch.ones(1, 1, 2)[..., 0].flatten().stride() == (2,)
    assert torch.ones(1, 1).expand(2, 1).unflatten(0, (2, 1)).stride() == (0, 1, 1)


def test_losses_refuse_dtypes_that_cannot_hold_them(torch):
    f = torch.nn.functional
    x, whole = torch.zeros(2), torch.tensor([1, 0])
    refused = {
        "result type Float can't be cast to the desired output type Long": (
            lambda: f.binary_cross_entropy_with_logits(x, whole),
            lambda: f.huber_loss(whole, x),
        ),
        "not implemented for 'Long'": (lambda: f.binary_cross_entropy_with_logits(whole, x),),
        "with two bool tensors": (lambda: f.binary_cross_entropy_with_logits(x, whole.bool()),),
        "on a bool tensor": (lambda: f.soft_margin_loss(whole.bool(), x),),
    }
    for words, calls in refused.items():
        for call in calls:
            with pytest.raises(RuntimeError, match=words):
                call()
    assert f.binary_cross_entropy_with_logits(x.double(), x).dtype is torch.float32


@pytest.mark.since("2.15")
@pytest.mark.parametrize("kind", ["AvgPool3d", "MaxPool3d"])
def test_pools_name_the_dimension_that_is_empty(torch, kind):
    for shape, empty in (((4, 0, 4, 4), 1), ((2, 2, 4, 0, 4), 3)):
        with pytest.raises(
            RuntimeError, match=rf"input has sizes \[{', '.join(map(str, shape))}\] with dimension {empty}"
        ):
            getattr(torch.nn, kind)(2)(torch.ones(shape))


def test_errors_name_dimensions_as_given(torch):
    for call, words in (
        (lambda: torch.ones(2, 0).amax(-1), "reduction dim -1 to have"),
        (lambda: torch.ones(4).repeat_interleave(torch.tensor([1, 2]), -1), r"input.size\(-1\) = 4"),
        (lambda: torch.ones(1).unflatten(0, (1,))[0].unflatten(0, (1,)), "Dimension specified as 0 but"),
        (lambda: torch.batch_norm(torch.ones(3), None, None, None, None, True, 0.1, 1e-5, False), "but got 1"),
    ):
        with pytest.raises((RuntimeError, IndexError), match=words):
            call()


@pytest.mark.parametrize(
    "name",
    """copysign atan2 hypot fmod remainder floor_divide nextafter xlogy ge gt le lt bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift gcd lcm igamma logaddexp2 clamp_min""".split(),
)
def test_shapes_that_do_not_broadcast_are_named_before_an_unsupported_dtype(torch, name):
    x, y = torch.ones(2), torch.ones(3, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)") as caught:
        getattr(torch, name)(x, y)
    assert not isinstance(caught.value, NotImplementedError)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)"):
        getattr(x, name)(y)
    with pytest.raises(NotImplementedError, match="not "):
        getattr(torch, name)(x, torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize("name", ["bitwise_and_", "gcd_", "atan2_", "copysign_", "ge_", "fmod_", "bitwise_left_shift_"])
def test_shapes_are_named_before_dtypes_in_place(torch, name):
    x = torch.ones(1, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast shape \[3\]"):
        getattr(x, name)(torch.ones(3, dtype=torch.complex64))


def test_bools_are_refused_by_subtraction_before_shapes(torch):
    with pytest.raises(RuntimeError, match="Subtraction"):
        torch.ones(2, dtype=torch.bool).sub_(torch.ones(3, dtype=torch.bool))


def test_losses_of_two_dtypes(torch):
    functional = torch.nn.functional
    x = torch.ones(2, requires_grad=True)
    for other in (torch.float64, torch.float16, torch.int64):
        loss = functional.huber_loss(x, torch.ones(2, dtype=other))
        with pytest.raises(RuntimeError, match="Found dtype .* but expected Float"):
            loss.backward()
        assert torch.autograd.grad(functional.smooth_l1_loss(x, torch.ones(2, dtype=other)), x)[0].dtype is x.dtype
    with pytest.raises(RuntimeError, match="Negation"):
        functional.soft_margin_loss(x, torch.ones(2, dtype=torch.bool)).backward()
    with pytest.raises(
        RuntimeError, match="must have the same dtype, got input1: float, input2: float, weight: double"
    ):
        functional.bilinear(x[None], x[None], torch.ones(1, 2, 2, dtype=torch.float64))


def test_modes_and_distinct_rows_with_nan(torch):
    nan = float("nan")
    for row, value, index in (
        ([nan, 0.0], nan, 0),
        ([0.0, nan], 0.0, 0),
        ([1.0, nan, 1.0], 1.0, 0),
        ([1.0, -0.0, nan, nan, 1.0], -0.0, 1),
        ([nan, 1.0, 1.0], 1.0, 2),
        ([nan, 0.0, nan, 1.0, 0.0], nan, 0),
    ):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            x = torch.tensor(row, dtype=dtype)
            values, indices = torch.stack([x, x]).mode(1)
            assert indices.tolist() == [index, index]
            torch.testing.assert_close(values, torch.tensor([value, value], dtype=dtype), equal_nan=True)
    x = torch.tensor([[nan, 1.0], [0.0, 2.0], [nan, 0.0], [0.0, 2.0]])
    found, inverse, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    assert inverse.tolist() == [1, 2, 0, 2] and counts.tolist() == [1, 1, 2]
    torch.testing.assert_close(found, torch.tensor([[nan, 0.0], [nan, 1.0], [0.0, 2.0]]), equal_nan=True)


def test_jacobians_of_an_empty_output_beside_another(torch):
    x = torch.ones(2)
    for create_graph in (False, True):
        found = torch.autograd.functional.jacobian(
            lambda x: (x[:0], 2 * x), x, vectorize=True, create_graph=create_graph
        )
        assert found[0].shape == (0, 2) and found[1].tolist() == [[2, 0], [0, 2]]
    found = torch.autograd.functional.hessian(lambda x, y: x.sum() + y.sum(), (x[:0], x), vectorize=True)
    assert [tuple(part.shape) for row in found for part in row] == [(0, 0), (0, 2), (2, 0), (2, 2)]
