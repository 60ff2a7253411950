"""Update rules run on blocks of arrays, whatever their layout, size and type."""

import numpy as np
import pytest

from gradloom.optim import _arrays
from gradloom.optim._arrays import in_blocks


def shift(xp, parameter, gradient, missing, scratch, rate):
    assert missing is None
    assert scratch.shape == parameter.shape and scratch.dtype == parameter.dtype
    assert xp is np
    xp.multiply(gradient, rate, out=scratch)
    parameter -= scratch


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 7)])
def test_every_element_is_reached_once(blocks_of_5, shape, dtype):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    parameter = (values + 10).astype(dtype)
    gradient = (values * (1 + 1j) if np.dtype(dtype).kind == "c" else values).astype(dtype)
    expected = parameter - gradient * np.dtype(dtype).type(2)
    in_blocks(shift, (parameter, gradient, None), 2)
    np.testing.assert_array_equal(parameter, expected)


@pytest.mark.parametrize("layout", ["transposed", "strided", "complex transposed"])
def test_arrays_that_are_not_contiguous_change_in_place(blocks_of_5, layout):
    memory = np.arange(24.0).reshape(4, 6).astype(complex if layout.startswith("complex") else float)
    parameter = memory[:, ::2] if layout == "strided" else memory.T
    expected = parameter - 1
    in_blocks(shift, (parameter, np.ones_like(parameter), None), 1)
    np.testing.assert_array_equal(parameter, expected)


def test_scratch_is_kept_between_calls_up_to_one_block_per_type():
    scratch = _arrays._Scratch()
    first = scratch((3,), 3, np.dtype("f4"))
    assert scratch((2, 2), 4, np.dtype("f4")).base is first.base
    assert scratch((_arrays._BLOCK + 1,), _arrays._BLOCK + 1, np.dtype("f4")).base is None
    assert set(scratch.by_dtype) == {np.dtype("f4")}
