"""Assignments to parts of a tensor, and their gradients; results written to `out=`."""

from contextlib import contextmanager

import numpy as np
import pytest


@pytest.fixture
def a(torch):
    """A leaf of shape (2, 3) with the values 1 to 6."""
    return torch.arange(1, 7, dtype=torch.float64).reshape(2, 3).clone().requires_grad_()


def name(tensor):
    return type(tensor.grad_fn).__name__


# What is assigned to: the same index for the library and for NumPy.
INDICES = {
    "an integer": 1,
    "a negative integer": -1,
    "two integers": (0, 2),
    "a slice": slice(0, 1),
    "everything": slice(None),
    "an ellipsis": ...,
    "a column": (slice(None), 1),
    "a step": (slice(None), slice(0, 3, 2)),
    "None": (None, 0),
    "an ellipsis and an integer": (..., 0),
    "nothing": (),
    "an empty slice": slice(0, 0),
    "a list": [1, 0],
    "two lists": ([0, 1], [1, 2]),
    "an integer and a list": (0, [0, 2]),
    "a slice and a list": (slice(None), [0, 2]),
    "a list and None": ([1], None),
    "an array": np.array([1]),
    "a mask of all": np.array([[True, False, True], [False, False, True]]),
    "a mask of rows": np.array([True, False]),
    "an empty list": np.array([], dtype=np.int64),
}
EACH_INDEX = pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)


def as_tensor(torch, index):
    """The index with tensors in the place of arrays."""
    if isinstance(index, np.ndarray):
        return torch.from_numpy(index)
    return tuple([as_tensor(torch, i) for i in index]) if isinstance(index, tuple) else index


@EACH_INDEX
def test_assigning_a_number(torch, a, index):
    b = a * 1
    expected = a.detach().numpy().copy()
    b[as_tensor(torch, index)] = 7
    expected[index] = 7
    assert b.tolist() == expected.tolist() and b._version == 1
    b.sum().backward()
    expected[...] = 1
    expected[index] = 0
    assert a.grad.tolist() == expected.tolist()


@EACH_INDEX
def test_assigning_a_tensor(torch, a, index):
    b = a * 1
    part = b.detach()[as_tensor(torch, index)]
    value = torch.arange(part.numel(), dtype=torch.float64).reshape(part.shape).requires_grad_()
    expected = a.detach().numpy().copy()
    b[as_tensor(torch, index)] = value * 10
    expected[index] = value.detach().numpy() * 10
    assert b.tolist() == expected.tolist()
    weights = torch.arange(1, 7, dtype=torch.float64).reshape(2, 3)
    (b * weights).sum().backward()
    assert value.grad.tolist() == (10 * weights[as_tensor(torch, index)]).tolist()
    kept = weights.numpy().copy()
    kept[index] = 0
    assert a.grad.tolist() == kept.tolist()


@EACH_INDEX
def test_assigning_to_what_requires_no_gradient(torch, a, index):
    base = torch.zeros(2, 3, dtype=torch.float64)
    base[as_tensor(torch, index)] = a[0, 0]
    count = np.ones((2, 3))[index].size
    assert base.requires_grad and base.sum() == count
    base.sum().backward()
    assert a.grad.flatten().tolist() == [float(count)] + [0.0] * 5


@pytest.mark.parametrize(
    "index, node",
    [
        (0, "CopySlices"),
        (slice(0, 1), "CopySlices"),
        ((0, slice(0, 2)), "CopySlices"),
        (slice(None), "FillBackward3"),
        ([0], "IndexPutBackward0"),
        ((slice(None), [1]), "IndexPutBackward0"),
    ],
)
def test_the_node_tells_a_part_from_the_whole_and_a_view_from_an_index(torch, a, index, node):
    b = a * 1
    b[index] = torch.ones((), dtype=torch.float64, requires_grad=True)
    assert name(b) == node


def test_values_broadcast(torch, a):
    b = a * 1
    b[:] = a[1]
    b[:, 0] = a[0, 0]
    b[0] = a[1:2]
    assert b.tolist() == [[4.0, 5.0, 6.0], [1.0, 5.0, 6.0]]
    b.sum().backward()
    assert a.grad.tolist() == [[1.0, 0.0, 0.0], [1.0, 2.0, 2.0]]


