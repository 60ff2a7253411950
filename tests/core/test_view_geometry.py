"""The geometry of views in another shape, against NumPy's own views."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import gradloom
from gradloom.kernels.shape import views
from gradloom.memory.metadata import is_imaginary, view_geometry
from gradloom.memory.ownership import address

SIZES = [s for n in range(4) for s in product((0, 1, 2, 3, 4, 6, 12), repeat=n) if prod(s) in (0, 12)]
VIEWS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "steps": lambda a: a[..., ::2] if a.ndim else a,
    "part": lambda a: a[1:] if a.ndim else a,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "reversed": lambda a: a[::-1] if a.ndim else a,
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_found_where_numpy_finds_them(view):
    count = 0
    for source in SIZES:
        array = VIEWS[view](np.arange(prod(source), dtype=np.float32).reshape(source))
        for shape in [*SIZES, (-1,), (2, -1), (-1, 3), (-1, 1)]:
            try:
                found = array.reshape(shape)
                strides = found.strides if np.shares_memory(found, array) or not found.size else None
            except ValueError:
                found = strides = None
            if strides is None:
                with pytest.raises(ValueError, match="see"):
                    view_geometry(array, shape)
                continue
            count += 1
            sizes, dtype, ours = view_geometry(array, shape)
            assert (sizes, dtype) == (found.shape, array.dtype)
            if found.size:
                same = [(n, s) for n, s in zip(sizes, ours, strict=True) if n > 1]
                assert same == [(n, s) for n, s in zip(sizes, strides, strict=True) if n > 1], (source, shape)
    assert count > 20


def test_ordinary_memory_is_real():
    assert not is_imaginary(np.zeros(3)[1:]) and not is_imaginary(np.frombuffer(b"abcd", np.uint8))


def test_views_of_contiguous_arrays_have_these_strides_whatever_those_of_dimensions_of_size_1():
    sizes = [(12,), (1, 12), (12, 1), (3, 4), (1, 3, 4), (3, 1, 4), (3, 4, 1), (1, 12, 1), (2, 6), (2, 1, 3, 2)]
    for source, shape in product(sizes, sizes):
        plain = np.arange(12, dtype=np.float32).reshape(source)
        strides = [20 if n == 1 else s for n, s in zip(source, plain.strides, strict=True)]
        array = as_strided(plain, source, strides)
        found, (_, _, expected) = views.view(array, shape), view_geometry(array, shape)
        if expected is None:  # those of a new array
            expected = plain.reshape(shape).strides
        assert (found.shape, found.strides) == (shape, tuple(expected))


@pytest.mark.parametrize("offset", [None, 3, 4, 6])
def test_a_tangent_is_viewed_as_if_it_had_the_memory_of_its_primal(offset):
    x = gradloom.arange(12.0).reshape(3, 4)[1:].T  # begins at 4
    v = gradloom.arange(1.0, 9.0).reshape(4, 2)  # of other strides, begins at 0
    memory = gradloom.zeros(12)
    memory.as_strided((4, 2), (1, 4), 4).copy_(v)
    found = gradloom.func.jvp(lambda t: t.as_strided((2, 2), (1, 3), offset), (x,), (v,))[1]
    assert found.tolist() == memory.as_strided((2, 2), (1, 3), 4 if offset is None else offset).tolist()


def test_addresses_are_those_of_numpy():
    whole = np.arange(24.0).reshape(4, 6)
    for array in (whole, whole[1:, ::2], whole.T[::-1], whole[:0], np.array(3), np.arange(3, dtype=np.int8)[1:]):
        assert address(array) == array.ctypes.data
