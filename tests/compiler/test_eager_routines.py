"""Sorts, scans, places and random words by routines of machine code: the same bits as by NumPy's kernels.

test_set_kernels calls each of them, and compares gradients.
"""

import re

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _llvm
from gradloom.compiler._llvm import places, pool
from gradloom.compiler._llvm.routines import Writer
from tests.samples import in_turn
from tests.waiting import in_threads

from .eager_calls import counted_replacements

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32]
SHAPES = [(1,), (7,), (64,), (1, 1), (3, 2), (9, 33), (32, 32), (17, 100), (2, 3, 5), (4, 1, 18), (8, 300)]
CASES = in_turn(SHAPES, DTYPES[:2]) + in_turn(SHAPES, DTYPES[2:])


def elements(shape, dtype, seed=0):
    """Return numbers with ties, and for floating dtypes zeros of both signs, infinities and NaN of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, shape)
    if not dtype.is_floating_point:
        return torch.from_numpy(x).to(dtype)
    special = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, 0.1])
    x = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), x + rng.choice([0, 0.25], shape))
    return torch.from_numpy(x).to(dtype)


def assert_same(call, calls=None):
    expected = call()
    with torch.set_kernels("llvm"):
        before = None if calls is None else calls.total()
        found = call()
        assert calls is None or calls.total() > before
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
        a, b = ((x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True) for x in (a, b))
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            numbers = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a)[numbers], np.signbit(b)[numbers])


@pytest.fixture
def calls(monkeypatch):
    return counted_replacements(monkeypatch)


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_orders_of_equal_elements_and_nans(shape, dtype, calls):
    x = elements(shape, dtype)
    for dim in range(-1, x.ndim):
        n = x.shape[dim]
        taken = n <= 64 or x.numel() // n >= 8
        for descending in (False, True):
            assert_same(lambda: tuple(x.sort(dim, descending)), calls if taken else None)  # noqa: B023
            assert_same(lambda: torch.sort(x, dim=dim, descending=descending, stable=True))  # noqa: B023
            for k in {1, n // 2, n} - {0}:
                assert_same(lambda: tuple(x.topk(k, dim, descending)))  # noqa: B023
        for keepdim in (False, True):
            assert_same(lambda: tuple(x.median(dim, keepdim)))  # noqa: B023
            for k in {1, n // 2 + 1, n}:
                assert_same(lambda: tuple(x.kthvalue(k, dim, keepdim)))  # noqa: B023


@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_scans(shape, dtype, calls):
    x = elements(shape, dtype)
    for dim in range(-1, x.ndim):
        for name in ("cummax", "cummin"):
            assert_same(lambda: tuple(getattr(x, name)(dim)), calls)  # noqa: B023
        for name in ("cumsum", "cumprod"):
            taken = None if dtype == torch.int32 else calls
            assert_same(lambda: getattr(x, name)(dim), taken)  # noqa: B023
            assert_same(lambda: getattr(x, name)(dim, dtype=x.dtype))  # noqa: B023


def test_running_sums_are_taken_in_double_precision():
    x = torch.full((3, 1000), 0.1)
    with torch.set_kernels("llvm"):
        for found in (x.cumsum(1), x.t().contiguous().cumsum(0).t()):
            np.testing.assert_array_equal(found.numpy(), np.cumsum(x.numpy(), 1, np.float64).astype(np.float32))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16, torch.bool, torch.complex64], ids=str)
def test_parts_at_places(dtype, calls):
    x = (torch.arange(5 * 7 * 3) % 11).reshape(5, 7, 3).to(dtype)
    for dim in range(-3, 3):
        n = x.shape[dim]
        index = torch.tensor([n - 1, 0, n - 1, n // 2])
        assert_same(lambda: x.index_select(dim, index), calls)  # noqa: B023
        source = x.index_select(dim, index)
        if dtype in DTYPES:
            assert_same(lambda: x.index_add(dim, index, source), calls)  # noqa: B023
            assert_same(lambda: x.clone().index_add_(dim, index, source), calls)  # noqa: B023
            places = torch.arange(x.numel()).reshape(x.shape) % n
            assert_same(lambda: x.scatter_add(dim, places, x), calls)  # noqa: B023
            assert_same(lambda: x.clone().scatter_add_(dim, places, x), calls)  # noqa: B023
            assert_same(lambda: x.index_add(dim, index, source, alpha=2))  # noqa: B023
    rows = x.reshape(5, 21)
    assert_same(lambda: torch.nn.functional.embedding(torch.tensor([[4, 0], [4, 1]]), rows), calls)


@pytest.mark.parametrize("padding_idx", [None, 0, -1])
def test_gradients_of_tables(padding_idx, calls):
    def gradient():
        table = elements((6, 19), torch.float32).nan_to_num().requires_grad_()
        indices = torch.arange(40) % 5
        torch.nn.functional.embedding(indices, table, padding_idx).mul(torch.arange(40.0)[:, None]).sum().backward()
        return table.grad

    assert_same(gradient, calls)


def test_places_out_of_range_are_errors_and_nothing_is_written():
    x, ones = torch.zeros(4, 3), torch.ones(4, 3)
    with torch.set_kernels("llvm"):
        for bad in (4, -1):
            index = torch.tensor([0, bad, 1, 2])
            with pytest.raises(IndexError, match="index out of range in self"):
                x.index_select(0, index)
            with pytest.raises(IndexError, match="index out of range in self"):
                torch.nn.functional.embedding(index, x)
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
                x.index_add_(0, index, ones)
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
                x.scatter_add_(0, index[:, None].expand(4, 3).contiguous(), ones)
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
                x.scatter_add(0, index[:, None].expand(4, 3).contiguous(), ones)
        assert not x.any()
        with pytest.raises(RuntimeError, match="unsupported operation"):
            x.scatter_add_(0, torch.zeros(4, 3, dtype=torch.int64), x)


def test_what_routines_do_not_take_goes_to_numpy():
    x = elements((6, 8), torch.float32)
    empty = torch.empty(0, 3)
    for call in (
        lambda: tuple(x.t().sort(1)),
        lambda: tuple(x.bfloat16().float().t().topk(2)),
        lambda: tuple(x.half().sort(1)),
        lambda: tuple((x > 0).sort(1)),
        lambda: x.t().cumsum(0),
        lambda: x.cumsum(1, dtype=torch.float64),
        lambda: (x > 0).cumsum(1),
        lambda: tuple(x.t().cummax(0)),
        lambda: tuple(empty.sort(1)),
        lambda: empty.cumsum(0),
        lambda: tuple(empty.cummin(1)),
        lambda: x.index_select(0, torch.empty(0, dtype=torch.int64)),
        lambda: x.index_select(0, torch.tensor([3, 1], dtype=torch.int32)),
        lambda: x.t().index_select(0, torch.tensor([3, 1])),
        lambda: x.scatter_add(1, torch.zeros(2, 3, dtype=torch.int64), x),
        lambda: torch.tensor(3.0).cumsum(0),
        lambda: tuple(torch.tensor(3.0).sort()),
        lambda: tuple(x.topk(0)),
    ):
        assert_same(call)
    with torch.set_kernels("llvm"):
        for wrong in (lambda: x.sort(2), lambda: x.cumsum(-3), lambda: x.cummax(2), lambda: x.median(2)):
            with pytest.raises(IndexError, match="Dimension out of range"):
                wrong()
        with pytest.raises(RuntimeError, match="selected index k out of range"):
            x.topk(9)
        with pytest.raises(RuntimeError, match="selected number k out of range"):
            x.kthvalue(0)


@pytest.mark.parametrize("workers", [True, False], ids=["pool", "Python"])
@pytest.mark.parametrize("count", [1, 2])
def test_large_arrays_are_shared_by_threads(count, workers, threads, monkeypatch):
    threads(count)
    shared, in_threads = [], pool.in_threads
    monkeypatch.setattr(pool, "in_threads", lambda *args: shared.append(args) or in_threads(*args))
    if not workers:
        monkeypatch.setattr(pool, "workers", lambda: None)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((3000, 70)).astype(np.float32))
    index = torch.arange(x.numel()).reshape(x.shape) % 70
    rows = torch.arange(9000) % 3000
    assert_same(lambda: tuple(x.sort(1)))
    assert_same(lambda: tuple(x.topk(7)))
    assert_same(lambda: x.cumsum(1))
    assert_same(lambda: tuple(x.cummax(1)))
    assert_same(lambda: x.index_select(0, rows))
    assert_same(lambda: x.scatter_add(1, index, x))
    with torch.set_kernels("llvm"):
        added = torch.zeros(3000, 70).index_add(0, rows, x.repeat(3, 1))
        np.testing.assert_array_equal(added.numpy(), (x + x + x).numpy())
        with pytest.raises(RuntimeError, match="index 70 is out of bounds"):
            x.scatter_add_(1, index + (index == 69), x.clone())
        with pytest.raises(RuntimeError, match="index 3000 is out of bounds"):
            x.index_add_(0, rows[:3000] + 1, x.clone())
    assert bool(shared) == (count > 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_that_add_rows_share_no_line_of_the_cache(dtype, threads, monkeypatch):
    threads(2)
    shared, in_threads = [], pool.in_threads
    monkeypatch.setattr(pool, "in_threads", lambda *args: shared.append(args[2].tolist()) or in_threads(*args))
    lines = -(-70 * np.dtype(dtype).itemsize // 64)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((3000, 70)).astype(dtype))
    with torch.set_kernels("llvm"):
        found = torch.zeros(50, 70, dtype=x.dtype).index_add(0, torch.arange(3000) % 50, x)
    np.testing.assert_allclose(found.numpy(), x.numpy().reshape(60, 50, 70).sum(0), rtol=1e-4, atol=1e-4)
    assert shared == [[[0, lines // 2], [lines // 2, lines]]]  # whole lines, and one part for each thread


SIZES = (1, 15, 16, 17, 311, 312, 623, 624, 625, 4097, 40_000)
DRAWS = {
    "rand": lambda n: torch.rand(n),
    "rand of float64": lambda n: torch.rand(n, dtype=torch.float64),
    "rand of float16": lambda n: torch.rand(n, dtype=torch.float16),
    "uniform of a transposed matrix": lambda n: torch.empty(3, n).t().uniform_(-1, 3),
    "randn": lambda n: torch.randn(n),
    "randn of float64": lambda n: torch.randn(n, dtype=torch.float64),
    "randint": lambda n: torch.randint(-7, 12, (n,)),
    "randint of one": lambda n: torch.randint(3, 4, (n,)),
    "randint of many": lambda n: torch.randint(-(1 << 27), 1 << 27, (n,)),
    "randint of 64 bits": lambda n: torch.randint(-(1 << 62), 1 << 62, (n,)),
    "randint of int32": lambda n: torch.randint(5, (n,), dtype=torch.int32),
    "random": lambda n: torch.empty(n, dtype=torch.int64).random_(),
    "randperm": lambda n: torch.randperm(n),
    "bernoulli": lambda n: torch.empty(n).bernoulli_(0.3),
    "bernoulli of each": lambda n: torch.bernoulli(torch.full((n,), 0.3)),
    "dropout": lambda n: torch.nn.functional.dropout(torch.ones(n), 0.2),
    "exponential": lambda n: torch.empty(n).exponential_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_the_same_bits(name, calls):
    def drawn():
        torch.manual_seed(11)
        return *(DRAWS[name](n) for n in SIZES), torch.get_rng_state()

    assert_same(drawn, calls)


def test_kernels_may_change_between_draws():
    torch.manual_seed(5)
    expected = torch.rand(5000).numpy()
    torch.manual_seed(5)
    found = []
    for i, n in enumerate((700, 1, 623, 3000, 676)):
        with torch.set_kernels(("llvm", "numpy")[i % 2]):
            found.append(torch.rand(n).numpy())
    np.testing.assert_array_equal(np.concatenate(found), expected)
    state = torch.get_rng_state()
    with torch.set_kernels("llvm"):
        again = torch.rand(9)
        torch.set_rng_state(state)
        np.testing.assert_array_equal(torch.rand(9).numpy(), again.numpy())


def test_threads_draw_sequences_of_one_generator():
    with torch.set_kernels("llvm"):
        torch.manual_seed(3)
        expected = np.sort(torch.rand(8, 3000).numpy(), axis=None)
        torch.manual_seed(3)
        found = in_threads(*[lambda: torch.rand(3000).numpy()] * 8)
    np.testing.assert_array_equal(np.sort(np.stack(found), axis=None), expected)


@pytest.mark.parametrize(
    "write",
    [
        lambda: places._take(Writer(("x", "index", "out"), ("size", "count", "each", "item"))),
        lambda: places._scatter_add(Writer(("out", "index", "src"), ("size", "count", "after")), "float32"),
        lambda: places._add_parts(
            Writer(("out", "index", "src"), ("before", "size", "count", "after", "omitted")), "float32"
        ),
    ],
    ids=["take", "scatter_add", "add_parts"],
)
def test_each_loaded_place_is_compared(write):
    """Note [One load of a place]: no loop computes an address from a place that it did not compare itself."""
    lines = [line.strip() for line in write().partition("@kernel(")[2].partition("\n}")[0].splitlines()]
    made = dict(line.split(" = ", 1) for line in lines if " = " in line)
    (base,) = {m for m, text in made.items() if text.startswith("load ptr") and _reads(made, text, "%index")}
    loads = [m for m, text in made.items() if text.startswith("load ") and _reads(made, text, base) and m != base]
    assert loads
    for load in loads:
        assert any(re.search(rf"icmp uge .*{re.escape(load)}\b", text) for text in made.values()), load


def _reads(made, text, name):
    """Return whether a load reads from an address made from the one of that name alone."""
    address = text.split("ptr ")[-1].split(",")[0]
    return address == name or name in re.findall(r"%[\w.]+", made.get(address, ""))[:1]
