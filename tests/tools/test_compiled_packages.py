"""Packages whose compiled operators gradloom cannot load are imported, and say which one a function lacks."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.waiting import LIMIT

# What torchaudio and torchvision do with their compiled operators: the first takes a file that cannot be loaded for a
# broken installation, the second says that the versions are incompatible.
AUDIO = {
    "torchaudio/__init__.py": "from . import _extension, functional",
    "torchaudio/lib/_torchaudio.so": "",
    "torchaudio/_extension/utils.py": """
        from pathlib import Path
        import torch
        def _load_lib(lib):
            path = Path(__file__).parent.parent / "lib" / f"{lib}.so"
            if not path.exists():
                return False
            torch.ops.load_library(path)
            return True
        """,
    "torchaudio/_extension/__init__.py": """
        from .utils import _load_lib
        def fail_with_message(message):
            def decorator(function):
                def wrapped(*args):
                    raise RuntimeError(f"{function.__name__} {message}")
                return wrapped
            return decorator
        _IS_TORCHAUDIO_EXT_AVAILABLE = _load_lib("_torchaudio")
        fail_if_no_align = fail_with_message("the package was compiled without it")
        """,
    "torchaudio/functional.py": """
        import torch
        from ._extension import fail_if_no_align
        @fail_if_no_align
        def forced_align(x):
            return x
        def rnnt_loss(x):
            return torch.ops.torchaudio.rnnt_loss_forward(x)
        """,
}
VISION = {
    "torchvision/_C.so": "",
    "torchvision/__init__.py": "from . import extension, ops",
    "torchvision/extension.py": """
        import torch
        def _has_ops():
            return False
        try:
            torch.ops.load_library(__file__.replace("extension.py", "_C.so"))
        except OSError:
            pass
        def _assert_has_ops():
            if not _has_ops():
                raise RuntimeError("the versions are incompatible")
        """,
    "torchvision/ops.py": """
        import torch
        from .extension import _assert_has_ops
        @torch.library.register_fake("torchvision::qnms")
        def fake(dets, scores, iou_threshold):
            return dets
        def nms(boxes, scores, iou_threshold):
            _assert_has_ops()
            return torch.ops.torchvision.nms(boxes, scores, iou_threshold)
        def roi_pool(x):
            _assert_has_ops()
            return torch.ops.torchvision.roi_pool(x)
        """,
}


@pytest.fixture
def run_with(tmp_path):
    def run(files: dict[str, str], code: str) -> str:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(dedent(text))
        (tmp_path / "program.py").write_text(dedent(code))
        command = [sys.executable, "-m", "gradloom", "run", str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_torchaudio_is_imported_without_its_compiled_operators(run_with):
    shown = run_with(AUDIO, """
        import torchaudio
        print(torchaudio._extension._IS_TORCHAUDIO_EXT_AVAILABLE)
        for function in (torchaudio.functional.forced_align, torchaudio.functional.rnnt_loss):
            try:
                function(1)
            except (RuntimeError, AttributeError) as error:
                print(error)
        """).splitlines()  # fmt: skip
    assert shown[0] == "False"
    assert shown[1].startswith("forced_align the operator torchaudio::forced_align is compiled for PyTorch")
    assert (
        "no attribute 'rnnt_loss_forward'" in shown[2]
        and "_torchaudio.so has the operator, gradloom cannot" in shown[2]
    )


def test_torchvision_says_which_compiled_operator_is_missing(run_with):
    shown = run_with(VISION, """
        import torch, torchvision
        from torchvision.ops import nms, roi_pool
        try:
            roi_pool(torch.ones(1))
        except RuntimeError as error:
            print(error)
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("roi_pool(Tensor x) -> Tensor")
        library.impl("roi_pool", lambda x: x + 1, "CPU")
        print(roi_pool(torch.ones(1)))
        """).splitlines()  # fmt: skip
    said = "torchvision.ops.roi_pool: the operator torchvision::roi_pool is compiled for PyTorch"
    assert shown[0].startswith(said)
    assert shown[1] == "tensor([2.])"


def test_torchvision_removes_boxes_that_overlap_better_ones(run_with):
    shown = run_with(VISION, """
        import torch
        from torchvision.ops import nms
        def intersection_over_union(a, b):
            width, height = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
            common = max(width, 0) * max(height, 0)
            return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)
        torch.manual_seed(0)
        for dtype in (torch.float32, torch.float64):
            boxes, scores = torch.rand(60, 4, dtype=torch.float64), torch.rand(60).to(dtype).round(decimals=1)
            boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1).to(dtype)
            for threshold in (0.1, 0.35, 0.8):
                kept = []
                for i in sorted(range(60), key=lambda i: -scores[i].item()):
                    if all(intersection_over_union(boxes[i], boxes[k]) <= threshold for k in kept):
                        kept.append(i)
                assert nms(boxes, scores, threshold).tolist() == kept, threshold
        print(nms(boxes[:0], scores[:0], 0.5))
        for wrong in ((boxes[0], scores), (boxes, scores[1:]), (boxes, scores.float()), (boxes.half(), scores.half())):
            try:
                nms(*wrong, 0.5)
            except (RuntimeError, NotImplementedError) as error:
                print(error)
        """).splitlines()  # fmt: skip
    assert shown == [
        "tensor([], dtype=torch.int64)",
        "boxes should be a 2d tensor, got 1D",
        "boxes and scores should have same number of elements in dimension 0, got 60 and 59",
        "dets should have the same type as scores",
        '"nms_kernel" not implemented for torch.float16',
    ]
