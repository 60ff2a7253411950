"""Event files that SummaryWriter writes, read back by tensorboard. Run by `make conformance`, which installs it."""

from __future__ import annotations

import sys

import pytest

import gradloom as gl
from gradloom.utils.tensorboard import SummaryWriter


def events(folder):
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="make conformance installs tensorboard"
    )
    found = loader.EventAccumulator(str(folder), size_guidance=dict.fromkeys(("tensors", "images", "audio"), 0))
    found.Reload()
    return found


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("tensorboard", reason="make conformance installs tensorboard")
    return tmp_path / "run"


def test_curves_histograms_and_texts(folder):
    with SummaryWriter(folder) as writer:
        for step in range(3):
            writer.add_scalar("loss", gl.tensor(step / 2), step, walltime=10.0 + step)
        writer.add_scalar("new", 2, 1, new_style=True)
        writer.add_scalars("both", {"a": 1.0, "b": gl.tensor(2.0)}, 4)
        writer.add_histogram("weights", gl.tensor([1.0, -2.0, 2.0]), 5)
        writer.add_text("note", "hello", 6)
        writer.add_tensor("values", gl.tensor([[1.0, 2.0]]), 7)
        writer.add_pr_curve("curve", gl.tensor([0, 1, 1]), gl.tensor([0.1, 0.9, 0.4]), 8, num_thresholds=3)
    found = events(folder)
    assert [(e.step, e.value, e.wall_time) for e in found.Scalars("loss")] == [(0, 0, 10), (1, 0.5, 11), (2, 1, 12)]
    assert [e.value for e in events(folder / "both_b").Scalars("both")] == [2.0]
    texts = found.Tensors("note/text_summary")
    assert texts[0].tensor_proto.string_val == [b"hello"] and texts[0].step == 6
    assert list(found.Tensors("values")[0].tensor_proto.float_val) == [1.0, 2.0]
    rows = list(found.Tensors("curve")[0].tensor_proto.float_val)
    assert rows[:6] == [2.0, 1.0, 0.0, 1.0, 0.0, 0.0]  # true and false positives at 0, 0.5 and 1
    histogram = found.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares) == (-2, 2, 3, 1, 9)
    assert sum(histogram.bucket) == 3


def test_images_and_sounds(folder):
    with SummaryWriter(folder) as writer:
        writer.add_image("one", gl.zeros(3, 2, 4))
        writer.add_images("grid", gl.full((10, 1, 2, 2), 0.5))
        writer.add_image("rows", gl.zeros(2, 4, 1, dtype=gl.uint8), dataformats="HWC")
        writer.add_audio("sound", gl.zeros(8), sample_rate=100)
    found = events(folder)
    images = [found.Images(tag)[0] for tag in ("one", "grid", "rows")]
    assert [(image.height, image.width) for image in images] == [(2, 4), (4, 16), (2, 4)]
    assert found.Images("one")[0].encoded_image_string.startswith(b"\x89PNG")
    assert found.Audio("sound")[0].length_frames == 8


def test_images_are_decoded_to_the_pixels(folder):
    image = pytest.importorskip("PIL.Image")
    import io

    with SummaryWriter(folder) as writer:
        writer.add_image("one", gl.tensor([[[0.0, 1.0]], [[0.5, 0.0]], [[0.0, 0.25]]]))
    decoded = image.open(io.BytesIO(events(folder).Images("one")[0].encoded_image_string))
    assert list(decoded.getdata()) == [(0, 127, 0), (255, 0, 63)]


def test_what_is_not_there_is_named(folder):
    with SummaryWriter(folder) as writer, pytest.raises(NotImplementedError, match="add_graph"):
        writer.add_graph(gl.nn.Linear(1, 1))
    with SummaryWriter(folder) as writer, pytest.raises(AssertionError, match="input_format: CHW"):
        writer.add_image("bad", gl.zeros(2, 2))


def test_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'gradloom\[tensorboard\]'"):
        SummaryWriter(tmp_path)
