"""Handwritten digits for train_digits.py: read the images and check them.

Two sources give the same `Digits`: the 1,797 real 8x8 scans that scikit-learn carries (scaled up to 28x28, a
fifth held out), and, with a folder given, MNIST's four idx files with MNIST's own split. Whatever is wrong
with a file is a `DataError` whose one line names the file and says what to do.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

SIDE = 28
HELD_OUT = 360  # of scikit-learn's 1,797 images: a fifth, drawn once with a fixed seed whatever --seed says
MAX_IMAGES = 1_000_000  # refuse a damaged count before believing it

MNIST_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}


class DataError(Exception):
    """The digits cannot be read; the message is one line for the user."""


class Digits(NamedTuple):
    """Images as float32 (N, 1, 28, 28) in 0..1, labels as int64 (N,) in 0..9."""

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load(folder: str | None) -> Digits:
    """Read MNIST from the idx files in `folder`, or scikit-learn's digits if it is None. Raises DataError."""
    return load_bundled() if folder is None else load_mnist(Path(folder))


# -- scikit-learn's digits ---------------------------------------------------------------------------------


def load_bundled() -> Digits:
    """Read scikit-learn's digits, scaled up, with a fixed held-out split. Raises DataError."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError(
            f"scikit-learn, which carries the digits, cannot be imported ({error}); "
            "install it with: pip install 'gradloom[demo]'"
        ) from None
    try:
        pixels, labels = load_digits(return_X_y=True)
        images = enlarge(np.asarray(pixels, np.float64).reshape(-1, 8, 8) / 16)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"scikit-learn's digits file is missing or damaged ({_one_line(error)}); "
            "reinstall it with: pip install --force-reinstall scikit-learn"
        ) from None
    labels = np.asarray(labels, np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    return Digits("scikit-learn digits", images[train], labels[train], images[test], labels[test])


def enlarge(images: np.ndarray) -> np.ndarray:
    """Scale (N, 8, 8) scans to float32 (N, 1, 28, 28), by separable cubic interpolation."""
    weights = _cubic_weights(images.shape[-1], SIDE)
    large = np.clip(weights @ images @ weights.T, 0, 1)
    return _with_channel(large.astype(np.float32))


def _with_channel(images: np.ndarray) -> np.ndarray:
    # Not images[:, None]: PyTorch reads the stride 0 that NumPy gives the new axis as another memory format.
    return images.reshape(len(images), 1, SIDE, SIDE)


def _cubic_weights(size: int, new_size: int) -> np.ndarray:
    """Return the (new_size, size) matrix that resamples a line by Keys' cubic kernel (a = -1/2), edges repeated."""
    centres = (np.arange(new_size) + 0.5) * size / new_size - 0.5
    taps = np.floor(centres).astype(int)[:, None] + np.arange(-1, 3)
    d = np.abs(centres[:, None] - taps)
    kernel = np.where(d <= 1, (1.5 * d - 2.5) * d * d + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2)
    weights = np.zeros((new_size, size))
    np.add.at(weights, (np.arange(new_size)[:, None], np.clip(taps, 0, size - 1)), kernel)
    return weights


