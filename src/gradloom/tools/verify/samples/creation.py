"""Samples of creation operators whose schema is not specific enough."""

from __future__ import annotations

from . import calls, tensor

x, start, end = tensor(2, 3), tensor(), tensor(seed=1)

SAMPLES = {
    "empty_strided": calls(((2, 3), (1, 2)), ((0, 3), (3, 1))),
    "empty_permuted": calls(((2, 3, 4), (0, 2, 1))),
    "new_empty_strided": calls((x, (2, 3), (1, 2))),
    "linspace.Tensor_Tensor": calls((start, end, 3)),
    "linspace.Tensor_Scalar": calls((start, 2.0, 3)),
    "linspace.Scalar_Tensor": calls((0.0, end, 3)),
    "logspace.Tensor_Tensor": calls((start, end, 3)),
    "logspace.Tensor_Scalar": calls((start, 2.0, 3, 2.0)),
    "logspace.Scalar_Tensor": calls((0.0, end, 1)),
}
