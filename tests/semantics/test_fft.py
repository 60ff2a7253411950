"""Fourier transforms: which primitive operators a function calls, errors, and layouts of results."""

from __future__ import annotations

import pytest

CASES = {
    "fft of a real input": ("fft.fft(x)", ["_fft_r2c.default(2,) 0 False"]),
    "fft of a complex input": ("fft.fft(c, norm='ortho')", ["_fft_c2c.default(2,) 1 True"]),
    "ifft of a real input": ("fft.ifft(x)", ["_fft_r2c.default(2,) 2 False", "_conj.default"]),
    "rfft, cut": ("fft.rfft(x, n=3, dim=1)", ["slice.Tensor", "_fft_r2c.default(1,) 0 True"]),
    "rfft, padded": ("fft.rfft(x, n=9, norm='forward')", ["constant_pad_nd.default", "_fft_r2c.default(2,) 2 True"]),
    "irfft": ("fft.irfft(c)", ["_fft_c2r.default(2,) 2 8"]),
    "fftn of integers": ("fft.fftn(i)", ["_to_copy.default", "_fft_c2c.default(0, 1, 2) 0 True"]),
    "ihfftn": (
        "fft.ihfftn(x)",
        ["_fft_r2c.default(2,) 2 True", "_conj_physical.default", "_fft_c2c.default(0, 1) 2 False"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_functions_call_primitive_operators(torch, case):
    from importlib import import_module

    mode = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    seen = []

    class Record(mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = str(func).removeprefix("aten.")
            if name.startswith("_fft"):
                name += f"{tuple(args[1])} {args[2]} {args[3]}"
            seen.append(name)
            return func(*args, **(kwargs or {}))

    code, expected = CASES[case]
    given = {"x": torch.ones(3, 4, 5), "c": torch.ones(3, 4, 5) + 0j, "i": torch.ones(3, 4, 5).long()}
    with Record():
        eval(f"torch.{code}", {"torch": torch, **given})
    assert seen == expected


@pytest.mark.parametrize(
    "code, error, words",
    [
        ("fft.fft(x.half())", RuntimeError, "Unsupported dtype Half"),
        ("fft.fft(x, n=0)", RuntimeError, r"Invalid number of data points \(0\) specified"),
        ("fft.irfft(x[..., :1])", RuntimeError, r"Invalid number of data points \(0\) specified"),
        ("fft.fft(x, dim=3)", IndexError, "Dimension out of range"),
        ("fft.fft(x[0, 0, 0])", IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        ("fft.fft(x, norm='foo')", RuntimeError, 'Invalid normalization mode: "foo"'),
        ("fft.fftn(x, dim=(0, -3))", RuntimeError, "FFT dims must be unique"),
        ("fft.fftn(x, s=(2,), dim=(0, 1))", RuntimeError, "dim and shape arguments must have the same length"),
        ("fft.fftn(x, s=(2, 2, 2, 2))", RuntimeError, "Got shape with 4 values but input tensor only has 3 dimensions"),
        ("fft.irfftn(x, dim=())", RuntimeError, "irfftn must transform at least one axis"),
        ("fft.fftfreq(4, dtype=torch.int64)", RuntimeError, "fftfreq requires a floating point or complex dtype"),
        ("stft(x[0], 4)", RuntimeError, "stft requires the return_complex parameter"),
        ("stft(x, 2, return_complex=True)", RuntimeError, "expected a 1D or 2D tensor"),
        ("stft(x[0], 4, 0, return_complex=True)", RuntimeError, "expected hop_length > 0, but got hop_length=0"),
        ("istft(x + 0j, 6, 2, window=torch.zeros(6))", RuntimeError, "window overlap add min: 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:A window was not provided")
def test_bad_arguments_are_refused(torch, code, error, words):
    with pytest.raises(error, match=words):
        eval(f"torch.{code}", {"torch": torch, "x": torch.ones(3, 4, 5)})


def test_results_keep_pytorchs_layout_and_precision(torch):
    x = torch.ones(3, 4, 5)
    assert torch.fft.fft(x, dim=0).stride() == (1, 15, 3)
    assert torch.fft.rfftn(x, dim=(1, 0)).stride() == (1, 2, 8)
    assert torch.fft.rfft2(x).dtype is torch.complex64 and torch.fft.irfft2(x).dtype is torch.float32


def test_a_signal_survives_its_short_time_transform(torch):
    x, window = torch.arange(40.0), torch.hann_window(8)
    spectrum = torch.stft(x, 8, 2, window=window, return_complex=True)
    assert spectrum.shape == (5, 21) and spectrum.stride() == (1, 5)
    assert torch.allclose(torch.istft(spectrum, 8, 2, window=window), x, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("irfft(x, out=torch.empty(0) + 0j)", "irfft expects a floating point output tensor, but got ComplexFloat"),
        ("hfftn(x, out=torch.empty(0) + 0j)", "hfftn expects a floating point output tensor, but got ComplexFloat"),
        ("fft(x, out=torch.empty(0))", "fft expects a complex output tensor, but got Float"),
        ("rfftn(x.real, out=torch.empty(0).long())", "rfftn expects a complex output tensor, but got Long"),
    ],
)
def test_transforms_write_to_numbers_of_their_kind(torch, call, message):
    with pytest.raises(RuntimeError, match=message):
        eval(f"torch.fft.{call}", {"torch": torch, "x": torch.ones(4) + 0j})


def test_transforms_write_to_another_precision(torch):
    out = torch.empty(0, dtype=torch.float64)
    assert torch.fft.irfft(torch.ones(4) + 0j, out=out) is out and out.shape == (6,)


def test_a_number_has_no_two_dimensions_to_transform(torch):
    with pytest.raises(IndexError, match="Dimension specified as -2 but tensor has no dimensions"):
        torch.fft.fft2(torch.tensor(1.0))
