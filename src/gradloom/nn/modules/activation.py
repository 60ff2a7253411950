"""Activation modules; each keeps its arguments and calls the function of the same name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn import functional as F
from gradloom.nn.modules.attention import MultiheadAttention
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter
from gradloom.utils._documentation import like

if TYPE_CHECKING:
    from typing import Any

    from gradloom import Tensor
    from gradloom.types import Device, DType

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Inplace(Module):
    """Base of activations that may overwrite their input."""

    __constants__: list[str] = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def _with_inplace(self, text):
        return ", ".join(filter(None, (text, "inplace=True" if self.inplace else "")))

    def extra_repr(self) -> str:
        return self._with_inplace("")


@like(F.relu)
class ReLU(_Inplace):
    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


@like(F.selu)
class SELU(_Inplace):
    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


@like(F.silu)
class SiLU(_Inplace):
    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


@like(F.mish)
class Mish(_Inplace):
    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


@like(F.hardsigmoid)
class Hardsigmoid(_Inplace):
    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@like(F.hardswish)
class Hardswish(_Inplace):
    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@like(F.threshold)
class Threshold(_Inplace):
    __constants__: list[str] = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"threshold={self.threshold}, value={self.value}")


class Hardtanh(_Inplace):
    """x clipped to [min_val, max_val].

    Args:
        min_val: lower bound.
        max_val: upper bound.
        inplace: write the result into the input.
        min_value, max_value: deprecated names of the bounds.

    Shape:
        input: (*), any shape.
        output: as the input.

    Raises:
        ValueError: unless max_val exceeds min_val.
    """

    __constants__: list[str] = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for old, new, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=2
                )
        self.min_val: float = min_val if min_value is None else min_value
        self.max_val: float = max_val if max_value is None else max_value
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"min_val={self.min_val}, max_val={self.max_val}")


@like(F.relu6)
class ReLU6(Hardtanh):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return self._with_inplace("")


class _Alpha(_Inplace):
    __constants__: list[str] = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def extra_repr(self) -> str:
        return self._with_inplace(f"alpha={self.alpha}")


@like(F.elu)
class ELU(_Alpha):
    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


@like(F.celu)
class CELU(_Alpha):
    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


@like(F.leaky_relu)
class LeakyReLU(_Inplace):
    __constants__: list[str] = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"negative_slope={self.negative_slope}")


@like(F.rrelu)
class RReLU(_Inplace):
    __constants__: list[str] = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"lower={self.lower}, upper={self.upper}")


class PReLU(Module):
    """x for x > 0, weight * x elsewhere, with learned slopes (He et al. 2015).

    Args:
        num_parameters: 1, or the number of channels C for one slope per channel.
        init: initial slope.
        device, dtype: device and dtype of the weight.

    Shape:
        input: (*), or (N, C, *) for one slope per channel.
        output: as the input.
        weight: (num_parameters,).
    """

    __constants__: list[str] = ["num_parameters"]

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Device | None = None, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight: Parameter = Parameter(gl.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to `init`."""
        with gl.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


@like(F.tanh)
class Tanh(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


@like(F.sigmoid)
class Sigmoid(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))), element by element.

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


@like(F.softsign)
class Softsign(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


@like(F.tanhshrink)
class Tanhshrink(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GELU(Module):
    """x * Phi(x), with Phi the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        approximate: "none", or "tanh" for x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))).

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    __constants__: list[str] = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


@like(F.glu)
class GLU(Module):
    __constants__: list[str] = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x exceeds `threshold`.

    Args:
        beta: sharpness.
        threshold: bound above which the function is linear.

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    __constants__: list[str] = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    __constants__: list[str] = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| exceeds `lambd`, 0 elsewhere.

    Args:
        lambd: bound.

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`, 0 where |x| is at most `lambd`.

    Args:
        lambd: distance.

    Shape:
        input: (*), any shape.
        output: as the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class _OverDim(Module):
    __constants__: list[str] = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


@like(F.softmax)
class Softmax(_OverDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


@like(F.log_softmax)
class LogSoftmax(_OverDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


@like(F.softmin)
class Softmin(_OverDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of images.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: as the input.

    Raises:
        ValueError: from `forward`, for an input with another number of dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
