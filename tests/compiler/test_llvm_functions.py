"""The vector mathematics is right to 2 ulp, against NumPy with more digits.

float32 is sampled over all its bit patterns; GRADLOOM_ALL_FLOATS=1 takes every one instead of each 4099th. float64 is
compared with long doubles, where the platform's have more digits.
"""

import os

import numpy as np
import pytest

from gradloom.compiler import _llvm
from gradloom.compiler._loops import Buffer, Instruction, LoopProgram, Pass

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")

STRIDE = 1 if os.environ.get("GRADLOOM_ALL_FLOATS") else 4099
ONE = """exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh erf erfc arctan arcsin arccos arcsinh arccosh
arctanh""".split()
TWO = "arctan2 ** hypot logaddexp logaddexp2".split()
LIMIT = 2.0
EXTENDED = np.finfo(np.longdouble).nmant > 60


def apply(op, *arrays):
    x = arrays[0]
    dtype, count = x.dtype.name, len(arrays)
    buffers = tuple(Buffer(dtype, (1,)) for _ in arrays)
    body = [Instruction(f"x{i}", "load", (), dtype, i) for i in range(count)]
    body += [Instruction("y", op, tuple(f"x{i}" for i in range(count)), dtype), Instruction("", "store", ("y",), "", 0)]
    out = np.empty_like(x)
    _llvm.compile(LoopProgram((x.size,), 0, buffers, (Buffer(dtype, (1,)),), (Pass(tuple(body)),)))([*arrays, out])
    return out


def reference(op, *arrays):
    if op in ("erf", "erfc"):
        import scipy.special

        return getattr(scipy.special, op)(*arrays)
    return np.power(*arrays) if op == "**" else getattr(np, op)(*arrays)


def worst_error(found, exact):
    """Return the greatest error in ulp of `found`'s dtype, and where; `exact` has more digits."""
    dtype = found.dtype
    rounded = exact.astype(dtype)
    limits = np.finfo(dtype)
    spacing = np.spacing(np.maximum(np.abs(rounded), limits.smallest_normal)).astype(exact.dtype)
    wide = found.astype(exact.dtype)
    error = np.abs(wide - exact) / spacing
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    # Near the largest number, infinity is one step away.
    large = np.isinf(rounded) & (np.abs(wide) >= limits.max)
    error = np.where(same | large, np.where(np.isfinite(error) & np.isfinite(wide), error, 0), error)
    error = np.where(np.isnan(error), np.inf, error)
    at = int(np.argmax(error))
    return float(error[at]), at


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def all_floats(stride):
    """Return float32 numbers of every kind, in pieces."""
    piece = stride * (1 << 22)
    for start in range(0, 1 << 32, piece):
        yield np.arange(start, min(start + piece, 1 << 32), stride, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("op", ONE)
def test_single_precision_is_right_to_two_units(op):
    for x in all_floats(STRIDE):
        found, exact = apply(op, x), reference(op, x.astype(np.float64))
        error, at = worst_error(found, exact)
        assert error <= LIMIT, f"{op}({x[at]!r}) is {found[at]!r}, not {exact[at]!r}: {error} ulp"
        signed = ~np.isnan(found) & (np.signbit(found) != np.signbit(exact.astype(np.float32)))
        assert not signed.any(), f"{op}({x[signed][0]!r}) has the wrong sign"


@pytest.mark.parametrize("op", TWO)
def test_single_precision_of_two_operands(op):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    y = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([x, np.abs(rng.standard_normal(100_000) * 3)]).astype(np.float32)
    y = np.concatenate([y, rng.standard_normal(100_000) * 9]).astype(np.float32)
    found, exact = apply(op, x, y), reference(op, x.astype(np.float64), y.astype(np.float64))
    error, at = worst_error(found, exact)
    if op.startswith("logaddexp"):  # the sum of a logarithm and its argument cancels near zero
        near = np.abs(exact) < 0.5
        error, at = worst_error(np.where(near, 0, found).astype(np.float32), np.where(near, 0, exact))
        assert np.abs(found[near] - exact[near]).max() < 2.0**-22
    assert error <= LIMIT, f"{op}({x[at]!r}, {y[at]!r}) is {found[at]!r}, not {exact[at]!r}: {error} ulp"


def doubles(rng):
    """Return float64 numbers: of all magnitudes, near 0 and 1, where methods change, and random bits."""
    u = rng.uniform(-1.2, 1.2, 40_000)
    x = [
        u, u * 0.3, 1 + u * 1e-3, u * 1e-160 * 1e-150, u * 30, u * 1e5, rng.uniform(-750, 750, 40_000),
        rng.standard_normal(40_000) * 10.0 ** rng.uniform(-300, 300, 40_000),
        rng.integers(0, 1 << 64, 40_000, dtype=np.uint64).view(np.float64),
    ]  # fmt: skip
    return np.concatenate(x)


@pytest.mark.skipif(not EXTENDED, reason="needs a long double with more digits than double")
@pytest.mark.parametrize("op", [op for op in ONE if op not in ("erf", "erfc")])
def test_double_precision_is_right_to_two_units(op):
    x = doubles(np.random.default_rng(0))
    found, exact = apply(op, x), reference(op, x.astype(np.longdouble))
    error, at = worst_error(found, exact)
    assert error <= LIMIT, f"{op}({x[at]!r}) is {found[at]!r}, not {exact[at]!r}: {error} ulp"


@pytest.mark.skipif(not EXTENDED, reason="needs a long double with more digits than double")
@pytest.mark.parametrize("op", [op for op in TWO if not op.startswith("logaddexp")])
def test_double_precision_of_two_operands(op):
    rng = np.random.default_rng(1)
    x, y = doubles(rng), rng.permutation(doubles(rng))
    x = np.concatenate([x, np.abs(rng.standard_normal(100_000) * 3)])
    y = np.concatenate([y, rng.standard_normal(100_000) * 300])
    found, exact = apply(op, x, y), reference(op, x.astype(np.longdouble), y.astype(np.longdouble))
    error, at = worst_error(found, exact)
    assert error <= LIMIT, f"{op}({x[at]!r}, {y[at]!r}) is {found[at]!r}, not {exact[at]!r}: {error} ulp"


def erfc_series(x):
    """Return erfc(x) for x >= 1 in extended precision, by Laplace's continued fraction (DLMF 7.9.2)."""
    x = x.astype(np.longdouble)
    fraction = np.zeros_like(x)
    for k in range(400, 0, -1):
        fraction = k / 2 / (x + fraction)
    near = np.rint(x * 1024) / 1024  # its square is exact
    gauss = np.exp(-near * near) * np.exp(-(x - near) * (x + near))
    return gauss / (x + fraction) / np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))


