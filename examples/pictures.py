"""Drawing for the examples, with Pillow: curves in a frame, rows of small images, text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WIDTH, MARGIN = 1000, 48

INK, FAINT, PAPER = (40, 44, 52), (222, 225, 230), (255, 255, 255)
PALE, BLUE, RED, GREEN = (176, 204, 235), (31, 98, 176), (200, 40, 40), (32, 135, 70)

Box = tuple[float, float, float, float]  # left, top, right, bottom


class Picture:
    """A white picture, `WIDTH` pixels wide, with what is drawn on it."""

    def __init__(self, height: int) -> None:
        from PIL import Image, ImageDraw, ImageFont

        self.image = Image.new("RGB", (WIDTH, height), PAPER)
        self.draw = ImageDraw.Draw(self.image)
        self.large, self.small = ImageFont.load_default(20), ImageFont.load_default(14)

    def heading(self, top: float, text: str) -> None:
        """Write a line in large letters."""
        self.draw.text((MARGIN, top), text, INK, self.large)

    def text(self, corner: tuple[float, float], text: str, color=INK) -> None:
        """Write lines in small letters, from the upper left corner."""
        self.draw.multiline_text(corner, text, color, self.small)

    def losses(self, top: float, height: float, losses: Sequence[float], unit: str = "steps") -> None:
        """Draw the loss of every step on a logarithmic scale, and its running average."""
        logs = np.log10(np.maximum(np.asarray(losses, float), 1e-6))
        low, high = np.floor(logs.min()), np.ceil(logs.max())
        high = max(high, low + 1)
        box = (MARGIN + 24, top, WIDTH - MARGIN, top + height)
        marks = {10.0**decade: (decade - low) / (high - low) for decade in np.arange(low, high + 1)}
        self.frame(box, {n: n / len(logs) for n in np.linspace(0, len(logs), 6).astype(int).tolist()}, marks, unit)
        x = (np.arange(len(logs)) + 0.5) / len(logs)
        self.curve(box, x, (logs - low) / (high - low), PALE, 1)
        self.curve(box, x, (running_average(logs) - low) / (high - low), BLUE, 3)

    def frame(self, box: Box, across: dict[float, float], up: dict[float, float], unit: str = "") -> None:
        """Draw grid lines with their numbers: {number: its place from 0 to 1} along both axes."""
        left, top, right, bottom = box
        for number, place in up.items():
            y = bottom - place * (bottom - top)
            self.draw.line([(left, y), (right, y)], FAINT)
            self.draw.text((left - 8, y), f"{number:g}", INK, self.small, anchor="rm")
        for number, place in across.items():
            self.draw.text((left + place * (right - left), bottom + 6), f"{number:,}", INK, self.small, anchor="ma")
        self.draw.text((right, bottom + 24), unit, INK, self.small, anchor="ra")

    def curve(self, box: Box, x: np.ndarray, y: np.ndarray, color, width: int = 2) -> None:
        """Draw a line through points whose coordinates go from 0 to 1; a dot for a single point."""
        left, top, right, bottom = box
        points = [(left + a * (right - left), bottom - b * (bottom - top)) for a, b in zip(x, y, strict=True)]
        if len(points) > 1:
            self.draw.line(points, color, width, joint="curve")
        else:
            (a, b) = points[0]
            self.draw.ellipse([a - 4, b - 4, a + 4, b + 4], color)

    def grey(self, corner: tuple[float, float], pixels: np.ndarray, size: tuple[int, int]) -> None:
        """Show a 2d array as an image of (width, height) `size`, its minimum white and its maximum black."""
        from PIL import Image

        span = np.ptp(pixels) or 1.0
        shades = 255 - ((pixels - pixels.min()) / span * 255).astype(np.uint8)
        self.image.paste(Image.fromarray(shades).resize(size), (int(corner[0]), int(corner[1])))


def running_average(values: np.ndarray) -> np.ndarray:
    """Return the mean of each value and those before it, over a twentieth of all."""
    window = max(1, len(values) // 20)
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)
