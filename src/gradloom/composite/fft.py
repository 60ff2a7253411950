"""Fourier transforms in terms of the three primitive ones: complex, real to complex, complex to real.

A function resizes its input first, by slicing and zero padding. The primitives take the norm as a code: 0 for sums as
they are, 1 divided by the root of their length, 2 by the length.
"""

from __future__ import annotations

from ..dispatch import _operators as ops
from ..kernels._common.dims import require_dim, wrap_dim
from ..types.dtype import BOOL, FLOATING, INTEGRAL, default, scalar_type_name, type_text
from ..types.silence import warn_user

_REFUSED = ("Half", "BFloat16")


def _of_type(x, is_complex):
    """Convert integers to the default dtype and, if asked, real numbers to complex ones."""
    dtype = x.dtype
    if dtype.category in (BOOL, INTEGRAL):
        dtype = default.float
    if dtype.category == FLOATING and scalar_type_name(dtype) in _REFUSED:
        raise NotImplementedError(f"Unsupported dtype {scalar_type_name(dtype)}")
    if is_complex:
        dtype = dtype.to_complex()
    return x if dtype is x.dtype else ops._to_copy(x, dtype=dtype)


def _code(norm, forward):
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "forward":
        return 2 if forward else 0
    if norm == "ortho":
        return 1
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _positive(n):
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _resized(x, dims, sizes):
    """Cut or pad dimensions with zeros to `sizes`; -1 keeps one as it is."""
    pad = [0] * (2 * x.dim())
    for d, n in zip(dims, sizes, strict=True):
        have = x.shape[d]
        if n > have:
            pad[2 * (x.dim() - 1 - d) + 1] = n - have
        elif -1 < n < have:
            x = ops.slice(x, d, 0, n, 1)
    return ops.constant_pad_nd(x, tuple(pad)) if any(pad) else x


def _real(x, name, kind="real"):
    if x.is_complex():
        raise TypeError(f"{name} expects a {kind} input tensor, but got {scalar_type_name(x.dtype)}")
    return _of_type(x, False)


def _one(x, n, dim):
    """Return the wrapped dimension and the input resized along it."""
    require_dim(dim, x.dim())
    dim = wrap_dim(dim, x.dim())
    _positive(x.shape[dim] if n is None else n)
    return dim, x if n is None else _resized(x, (dim,), (n,))


def _from_complex(x, n, dim, norm, forward):
    dim, x = _one(x, n, dim)
    return ops._fft_c2c(x, (dim,), _code(norm, forward), forward)


def _from_real(x, n, dim, norm, forward, onesided):
    dim, x = _one(x, n, dim)
    found = ops._fft_r2c(x, (dim,), _code(norm, forward), onesided)
    return found if forward else ops.conj(found)


