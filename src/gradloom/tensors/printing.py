"""The text of tensors, in PyTorch's layout, set by `set_printoptions`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..core.tangents import tangent_of
from ..dispatch.state import state
from ..types.dtype import bool as bool_, default, int64
from ..types.public import found_in as _found_in
from ..types.silence import silence

if TYPE_CHECKING:
    from ..core.tensor import Tensor


class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    Args:
        precision: digits after the point.
        threshold: number of elements above which the middle is omitted.
        edgeitems: number of elements shown at each edge if so.
        linewidth: characters per line.
        profile: "default", "short" or "full".
        sci_mode: True or False to force or forbid scientific notation; None to decide by the values.
    """
    if profile is not None:
        presets = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
        if profile not in presets:
            raise ValueError(f"unknown print profile {profile!r}; choose one of {sorted(presets)}")
        options.precision, options.threshold, options.edgeitems, options.linewidth = presets[profile]
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


class _Formatter:
    """The common format of an array of real values, so that columns line up.

    Floats print as integers with a point if all of them are, in scientific notation if they are very large, very small
    or far apart, and else with a fixed number of digits.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.is_float = values.dtype.kind == "f"
        self.is_integral, self.is_scientific, self.width = True, False, 1
        flat = values.reshape(-1)
        if not self.is_float:
            self.width = max([len(str(v)) for v in flat.tolist()], default=1)
            return
        flat = flat.astype(np.float64)
        flat = flat[np.isfinite(flat) & (flat != 0)]
        if flat.size:
            size = np.abs(flat)
            low, high = float(size.min()), float(size.max())
            self.is_integral = bool((flat == np.ceil(flat)).all())
            self.is_scientific = high / low > 1000.0 or high > 1.0e8 or (not self.is_integral and low < 1.0e-4)
            if options.sci_mode is not None:
                self.is_scientific = options.sci_mode
            self.width = max([len(self._text(v)) for v in flat.tolist()])

    def _text(self, value: float) -> str:
        if self.is_scientific:
            return f"{value:.{options.precision}e}"
        if self.is_integral:
            return f"{value:.0f}." if math.isfinite(value) else str(value)
        return f"{value:.{options.precision}f}"

    def __call__(self, value) -> str:
        return (self._text(value) if self.is_float else str(value)).rjust(self.width)


class _ComplexFormatter:
    """Formats complex values: a `_Formatter` for each part."""

    def __init__(self, values: np.ndarray) -> None:
        self.real, self.imag = _Formatter(values.real), _Formatter(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value) -> str:
        imag = self.imag(value.imag).lstrip()
        return f"{self.real(value.real)}{'' if imag[0] in '+-' else '+'}{imag}j"


def _summarised(array: np.ndarray) -> np.ndarray:
    """Return the elements that will be shown."""
    edge = options.edgeitems
    for axis in range(array.ndim):
        if array.shape[axis] > 2 * edge:
            array = np.take(array, [*range(edge), *range(-edge, 0)], axis)
    return array


def _rows(array: np.ndarray, indent: int, show, summarise: bool) -> str:
    """Return the texts of an array in nested brackets; it starts `indent` characters into its line."""
    if array.ndim == 0:
        return show(array.item())
    edge = options.edgeitems
    cut = summarise and array.shape[0] > 2 * edge
    if array.ndim == 1:
        texts = [show(v) for v in (np.concatenate([array[:edge], array[-edge:]]) if cut else array).tolist()]
        if cut:
            texts.insert(edge, " ...")
        per_line = max(1, (options.linewidth - indent) // (show.width + 2))
        lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    indices = [*range(edge), None, *range(array.shape[0] - edge, array.shape[0])] if cut else range(array.shape[0])
    blocks = ["..." if i is None else _rows(array[i], indent + 1, show, summarise) for i in indices]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(blocks) + "]"


def body(array: np.ndarray, indent: int) -> str:
    if not array.size:
        return "[]"
    summarise = array.size > options.threshold
    shown = _summarised(array) if summarise else array
    if array.dtype.kind == "V" or array.dtype == np.float16:
        array, shown = array.astype(np.float32), shown.astype(np.float32)
    show = (_ComplexFormatter if array.dtype.kind == "c" else _Formatter)(shown)
    return _rows(array, indent, show, summarise)


def tensor_text(tensor: Tensor, contents: str | None = None) -> str:
    """Return `repr(tensor)`: the values, then dtype, grad_fn or requires_grad if they are not the default."""
    array = tensor._array
    kind = type(tensor)
    parameter = next((base for base in kind.__mro__ if base.__name__ == "Parameter"), None)
    is_sparse = tensor.is_sparse and contents is None
    plain = parameter is None and not (is_sparse and getattr(tensor, "_is_param", False))
    name = "" if plain else "Parameter containing:\n"
    opening = f"{kind.__name__}(" if _names_itself(kind, parameter) else "tensor("
    if (
        array.__class__ is not np.ndarray and contents is None and not tensor.is_sparse
    ):  # no values of its own; it may show others
        where = ", device='meta'" if tensor.is_meta else ""
        contents = f"...{where}, size={tuple(array.shape)}"
    if is_sparse:
        parts = _sparse_parts(tensor, len(opening))
    else:
        parts = [contents if contents is not None else body(array, len(opening))]
    dtype = tensor.dtype
    implied = dtype in (default.float, default.complex, int64, bool_)
    if array.size == 0 and not is_sparse and not tensor.is_meta:
        if array.ndim != 1:
            parts.append(f"size={tuple(array.shape)}")
        implied = dtype is default.float
    if tensor.is_meta:
        implied = dtype is default.float
    if not implied:
        parts.append(f"dtype={dtype}")
    if is_sparse:
        parts.append(f"layout={tensor.layout}")
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was modified
        parts.append("grad_fn=<Invalid>")
    else:
        if node is not None:
            parts.append(f"grad_fn=<{node.name().rpartition(':')[2]}>")
        elif tensor.requires_grad:
            parts.append("requires_grad=True")
    tangent = tensor._tangent
    if tangent is None and tensor._view is not None:
        tangent = tangent_of(tensor)
    if tangent is not None and state.forward_grad:
        parts.append(f"tangent={tangent}" if tangent.dim() else f"tangent={tangent.item()}")
    text = joined(opening + parts[0], parts[1:], len(opening), is_sparse)
    if opening != "tensor(" and (name or getattr(tensor, "_is_param", False)):
        text = f"Parameter({text})"
    return name + text


def _sparse_parts(tensor: Tensor, indent: int) -> list[str]:
    """Return the text of a sparse tensor's indices and values, then its size and number of entries."""
    texts = []
    for name, component in (("indices", tensor._indices()), ("values", tensor._values())):
        opening = f"{name}=tensor("
        array = component._array
        size = f", size={tuple(array.shape)}" if array.size == 0 else ""
        texts.append(f"{opening}{body(array, indent + len(opening))}{size})")
    return [(",\n" + " " * indent).join(texts), f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]


def _names_itself(kind: type[Tensor], parameter: type | None) -> bool:
    """Return whether tensors of a class show its name, as in PyTorch: those of user-defined subclasses."""
    return kind is not parameter and kind.__dict__.get("__module__", "").partition(".")[0] not in ("gradloom", "torch")


def joined(text: str, suffixes: list[str], indent: int, below: bool = False) -> str:
    """Join suffixes to the text and close its parenthesis: on the last line if they fit and `below` is False, else on a
    line of their own, that starts after `indent` characters."""
    used = options.linewidth if below else len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"


_found_in("gradloom", set_printoptions)


silence(globals())
