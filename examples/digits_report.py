"""The output files of train_digits.py: the weights and one picture. Files are written atomically."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

WIDTH, MARGIN = 1000, 48
CURVE_HEIGHT = 360
COLUMNS, ROWS = 10, 3
CELL = (WIDTH - 2 * MARGIN) // COLUMNS
HEIGHT = MARGIN + CURVE_HEIGHT + 2 * MARGIN + ROWS * (CELL + 24) + MARGIN // 2

INK, FAINT, PAPER = (40, 44, 52), (222, 225, 230), (255, 255, 255)
STEP, AVERAGE = (176, 204, 235), (31, 98, 176)
RIGHT, WRONG = (32, 135, 70), (200, 40, 40)


class OutputError(Exception):
    """A result cannot be written; the message is one line for the user."""


def make_folder(folder: Path) -> Path:
    """Create `folder` and check that it is writable. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OutputError(f"{folder}: cannot write there ({error.strerror}); choose another --out") from None
    return folder


def save_weights(path: Path, weights: dict[str, np.ndarray]) -> Path:
    """Write named arrays as a safetensors file."""
    from safetensors.numpy import save

    return _write(path, save({name: np.ascontiguousarray(array) for name, array in weights.items()}))


def _write(path: Path, content: bytes) -> Path:
    # A temporary file in the same folder, renamed when it is complete: nobody sees a part of it, and whatever
    # stops this (Ctrl-C too) leaves the former file as it was.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
        raise
    return path


def _umask() -> int:
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mask


# -- the picture -------------------------------------------------------------------------------------------


def save_picture(path: Path, losses: list[float], accuracy: float, data, predicted: np.ndarray) -> Path:
    """Draw the loss of every step and sample predictions on the held-out images of `data` (a Digits)."""
    import io

    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    large, small = ImageFont.load_default(20), ImageFont.load_default(14)
    draw.text((MARGIN, 14), "training loss (logarithmic), each step and its running average", INK, large)
    _draw_curve(draw, np.asarray(losses), small)
    top = 2 * MARGIN + CURVE_HEIGHT
    wrong = int((predicted != data.test_labels).sum())
    heading = f"held-out images: {accuracy:.2%} right, {wrong} of {len(predicted):,} wrong"
    draw.text((MARGIN, top), heading, INK, large)
    for place, index in enumerate(_sample(predicted, data.test_labels)):
        corner = MARGIN + place % COLUMNS * CELL, top + 40 + place // COLUMNS * (CELL + 24)
        _draw_prediction(
            image, draw, corner, data.test_images[index, 0], int(predicted[index]), int(data.test_labels[index]), small
        )
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return _write(path, buffer.getvalue())


def _draw_curve(draw, losses: np.ndarray, font) -> None:
    left, top, right, bottom = MARGIN + 24, MARGIN, WIDTH - MARGIN, MARGIN + CURVE_HEIGHT
    logs = np.log10(np.maximum(losses, 1e-6))
    low, high = np.floor(logs.min()), np.ceil(logs.max())
    high = max(high, low + 1)

    def points(values: np.ndarray) -> list[tuple[float, float]]:
        x = left + (np.arange(len(values)) + 0.5) / len(values) * (right - left)
        y = bottom - (values - low) / (high - low) * (bottom - top)
        return list(zip(x.tolist(), y.tolist(), strict=True))

    for decade in np.arange(low, high + 1):
        y = bottom - (decade - low) / (high - low) * (bottom - top)
        draw.line([(left, y), (right, y)], FAINT)
        draw.text((left - 8, y), f"{10**decade:g}", INK, font, anchor="rm")
    for step in np.linspace(0, len(losses), 6).astype(int):
        x = left + step / len(losses) * (right - left)
        draw.text((x, bottom + 6), f"{step:,}", INK, font, anchor="ma")
    draw.text((right, bottom + 24), "steps", INK, font, anchor="ra")
    if len(losses) > 1:
        draw.line(points(logs), STEP, 1)
        draw.line(points(_running_average(logs)), AVERAGE, 3)
    else:
        x, y = points(logs)[0]
        draw.ellipse([x - 4, y - 4, x + 4, y + 4], AVERAGE)


def _running_average(values: np.ndarray) -> np.ndarray:
    window = max(1, len(values) // 20)
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _sample(predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the indices of the images to show: wrong ones first (up to a row), then correct ones, by digit."""
    wrong = np.flatnonzero(predicted != labels)[:COLUMNS]
    right = np.flatnonzero(predicted == labels)
    rank = np.zeros(len(right), int)  # how many of the same digit came before
    for digit in range(10):
        of_digit = labels[right] == digit
        rank[of_digit] = np.arange(of_digit.sum())
    by_turns = right[np.lexsort((labels[right], rank))]
    return np.concatenate([wrong, by_turns])[: COLUMNS * ROWS]


def _draw_prediction(image, draw, corner, pixels: np.ndarray, predicted: int, label: int, font) -> None:
    from PIL import Image

    x, y = corner
    span = np.ptp(pixels) or 1.0
    grey = 255 - ((pixels - pixels.min()) / span * 255).astype(np.uint8)
    side = CELL - 14
    image.paste(Image.fromarray(grey).resize((side, side)), (x + 7, y))
    colour = RIGHT if predicted == label else WRONG
    draw.rectangle([x + 6, y - 1, x + 7 + side, y + side], outline=colour, width=3)
    text = f"{predicted} right" if predicted == label else f"{predicted} wrong, is {label}"
    draw.text((x + CELL // 2, y + side + 4), text, colour, font, anchor="ma")
