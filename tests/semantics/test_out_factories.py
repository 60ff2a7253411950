"""Factories and random functions that write to an out= tensor: its shape, its dtype and the memory around it."""

from __future__ import annotations

import warnings

import pytest

COUNTED = {
    "arange": lambda torch, out: torch.arange(4, out=out),
    "linspace": lambda torch, out: torch.linspace(0, 3, 4, out=out),
    "logspace": lambda torch, out: torch.logspace(0, 3, 4, base=2, out=out),
    "range": lambda torch, out: torch.range(0, 3, out=out),
    "linspace of a tensor": lambda torch, out: torch.linspace(torch.tensor(0.0), 3, 4, out=out),
}
VALUES = {"logspace": [1.0, 2.0, 4.0, 8.0]}
DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.filterwarnings("ignore:torch.range")
@pytest.mark.parametrize("name", COUNTED)
def test_an_output_with_as_many_elements_keeps_its_shape(torch, name):
    first, second, third, fourth = VALUES.get(name, [0.0, 1.0, 2.0, 3.0])
    buffer = torch.full((2, 3), -1.0)
    out = buffer[:, 1:]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="An output|The number")
        assert COUNTED[name](torch, out) is out
    assert buffer.tolist() == [[-1, first, second], [-1, third, fourth]] and out.stride() == (3, 1)


@pytest.mark.filterwarnings("ignore:torch.range")
@pytest.mark.parametrize("name", COUNTED)
def test_an_output_of_another_size_is_resized_in_its_place(torch, name):
    buffer = torch.full((2, 5), -1.0)
    out = buffer[0, 1:3]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        COUNTED[name](torch, out)
    expected = [("shape [2] is 2 " in m and "elements 4." in m) for m in (str(w.message) for w in caught)]
    assert [m for m in expected if m] == ([True] if name == "arange" else [])
    assert buffer.tolist() == [[-1, *out.tolist()], [-1] * 5] and out.shape == (4,)


def test_an_empty_part_of_a_buffer_is_resized_within_it(torch):
    buffer = torch.full((6,), -1.0)
    torch.add(torch.ones(3), 1, out=buffer.as_strided((0,), (1,), 2))
    torch.add(torch.ones(1), 1, out=buffer[5:5])
    assert buffer.tolist() == [-1, -1, 2, 2, 2, 2]
    assert torch.add(torch.ones(1), 4, out=buffer[6:6]).tolist() == [5] and buffer[0] == -1
    grid = torch.zeros(3, 4)
    parts = [grid[:, 2:2], grid[1:1], grid[1:2, 3:3], grid.narrow(1, 3, 0), grid.split_with_sizes([1, 0, 2])[1]]
    assert [part.storage_offset() for part in parts] == [2, 4, 7, 3, 4]


@pytest.mark.parametrize("dtype", DTYPES)
def test_permutations_and_integers_take_the_dtype_of_the_output(torch, dtype):
    out = torch.zeros(5, dtype=getattr(torch, dtype))
    torch.manual_seed(0)
    expected = torch.randperm(5)
    torch.manual_seed(0)
    assert torch.randperm(5, out=out) is out
    assert out.dtype is getattr(torch, dtype) and out.tolist() == expected.tolist()
    torch.manual_seed(0)
    expected = torch.randint(9, (5,))
    torch.manual_seed(0)
    assert torch.randint(9, (5,), out=out).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_bernoulli_writes_to_any_dtype(torch, dtype):
    out = torch.zeros(2, dtype=getattr(torch, dtype))
    assert torch.bernoulli(torch.tensor([0.0, 1.0]), out=out).tolist() == [0, 1]


def test_permutations_refuse_the_dtypes_without_them(torch):
    for dtype in (torch.bool, torch.complex64):
        with pytest.raises(NotImplementedError, match="randperm"):
            torch.randperm(3, out=torch.empty(3, dtype=dtype))
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.randperm(300, out=torch.empty(300, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="dtype Int does not match dtype of out parameter"):
        torch.randperm(3, dtype=torch.int32, out=torch.empty(3))


def test_range_warns_at_every_call(torch):
    for out in (None, torch.empty(3), None):
        with pytest.warns(UserWarning, match="torch.range is deprecated and will be removed") as caught:
            assert torch.range(1, 3, out=out).tolist() == [1, 2, 3]
        assert len(caught) == 1


def test_sizes_that_pytorch_resizes_without_a_warning(torch):
    x = torch.rand(2, 3)
    calls = {
        "bernoulli": lambda out: torch.bernoulli(x, out=out),
        "multinomial": lambda out: torch.multinomial(x, 1, out=out),
        "addbmm": lambda out: torch.addbmm(torch.zeros(2, 2), x[None], x.t()[None], out=out),
        "narrow_copy": lambda out: torch.narrow_copy(x, 1, 0, 2, out=out),
        "add": lambda out: torch.add(x, 1, out=out),
    }
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(torch.empty(1, dtype=torch.int64 if name == "multinomial" else torch.float32))
        assert [str(w.message)[:9] for w in caught] == (["An output"] if name == "add" else []), name


@pytest.mark.parametrize("given", ["int64", "int32"])
@pytest.mark.parametrize(
    "call",
    [
        lambda torch, **options: torch.randint(2, (3,), **options),
        lambda torch, **options: torch.randint(0, 2, (3,), **options),
        lambda torch, **options: torch.randint(0, 2, (3,), generator=torch.Generator(), **options),
        lambda torch, **options: torch.randperm(3, **options),
        lambda torch, **options: torch.randperm(3, generator=torch.Generator(), **options),
    ],
)
def test_a_dtype_that_is_given_must_be_that_of_the_output(torch, call, given):
    for dtype in (torch.int64, torch.int32, torch.float32, torch.uint8):
        out = torch.empty(3, dtype=dtype)
        assert call(torch, out=out) is out
        if dtype is getattr(torch, given):
            assert call(torch, out=out, dtype=dtype) is out
        else:
            name = {"int64": "Long", "int32": "Int"}[given]
            with pytest.raises(RuntimeError, match=f"dtype {name} does not match dtype of out parameter"):
                call(torch, out=out, dtype=getattr(torch, given))


@pytest.mark.parametrize("layout", [lambda x: x.t(), lambda x: x.t()[::2], lambda x: x.t()[:, :2], lambda x: x[:, 1:]])
@pytest.mark.parametrize("name", ["rand", "randint", "randn", "normal"])
def test_random_numbers_fill_an_output_in_the_order_of_its_memory(torch, name, layout):
    draw = {
        "rand": (lambda out: torch.rand(out.shape, out=out), lambda out: out.uniform_()),
        "randint": (lambda out: torch.randint(50, out.shape, out=out), lambda out: out.random_(50)),
        "randn": (lambda out: torch.randn(out.shape, out=out), lambda out: out.normal_()),
        "normal": (lambda out: torch.normal(1.0, 2.0, out.shape, out=out), lambda out: out.normal_(1.0, 2.0)),
    }
    found, expected = (layout(torch.zeros(4, 3)) for _ in range(2))
    for out, write in zip((found, expected), draw[name], strict=True):
        torch.manual_seed(3)
        write(out)
    assert found.tolist() == expected.tolist()
