"""Elementwise kernels, brought together from where they are written.

Inputs have been brought to a common dtype where that is needed; NumPy broadcasts them.
"""

# ruff: noqa: F401

from ._elementwise_arithmetic import (
    add_scalar,
    addcdiv,
    addcmul,
    div_mode,
    div_scalar,
    div_scalar_mode,
    floor_divide,
    floor_divide_scalar,
    fmod,
    fmod_scalar,
    mul_scalar,
    pow,
    pow_of_scalar,
    pow_scalar,
    remainder,
    remainder_of_scalar,
    remainder_scalar,
    rsqrt,
    rsub_scalar,
    scaled,
    sub_scalar,
)
from ._elementwise_binary import (
    clamp,
    clamp_max,
    clamp_min,
    compared,
    copysign,
    copysign_scalar,
    gcd,
    heaviside,
    hypot,
    lcm,
    ldexp,
    lerp,
    logaddexp,
    logaddexp2,
    nextafter,
    ordered,
    where,
    xlogy,
    xlogy_by_scalar,
    xlogy_of_scalar,
)
from ._elementwise_special import (
    digamma,
    erf,
    erfc,
    erfinv,
    lgamma,
    logit,
    logit_backward,
    mvlgamma,
    polygamma,
    polygamma_of,
    sigmoid,
    sigmoid_backward,
    sinc,
    tanh_backward,
)
from ._elementwise_tests import isclose, isneginf, isposinf, nan_to_num
from ._elementwise_unary import (
    abs,
    abs_of_real,
    ceil,
    deg2rad,
    fill,
    fill_,
    floor,
    frac,
    frexp,
    left_shift,
    left_shift_of_scalar,
    log1p,
    rad2deg,
    right_shift,
    right_shift_of_scalar,
    round,
    round_decimals,
    sgn,
    sign,
    trunc,
    zero_,
)
from ._reduced import like