def test_values_are_converted(torch, a):
    b = a * 1
    b[0] = torch.ones(3, dtype=torch.int64)
    b[1, 0] = True
    b[1, 1] = np.int32(2) + np.float64(1)
    b[0, 2] = np.int32(1)
    b[1, 2] = torch.tensor(5.0)
    assert b.tolist() == [[1.0, 1.0, 1.0], [1.0, 3.0, 5.0]] and b.dtype is torch.float64
    with pytest.raises(TypeError, match="can't assign a numpy.float32 to a torch.DoubleTensor"):
        b[1, 1] = np.float32(3)


def test_an_assignment_to_a_view_reaches_the_base(torch, a):
    b = a * 1
    b.view(-1)[3] = a[0, 0]
    b.t()[2] = a[:, 1]
    b.diagonal()[:] = a[0, :2] * 10
    assert b.tolist() == [[10.0, 2.0, 2.0], [1.0, 20.0, 5.0]]
    b.sum().backward()
    assert a.grad.tolist() == [[11.0, 12.0, 0.0], [0.0, 1.0, 0.0]]


def test_a_part_may_be_assigned_to_another_part(torch, a):
    b = a * 1
    b[0] = b[1]
    b.sum().backward()
    assert b.tolist() == [[4.0, 5.0, 6.0]] * 2 and a.grad.tolist() == [[0.0] * 3, [2.0] * 3]


@pytest.mark.parametrize(
    "index, value, kind, said",
    [
        (0, "ones(4)", RuntimeError, r"expand|broadcast|match"),
        (slice(0, 1), "ones(2, 3)", RuntimeError, r"expand|broadcast|match"),
        (5, "ones(3)", IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0), "ones(1)", IndexError, "too many indices for tensor of dimension 2"),
        ([5], "ones(3)", IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (slice(None, None, -1), "ones(3)", ValueError, "step must be greater than zero"),
        (1.5, "ones(3)", (IndexError, TypeError), "indices"),
        ("a", "ones(3)", (IndexError, TypeError), "invalid data type 'str'"),
    ],
)
def test_what_cannot_be_assigned(torch, a, index, value, kind, said):
    b = a * 1
    value = eval(f"torch.{value}.double()", {"torch": torch})
    with pytest.raises(kind, match=said):
        b[index] = value
    assert torch.equal(a, b)


def test_a_value_that_is_no_number_cannot_be_assigned(a):
    b = a * 1
    for value in (None, "text", [1.0, 2.0, 3.0], 1j):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            b[0] = value
    with pytest.raises(TypeError):
        del b[0]


# --- out= -----------------------------------------------------------------------------------------


OUT = {
    "add": lambda t, x, out: t.add(x, 1, out=out),
    "exp": lambda t, x, out: t.exp(x, out=out),
    "sum": lambda t, x, out: t.sum(x, 1, out=out),
    "mm": lambda t, x, out: t.mm(x, x.t(), out=out),
    "cat": lambda t, x, out: t.cat([x, x], out=out),
    "stack": lambda t, x, out: t.stack([x, x], out=out),
    "where": lambda t, x, out: t.where(x > 2, x, 0 * x, out=out),
    "clamp": lambda t, x, out: t.clamp(x, 2, 4, out=out),
    "cumsum": lambda t, x, out: t.cumsum(x, 0, out=out),
    "tril": lambda t, x, out: t.tril(x, out=out),
    "std": lambda t, x, out: t.std(x, 1, out=out),
    "prod": lambda t, x, out: t.prod(x, 1, out=out),
    "pow": lambda t, x, out: t.pow(x, 2, out=out),
    "div": lambda t, x, out: t.div(x, 2, out=out),
    "matmul": lambda t, x, out: t.matmul(x, x.t(), out=out),
    "neg": lambda t, x, out: t.neg(x, out=out),
    "masked_select": lambda t, x, out: t.masked_select(x, x > 2, out=out),
}
EACH_OUT = pytest.mark.parametrize("operator, call", OUT.items(), ids=OUT)


@EACH_OUT
def test_out_receives_the_result(torch, a, operator, call):
    x = a.detach()
    out = torch.zeros(0, dtype=torch.float64)
    assert call(torch, x, out) is out
    assert torch.equal(out, call(torch, x, None) if operator != "masked_select" else x[x > 2]) and out._version >= 1
    again = torch.zeros_like(out)
    call(torch, x, again)
    assert torch.equal(again, out) and again._version == 1


