"""Arrays with negative strides, which tensors do not have; PyTorch 2.13 ends the process, so no comparison is made."""

import numpy as np
import pytest

import gradloom as torch

BACKWARDS = [np.arange(3.0)[::-1], np.arange(6.0).reshape(2, 3)[:, ::-1], np.ones((2, 2), bool)[::-1]]


@pytest.mark.parametrize("array", BACKWARDS, ids=["vector", "columns", "bool"])
def test_negative_strides_are_refused(array):
    for source in (array, array.__dlpack__()):
        with pytest.raises(BufferError, match="negative strides are not supported; copy the array"):
            torch.from_dlpack(source)
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(array)
    assert torch.from_dlpack(array, copy=True).tolist() == array.tolist()
    assert torch.from_dlpack(array.copy()).tolist() == array.tolist()
