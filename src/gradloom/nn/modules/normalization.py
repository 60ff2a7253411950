"""Normalisation within a batch element: LayerNorm, RMSNorm, GroupNorm, LocalResponseNorm."""

from __future__ import annotations

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter
from gradloom.types import Device, DType, IntList
from gradloom.utils._documentation import like

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _shape(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Layer normalisation (Ba et al. 2016).

    output = (input - mean) / sqrt(var + eps) * weight + bias, with mean and biased variance over the last dimensions.

    Args:
        normalized_shape: sizes of the last dimensions, over which to normalise; an int for one dimension.
        eps: added to the variance.
        elementwise_affine: learn weight and bias.
        bias: learn the bias if `elementwise_affine`.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (*, *normalized_shape).
        output: as the input.
        weight, bias: normalized_shape.
    """

    __constants__: list[str] = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | IntList,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        def parameter(wanted):
            return Parameter(gl.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None

        self.register_parameter("weight", parameter(elementwise_affine))
        self.register_parameter("bias", parameter(elementwise_affine and bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the affine map the identity."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Root mean square normalisation (Zhang and Sennrich 2019).

    output = input / sqrt(mean(input ** 2) + eps) * weight, with the mean over the last dimensions.

    Args:
        normalized_shape: sizes of the last dimensions, over which to normalise; an int for one dimension.
        eps: added to the mean square; by default the dtype's machine epsilon.
        elementwise_affine: learn the weight.
        device, dtype: device and dtype of the parameter.

    Shape:
        input: (*, *normalized_shape).
        output: as the input.
        weight: normalized_shape.
    """

    __constants__: list[str] = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | IntList,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(gl.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Group normalisation (Wu and He 2018).

    output = (input - mean) / sqrt(var + eps) * weight + bias, with mean and biased variance over each group of channels
    of each batch element.

    Args:
        num_groups: number of groups of channels.
        num_channels: number of channels, C.
        eps: added to the variance.
        affine: learn weight and bias.
        device, dtype: device and dtype of the parameters.
        bias: learn the bias if `affine`.

    Shape:
        input: (N, C, *).
        output: as the input.
        weight, bias: (C,).

    Raises:
        ValueError: if num_groups does not divide num_channels.
    """

    __constants__: list[str] = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        where = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(gl.empty(num_channels, **where)) if affine else None)
        self.register_parameter("bias", Parameter(gl.empty(num_channels, **where)) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the affine map the identity."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


@fields(F.local_response_norm)
class LocalResponseNorm(Module):
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


@like(F.local_response_norm)
class CrossMapLRN2d(LocalResponseNorm):
    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)
