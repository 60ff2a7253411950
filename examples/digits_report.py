"""The output files of train_digits.py: the weights and one picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from output import write, write_png
from pictures import GREEN, MARGIN, RED, WIDTH, Picture

CURVE_HEIGHT = 360
COLUMNS, ROWS = 10, 3
CELL = (WIDTH - 2 * MARGIN) // COLUMNS
HEIGHT = MARGIN + CURVE_HEIGHT + 2 * MARGIN + ROWS * (CELL + 24) + MARGIN // 2


def save_weights(path: Path, weights: dict[str, np.ndarray]) -> Path:
    """Write named arrays as a safetensors file."""
    from safetensors.numpy import save

    return write(path, save({name: np.ascontiguousarray(array) for name, array in weights.items()}))


def save_picture(path: Path, losses: list[float], accuracy: float, data, predicted: np.ndarray) -> Path:
    """Draw the loss of every step and sample predictions on the held-out images of `data` (a Digits)."""
    picture = Picture(HEIGHT)
    picture.heading(14, "training loss (logarithmic), each step and its running average")
    picture.losses(MARGIN, CURVE_HEIGHT, losses)
    top = 2 * MARGIN + CURVE_HEIGHT
    wrong = int((predicted != data.test_labels).sum())
    picture.heading(top, f"held-out images: {accuracy:.2%} right, {wrong} of {len(predicted):,} wrong")
    for place, index in enumerate(_sample(predicted, data.test_labels)):
        corner = MARGIN + place % COLUMNS * CELL, top + 40 + place // COLUMNS * (CELL + 24)
        _draw_prediction(
            picture, corner, data.test_images[index, 0], int(predicted[index]), int(data.test_labels[index])
        )
    return write_png(path, picture.image)


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


def _draw_prediction(picture: Picture, corner, pixels: np.ndarray, predicted: int, label: int) -> None:
    x, y = corner
    side = CELL - 14
    picture.grey((x + 7, y), pixels, (side, side))
    color = GREEN if predicted == label else RED
    picture.draw.rectangle([x + 6, y - 1, x + 7 + side, y + side], outline=color, width=3)
    text = f"{predicted} right" if predicted == label else f"{predicted} wrong, is {label}"
    picture.draw.text((x + CELL // 2, y + side + 4), text, color, picture.small, anchor="ma")
