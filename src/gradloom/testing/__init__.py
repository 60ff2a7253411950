"""Helpers for tests: `assert_close` compares tensors, `make_tensor` makes them."""

from __future__ import annotations

from ..types.public import found_in as _found_in
from ._close import assert_allclose as assert_allclose, assert_close as assert_close
from ._tensors import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_found_in(__name__, *(globals()[name] for name in __all__))
