"""For tests: `assert_close`, which says where tensors differ, and `make_tensor`, which makes some."""

from __future__ import annotations

from ._close import assert_allclose as assert_allclose, assert_close as assert_close
from ._tensors import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
