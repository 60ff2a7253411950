"""PyTorch with defects planted on purpose, to test that the harness reports each as what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Altered:
    """PyTorch's names, except those that `defects` replaces by dotted name, or removes by None."""

    def __init__(self, defects: dict[str, Any], base: Any = torch, prefix: str = "") -> None:
        self.__dict__.update(_defects=defects, _base=base, _prefix=prefix)

    def __getattr__(self, name: str) -> Any:
        path = self._prefix + name
        if path in self._defects:
            if self._defects[path] is None:
                raise AttributeError(name)
            return self._defects[path]
        value = getattr(self._base, name)
        inside = any(defect.startswith(f"{path}.") for defect in self._defects)
        return Altered(self._defects, value, f"{path}.") if inside else value

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._base)


def changed(function: Callable, change: Callable[[Any], Any]) -> Callable:
    """`function` with its result passed through `change`."""
    return lambda *args, **kwargs: change(function(*args, **kwargs))


def sine(gradient: float = 1.0, second: float = 1.0, tangent: float = 1.0) -> Callable:
    """torch.sin whose derivative, derivative's derivative or tangent is multiplied by a factor."""

    class Cosine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.cos()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return -grad * ctx.saved_tensors[0].sin().conj() * second

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * Cosine.apply(ctx.saved_tensors[0]).conj() * gradient

        @staticmethod
        def jvp(ctx: Any, x_t: torch.Tensor) -> torch.Tensor:
            return x_t * ctx.saved_tensors[0].cos() * tangent

    return lambda x, *, out=None: torch.sin(x, out=out) if out is not None else Sine.apply(x)


def refusing(function: Callable, error: type[Exception]) -> Callable:
    """`function` with every exception replaced by one of another class."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as problem:
            raise error(str(problem)) from problem

    return call
