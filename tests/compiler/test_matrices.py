"""Products of matrices by machine code: every layout and tail, within the documented bound of float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _llvm
from gradloom.compiler._api import optimized_of
from tests.waiting import in_threads

if not _llvm.available():
    pytest.skip("needs llvmlite", allow_module_level=True)

from gradloom.compiler._llvm import host, kernel, product, tiles

LAYOUTS = [(a, b, out) for a in "CF" for b in "CF" for out in "CF"]
MARGIN = 3  # elements around matrices, which must stay


@dataclass
class Matrix:
    """A batch of matrices in the memory of an array, as the values of a graph are."""

    array: np.ndarray
    view: np.ndarray

    @property
    def offset(self):
        return self.view.__array_interface__["data"][0] - self.array.__array_interface__["data"][0]

    shape = property(lambda self: self.view.shape)
    strides = property(lambda self: self.view.strides)
    dtype = property(lambda self: self.view.dtype)


def matrix(rng, shape, order, dtype="float32", margin=MARGIN):
    """Return random matrices whose rows (C) or columns (F) are contiguous, not aligned, with a margin around them."""
    *batch, rows, columns = shape
    inner = (columns, rows)[order == "F"] + 2 * margin
    array = rng.standard_normal((*batch, (rows, columns)[order == "F"] + 2, inner)).astype(dtype)
    view = array[..., 1:-1, margin : inner - margin] if margin else array[..., 1:-1, :]
    return Matrix(array, view.swapaxes(-1, -2) if order == "F" else view)


def multiply(a, b, out, adds=False):
    made = product.Product(a, b, out, adds)
    factors = a.array, b.array
    made(factors[made.layout.panel], factors[1 - made.layout.panel], out.array)
    return made


def check(a, b, out, adds=False):
    """Multiply, and compare with float64; nothing but the result is written."""
    before = out.array.copy()
    old = out.view.astype("float64") if adds else 0.0
    multiply(a, b, out, adds)
    x, y = a.view.astype("float64"), b.view.astype("float64")
    depth = x.shape[-1]
    block = tiles.DEPTH
    terms = min(depth, block) + -(-depth // block) + 1
    bound = (terms * np.finfo(out.dtype).eps) * (np.abs(x) @ np.abs(y) + np.abs(old))
    assert (np.abs(out.view - (x @ y + old)) <= bound).all()
    found = out.array.copy()
    out.view[...] = 0
    cleared = out.array.copy()
    out.array[...] = before
    out.view[...] = 0
    assert np.array_equal(cleared, out.array), "written beside the result"
    out.array[...] = found


@pytest.fixture(params=["this processor", "AVX2"])
def processor(request, monkeypatch):
    """Let products be made for this processor, or as if it had no AVX-512."""
    real = host.host()
    if request.param == "AVX2":
        if real.register < 512:
            pytest.skip("this processor has no AVX-512")
        features = frozenset(f for f in real.features if not f.startswith("avx512"))
        made = real._replace(register=256, features=features)
        monkeypatch.setattr(host, "host", lambda: made)
        for cached in (host.target_machine, product._scratch):
            cached.cache_clear()
            request.addfinalizer(cached.cache_clear)
        product._spare.clear()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_every_tail_in_every_layout(processor, layout, dtype):
    rng = np.random.default_rng(0)
    tile = tiles.tile_of(host.host().register)
    rows, vectors = tile.rows, tile.vectors
    lanes = host.host().register // np.dtype(dtype).itemsize // 8
    most = {0: 2 * rows + 1, 1: 2 * vectors * lanes + 1}
    sizes = [*((m, 19) for m in range(1, most[0] + 1)), *((9, n) for n in range(1, most[1] + 1))]
    sizes += [(n, m) for m, n in sizes]
    for m, n in sizes:
        for k in {1, int(rng.integers(2, 2 * lanes + 2))}:
            a, b = matrix(rng, (m, k), layout[0], dtype), matrix(rng, (k, n), layout[1], dtype)
            check(a, b, matrix(rng, (m, n), layout[2], dtype))


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
@pytest.mark.parametrize("adds", [False, True])
def test_long_sums_and_sums_that_are_added(processor, layout, adds):
    rng = np.random.default_rng(1)
    block = tiles.DEPTH
    for depth in (*range(1, 35), block - 1, block, block + 1, 3 * block + 5):
        a, b = matrix(rng, (11, depth), layout[0]), matrix(rng, (depth, 70), layout[1])
        check(a, b, matrix(rng, (11, 70), layout[2]), adds)


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_batches_and_many_rows(layout):
    rng, many = np.random.default_rng(2), tiles.tile_of(host.host().register).few + 1
    for batch, m, k, n in [((2, 3), 5, 4, 7), ((4,), 33, 20, 17), ((), many, 9, 21), ((), 21, 9, many)]:
        a, b = matrix(rng, (*batch, m, k), layout[0]), matrix(rng, (*batch, k, n), layout[1])
        check(a, b, matrix(rng, (*batch, m, n), layout[2]))


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
@pytest.mark.parametrize(
    "shape", [((), 64, 300, 130), ((), 130, 300, 64), ((6,), 40, 64, 48), ((2, 2), 90, 70, 90)], ids=str
)
def test_results_do_not_depend_on_threads(layout, shape):
    rng = np.random.default_rng(3)
    batch, m, k, n = shape
    a, b = matrix(rng, (*batch, m, k), layout[0]), matrix(rng, (*batch, k, n), layout[1])
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            out = matrix(rng, (*batch, m, n), layout[2])
            made = product.Product(a, b, out)
            made.cost, made._direct = 1e9, None
            factors = a.array, b.array
            made(factors[made.layout.panel], factors[1 - made.layout.panel], out.array)
            found.append(out.view)
            assert len(made._items[threads]) >= threads
    finally:
        torch.set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    check(a, b, matrix(rng, (*batch, m, n), layout[2]))


def test_callers_in_several_threads_have_memory_of_their_own():
    rng = np.random.default_rng(8)
    a, b, out = matrix(rng, (40, 600), "C"), matrix(rng, (600, 40), "F"), matrix(rng, (40, 40), "C")
    made = multiply(a, b, out)
    made._direct = None
    factors = a.array, b.array
    panel, other = factors[made.layout.panel], factors[1 - made.layout.panel]

    def call():
        for _ in range(50):
            found = np.empty_like(out.array)
            made(panel, other, found)
            assert np.array_equal(found[1:-1, MARGIN:-MARGIN], out.view)

    in_threads(*[call] * 4)


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_a_number_that_is_not_finite_stays_in_its_row_and_column(layout):
    rng = np.random.default_rng(4)
    m, k, n = 21, 19, 35
    for value in (np.nan, np.inf, -np.inf):
        a, b = matrix(rng, (m, k), layout[0]), matrix(rng, (k, n), layout[1])
        a.view[m - 1, 3] = b.view[4, n - 1] = value
        out = matrix(rng, (m, n), layout[2])
        multiply(a, b, out)
        with np.errstate(invalid="ignore"):
            expected = a.view.astype("float64") @ b.view.astype("float64")
        assert np.array_equal(np.isnan(out.view), np.isnan(expected))
        assert np.array_equal(np.isposinf(out.view), np.isposinf(expected))
        assert np.isfinite(out.view[:-1, :-1]).all()


def test_what_it_does_not_take_is_an_error():
    rng = np.random.default_rng(5)
    a, b, out = (matrix(rng, (4, 4), "C") for _ in range(3))
    strided = Matrix(out.array, out.array[1:5:2, 1:5:2])
    with pytest.raises(_llvm.Unsupported, match="a product of matrices with shapes"):
        product.Product(matrix(rng, (2, 4), "C"), matrix(rng, (4, 2), "C"), strided)
    with pytest.raises(_llvm.Unsupported):
        product.Product(matrix(rng, (4, 0), "C"), matrix(rng, (0, 4), "C"), out)
    with pytest.raises(TypeError, match="takes NumPy arrays"):
        product.Product(a, b, out)([1.0], b.array, out.array)


def test_code_of_products_is_kept(tmp_path, monkeypatch):
    from gradloom.compiler._llvm import cache

    monkeypatch.setenv("GRADLOOM_CACHE_DIR", str(tmp_path))
    cache._checked.cache_clear()
    kernel.forget()
    rng = np.random.default_rng(6)
    a, b, out = matrix(rng, (9, 9), "C"), matrix(rng, (9, 9), "C"), matrix(rng, (9, 9), "C")
    check(a, b, out)
    kernel.forget()
    monkeypatch.setattr(host, "object_code", None)  # LLVM is not needed
    if host.host().machine == "x86_64":
        check(a, b, out)
    cache._checked.cache_clear()
    kernel.forget()


# -- in programs

REASON = product._general_reason()


def layers(x, w, v):
    return torch.nn.functional.linear(torch.nn.functional.linear(x, w).relu(), v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(32, 40, 48, 17), (33, 16, 16, 70), (16, 3, 100, 16)], ids=str)
def test_compiled_layers(sizes, dtype):
    rows, first, middle, last = sizes
    torch.manual_seed(0)
    x, w, v = torch.randn(rows, first), torch.randn(middle, first), torch.randn(last, middle)
    compiled = torch.compile(layers, backend="llvm", fullgraph=True)
    for _ in range(3):
        both = []
        for f in (layers, compiled):
            leaves = [y.detach().to(dtype).requires_grad_() for y in (x, w, v)]
            found = f(*leaves)
            found.sum().backward()
            both.append([found, *(y.grad for y in leaves)])
        for eager, ours in zip(*both, strict=True):
            torch.testing.assert_close(ours, eager)
    (entry,) = optimized_of(compiled).entries
    reasons = [entry.compiled.forward.reasons.get(node) for node in entry.compiled.forward.products]
    assert reasons == [REASON] * 2


def test_explain_says_what_computes_a_product():
    def f(x, w, v):
        return (x @ w).relu() @ v

    x, w, v = torch.randn(32, 20), torch.randn(20, 24), torch.randn(24, 3)
    text = str(torch.compile(f, backend="llvm").explain(x, w, v))
    assert "mm, 32 x 24 x 3 by BLAS: fewer than 16 rows or columns (" in text
    if REASON is None:
        assert "1 product(s), 1 product(s) by BLAS, 0 call(s)" in text
        assert "product: mm, 32 x 20 x 24 (" in text


def test_the_smaller_factor_has_the_rows_where_the_other_does_not_fit_the_cache():
    rng = np.random.default_rng(7)
    many, k = product._CACHE // 4 // tiles.DEPTH + 9, tiles.DEPTH + 3
    for m, n, across in ((many, 20, True), (60, 20, False)):
        a, b, out = matrix(rng, (m, k), "F"), matrix(rng, (k, n), "C"), matrix(rng, (m, n), "C")
        assert product._layout(a, b, out).across is across
        check(a, b, out)


def test_large_matrices_are_left_to_blas():
    most = tiles.tile_of(host.host().register).most
    for dtype, item in (("float32", 4), ("float64", 8)):
        for extra in (0, 1):
            arrays = [np.empty(shape, dtype) for shape in ((most // item // 1024 + extra, 1024), (1024, 16))]
            matrices = [Matrix(x, x) for x in (*arrays, np.empty((len(arrays[0]), 16), dtype))]
            expected = f"a matrix of more than {most >> 20} MiB" if extra else None
            assert _llvm.reason_for_blas(*matrices) == (REASON or expected)
