"""Linear and bilinear maps."""

from __future__ import annotations

import math
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn.modules.lazy import LazyModuleMixin, _unshaped
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter
from gradloom.types import Device, DType

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Return the input.

    Args:
        args, kwargs: ignored.

    Shape:
        input: (*).
        output: as the input.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Affine map output = input @ weight.T + bias.

    The parameters are drawn uniformly from +-1 / sqrt(in_features).

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: add a learned bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (*, in_features).
        output: (*, out_features).
        weight: (out_features, in_features).
        bias: (out_features,).
    """

    __constants__: list[str] = ["in_features", "out_features"]

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight: Parameter = Parameter(gl.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias: Parameter = Parameter(gl.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters uniformly from +-1 / sqrt(in_features)."""
        # With this slope the bound is 1 / sqrt(in_features).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that quantization leaves alone: the projection of attention's result, of which only parameters are used.

    Args:
        in_features, out_features, bias, device, dtype: as of `Linear`.
    """


class Bilinear(Module):
    """Bilinear map output[k] = input1 @ weight[k] @ input2 + bias[k].

    The parameters are drawn uniformly from +-1 / sqrt(in1_features).

    Args:
        in1_features: size of the last dimension of input1.
        in2_features: size of the last dimension of input2.
        out_features: size of the last dimension of the output.
        bias: add a learned bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input1: (*, in1_features).
        input2: (*, in2_features).
        output: (*, out_features).
        weight: (out_features, in1_features, in2_features).
        bias: (out_features,).

    Raises:
        ValueError: unless in1_features is positive.
    """

    __constants__: list[str] = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight: Parameter = Parameter(
            gl.empty((out_features, in1_features, in2_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias: Parameter = Parameter(gl.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters uniformly from +-1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` is taken from the first input.

    Args:
        out_features: size of the last dimension of the output.
        bias: add a learned bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (*, in_features).
        output: (*, out_features).
    """

    cls_to_become: type[Module] | None = Linear
    in_features: int
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Device | None = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = _unshaped(device, dtype)
        if bias:
            self.bias = _unshaped(device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters if they have shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Give the parameters their shapes.

        Args:
            input: first input, (*, in_features).
        """
        if not self.has_uninitialized_params():
            self.in_features = self.in_features or self.weight.shape[-1]
            return
        out, self.in_features = self.out_features, input.shape[-1]
        with gl.no_grad():
            for parameter, shape in (self.weight, (out, self.in_features)), (self.bias, (out,)):
                if parameter is not None:
                    parameter.materialize(shape)  # type: ignore[attr-defined]
            self.reset_parameters()
