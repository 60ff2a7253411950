"""A small stand-in for MNIST: the four idx files, which tests then damage one by one."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def idx(array: np.ndarray) -> bytes:
    """The idx encoding of a uint8 array."""
    return struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, train: int = 96, test: int = 20, suffix: str = "") -> Path:
    """Write a set of random images with a bright bar whose place is the label."""
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    for count, images, labels in ((train, TRAIN_IMAGES, TRAIN_LABELS), (test, TEST_IMAGES, TEST_LABELS)):
        digits = rng.integers(0, 10, count).astype(np.uint8)
        pixels = rng.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        pixels[np.arange(count), 2 * digits + 4] = 255
        for name, array in ((images, pixels), (labels, digits)):
            content = gzip.compress(idx(array), 1) if suffix == ".gz" else idx(array)
            (folder / f"{name}{suffix}").write_bytes(content)
    return folder
