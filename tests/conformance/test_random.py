"""Random kernels against PyTorch: the same numbers, bit by bit, and the same state after them."""

import json
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gradloom.kernels.random import distributions  # noqa: E402
from gradloom.kernels.random.streams import Stream  # noqa: E402
from tests.conformance import random_reference  # noqa: E402
from tests.conformance.random_reference import FLOATING, call, to_array  # noqa: E402
from tests.core import random_calls  # noqa: E402

SIZES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 1000, 70001)
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
RANGES = (
    (0, 1),
    (-3, 5),
    (0, 100),
    (0, 2**15),
    (5, 2**20 + 7),
    (0, 2**28 - 1),
    (0, 2**28),
    (0, 2**32),
    (-(2**63), 2**63 - 1),
    (0, 2**63 - 1),
    (2**40, 2**41),
)


def same(stream, described):
    """Both sides of one call from equal states, compared with all that follows."""
    expected = random_reference.run(described)
    result = random_calls.run(stream, described)
    assert result.dtype == expected.dtype and result.shape == expected.shape, described
    assert random_calls.steps_apart(result, expected) == 0, described
    assert np.array_equal(stream.to_bytes(), torch.get_rng_state().numpy()), described


def seeded(seed):
    torch.manual_seed(seed)
    return Stream(seed)


@pytest.mark.parametrize("dtype", [*FLOATING, "complex64", "complex128"])
@pytest.mark.parametrize("n", SIZES)
def test_uniform_and_normal(dtype, n):
    stream = seeded(n + 1)
    same(stream, call("uniform", dtype, [n]))
    same(stream, call("normal", dtype, [n]))
    for mean, std in ((1.75, 0.3), (0.0, 2.0), (-100.0, 1e-3), (3.0, 0.0)):
        same(stream, call("normal_", dtype, [n], mean=mean, std=std))
    if "complex" not in dtype:
        for low, high in ((-1.3, 2.1), (0, 5), (3, 3), (-0.5, 0.5)):
            same(stream, call("uniform_", dtype, [n], low=low, high=high))


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("n", SIZES)
def test_other_continuous(dtype, n):
    stream = seeded(n + 2)
    same(stream, call("exponential_", dtype, [n], lambd=0.7))
    same(stream, call("cauchy_", dtype, [n], median=0.7, sigma=0.2))
    same(stream, call("log_normal_", dtype, [n]))
    same(stream, call("geometric_", dtype, [n], p=0.37))
    probabilities = torch.rand(min(n, 2000)).tolist()
    stream.from_bytes(torch.get_rng_state().numpy())
    same(stream, call("bernoulli", dtype, p=probabilities))
    same(stream, call("dropout_noise", dtype, like=probabilities, p=0.3))
    same(stream, call("native_dropout", dtype, array=probabilities, p=0.3))
    same(stream, call("poisson", dtype, rates=[30 * p for p in probabilities]))
    if dtype in ("float32", "float64"):
        same(stream, call("rrelu_noise", dtype, array=[p - 0.5 for p in probabilities], lower=0.1, upper=0.3))


@pytest.mark.parametrize("dtype", FLOATING)
def test_tensor_arguments(dtype):
    stream = seeded(3)
    values = np.linspace(0.1, 3, 40).tolist()
    same(stream, call("normal_each", dtype, mean=values, std=values))
    same(stream, call("normal_each", dtype, mean=values[:7], std=1.3))
    same(stream, call("normal_each", dtype, mean=1.3, std=values[:7]))
    for other in ("float32", "float64"):
        same(stream, call("normal_each", dtype, **{"mean": values, "std": values, "std dtype": other}))
    for count in (1, 3, 5):
        same(stream, call("multinomial", dtype, weights=values[:9], count=count))
    same(stream, call("multinomial", dtype, weights=values + [0.0, 0.0], count=500, replacement=True))
    rows = np.array(values).reshape(5, 8).tolist()
    same(stream, call("multinomial", dtype, weights=rows, count=2))
    same(stream, call("multinomial", dtype, weights=rows, count=20, replacement=True))