def erf_series(x):
    """Return erf(x) for small x in extended precision, by its Taylor series."""
    x = x.astype(np.longdouble)
    term, total = x, x.copy()
    for k in range(1, 90):
        term = -term * x * x / k
        total = total + term / (2 * k + 1)
    return 2 * total / np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))


@pytest.mark.skipif(not EXTENDED, reason="needs a long double with more digits than double")
def test_error_functions_in_double_precision():
    small, large = np.linspace(-1.5, 1.5, 100_001), np.linspace(1.5, 26, 100_001)
    cases = [
        ("erf", small, erf_series(small)), ("erf", large, 1 - erfc_series(large)),
        ("erfc", small, 1 - erf_series(small)), ("erfc", large, erfc_series(large)),
        ("erfc", -large, 2 - erfc_series(large)),
    ]  # fmt: skip
    for op, x, exact in cases:
        found = apply(op, x)
        error, at = worst_error(found, exact)
        limit = 2.5 if op == "erfc" else LIMIT  # far out, the exponential and the polynomial add up to a little more
        assert error <= limit, f"{op}({x[at]!r}) is {found[at]!r}, not {exact[at]!r}: {error} ulp"


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 5e-324, 1e300, -1e300, 1e20]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ONE + TWO)
def test_special_values_are_numpys(op, dtype):
    values = np.array(SPECIAL).astype(dtype)
    arrays = [values] if op in ONE else [np.repeat(values, len(values)), np.tile(values, len(values))]
    found = apply(op, *arrays)
    expected = reference(op, *arrays)
    np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps, atol=0)
    known = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found)[known], np.signbit(expected)[known])


def test_powers_with_common_exponents_are_exact():
    x = np.random.default_rng(0).standard_normal(1000).astype("float32")
    for exponent, exact in ((2.0, x * x), (1.0, x), (-1.0, 1 / x)):
        text = f"""loop [1000] inner 0
input 0: float32 strides [1]
output 0: float32 strides [1]
pass 0:
  x = load 0: float32
  e = const {exponent!r}: float32
  y = ** x e: float32
  store 0 y"""
        out = np.empty_like(x)
        _llvm.compile(LoopProgram.parse(text))([x, out])
        assert np.array_equal(out, exact)
