"""Files for TensorBoard's projector: points, their labels and pictures, and a list of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from .summary import pixels, png

_LIST = "projector_config.pbtxt"


def write_embedding(
    folder: str,
    points: Any,
    labels: Sequence[Any] | None,
    images: Any,
    step: int,
    tag: str,
    header: Sequence[str] | None,
) -> None:
    """Write points into a folder of their own, and add them to the list; see `SummaryWriter.add_embedding`."""
    below = f"{step:05d}/{quote(tag, safe='')}"
    place = Path(folder) / below
    place.mkdir(parents=True, exist_ok=True)
    entry = {"tensor_name": f"{tag}:{step:05d}"}
    if labels is not None:
        if len(labels) != len(points):
            raise AssertionError("#labels should equal with #data points")
        rows = labels if header is None else [header, *labels]
        lines = [str(row) if header is None else "\t".join(map(str, row)) for row in rows]
        (place / "metadata.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        entry["metadata_path"] = f"{below}/metadata.tsv"
    sprite = ""
    if images is not None:
        if len(images) != len(points):
            raise AssertionError("#images should equal with #data points")
        _write_sprite(place / "sprite.png", images)
        height, width = images.shape[2:]
        sizes = f"    single_image_dim: {width}\n    single_image_dim: {height}\n"
        sprite = f"  sprite {{\n    image_path: {json.dumps(f'{below}/sprite.png')}\n{sizes}  }}\n"
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    text = "".join("\t".join(str(number) for number in row) + "\n" for row in points.tolist())
    (place / "tensors.tsv").write_text(text, encoding="utf-8")
    fields = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in entry.items())
    path = json.dumps(f"{below}/tensors.tsv")
    with (Path(folder) / _LIST).open("a", encoding="utf-8") as file:
        file.write(f"embeddings {{\n{fields}{sprite}  tensor_path: {path}\n}}\n")


def _write_sprite(path: Path, images: Any) -> None:
    """Write square pictures (number, channels, size, size) as one picture, in the fewest rows that make a square."""
    count, channels, height, width = images.shape
    if height != width:
        raise AssertionError("Image should be square, see tensorflow/tensorboard#670")
    side = int(np.ceil(np.sqrt(count)))
    padded = np.zeros((side * side, channels, height, width), images.dtype)
    padded[:count] = images
    whole = padded.reshape(side, side, channels, height, width).transpose(2, 0, 3, 1, 4)
    path.write_bytes(png(pixels(whole.reshape(channels, side * height, side * width), "CHW")))
