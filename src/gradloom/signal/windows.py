"""Window functions: weights for a signal of M samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from ..core.tensor import Tensor
from ..dispatch import _operators
from ..types import Device
from ..types.device import layout as _layout, strided
from ..types.dtype import default, dtype as _dtype, float32, float64
from ..utils._documentation import completed

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


_window = completed(
    "output: (M,).",
    "ValueError: for a negative M, another layout or dtype, or a parameter outside its range.",
    M="number of samples, each n from 0 to M - 1.",
    sym="a symmetric window, for filters; False gives a periodic one, for spectra: M + 1 samples without the last.",
    dtype="float32 or float64, by default the default dtype.",
    layout="strided.",
    device="the CPU.",
    requires_grad="whether the window requires grad.",
)


def _options(name, M, dtype, layout, device, requires_grad):
    """Check the arguments and return the keyword arguments of the window's factory."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype is None:
        dtype = default.float
    if not any(dtype is accepted for accepted in (float32, float64)):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def _steps(M, sym):
    """Return the number of steps from the first sample to the last of the symmetric window."""
    return M if not sym and M > 1 else M - 1


def _times(M, scale, shift, options) -> Tensor:
    """Return scale * (0, 1, ..., M - 1) + shift as a leaf, which requires grad if the window does, as in PyTorch."""
    if isinstance(M, (bool, float)):
        raise TypeError(f"linspace(): argument 'steps' must be int, not {type(M).__name__}")
    times = _operators.arange(M, dtype=options["dtype"], device=options["device"]) * scale + shift
    return times.requires_grad_(options["requires_grad"])


def _empty_or_one(M, options):
    return _operators.empty((0,), **options) if M == 0 else _operators.ones((1,), **options)


@_window
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau).

    Args:
        center: by default the middle; must be None for a symmetric window.
        tau: decay, positive.
    """
    options = _options("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return _empty_or_one(M, options)
    middle = _steps(M, sym) / 2.0 if center is None else center
    return (-_times(M, 1 / tau, -middle / tau, options).abs()).exp()


@_window
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(pi (n + 1/2) / M)."""
    options = _options("cosine", M, dtype, layout, device, requires_grad)
    if M == 0:
        return _empty_or_one(M, options)
    step = pi / (_steps(M, sym) + 1)
    return _times(M, step, 0.5 * step, options).sin()


@_window
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(n - (M - 1) / 2)^2 / (2 std^2)).

    Args:
        std: standard deviation, positive.
    """
    options = _options("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return _empty_or_one(M, options)
    scale = 1 / (std * 2**0.5)
    return (-(_times(M, scale, -_steps(M, sym) / 2.0 * scale, options) ** 2)).exp()


@_window
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - (2 n / (M - 1) - 1)^2)) / I0(beta).

    Args:
        beta: shape, not negative.
    """
    options = _options("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return _empty_or_one(M, options)
    return _operators.kaiser_window(M, not sym, float(beta), **options)


@_window
def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.54 - 0.46 cos(2 pi n / (M - 1))."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@_window
def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.5 - 0.5 cos(2 pi n / (M - 1))."""
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@_window
def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))."""
    a = (0.42, 0.5, 0.08)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@_window
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 - |2 n / (M - 1) - 1|."""
    options = _options("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return _empty_or_one(M, options)
    return 1 - _times(M, 2 / _steps(M, sym), -1.0, options).abs()


@_window
def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Sum over i of (-1)^i a[i] cos(2 pi i n / (M - 1)).

    Args:
        a: coefficients.
    """
    options = _options("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return _empty_or_one(M, options)
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    angle = _times(M, 2 * pi / _steps(M, sym), 0.0, options)
    terms = [(-1) ** i * c * (i * angle).cos() for i, c in enumerate(a)]
    return sum(terms[1:], terms[0])


@_window
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / (M - 1)).

    Args:
        alpha: coefficient.
    """
    a = (alpha, 1.0 - alpha)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@_window
def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = strided,
    device: Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Minimum 4-term Blackman-Harris window (Nuttall 1981)."""
    a = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