@pytest.mark.parametrize("dtype", [*INTEGERS, "uint16", "uint32", "uint64", *FLOATING])
@pytest.mark.filterwarnings("ignore:.*is out of bounds")
def test_integers(dtype):
    stream = seeded(4)
    for n in (0, 1, 33, 5000):
        if dtype not in ("uint16", "uint32", "uint64"):
            same(stream, call("random_", dtype, [n]))
            same(stream, call("bernoulli_", dtype, [n], p=0.37))
        for bounds in (
            *({"low": low, "high": high} for low, high in RANGES),
            {"low": 0},
            {"low": 7},
            {"low": -5},
            {"low": -(2**63)},
        ):
            described = call("random_", dtype, [n], **bounds)
            try:
                random_reference.run(described)
            except (RuntimeError, NotImplementedError) as error:
                with pytest.raises(type(error)) as raised:
                    random_calls.run(stream, described)
                assert str(raised.value) == str(error).splitlines()[0]
            else:
                torch.set_rng_state(torch.from_numpy(stream.to_bytes()))
                same(stream, described)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8", *FLOATING])
def test_permutations(dtype):
    stream = seeded(5)
    for n in (0, 1, 2, 3, 100, 199, 200, 201, 202, 2000, 70000):
        if dtype == "bfloat16" or n <= (
            2**24 if dtype in FLOATING[:2] else 2048 if dtype == "float16" else np.iinfo(dtype).max
        ):
            same(stream, call("randperm", dtype, n=n))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "shape, axes",
    [
        ([5, 7], [1, 0]),
        ([2, 3, 4, 5], [0, 2, 3, 1]),
        ([4, 5, 6], [1, 2, 0]),
        ([4, 1, 6], [2, 0, 1]),
        ([2, 3], [1, 0]),
        ([3, 2, 4], [2, 1, 0]),
    ],
)
def test_memory_order(dtype, shape, axes):
    stream = seeded(6)
    for name in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_"):
        same(stream, call(name, dtype, shape, axes))
    same(stream, call("bernoulli_", dtype, shape, axes, p=np.linspace(0, 1, shape[-1]).tolist()))


@pytest.mark.parametrize("steps", [(slice(None, None, 2),), (slice(1, None, 3), slice(None, None, 2))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_gaps_between_elements(steps, dtype):
    expected = torch.zeros(12, 14, dtype=dtype)
    result = expected.numpy().copy()
    stream = seeded(7)
    expected[steps].normal_(1, 2)
    distributions.fill_normal(stream, result[steps], 1, 2)
    assert random_calls.steps_apart(result, to_array(expected)) == 0


def test_sequences_share_the_cached_normal():
    stream, choose = seeded(2**40 + 3), random.Random(0)
    for _ in range(800):
        n, dtype = choose.choice(SIZES[:-1]), choose.choice(FLOATING)
        same(
            stream,
            choose.choice(
                (
                    call("normal", dtype, [n]),
                    call("uniform", dtype, [n]),
                    call("randint", "int64", [n], low=0, high=99),
                    call("randperm", "int64", n=n),
                    call("log_normal_", dtype, [n]),
                    call("bernoulli_", dtype, [n]),
                )
            ),
        )
        if choose.random() < 0.1:
            image = stream.to_bytes()
            torch.set_rng_state(torch.from_numpy(image))
            stream = Stream(0)
            stream.from_bytes(torch.get_rng_state().numpy())


def test_golden_values_are_up_to_date():
    golden = json.loads(random_reference.GOLDEN.read_text())
    assert [
        {**stream, "calls": [{k: v for k, v in c.items() if k != "values"} for c in stream["calls"]], "following": None}
        for stream in golden
    ] == [{**json.loads(json.dumps(stream)), "following": None} for stream in random_reference.streams()]
    for stream in golden:
        torch.manual_seed(stream["seed"])
        for described in stream["calls"]:
            assert random_calls.numbers(random_reference.run(described)) == described["values"], described
