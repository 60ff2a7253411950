"""Random kernels give PyTorch's numbers: golden values in random_streams.json, no PyTorch needed.

The file is written by tests/conformance/random_reference.py; that it is up to date, and many more sizes, is
the subject of tests/conformance/test_random.py.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from gradloom.kernels.random import distributions as draws, integers, sampling
from gradloom.kernels.random.integers import shuffle
from gradloom.kernels.random.normal import box_muller
from gradloom.kernels.random.streams import Stream
from tests.core import random_calls
from tests.waiting import in_threads

STREAMS = json.loads((Path(__file__).parent / "random_streams.json").read_text())
FLOAT32 = np.dtype(np.float32)
HALF = np.dtype(np.float16)
# The golden values were computed with glibc's functions; another C library's may differ in the last bit.
SAME_LIBRARY = sys.platform == "linux"


@pytest.mark.parametrize("golden", STREAMS, ids=lambda golden: golden["name"])
def test_golden_stream(golden):
    if "bfloat16" in golden["name"]:
        pytest.importorskip("ml_dtypes")
    stream = Stream(golden["seed"])
    for call in golden["calls"]:
        if call["dtype"] == "bfloat16":
            pytest.importorskip("ml_dtypes")
        result = random_calls.run(stream, call)
        expected = np.array(call["values"])
        if result.dtype.kind == "c":
            expected = expected.astype(result.real.dtype).view(result.dtype)
        elif call["values"]:
            expected = np.array(call["values"], result.dtype)
        expected = expected.astype(result.dtype).reshape(result.shape)
        apart = random_calls.steps_apart(result, expected)
        assert apart <= (0 if SAME_LIBRARY else 2), (call, result)
    following = integers.draw_integers(stream, 0, 2**28 - 1, (), np.dtype(np.int64))
    assert following == golden["following"], "the calls drew another number of words than PyTorch"


def test_blocks_join_without_seam():
    """More numbers than fit a block are the same as in one piece: the words are consumed in order."""
    n = 3 * 32768 + 5
    whole = draws.draw_uniform(Stream(3), (n,), FLOAT32)
    stream = Stream(3)
    pieces = [draws.draw_uniform(stream, (size,), FLOAT32) for size in (7, 40000, n - 40007)]
    assert np.array_equal(whole, np.concatenate(pieces))
    normal = draws.draw_normal(Stream(3), (n - 5,), FLOAT32)
    stream = Stream(3)
    pieces = [draws.draw_normal(stream, (size,), FLOAT32) for size in (16, n - 21)]
    assert np.array_equal(normal, np.concatenate(pieces))


@pytest.mark.parametrize("draws", ["zeros", "random", "highest"])
def test_box_muller_is_normal(draws):
    """The single-precision polynomials against NumPy's functions, at the ends of the range and inside."""
    n = 1 << 16
    uniforms = {
        "zeros": np.zeros(n),
        "highest": np.full(n, 1 - 2.0**-24),
        "random": np.random.default_rng(0).integers(0, 1 << 24, n) * 2.0**-24,
    }[draws]
    result = uniforms.astype(np.float32)
    box_muller(result, 1.5, 2.0)
    groups = uniforms.reshape(-1, 2, 8)
    radius = np.sqrt(-2 * np.log(1 - groups[:, 0]))
    angle = 2 * np.pi * groups[:, 1]
    expected = 1.5 + 2 * np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
    np.testing.assert_allclose(result, expected.ravel(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 150, 200, 201, 202, 1000, 70000])
