"""Custom functions that stand for methods of Tensor: `Type` for `to`, `Resize` for `view`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..function import Function

if TYPE_CHECKING:
    from ...core.tensor import Tensor


class Type(Function):
    """Deprecated: convert a tensor to another dtype. Use `tensor.to(dtype=dtype)`."""

    @staticmethod
    def forward(ctx: Any, i: Tensor, dest_type: Any) -> Tensor:  # type: ignore[override]
        import warnings

        warnings.warn(
            "`gradloom.autograd._functions.Type` is deprecated as of PyTorch 2.1, please use "
            "`gradloom.tensor.to(dtype=dtype)` instead.",
            FutureWarning,
            stacklevel=3,
        )
        ctx.before = i.dtype
        found: Tensor = i.type(dest_type)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return grad.to(ctx.before), None


class Resize(Function):
    """Return a copy of a tensor in another shape of as many elements.

    Raises RuntimeError for another number of elements.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: tuple[int, ...]) -> Tensor:  # type: ignore[override]
        ctx.before = tensor.shape
        if prod(sizes) != tensor.numel():
            wanted, found = ("x".join(map(str, shape)) for shape in (sizes, tensor.shape))
            raise RuntimeError(
                f"requested resize to {wanted} ({prod(sizes)} elements in total), but the given tensor has a size of "
                f"{found} ({tensor.numel()} elements). autograd's resize can only change the shape of a given "
                "tensor, while preserving the number of elements. "
            )
        return tensor.reshape(sizes).clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return grad.reshape(ctx.before), None
