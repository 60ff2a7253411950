"""Packages whose compiled operators gradloom cannot load, and that take it for a broken installation.

`torch.ops.load_library` raises OSError for operators in C++. Most packages go on without them. `ADAPTED` has those that
do not: what to change in one of their modules as soon as it is imported under `gradloom.as_torch`. The package then
does what it does where it was installed without compiled operators, and says which of them a function lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import gradloom as gl

from .checks import _check, _check_not_implemented

_REASON = "is compiled for PyTorch, which gradloom cannot load"
_HELP = "torch.library.custom_op registers an operator that is written in Python"


def lacking(operator: str) -> str:
    """Return the words for a compiled operator that a function needs, such as "torchvision::roi_pool"."""
    return f"the operator {operator} {_REASON}; {_HELP}"


def nms(dets: gl.Tensor, scores: gl.Tensor, iou_threshold: float) -> gl.Tensor:
    """Return which boxes remain if each one removes those of lower scores that overlap it (`torchvision::nms`).

    Args:
        dets: boxes (x1, y1, x2, y2): (n, 4).
        scores: (n,), of the same dtype.
        iou_threshold: boxes are removed if intersection / union is above.

    Returns:
        int64 indices of the boxes, by falling score.
    """
    _check(dets.dim() == 2, lambda: f"boxes should be a 2d tensor, got {dets.dim()}D")
    _check(dets.size(1) == 4, lambda: f"boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    _check(scores.dim() == 1, lambda: f"scores should be a 1d tensor, got {scores.dim()}D")
    _check(
        dets.size(0) == scores.size(0),
        lambda: (
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.size(0)} and {scores.size(0)}"
        ),
    )
    _check(dets.dtype == scores.dtype, lambda: "dets should have the same type as scores")
    _check_not_implemented(
        dets.dtype in (gl.float32, gl.float64), lambda: f'"nms_kernel" not implemented for {dets.dtype}'
    )
    order = scores.detach().sort(stable=True, dim=0, descending=True)[1].numpy()
    x1, y1, x2, y2 = dets.detach().numpy().T
    areas = (x2 - x1) * (y2 - y1)
    kept = []
    while order.size:
        first, order = order[0], order[1:]
        kept.append(first)
        width = np.minimum(x2[first], x2[order]) - np.maximum(x1[first], x1[order])
        height = np.minimum(y2[first], y2[order]) - np.maximum(y1[first], y1[order])
        common = np.maximum(width, 0) * np.maximum(height, 0)
        with np.errstate(all="ignore"):  # two empty boxes overlap by 0 / 0, which is not above the threshold
            overlap = common / (areas[first] + areas[order] - common)
        order = order[~(overlap.astype(np.float64) > iou_threshold)]
    return gl.tensor(kept, dtype=gl.int64)


def _torchvision(extension: ModuleType) -> None:
    if extension._has_ops():
        return
    library = gl.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", nms, "CPU")
    extension._gradloom_library = library  # type: ignore[attr-defined]  # whose end removes the operators

    def _assert_has_ops() -> None:
        # torchvision's functions have the names of the operators that they call.
        name = sys._getframe(1).f_code.co_name
        if not hasattr(gl.ops.torchvision, name):
            raise RuntimeError(f"torchvision.ops.{name}: {lacking(f'torchvision::{name}')}")

    extension._assert_has_ops = _assert_has_ops  # type: ignore[attr-defined]


def _torchaudio_loading(utils: ModuleType) -> None:
    load: Callable[[str], bool] = utils._load_lib

    def _load_lib(lib: str) -> bool:
        try:
            return load(lib)
        except OSError:
            return False

    utils._load_lib = _load_lib  # type: ignore[attr-defined]


def _torchaudio(extension: ModuleType) -> None:
    if not extension._IS_TORCHAUDIO_EXT_AVAILABLE:
        extension.fail_if_no_align = extension.fail_with_message(lacking("torchaudio::forced_align"))  # type: ignore[attr-defined]


ADAPTED: dict[str, Callable[[Any], None]] = {
    "torchaudio._extension": _torchaudio,
    "torchaudio._extension.utils": _torchaudio_loading,
    "torchvision.extension": _torchvision,
}
