"""What stands in for arrays that do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from gradloom.memory.metadata import Metadata

FOUND = Metadata((2, 3), np.dtype("float64"))
READS = {
    "asarray": np.asarray,
    "ufunc": lambda m: np.add(m, m),
    "function": np.sum,
    "operator": lambda m: m + 1,
    "from the right": lambda m: 1 - m,
    "of an array": lambda m: np.ones(3) * m,
    "method": lambda m: m.sum(),
    "item": lambda m: m.item(),
    "index": lambda m: m[0],
    "truth": bool,
    "number": float,
    "each": list,
    "comparison": lambda m: m == 1,
    "in a list": lambda m: np.concatenate([m, m]),
}


def test_metadata_has_sizes_and_strides():
    assert (FOUND.shape, FOUND.ndim, FOUND.size, FOUND.itemsize, FOUND.nbytes) == ((2, 3), 2, 6, 8, 48)
    assert FOUND.strides == (24, 8) and FOUND.flags.c_contiguous and len(FOUND) == 2
    assert not Metadata((2, 3), np.dtype("f4"), (4, 8)).flags.c_contiguous


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_values_of_metadata_cannot_be_read(read):
    with pytest.raises(RuntimeError, match="none of its own"):
        read(FOUND)
