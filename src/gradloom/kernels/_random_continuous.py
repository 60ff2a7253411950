"""Continuous distributions with a closed inverse, and those that follow from them. re-exported by `_draws`.

All are evaluated in double: see Note [Precision] in `_draws`.
"""

from __future__ import annotations

import math

import numpy as np

from ._box_muller import serial_normals
from ._filling import DIGITS, c_name, fill, name_of, require
from ._mt19937 import Stream
from ._rounding import by_libm, fused64


def exponential_(stream: Stream, out: np.ndarray, lambd: float = 1.0) -> np.ndarray:
    """Fill a floating array with exponential numbers of rate `lambd`: -log(1 - u) / lambd.

    Raises:
        RuntimeError: unless lambd > 0, or for another dtype.
    """
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    name = name_of(out.dtype)
    if name not in DIGITS and out.size:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {c_name(out.dtype)}"
        )
    scale, exact = -1.0 / lambd, name == "float64"
    with stream.lock:
        return fill(out, lambda n: scale * by_libm(math.log1p, np.log1p, -stream.uniform53(n), exact))


def cauchy_(stream: Stream, out: np.ndarray, median: float = 0.0, sigma: float = 1.0) -> np.ndarray:
    """Fill a floating array with Cauchy numbers: median + sigma tan(pi (u - 1/2)).

    Raises:
        RuntimeError: unless sigma > 0, or for another dtype.
    """
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    name = name_of(out.dtype)
    if name not in DIGITS:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
            f"point but you specified {c_name(out.dtype)}"
        )
    exact = name == "float64"

    def draw(n):
        tangents = by_libm(math.tan, np.tan, math.pi * (stream.uniform53(n) - 0.5), exact)
        return fused64(tangents, sigma, median)

    with stream.lock:
        return fill(out, draw)


def geometric_(stream: Stream, out: np.ndarray, p: float) -> np.ndarray:
    """Fill a floating or integer array with numbers of trials up to a success: ceil(log u / log(1 - p)).

    Raises:
        RuntimeError: unless 0 < p < 1. NotImplementedError for bool and complex.
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    require(out, "geometric_cpu", "fi")
    scale = math.log1p(-p)

    def draw(n):
        uniforms = stream.uniform53(n)
        with np.errstate(divide="ignore"):
            trials = np.log(uniforms) / scale
        # The last bit of the logarithm counts only next to a whole number, and there the C library decides.
        near = np.flatnonzero(np.abs(trials - np.rint(trials)) < 1e-9)
        trials[near] = by_libm(math.log, np.log, uniforms[near], True) / scale
        return np.ceil(trials)

    with stream.lock:
        return fill(out, draw)


def log_normal_(stream: Stream, out: np.ndarray, mean: float = 1.0, std: float = 2.0) -> np.ndarray:
    """Fill a floating array with exp of normal numbers of the given mean and standard deviation.

    Raises:
        RuntimeError: unless std > 0. NotImplementedError for another dtype.
    """
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    require(out, "log_normal_cpu", "f")
    exact = out.dtype == np.float64

    def draw(n):
        return by_libm(math.exp, np.exp, fused64(serial_normals(stream, n, exact), std, mean), exact)

    with stream.lock:
        return fill(out, draw)
