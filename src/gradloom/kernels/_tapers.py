"""Window functions of signal processing: weights that rise from the first sample to the middle and fall to the last.

A periodic window of n samples is the symmetric one of n + 1 without its last sample. Everything is computed in float64.
"""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, default


def _window(name, length, periodic, dtype, shape):
    """`shape(t)` for t from 0 to 1 over the window."""
    dtype = np.dtype(default.numpy_float if dtype is None else dtype)
    if dtype.kind not in "fcV":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {_type_name(dtype)}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length < 2:
        return np.ones(length, dtype)
    steps = length if periodic else length - 1
    return shape(np.arange(length) / steps).astype(dtype)


def _type_name(dtype):
    return f"TensorOptions(dtype={TYPE_OF[dtype]})"


def hann_window(window_length, dtype=None):
    """sin(pi t)^2, periodic."""
    return hann_window_periodic(window_length, True, dtype)


def hann_window_periodic(window_length, periodic, dtype=None):
    """sin(pi t)^2."""
    return _raised_cosine("hann_window", window_length, periodic, 0.5, 0.5, dtype)


def hamming_window(window_length, dtype=None):
    """0.54 - 0.46 cos(2 pi t), periodic."""
    return hamming_window_periodic(window_length, True, dtype)


def hamming_window_periodic(window_length, periodic, dtype=None):
    """0.54 - 0.46 cos(2 pi t)."""
    return hamming_window_alpha_beta(window_length, periodic, 0.54, 0.46, dtype)


def hamming_window_alpha(window_length, periodic, alpha, dtype=None):
    """alpha - 0.46 cos(2 pi t)."""
    return hamming_window_alpha_beta(window_length, periodic, alpha, 0.46, dtype)


def hamming_window_alpha_beta(window_length, periodic, alpha, beta, dtype=None):
    """alpha - beta cos(2 pi t)."""
    return _raised_cosine("hamming_window", window_length, periodic, alpha, beta, dtype)


def _raised_cosine(name, length, periodic, alpha, beta, dtype):
    return _window(name, length, periodic, dtype, lambda t: alpha - beta * np.cos(2 * np.pi * t))


def bartlett_window(window_length, dtype=None):
    """A triangle, periodic."""
    return bartlett_window_periodic(window_length, True, dtype)


def bartlett_window_periodic(window_length, periodic, dtype=None):
    """A triangle: 1 - |2 t - 1|."""
    return _window("bartlett_window", window_length, periodic, dtype, lambda t: 1 - np.abs(2 * t - 1))


def blackman_window(window_length, dtype=None):
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t), periodic."""
    return blackman_window_periodic(window_length, True, dtype)


def blackman_window_periodic(window_length, periodic, dtype=None):
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)."""

    def shape(t):
        return 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t)

    return _window("blackman_window", window_length, periodic, dtype, shape)


def kaiser_window(window_length, dtype=None):
    """As below with beta = 12, periodic."""
    return kaiser_window_beta(window_length, True, 12.0, dtype)


def kaiser_window_periodic(window_length, periodic, dtype=None):
    """As below with beta = 12."""
    return kaiser_window_beta(window_length, periodic, 12.0, dtype)


def kaiser_window_beta(window_length, periodic, beta, dtype=None):
    """I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta), with the modified Bessel function of order 0."""

    def shape(t):
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, dtype, shape)
