"""Checks that raise: `torch._check` and its relatives, which libraries write instead of assert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.types.public import found_in

_Message = Callable[[], object] | str | None
_NO_MESSAGE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_with(error_type: type[Exception], cond: bool, message: _Message) -> None:
    """Raise an error unless a condition holds.

    Args:
        error_type: class of the error.
        cond: the condition, a bool.
        message: the error's message, or returns it and is called only if the condition does not hold; None for a
            general one.

    Raises TypeError for a condition that is no bool.
    """
    if isinstance(cond, gl.Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
            "that all elements are true."
        )
    if not isinstance(cond, (bool, gl.SymBool)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(_NO_MESSAGE)
    raise error_type(str(message() if callable(message) else message))


def _raising(name: str, error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: _Message = None) -> None:
        _check_with(error_type, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise {error_type.__name__}, with what `message()` returns, unless a condition holds."
    return check


_check: Callable[..., None] = _raising("_check", RuntimeError)
_check_index: Callable[..., None] = _raising("_check_index", IndexError)
_check_value: Callable[..., None] = _raising("_check_value", ValueError)
_check_type: Callable[..., None] = _raising("_check_type", TypeError)
_check_not_implemented: Callable[..., None] = _raising("_check_not_implemented", NotImplementedError)


def _check_is_size(i: int, message: _Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless a number is not negative, and at most `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: gl.Tensor, message: _Message = None) -> None:
    """Raise an error unless all elements of a Boolean tensor are True; see `_check_with`."""
    if not isinstance(cond, gl.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != gl.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: gl.Tensor, message: _Message = None) -> None:
    """Raise RuntimeError unless all elements of a Boolean tensor are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(self: gl.Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError if the only element of a tensor is zero."""
    if not self.is_nonzero():
        raise RuntimeError(assert_msg)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """Raise RuntimeError if a number is zero."""
    if not self:
        raise RuntimeError(assert_msg)


def _shape_as_tensor(self: gl.Tensor) -> gl.Tensor:
    """Return the sizes of a tensor: int64 (number of dimensions,)."""
    return gl.tensor(self.shape)


found_in("gradloom", *(value for name, value in list(globals().items()) if name.startswith(("_check", "_assert"))))
