"""Fake tensors, which stand for tensors while PyTorch's compiler traces: gradloom has none."""

from __future__ import annotations

import sys
from typing import Any

from .utils._refused import declare


def is_fake(x: Any) -> bool:
    """Return False: there are no fake tensors."""
    return False


__getattr__ = declare(
    __name__,
    {
        "": "FakeTensor FakeTensorMode CrossRefFakeMode DynamicOutputShapeException UnsupportedFakeTensorException",
        "fake_tensor": """
            DataDependentOutputException DynamicOutputShapeException FakeTensor FakeTensorMode
            UnsupportedOperatorException unset_fake_temporarily
            """,
        "functional_tensor": "FunctionalTensor FunctionalTensorMode",
    },
    "gradloom has no fake tensors; tensors on the meta device have shapes and dtypes without values",
)
vars(sys.modules[f"{__name__}.fake_tensor"])["is_fake"] = is_fake