@EACH_OUT
def test_out_does_not_support_differentiation(torch, a, operator, call):
    said = rf"{operator}\(\): functions with out=... arguments don't support automatic differentiation, but one of the"
    for x, out in ((a, torch.zeros(0, dtype=torch.float64)), (a.detach(), (a * 1)[:0])):
        with pytest.raises(RuntimeError, match=said):
            call(torch, x, out)
    with torch.no_grad():
        out = torch.zeros(0, dtype=torch.float64)
        call(torch, a, out)
    assert not out.requires_grad


def test_out_of_what_has_no_gradient_anyway(torch, a):
    assert torch.eq(a, 2, out=torch.zeros(0, dtype=torch.bool)).sum() == 1
    assert torch.argmax(a, out=torch.zeros((), dtype=torch.int64)).item() == 5
    assert torch.zeros(2, out=torch.ones(2)).tolist() == [0.0, 0.0]


def test_out_may_be_a_view(torch, a):
    base = torch.zeros(4, 3, dtype=torch.float64)
    torch.add(a.detach(), 0, out=base[1:3])
    torch.exp(0 * a.detach().t(), out=base.t()[:, 2:])
    assert base.tolist() == [[0.0] * 3, [1.0, 2.0, 3.0], [1.0] * 3, [1.0] * 3] and base._version == 2


def test_out_of_another_size_is_resized_with_a_warning(torch, a):
    out = torch.ones(5, dtype=torch.float64)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized since it had shape"):
        torch.add(a.detach(), 1, out=out)
    assert tuple(out.shape) == (2, 3)


def test_out_must_be_able_to_hold_the_result(torch, a):
    for dtype, said in (
        (torch.int64, "result type Double can't be cast to the desired output type Long"),
        (torch.bool, "result type Double can't be cast to the desired output type Bool"),
    ):
        with pytest.raises(RuntimeError, match=said):
            torch.add(a.detach(), 1, out=torch.zeros(2, 3, dtype=dtype))
    assert torch.add(a.detach(), 1, out=torch.zeros(2, 3)).dtype is torch.float32


@pytest.mark.parametrize(
    "call",
    [
        lambda torch, x, out: torch.abs(x, out=out),
        lambda torch, x, out: torch.mm(x, x, out=out),
        lambda torch, x, out: torch.gather(x, 0, torch.zeros(3, 3, dtype=torch.int64), out=out),
        lambda torch, x, out: torch.sort(x, out=(out, torch.zeros(3, 3, dtype=torch.int64))),
        lambda torch, x, out: torch.softmax(x, 0, out=out),
        lambda torch, x, out: torch.amax(x, 0, out=out),
        lambda torch, x, out: torch.view_copy(x, (3, 3), out=out),
        lambda torch, x, out: torch.tril(x, out=out),
        lambda torch, x, out: torch.where(x > 0, x, x, out=out),
        lambda torch, x, out: torch.float_power(x, 2, out=out.to(torch.float32)),
    ],
)
def test_some_operators_take_no_wider_dtype(torch, call):
    x, other = torch.ones(3, 3), torch.zeros(3, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="dtype|[eE]xpected .* type"):
        call(torch, x, other)


@pytest.mark.parametrize(
    "call",
    [
        lambda torch, x, out: torch.sin(x, out=out),
        lambda torch, x, out: torch.sum(x, 0, out=out),
        lambda torch, x, out: torch.cat([x, x], out=out),
        lambda torch, x, out: torch.mean(x, 0, out=out),
        lambda torch, x, out: torch.max(x, x, out=out),
        lambda torch, x, out: torch.square(x, out=out),
    ],
)
def test_others_cast_to_a_wider_dtype(torch, call):
    x, wide = torch.ones(3, 3), torch.zeros(0, dtype=torch.float64)
    assert call(torch, x, wide) is wide and bool((wide != 0).all())


@pytest.mark.parametrize(
    "call",
    [
        lambda torch, x, index: torch.index_select(x, 0, index, out=x[:2]),
        lambda torch, x, index: torch.gather(x, 0, index, out=x[:2]),
        lambda torch, x, index: torch.cat([x], out=x),
        lambda torch, x, index: torch.masked_select(x, x > 1, out=x[:2]),
        lambda torch, x, index: torch.take(x, index, out=x[:2]),
        lambda torch, x, index: torch.sin(x[:3], out=x[1:]),
        lambda torch, x, index: torch.cumsum(x[:3], 0, out=x[1:]),
        lambda torch, x, index: x.scatter_(0, index, x[:2]),
        lambda torch, x, index: x.index_add_(0, index, x[1:3]),
        lambda torch, x, index: x.index_copy_(0, index, x[1:3]),
        lambda torch, x, index: x.put_(index, x[1:3]),
        lambda torch, x, index: x.index_put_((index,), x[1:3]),
        lambda torch, x, index: x.scatter_add_(0, index, x[:2]),
    ],
)
def test_what_is_read_while_it_is_written_is_refused(torch, call):
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
        call(torch, torch.arange(4.0), torch.tensor([0, 1]))


