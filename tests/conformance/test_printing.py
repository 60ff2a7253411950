"""repr of tensors of many shapes, dtypes and magnitudes, with many print options, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402

SHAPES = (
    (),
    (1,),
    (3,),
    (7,),
    (30,),
    (2, 3),
    (1, 1),
    (3, 1, 2),
    (2, 2, 2, 2),
    (20, 60),
    (1001,),
    (40, 5, 9),
    (0,),
    (0, 3),
    (2, 0),
    (7, 200),
)
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
    "complex128",
    "int8",
)
OPTIONS = (
    {},
    {"precision": 2},
    {"linewidth": 40},
    {"threshold": 5},
    {"edgeitems": 1, "threshold": 10},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "full"},
    {"linewidth": 200, "precision": 8},
)
SPECIAL = (0.0, float("inf"), float("-inf"), float("nan"), -0.0)


def values(seed: int, count: int) -> np.ndarray:
    """Numbers of one of several kinds: whole or not, near or far apart, with zeros, infinities and NaN."""
    choose = np.random.default_rng(seed)
    kind = seed % 8
    found = choose.normal(size=count) * 10.0 ** choose.integers(-6, 10)
    if kind == 1:
        found = np.round(found)
    elif kind == 2:
        found = choose.normal(size=count) * 10.0 ** choose.integers(-5, 6, size=count)
    elif kind == 3:
        found = choose.integers(-1000, 1000, size=count).astype(float)
    elif kind == 4:
        found = np.zeros(count)
    elif kind == 5:
        found = choose.integers(0, 3, size=count).astype(float)
    elif kind == 6:
        found = choose.normal(size=count)
    if seed % 3 == 0 and count:
        found[choose.integers(0, count, size=max(1, count // 5))] = choose.choice(SPECIAL)
    return found


def tensor(library, seed, shape, dtype):
    count = int(np.prod(shape))
    found = values(seed, count)
    kind = getattr(library, dtype)
    if "complex" in dtype:
        other = values(seed + 1, count)
        data = np.empty(count, np.complex128)
        data.real, data.imag = found, other
    elif "float" in dtype:
        data = found
    else:
        data = np.clip(np.nan_to_num(found, posinf=9, neginf=-9), -100, 100).astype(np.int64)
        data = abs(data) if dtype == "uint8" else data
    return library.from_numpy(data.reshape(shape)).to(kind)


@pytest.fixture(autouse=True)
def default_options():
    yield
    for library in (torch, gradloom):
        library.set_printoptions(profile="default")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_repr(dtype, options):
    for library in (torch, gradloom):
        library.set_printoptions(profile="default")
        library.set_printoptions(**options)
    for seed, shape in enumerate(SHAPES * 3):
        expected, found = (repr(tensor(library, seed, shape, dtype)) for library in (torch, gradloom))
        assert found == expected, f"seed {seed}, shape {shape}\n{found}\n{expected}"


HISTORIES = (
    "L.ones(3, requires_grad=True)",
    "L.ones(3, requires_grad=True) * 2",
    "L.zeros(2, 2, requires_grad=True).view(4)",
    "L.ones(30, requires_grad=True).exp()",
    "L.ones(2, 9, requires_grad=True).sum(0)",
    "L.zeros(0, requires_grad=True)",
    "L.zeros(0, 2, dtype=L.int32)",
    "L.tensor(1.5, requires_grad=True)",
    "L.nn.Parameter(L.ones(2, 2))",
    "L.ones(9, dtype=L.float64, requires_grad=True).sin()",
    "L.zeros(0, dtype=L.float64)",
    "L.zeros(0, dtype=L.int64)",
    "L.zeros(2, dtype=L.complex64, requires_grad=True) * 1",
    "[L.ones(2)]",
    "str(L.ones(2))",
    "f'{L.tensor(2.5)}'",
    "f'{L.tensor(2.5):.3f}'",
    "f'{L.ones(2)}'",
    "L.arange(2).dtype",
    "L.ones(2).shape",
    "L.ones(1).device",
    "(lambda x: (x[1:].mul_(2), x)[1])(L.ones(3, requires_grad=True) * 1)",
    "L.ones(1000)",
    "L.ones(1001)",
    "L.arange(3, dtype=L.uint8)",
    "L.tensor([True])",
    "L.tensor([])",
    "L.tensor([[]])",
)


@pytest.mark.parametrize("expression", HISTORIES)
def test_suffixes(expression):
    expected, found = (repr(eval(expression, {"L": library})) for library in (torch, gradloom))
    assert found == expected


@pytest.mark.parametrize("default", ["float64", "bfloat16"])
def test_default_dtype(default):
    texts = []
    for library in (torch, gradloom):
        before = library.get_default_dtype()
        library.set_default_dtype(getattr(library, default))
        try:
            texts.append(
                [
                    repr(library.ones(2)),
                    repr(library.ones(2, dtype=library.float32)),
                    repr(library.zeros(0)),
                    repr(library.tensor([1.0, 2.5])),
                ]
            )
        finally:
            library.set_default_dtype(before)
    assert texts[1] == texts[0]
