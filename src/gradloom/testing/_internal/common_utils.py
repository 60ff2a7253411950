"""TestCase, whose assertEqual compares tensors, and what goes with it."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import gradloom as gl

from .. import assert_close, make_tensor as make_tensor

SEED = 1234
TEST_NUMPY = True
_NUMBERS = (bool, int, float, complex, np.number, np.bool_)


def set_rng_seed(seed: int = SEED) -> None:
    """Seed the generators of gradloom, Python and NumPy."""
    gl.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Restore the state of the default generator at the end."""
    state = gl.get_rng_state()
    try:
        yield
    finally:
        gl.set_rng_state(state)


class TestCase(unittest.TestCase):
    """A test case whose `assertEqual` compares tensors, and whose tests start from one seed."""

    def setUp(self) -> None:
        """Seed the random generators."""
        set_rng_seed()

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: str | Callable[[str], str] | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Raise AssertionError unless two objects are equal.

        Tensors, arrays and numbers are compared by `testing.assert_close`, and so are those in sequences and mappings;
        a number equals a tensor of one element, whatever its dtype. Everything else is compared by `==`.

        Args:
            x: the object.
            y: what it must be.
            msg: the error's text, or a function of its default text.
            atol, rtol: tolerances, both or neither; by default the dtype's.
            equal_nan: let NaN equal NaN.
            exact_dtype, exact_device, exact_layout, exact_stride: compare these of tensors, too.
            exact_is_coalesced: compare whether sparse tensors are coalesced.
        """
        if (atol is None) is not (rtol is None):
            raise ValueError("give both atol and rtol, or neither")
        options: dict[str, Any] = dict(equal_nan=equal_nan, atol=atol, rtol=rtol, check_device=exact_device)
        options |= dict(check_dtype=exact_dtype, check_layout=exact_layout, check_stride=exact_stride)
        try:
            self._compare(x, y, options, exact_is_coalesced)
        except AssertionError as error:
            if msg is None:
                raise
            text = str(error)
            raise AssertionError(msg(text) if callable(msg) else f"{text}\n{msg}") from None

    def _compare(self, x: Any, y: Any, options: dict[str, Any], exact_is_coalesced: bool) -> None:
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            super().assertEqual(set(x), set(y), "the keys differ")
            for key in x:
                self._compare(x[key], y[key], options, exact_is_coalesced)
        elif _is_sequence(x) and _is_sequence(y):
            super().assertEqual(len(x), len(y), "the lengths differ")
            for one, other in zip(x, y, strict=True):
                self._compare(one, other, options, exact_is_coalesced)
        elif _is_data(x) and _is_data(y):
            if exact_is_coalesced and isinstance(x, gl.Tensor) and x.is_sparse and y.is_sparse:
                super().assertEqual(x.is_coalesced(), y.is_coalesced())
            assert_close(*_tensors(x, y), **options | ({} if _have_dtypes(x, y) else {"check_dtype": False}))
        else:
            super().assertEqual(x, y)

    def assertNotEqual(  # type: ignore[override]
        self,
        x: Any,
        y: Any,
        msg: str | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        **options: Any,
    ) -> None:
        """Raise AssertionError if `assertEqual` would not."""
        try:
            self.assertEqual(x, y, atol=atol, rtol=rtol, **options)
        except AssertionError:
            return
        self.fail(msg or f"{x!r} equals {y!r}")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_data(value: Any) -> bool:
    """Return whether `assert_close` compares a value; sequences are data where a tensor is to equal them."""
    return isinstance(value, (gl.Tensor, np.ndarray, *_NUMBERS)) or _is_sequence(value)


def _have_dtypes(*values: Any) -> bool:
    return all(isinstance(value, (gl.Tensor, np.ndarray)) for value in values)


def _tensors(*values: Any) -> tuple[Any, ...]:
    """Return two numbers as they are, and other values as tensors."""
    if all(isinstance(value, _NUMBERS) for value in values):
        return values
    return tuple(value if isinstance(value, gl.Tensor) else gl.as_tensor(value) for value in values)


def run_tests(argv: list[str] | None = None) -> None:
    """Run the tests of the main module."""
    unittest.main(argv=argv)