def test_shuffle_is_the_sequence_of_swaps(n):
    draws = np.random.default_rng(n).integers(0, 1 << 32, n - 1)
    first = np.arange(n - 1)
    for targets in (first + draws % (n - first), first.copy(), np.full(n - 1, n - 1), np.maximum(first, n // 2)):
        expected = list(range(n))
        for i, j in enumerate(targets.tolist()):
            expected[i], expected[j] = expected[j], expected[i]
        assert shuffle(targets).tolist() == expected


def test_exact_uniform_bounds_are_never_reached_above():
    """Rounding to a narrow dtype brings some numbers up to the upper bound, which stays excluded."""
    halves = draws.draw_uniform(Stream(1), (200000,), np.dtype(np.float16))
    assert halves.min() >= 0 and halves.max() < 1


def test_no_block_is_lost_between_threads():
    """Concurrent calls each get consecutive numbers: together, what one thread gets, in some order."""
    stream, results = Stream(4), []

    def work():
        for _ in range(100):
            results.append(draws.draw_normal(stream, (7,), FLOAT32).tobytes())

    in_threads(*[work] * 4)
    alone = Stream(4)
    assert sorted(results) == sorted(draws.draw_normal(alone, (7,), FLOAT32).tobytes() for _ in range(400))


@pytest.mark.parametrize(
    "error, message, call",
    [
        (RuntimeError, "from=2 > to=1", lambda s, x: draws.fill_uniform(s, x, 2, 1)),
        (RuntimeError, "from is out of bounds for float", lambda s, x: draws.fill_uniform(s, x, 1e39, 2e39)),
        (RuntimeError, "to-from to exceed the limit", lambda s, x: draws.fill_uniform(s, x, -3e38, 3e38)),
        (NotImplementedError, "not implemented for 'Long'", lambda s, x: draws.fill_uniform(s, x.astype(np.int64))),
        (RuntimeError, "normal expects std >= 0.0, but found std -1", lambda s, x: draws.fill_normal(s, x, 0, -1)),
        (RuntimeError, "all elements of std >= 0.0", lambda s, x: draws.draw_normal_each(s, 0.0, x - 1)),
        (RuntimeError, "non-complex", lambda s, x: draws.draw_normal_each(s, 0.0, x.astype(np.complex64))),
        (RuntimeError, "found lambda=0", lambda s, x: draws.fill_exponential(s, x, 0)),
        (RuntimeError, "found sigma=0", lambda s, x: draws.fill_cauchy(s, x, 0, 0)),
        (RuntimeError, "found std=0", lambda s, x: draws.fill_log_normal(s, x, 0, 0)),
        (RuntimeError, r"p to be in \(0, 1\), but got p=1", lambda s, x: draws.fill_geometric(s, x, 1)),
        (RuntimeError, r"p to be in \[0, 1\], but got p=2", lambda s, x: draws.fill_bernoulli(s, x, 2)),
        (RuntimeError, "every element of p", lambda s, x: draws.draw_bernoulli(s, x + 2)),
        (RuntimeError, "from=5 >= to=5", lambda s, x: integers.fill_integers(s, x, 5, 5)),
        (
            RuntimeError,
            "to - 1 is out of bounds for unsigned char",
            lambda s, x: integers.fill_integers(s, x.astype(np.uint8), 0, 300),
        ),
        (RuntimeError, "negative dimension -1", lambda s, x: integers.draw_permutation(s, -1, np.dtype(np.int64))),
        (RuntimeError, "n cannot be greater than 2049", lambda s, x: integers.draw_permutation(s, 3000, HALF)),
        (RuntimeError, "n_sample > prob_dist", lambda s, x: sampling.draw_multinomial(s, x + 1, 9)),
        (RuntimeError, "n_sample <= 0", lambda s, x: sampling.draw_multinomial(s, x + 1, 0)),
        (RuntimeError, "sum of probabilities <= 0", lambda s, x: sampling.draw_multinomial(s, x, 1)),
        (RuntimeError, "element < 0", lambda s, x: sampling.draw_multinomial(s, x - 1, 1)),
        (RuntimeError, "entry < 0", lambda s, x: sampling.draw_multinomial(s, x - 1, 2, True)),
        (RuntimeError, "expected rate to be non-negative", lambda s, x: sampling.draw_poisson(s, x - 1)),
        (NotImplementedError, "poisson_cpu", lambda s, x: sampling.draw_poisson(s, x.astype(np.int64))),
    ],
)
def test_refusals(error, message, call):
    with pytest.raises(error, match=message):
        call(Stream(0), np.zeros(4, np.float32))


@pytest.mark.parametrize("before", ["nothing", "words"])
@pytest.mark.parametrize("between", ["nothing", "words", "a seed", "a seed and words"])
def test_a_stream_goes_back_to_its_mark(before, between):
    stream, fresh = Stream(7), Stream(7)
    if before == "words":
        stream.words(3), fresh.words(3)
    mark, position = stream.mark(), stream.position
    if "seed" in between:
        stream.seed(8)
    if "words" in between:
        stream.words(5)
        assert stream.position != position
    stream.rewind(mark)
    assert stream.words(4).tolist() == fresh.words(4).tolist()
