"""Helpers of PyTorch's first exporter to ONNX, which translates TorchScript: packages register functions with them.

gradloom exports what a module computes, operator by operator, and never calls such functions. Decorators and
registrations are accepted; what the functions would call is refused when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..utils._refused import declare

_Function = TypeVar("_Function", bound=Callable[..., Any])

__getattr__ = declare(
    __name__,
    {"": "*"},
    "gradloom.onnx.export translates the operators that a module runs, and calls no symbolic functions",
)


def parse_args(*arg_descriptors: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that changes nothing."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: bool, **options: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that changes nothing."""
    return lambda function: function