def jitter(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a copy of the (N, 1, 28, 28) batch, each image slightly rotated, sheared, scaled and shifted."""
    n = len(images)
    angle, shear = rng.uniform(-0.2, 0.2, n), rng.uniform(-0.15, 0.15, n)
    scale, shift = rng.uniform(0.9, 1.1, (2, n)), rng.uniform(-2, 2, (2, n))
    cos, sin = np.cos(angle), np.sin(angle)
    grid = np.arange(SIDE) - (SIDE - 1) / 2
    y, x = grid[:, None], grid[None, :]
    row = _each(cos * scale[0]) * y + _each(shear - sin) * x + _each(shift[0]) + (SIDE - 1) / 2
    column = _each(sin + shear) * y + _each(cos * scale[1]) * x + _each(shift[1]) + (SIDE - 1) / 2
    return _with_channel(_bilinear(images[:, 0], row.astype(np.float32), column.astype(np.float32)))


def _each(values: np.ndarray) -> np.ndarray:
    return values[:, None, None]


def _bilinear(images: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Sample (N, 28, 28) images at fractional positions (N, 28, 28); outside an image is 0."""
    padded = np.pad(images, ((0, 0), (1, 2), (1, 2)))
    row, column = np.clip(row + 1, 0, SIDE + 1), np.clip(column + 1, 0, SIDE + 1)
    top, left = row.astype(np.intp), column.astype(np.intp)
    down, right = row - top.astype(np.float32), column - left.astype(np.float32)
    width = padded.shape[2]
    corner = _each(np.arange(len(images)) * padded[0].size) + top * width + left
    flat = padded.ravel()
    upper = flat[corner] * (1 - right) + flat[corner + 1] * right
    lower = flat[corner + width] * (1 - right) + flat[corner + width + 1] * right
    return upper * (1 - down) + lower * down


# -- MNIST's idx files -------------------------------------------------------------------------------------


def load_mnist(folder: Path) -> Digits:
    """Read the four idx files of MNIST in `folder`, plain or gzipped. Raises DataError."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; --data wants the one that holds MNIST's four idx files")
    paths = {part: _find(folder, name) for part, name in MNIST_FILES.items()}
    parts = {}
    for split in ("train", "test"):
        images, labels = _checked_pair(paths[f"{split}_images"], paths[f"{split}_labels"])
        parts[f"{split}_images"] = _with_channel(images.astype(np.float32) / 255)
        parts[f"{split}_labels"] = labels.astype(np.int64)
    return Digits("MNIST", **parts)


def _checked_pair(image_path: Path, label_path: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = read_idx(image_path, 3), read_idx(label_path, 1)
    if images.shape[1:] != (SIDE, SIDE):
        raise DataError(
            f"{image_path}: its images have {images.shape[1]}x{images.shape[2]} pixels where "
            f"{SIDE}x{SIDE} are needed; use MNIST's own files"
        )
    if len(images) != len(labels):
        raise DataError(
            f"{label_path}: {len(labels)} labels for the {len(images)} images of "
            f"{image_path.name}: the two belong to different sets; fetch both again"
        )
    if labels.max() > 9:
        raise DataError(
            f"{label_path}: label {labels.max()} at index {labels.argmax()} is not a digit, so "
            "the file is damaged or not MNIST's; fetch it again"
        )
    return images, labels


def _find(folder: Path, name: str) -> Path:
    dotted = name.replace("-idx", ".idx")  # some archives unpack to train-images.idx3-ubyte
    for candidate in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise DataError(f"{folder / name}: no such file, nor {name}.gz; put MNIST's four idx files there")


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """Read the uint8 array with `ndim` dimensions of one idx file, gzipped or not. Raises DataError."""
    header_size = 4 + 4 * ndim
    try:
        with _open(path) as file:
            header = file.read(header_size)
            shape = _idx_shape(path, header, ndim)
            wanted = int(np.prod(shape))
            body = file.read(wanted + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read to its end ({_one_line(error)}); fetch it again") from None
    if len(body) != wanted:
        found = "more" if len(body) > wanted else f"only {len(body):,}"
        raise DataError(f"{path}: its header promises {wanted:,} bytes and {found} follow; fetch it again")
    return np.frombuffer(body, np.uint8).reshape(shape)


def _open(path: Path):
    # By content, not by name: a browser may have unpacked a .gz and kept its name.
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else open(path, "rb")


def _idx_shape(path: Path, header: bytes, ndim: int) -> tuple[int, ...]:
    if len(header) < 4 + 4 * ndim:
        raise DataError(f"{path}: {len(header)} bytes are too few for an idx header; fetch it again")
    magic, *shape = (int(value) for value in np.frombuffer(header, ">u4"))
    expected = 0x0800 + ndim
    if magic != expected:
        kind = "images" if ndim == 3 else "labels"
        raise DataError(
            f"{path}: starts with {magic:#010x}, an idx file of {kind} with {expected:#010x}, so "
            "it is not the file its name says; fetch it again"
        )
    if not 0 < shape[0] <= MAX_IMAGES or not all(0 < size <= 4096 for size in shape[1:]):
        raise DataError(
            f"{path}: its header gives the shape {'x'.join(map(str, shape))}, which cannot be right; fetch it again"
        )
    return tuple(shape)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
