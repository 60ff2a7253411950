"""Helpers for tests: `assert_close` compares tensors, `make_tensor` makes them."""

from __future__ import annotations

from ._close import assert_allclose as assert_allclose, assert_close as assert_close
from ._tensors import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
