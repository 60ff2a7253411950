"""How tensors print: PyTorch's layout, set by `set_printoptions`."""

from __future__ import annotations

import math

import numpy as np

from .autograd.node import AccumulateGrad
from .dtype import bool as bool_
from .dtype import default, int64


class _Options:
    precision, threshold, edgeitems, linewidth, sci_mode = 4, 1000, 3, 80, None


options = _Options()


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Set how tensors print.

    Args:
        precision: digits after the point.
        threshold: number of elements above which the middle is left out.
        edgeitems: elements shown at each edge then.
        linewidth: characters per line.
        profile: "default", "short" or "full".
        sci_mode: True or False to force or forbid scientific notation; None decides by the values.
    """
    if profile is not None:
        presets = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
        if profile not in presets:
            raise ValueError(f"unknown print profile {profile!r}; choose one of {sorted(presets)}")
        options.precision, options.threshold, options.edgeitems, options.linewidth = presets[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems),
                        ("linewidth", linewidth)):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


class _Formatter:
    """Decides once for an array of real values how each of them prints, so that columns line up."""

    def __init__(self, values: np.ndarray):
        self.is_float = values.dtype.kind in "fV"
        self.integral = self.scientific = False
        self.width = 1
        flat = values.reshape(-1)
        if not self.is_float:
            self.width = max([len(str(v)) for v in flat.tolist()], default=1)
            return
        flat = flat.astype(np.float64)
        finite = np.abs(flat[np.isfinite(flat) & (flat != 0)])
        if finite.size:
            low, high = float(finite.min()), float(finite.max())
            self.integral = bool((finite == np.ceil(finite)).all())
            wide = high / low > 1000.0 or high > 1.0e8
            self.scientific = (wide and (not self.integral)) or (not self.integral and low < 1.0e-4) or \
                (self.integral and high / low > 1000.0 and high > 1e8) or high > 1.0e8
            if not self.integral and not wide and low >= 1.0e-4:
                self.scientific = False
        else:
            self.integral = True  # nothing but zeros, infinities and NaN: `0.`
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        texts = [self._text(v) for v in flat.tolist() if math.isfinite(v) and v != 0]
        self.width = max([len(t) for t in texts], default=1)
        if not finite.size:
            self.width = 1

    def _text(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if self.integral:
            return f"{value:.0f}."
        return f"{value:.{options.precision}f}"

    def __call__(self, value) -> str:
        if not self.is_float:
            return str(value).rjust(self.width)
        if not math.isfinite(value):
            return str(float(value)).rjust(self.width)
        return self._text(value).rjust(self.width)


def _summarised(array: np.ndarray) -> np.ndarray:
    """The elements that will be shown."""
    if array.size <= options.threshold:
        return array
    edge = options.edgeitems
    for axis in range(array.ndim):
        if array.shape[axis] > 2 * edge:
            take = np.r_[0:edge, array.shape[axis] - edge:array.shape[axis]]
            array = np.take(array, take, axis)
    return array


def _complex_text(value, real, imag) -> str:
    left, right = real(value.real), imag(abs(value.imag) if math.isfinite(value.imag) else value.imag).lstrip()
    sign = "-" if math.copysign(1.0, value.imag) < 0 else "+"
    return f"{left}{sign}{right.lstrip('-')}j"


def _rows(array, indent, show, summarise) -> str:
    if array.ndim == 0:
        return show(array.item())
    edge = options.edgeitems
    cut = summarise and array.shape[0] > 2 * edge
    if array.ndim == 1:
        items = array.tolist()
        texts = [show(v) for v in items[:edge]] + ["..."] + [show(v) for v in items[-edge:]] if cut else \
            [show(v) for v in items]
        width = max(len(texts[0]) + 2 if texts else 1, 1)
        per_line = max(1, (options.linewidth - indent) // width)
        lines = [", ".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    indices = [*range(edge), None, *range(array.shape[0] - edge, array.shape[0])] if cut else range(array.shape[0])
    blocks = ["..." if i is None else _rows(array[i], indent + 1, show, summarise) for i in indices]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(blocks) + "]"


def _body(array: np.ndarray, indent: int) -> str:
    if array.size == 0:
        return "[]" if array.ndim <= 1 else "[" * 1 + "]"
    summarise = array.size > options.threshold
    shown = _summarised(array)
    if array.dtype.kind == "c":
        real, imag = _Formatter(shown.real), _Formatter(np.abs(shown.imag))
        return _rows(array, indent, lambda v: _complex_text(v, real, imag), summarise)
    if array.dtype.kind == "V":
        array, shown = array.astype(np.float32), shown.astype(np.float32)
    return _rows(array, indent, _Formatter(shown), summarise)


def tensor_text(tensor, contents=None) -> str:
    """What `repr(tensor)` shows: values, then dtype, grad_fn or requires_grad where they say something."""
    array = tensor._array
    name = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    opening = "tensor("
    parts = [contents if contents is not None else _body(array, len(opening))]
    dtype = tensor.dtype
    implied = dtype in (default.float, default.complex, int64, bool_)
    if array.size == 0:
        if array.ndim != 1:
            parts.append(f"size={tuple(array.shape)}")
        implied = dtype is default.float
    if not implied:
        parts.append(f"dtype={dtype}")
    node = tensor.grad_fn
    if node is not None and not isinstance(node, AccumulateGrad):
        parts.append(f"grad_fn=<{node.name()}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    if tensor._tangent is not None:
        parts.append(f"tangent={tensor._tangent!r}")
    return name + _joined(opening, parts)


def _joined(opening: str, parts: list[str]) -> str:
    """Suffixes go on the last line while they fit, else on a line of their own."""
    text = opening + parts[0]
    used = len(text) - (text.rfind("\n") + 1)
    for part in parts[1:]:
        if used + len(part) + 2 > options.linewidth:
            text += ",\n" + " " * len(opening) + part
            used = len(opening) + len(part)
        else:
            text += ", " + part
            used += len(part) + 2
    return text + ")"
