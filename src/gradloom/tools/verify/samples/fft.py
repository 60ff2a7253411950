"""Samples of Fourier transforms: norms, resized dimensions, odd and even sizes."""

from __future__ import annotations

import numpy as np

import gradloom


def real(*shape):
    return gradloom.from_numpy(np.random.default_rng([*shape]).uniform(-1, 1, shape))


def complex_(*shape):
    return gradloom.complex(real(*shape), real(*shape, 2)[..., 0])


def calls(*samples):
    def found():
        for sample in samples:
            yield sample, {}

    return found


def one_dimension(tensor):
    return calls(
        (tensor(5), None, -1, None),
        (tensor(2, 4), None, 0, "ortho"),
        (tensor(2, 4), 3, 1, "forward"),
        (tensor(2, 4), 6, -1, "backward"),
    )


def several_dimensions(tensor):
    return calls(
        (tensor(3, 4), None, (0, 1), None),
        (tensor(3, 4), (2, 5), (1, 0), "ortho"),
        (tensor(2, 3, 2), (4, -1), (-2, -1), "forward"),
        (tensor(2, 3, 2), None, (1,), "backward"),
    )


def all_dimensions(tensor):
    return calls((tensor(3, 4), None, None, None), (tensor(2, 3, 4), (2, 3), None, "ortho"))


SAMPLES = {
    "_fft_c2c": calls(
        (complex_(3, 4), (1,), 0, True), (complex_(3, 4), (0, 1), 1, False), (complex_(2, 3), (-1,), 2, True)
    ),
    "_fft_r2c": calls((real(3, 4), (1,), 0, True), (real(4, 3), (0, 1), 1, True), (real(2, 3), (-1,), 2, False)),
    "_fft_c2r": calls((complex_(3, 3), (1,), 0, 4), (complex_(3, 3), (0, 1), 1, 5), (complex_(2, 2), (-1,), 2, 2)),
    "fft_fftfreq": calls((5, 0.5), (4, 1.0)),
    "fft_rfftfreq": calls((5, 0.5), (4, 1.0)),
    "fft_fftshift": calls((real(5),), (real(3, 4), (1,)), (real(3, 4), (0, -1))),
    "fft_ifftshift": calls((real(5),), (real(3, 4), (1,)), (real(3, 4), (0, -1))),
}
WINDOW = gradloom.from_numpy(np.array([0.2, 0.7, 1.0, 0.7]))
SAMPLES["stft.center"] = calls(
    (real(2, 9), 4, 2, None, WINDOW, True, "reflect", True, None, True),
    (real(9), 4, 2, None, WINDOW, True, "constant", True, None, True),
    (real(9), 4, 2, None, WINDOW, True, "replicate", False, None, True),
    (real(9), 4, 2, None, WINDOW, True, "circular", False, False, True),
    (real(9), 6, 2, 4, WINDOW, False, "reflect", False, None, True, False),
)
SAMPLES["istft"] = calls(
    (complex_(2, 3, 5), 4, 2, None, WINDOW),
    (complex_(3, 5), 4, 2, None, WINDOW, False, True, True, 10),
    (complex_(4, 5), 4, 1, None, WINDOW, True, False, False, None, True),
    (complex_(4, 5), 4, 1, None, WINDOW, True, False, None, 7),
)
for _kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _tensor = real if _kind in ("rfft", "ihfft") else complex_
    SAMPLES[f"fft_{_kind}"] = one_dimension(_tensor)
    SAMPLES[f"fft_{_kind}2"] = several_dimensions(_tensor)
    SAMPLES[f"fft_{_kind}n"] = all_dimensions(_tensor)