def _to_real(x, n, dim, norm, forward):
    x = _of_type(x, True)
    require_dim(dim, x.dim())
    dim = wrap_dim(dim, x.dim())
    size = 2 * (x.shape[dim] - 1) if n is None else n
    _positive(size)
    if n is not None:
        x = _resized(x, (dim,), (n // 2 + 1,))
    return ops._fft_c2r(ops.conj(x) if forward else x, (dim,), _code(norm, forward), size)


def fft(self, n, dim, norm):
    """Return the Fourier transform along a dimension; the whole spectrum also of a real input."""
    x = _of_type(self, False)
    return _from_complex(x, n, dim, norm, True) if x.is_complex() else _from_real(x, n, dim, norm, True, False)


def ifft(self, n, dim, norm):
    """Return the inverse Fourier transform along a dimension."""
    x = _of_type(self, False)
    return _from_complex(x, n, dim, norm, False) if x.is_complex() else _from_real(x, n, dim, norm, False, False)


def rfft(self, n, dim, norm):
    """Return the n // 2 + 1 frequencies that are not negative of a real input."""
    return _from_real(_real(self, "rfft"), n, dim, norm, True, True)


def irfft(self, n, dim, norm):
    """Return the real inverse transform of the frequencies that are not negative."""
    return _to_real(self, n, dim, norm, False)


def hfft(self, n, dim, norm):
    """Return the real spectrum of a signal whose first half is given: a signal with Hermitian symmetry in time."""
    return _to_real(self, n, dim, norm, True)


def ihfft(self, n, dim, norm):
    """Return the first half of the signal that has a real spectrum."""
    return _from_real(_real(self, "ihfft"), n, dim, norm, False, True)


def _several(x, s, dim):
    """Return the wrapped dimensions and their sizes: those given, else the last ones that have a size, else all."""
    ndim = x.dim()
    dims = None
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else dim
        if not ndim:
            for d in dim:
                require_dim(d, ndim)
        dims = tuple([wrap_dim(d, ndim) for d in dim])
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        s = (s,) if isinstance(s, int) else tuple(s)
        if dims is not None and len(dims) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions.")
        dims = tuple(range(ndim - len(s), ndim)) if dims is None else dims
        sizes = [x.shape[d] if n == -1 else n for d, n in zip(dims, s, strict=True)]
    else:
        dims = tuple(range(ndim)) if dims is None else dims
        sizes = [x.shape[d] for d in dims]
    for n in sizes:
        _positive(n)
    return dims, sizes


def _halved(x, s, dim, name):
    """Return like `_several`, with the input's size along the last dimension, and that dimension's size in the
    result."""
    dims, sizes = _several(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    given = s is not None and (s if isinstance(s, int) else s[-1]) != -1
    last = sizes[-1] if given else 2 * (x.shape[dims[-1]] - 1)
    _positive(last)
    sizes[-1] = last // 2 + 1
    return dims, sizes, last


def _all_complex(x, s, dim, norm, forward):
    x = _of_type(x, True)
    dims, sizes = _several(x, s, dim)
    return ops._fft_c2c(_resized(x, dims, sizes), dims, _code(norm, forward), forward)


def fftn(self, s, dim, norm):
    """Return the Fourier transform along several dimensions."""
    return _all_complex(self, s, dim, norm, True)


def ifftn(self, s, dim, norm):
    """Return the inverse Fourier transform along several dimensions."""
    return _all_complex(self, s, dim, norm, False)


def rfftn(self, s, dim, norm):
    """Return the transform of a real input along several dimensions; of the last one, its first half."""
    x = _real(self, "rfftn", "real-valued")
    dims, sizes = _several(x, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    return ops._fft_r2c(_resized(x, dims, sizes), dims, _code(norm, True), True)


def irfftn(self, s, dim, norm):
    """Return the inverse of `rfftn`."""
    x = _of_type(self, True)
    dims, sizes, last = _halved(x, s, dim, "irfftn")
    return ops._fft_c2r(_resized(x, dims, sizes), dims, _code(norm, False), last)


def hfftn(self, s, dim, norm):
    """Return the real spectrum of a signal with Hermitian symmetry, of whose last dimension the first half is given."""
    x = _of_type(self, True)
    dims, sizes, last = _halved(x, s, dim, "hfftn")
    code = _code(norm, True)
    x = _resized(x, dims, sizes)
    if dims[1:]:
        x = ops._fft_c2c(x, dims[:-1], code, True)
    return ops._fft_c2r(ops.conj(x), dims[-1:], code, last)


def ihfftn(self, s, dim, norm):
    """Return the inverse of `hfftn`."""
    if self.is_complex():
        raise TypeError(f"Only supports floating-point dtypes, but found: {scalar_type_name(self.dtype)}")
    x = _of_type(self, False)
    dims, sizes = _several(x, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    code = _code(norm, False)
    half = ops._fft_r2c(_resized(x, dims, sizes), dims[-1:], code, True)
    if not dims[1:]:
        return ops.conj(half)
    return ops._fft_c2c(ops._conj_physical(half), dims[:-1], code, False)


def _rolled(x, dim, halves):
    dims = tuple(range(x.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple([wrap_dim(d, x.dim()) for d in dims])
    return ops.roll(x, tuple([halves(x.shape[d] if x.dim() else 1) for d in dims]), dims)


def fftshift(self, dim):
    """Move the zero frequency to the middle of the given dimensions (None: of all)."""
    return _rolled(self, dim, lambda n: n // 2)


def ifftshift(self, dim):
    """Undo `fftshift`."""
    return _rolled(self, dim, lambda n: (n + 1) // 2)


def _text(name, x, window, **arguments):
    """Return a call as PyTorch's messages show it."""
    shown = {}
    for key, value in arguments.items():
        shown[key] = int(value) if isinstance(value, bool) else value
        if key == "win_length":
            shown["window"] = "None" if window is None else f"{type_text(window.dtype)}{{{list(window.shape)}}}"
    return f"{name}({type_text(x.dtype)}{list(x.shape)}, {', '.join(f'{k}={v}' for k, v in shown.items())})"


def _warn(message):
    warn_user(message)


def _extended(x, pad, mode):
    """Pad both ends of the last dimension of (batch, channels, length) by `pad` elements."""
    if mode == "constant":
        return ops.constant_pad_nd(x, (pad, pad), 0.0)
    if mode == "reflect":
        return ops.reflection_pad1d(x, (pad, pad))
    if mode == "replicate":
        return ops.replication_pad1d(x, (pad, pad))
    if mode == "circular":
        return ops._pad_circular(x, (pad, pad))
    raise NotImplementedError(f"Unrecognised padding mode {mode}")


def stft(
    self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window
):
    """Return the transforms of overlapping frames of a signal; `center` pads the signal so that frame t is centered at
    t * hop_length.

    Shape:
        self: (length) or (batch, length).
        output: (frequencies, frames) or (batch, frequencies, frames); another dimension of size 2 for the real and
        imaginary parts if not `return_complex`.
    """
    x = self
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        ndim = x.dim()
        x = _extended(ops.view(x, (*(1,) * (3 - ndim), *x.shape)), n_fft // 2, pad_mode)
        x = ops.view(x, x.shape[-ndim:] if ndim else x.shape)
    return _stft(x, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window)


def _stft(self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window):
    """Return the transforms of overlapping frames of a signal, of which the first begins with the signal.

    Args:
        hop_length: distance of the frames, by default n_fft // 4.
        win_length: length of the window, which is centered in the frame; by default n_fft.
        window: factors for each frame; None stands for ones.
        normalized: whether to divide by the root of n_fft.
        onesided: whether to leave out negative frequencies, by default for real frames.
        align_to_window: whether the first window, instead of the first frame, begins with the signal.
    """
    if window is None:
        _warn(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral "
            "leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce "
            "spectral leakage.To suppress this warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`."
        )
    hop_length = n_fft >> 2 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    complex_result = return_complex
    if complex_result is None:
        complex_result = self.is_complex() or window is not None and window.is_complex()
    if not complex_result:
        if return_complex is None:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        _warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call "
            "torch.view_as_real on the complex output to recover the old return format."
        )
    x, one = self, self.dim() == 1

    def refuse(expected):
        text = _text(
            "stft",
            x,
            window,
            n_fft=n_fft,
            hop_length=hop_length,
            win_length=win_length,
            normalized=normalized,
            onesided=onesided,
            return_complex=return_complex,
            align_to_window=align_to_window,
        )
        return RuntimeError(f"{text} : expected {expected}")

    if not (x.is_floating_point() or x.is_complex()):
        raise refuse("a tensor of floating point or complex values")
    if x.dim() not in (1, 2):
        raise refuse("a 1D or 2D tensor")
    x = ops.unsqueeze(x, 0) if one else x
    length = x.shape[1]
    if not 0 < n_fft <= length:
        raise refuse(f"0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop_length <= 0:
        raise refuse(f"hop_length > 0, but got hop_length={hop_length}")
    if not 0 < win_length <= n_fft:
        raise refuse(f"0 < win_length <= n_fft, but got win_length={win_length}")
    if window is not None and tuple(window.shape) != (win_length,):
        raise refuse(
            f"a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    factors = window
    if win_length < n_fft:
        left = (n_fft - win_length) // 2
        factors = ops.zeros((n_fft,), dtype=x.dtype if window is None else window.dtype, device=x.device)
        middle = ops.slice(factors, 0, left, left + win_length, 1)
        _ = ops.fill_(middle, 1) if window is None else ops.copy_(middle, window)
        if align_to_window:
            x = ops.constant_pad_nd(x, (left, left), 0.0)
    frames = 1 + (x.shape[1] - n_fft) // hop_length
    along, step = x.stride(0), x.stride(1)
    x = ops.as_strided(x, (x.shape[0], frames, n_fft), (along, hop_length * step, step))
    x = x if factors is None else ops.mul(x, factors)
    if x.is_complex():
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        out = ops._fft_c2c(x, (2,), int(normalized), True)
    else:
        out = ops._fft_r2c(x, (2,), int(normalized), onesided is not False)
    out = ops.transpose_(out, 1, 2)
    out = ops.squeeze_(out, 0) if one else out
    return out if complex_result else ops.view_as_real(out)


def istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex):
    """Return the signal whose `stft` is nearest: the inverse transforms of the frames times the window, added where
    they overlap, over the sum of the squared windows.

    Args:
        length: length of the signal; by default all that the frames cover, less the padding of `center`.
        return_complex: whether the signal is complex.

    Raises:
        RuntimeError: for sizes that do not match, and where the windows' squares add up to 0.
    """
    if window is None:
        _warn(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by "
            "stft to make the inversion lossless.To suppress this warning and use a rectangular window, explicitly "
            "set `window=torch.ones(n_fft, device=<device>)`."
        )
    hop = n_fft >> 2 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    text = _text(
        "istft",
        self,
        window,
        n_fft=n_fft,
        hop_length=hop,
        win_length=win,
        center=center,
        normalized=normalized,
        onesided=onesided,
        length=length,
        return_complex=return_complex,
    )
    if not self.is_complex():
        raise TypeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    x = ops.view_as_real(ops.resolve_conj(self))
    frames, frequencies = x.size(-2), x.size(-3)
    halved = frequencies != n_fft if onesided is None else onesided
    _check_inverse(self, text, n_fft, hop, win, window, halved, return_complex)
    if window is None:
        window = ops.ones((win,), dtype=x.dtype, device=x.device)
    if win != n_fft:
        left = (n_fft - win) // 2
        window = ops.constant_pad_nd(window, (left, n_fft - win - left))
    one = x.dim() == 3
    x = ops.transpose(ops.unsqueeze(x, 0) if one else x, 1, 2)
    x = ops.view_as_complex(x)
    code = 1 if normalized else 2
    if return_complex:
        x = ops._fft_c2c(x, (2,), code, False)
    else:
        x = x if halved else ops.slice(x, -1, 0, n_fft // 2 + 1, 1)
        x = ops._fft_c2r(x, (2,), code, n_fft)
    total = n_fft + hop * (frames - 1)
    y = ops.mul(x, ops.view(window, (1, 1, n_fft)))
    y = ops.unfold_backward(y, (y.shape[0], total), 1, n_fft, hop)
    weight = ops.expand(ops.pow(window, 2), (1, frames, n_fft))
    weight = ops.unfold_backward(weight, (1, total), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else -start if center else total
    y, weight = ops.slice(y, 1, start, end, 1), ops.slice(weight, 1, start, end, 1)
    too_small = ops.lt(ops.min(ops.abs(weight)), 1e-11)
    if ops.equal(too_small, ops.new_ones(too_small, (), dtype=too_small.dtype)):
        raise RuntimeError(f"{text} window overlap add min: 1\n[ CPUBoolType{{}} ]")
    y = ops.div(y, weight)
    y = ops.squeeze(y, 0) if one else y
    if length is not None and length > y.shape[-1]:
        _warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the "
            "tail. Please check your center and hop_length settings."
        )
        y = ops.constant_pad_nd(y, (0, length - y.shape[-1]))
    return y


def _check_inverse(x, text, n_fft, hop, win, window, halved, return_complex):
    """Raise RuntimeError unless the arguments of `istft` match."""
    if not x.numel():
        raise RuntimeError(f"{text} : input tensor cannot be empty.")
    if x.dim() not in (2, 3):
        raise RuntimeError(f"{text} : expected a tensor with 3 or 4 dimensions, but got {x.dim() + 1}")
    frequencies = x.shape[-2]
    if frequencies != (n_fft // 2 + 1 if halved else n_fft):
        wanted = "n_fft / 2 + 1 when onesided=True" if halved else "n_fft when onesided=False"
        raise RuntimeError(
            f"{text} : expected the frequency dimension (3rd to the last) of the input tensor to match {wanted}, but "
            f"got {frequencies}"
        )
    if not 0 < hop <= win:
        raise RuntimeError(f"{text} : expected 0 < hop_length <= win_length")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{text} : expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (win,):
        raise RuntimeError(f"{text} : Invalid window shape. window has to be 1D and length of `win_length`")
    if return_complex and halved:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