def test_what_is_written_at_the_end_may_share_memory(torch):
    x = torch.arange(4.0).reshape(2, 2)
    assert torch.amax(x, 0, out=x[0]).tolist() == [2.0, 3.0] and x.tolist() == [[2.0, 3.0], [2.0, 3.0]]
    assert torch.sin(x, out=x) is x and torch.cumsum(x, 0, out=x) is x


def test_several_results_are_written_to_a_tuple(torch, a):
    values, indices = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    found = torch.max(a.detach(), 1, out=(values, indices))
    assert found[0] is values and found[1] is indices
    assert (values.tolist(), indices.tolist(), values._version) == ([3.0, 6.0], [2, 2], 1)
    torch.min(a.detach(), 1, out=(values, indices))
    assert (values.tolist(), indices.tolist(), values._version) == ([1.0, 4.0], [0, 0], 2)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (
            lambda torch, x: x.index_fill_(0, torch.tensor([0]), 2.0),
            "Use of index_fill_ on expanded tensors is deprecated",
        ),
        (
            lambda torch, x: x.masked_fill_(torch.tensor([True, False, False]), 2.0),
            "Use of masked_fill_ on expanded tens",
        ),
        (
            lambda torch, x: x.index_put_([torch.tensor([0])], torch.tensor(2.0)),
            "Use of index_put_ on expanded tensors is",
        ),
    ],
)
def test_some_writes_to_an_expanded_tensor_warn_and_reach_all_of_it(torch, write, said):
    x = torch.zeros(1).expand(3)
    with always_warning(torch), pytest.warns(UserWarning, match=said):
        write(torch, x)
    assert x.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("convert", [lambda x: x.float(), lambda x: x.new_zeros(2, dtype=x.real.dtype).copy_(x)])
def test_an_imaginary_part_is_not_lost_without_a_warning(torch, convert):
    with always_warning(torch), pytest.warns(UserWarning, match="Casting complex values to real discards"):
        assert convert(torch.tensor([1 + 2j, 3j])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (
            lambda torch, x: x[[[0, 1], [1, 0]]],
            "Using a non-tuple sequence for multidimensional indexing is deprecated",
        ),
        (
            lambda torch, x: x.scatter_(0, torch.tensor([[0]]), torch.ones(1, 1), reduce="add"),
            "The reduce argument of tor",
        ),
        (
            lambda torch, x: x.index_reduce_(0, torch.tensor([0]), torch.ones(1, 2), "prod"),
            r"index_reduce\(\) is in beta",
        ),
    ],
)
def test_what_will_change_says_so(torch, write, said):
    with always_warning(torch), pytest.warns(UserWarning, match=said):
        write(torch, torch.ones(2, 2))


@contextmanager
def always_warning(torch):
    """PyTorch says most things once for each process; a test wants to hear it each time."""
    if hasattr(torch, "set_warn_always"):
        torch.set_warn_always(True)
    try:
        yield
    finally:
        if hasattr(torch, "set_warn_always"):
            torch.set_warn_always(False)


def test_a_mask_that_is_the_tensor_itself(torch):
    x = torch.tensor([True, False, True])
    x[x] = False
    assert x.tolist() == [False] * 3
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[x] = torch.tensor([True, True, True])[:0]
    y = torch.ones(4, dtype=torch.bool)
    for write in (lambda: y[:3].masked_fill_(y[1:], False), lambda: y[:3].__setitem__(y[1:], False)):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            write()


def test_a_number_written_with_a_mask_of_bytes(torch):
    x, mask = torch.zeros(3), torch.tensor([1, 0, 1], dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="only supports boolean masks, but got mask with dtype unsigned char"):
        x[mask] = 2


def test_an_expanded_tensor_written_to_itself(torch):
    x = torch.arange(3.0).expand(2, 3)
    x[None] = x
    assert x.conj_physical_().tolist() == [[0, 1, 2]] * 2  # nothing to write for real numbers
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x[None] = x + 1
