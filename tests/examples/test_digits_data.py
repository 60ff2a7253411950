"""The demo's data: what is read is right, and whatever is wrong with a file is one line that names it."""

from __future__ import annotations

import gzip
import struct
import sys

import digits_data
import numpy as np
import pytest

from .idx_files import TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, idx, write_mnist


@pytest.fixture
def mnist(tmp_path):
    return write_mnist(tmp_path / "mnist")


def message(folder) -> str:
    with pytest.raises(digits_data.DataError) as caught:
        digits_data.load(str(folder))
    text = str(caught.value)
    assert "\n" not in text
    return text


# -- MNIST's idx files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_are_read_plain_and_gzipped(tmp_path, suffix):
    digits = digits_data.load(str(write_mnist(tmp_path / "mnist", suffix=suffix)))
    assert digits.train_images.shape == (96, 1, 28, 28) and digits.train_images.dtype == np.float32
    assert digits.test_images.shape == (20, 1, 28, 28) and digits.test_labels.dtype == np.int64
    brightest_row = digits.train_images[:, 0].sum(axis=2).argmax(axis=1)
    np.testing.assert_array_equal(brightest_row, 2 * digits.train_labels + 4)
    assert digits.train_images.max() == 1.0


def test_names_with_a_dot_and_unpacked_files_that_kept_their_gz_are_found(mnist):
    (mnist / TRAIN_IMAGES).rename(mnist / "train-images.idx3-ubyte")
    (mnist / TEST_LABELS).rename(mnist / f"{TEST_LABELS}.gz")
    assert len(digits_data.load(str(mnist)).train_images) == 96


def test_a_missing_folder_and_a_file_in_its_place(tmp_path):
    assert message(tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'}: no such folder")
    (tmp_path / "file").touch()
    assert message(tmp_path / "file").startswith(f"{tmp_path / 'file'}: no such folder")


@pytest.mark.parametrize("name", [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS])
def test_each_missing_file_is_named(mnist, name):
    (mnist / name).unlink()
    text = message(mnist)
    assert text.startswith(f"{mnist / name}: no such file") and "put MNIST's four idx files there" in text


def images(*header: int, size: int = 784) -> bytes:
    return struct.pack(">4I", *header) + bytes(size)


DAMAGES = {
    "empty": (TRAIN_IMAGES, b"", "0 bytes are too few for an idx header"),
    "part of a header": (TRAIN_IMAGES, images(0x803, 1, 28, 28)[:9], "9 bytes are too few for an idx header"),
    "text": (TRAIN_LABELS, b"<html>not found</html>", "so it is not the file its name says"),
    "labels for images": (TRAIN_IMAGES, idx(np.zeros(99, np.uint8)), "starts with 0x00000801"),
    "images for labels": (TRAIN_LABELS, images(0x803, 1, 28, 28), "starts with 0x00000803"),
    "no images": (TRAIN_IMAGES, images(0x803, 0, 28, 28), "shape 0x28x28, which cannot be right"),
    "a huge count": (TRAIN_IMAGES, images(0x803, 2**32 - 1, 28, 28), "which cannot be right"),
    "truncated": (TRAIN_IMAGES, images(0x803, 2, 28, 28), "promises 1,568 bytes and only 784 follow"),
    "too long": (TRAIN_IMAGES, images(0x803, 1, 28, 28, size=800), "promises 784 bytes and more follow"),
    "another size": (TRAIN_IMAGES, images(0x803, 1, 28, 14, size=392), "28x14 pixels where 28x28 are needed"),
    "another count": (TRAIN_LABELS, idx(np.zeros(95, np.uint8)), "95 labels for the 96 images"),
    "no digit": (TRAIN_LABELS, idx(np.full(96, 10, np.uint8)), "label 10 at index 0 is not a digit"),
    "truncated gzip": (TRAIN_IMAGES, gzip.compress(images(0x803, 1, 28, 28))[:30], "be read to its end"),
    "damaged gzip": (TRAIN_IMAGES, b"\x1f\x8bgarbage and more of it", "be read to its end"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_told_in_one_line_that_names_the_file(mnist, damage):
    name, content, expected = DAMAGES[damage]
    (mnist / name).write_bytes(content)
    text = message(mnist)
    assert text.startswith(f"{mnist / name}: ") and expected in text
    assert text.endswith(("fetch it again", "fetch both again", "use MNIST's own files"))


def test_a_gzip_whose_checksum_is_wrong(tmp_path):
    mnist = write_mnist(tmp_path / "mnist", suffix=".gz")
    path = mnist / f"{TRAIN_IMAGES}.gz"
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF
    path.write_bytes(content)
    assert message(mnist).startswith(f"{path}: ")


# -- scikit-learn's digits ----------------------------------------------------------------------------------


def test_the_bundled_digits_are_split_the_same_way_every_time():
    first, second = digits_data.load(None), digits_data.load(None)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.train_images.shape == (1437, 1, 28, 28) and first.test_images.shape == (360, 1, 28, 28)
    assert first.train_images.min() >= 0 and first.train_images.max() <= 1
    assert np.bincount(first.test_labels, minlength=10).min() >= 25
    train = {image.tobytes() for image in first.train_images}
    assert not any(image.tobytes() in train for image in first.test_images)


def test_a_missing_scikit_learn_and_a_damaged_one(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.datasets", None)
        with pytest.raises(digits_data.DataError, match=r"pip install 'gradloom\[demo\]'"):
            digits_data.load(None)

    def damaged(return_X_y):
        raise EOFError("Compressed file ended\nbefore the end")

    monkeypatch.setattr("sklearn.datasets.load_digits", damaged)
    with pytest.raises(digits_data.DataError, match=r"damaged \(Compressed file ended before the end\)"):
        digits_data.load(None)


def test_enlarging_keeps_flat_images_flat_and_corners_in_their_corner():
    flat = digits_data.enlarge(np.full((1, 8, 8), 0.5))
    np.testing.assert_allclose(flat, 0.5, rtol=1e-6)
    corner = np.zeros((1, 8, 8))
    corner[0, 0, 7] = 1
    large = digits_data.enlarge(corner)[0, 0]
    assert large[0, 27] > 0.9 and large[:14].sum() > 0 and large[14:].sum() == large[:, :14].sum() == 0


class Fixed:
    """In place of a random generator: the middle of each interval, but for those given in order."""

    def __init__(self, *values):
        self.values = list(values)

    def uniform(self, low, high, shape):
        return np.full(shape, self.values.pop(0) if self.values else (low + high) / 2)


def test_jitter_leaves_an_image_alone_when_nothing_is_drawn_and_shifts_it():
    batch = digits_data.load(None).train_images[:3]
    np.testing.assert_allclose(digits_data.jitter(batch, Fixed()), batch, atol=1e-6)
    shifted = digits_data.jitter(batch, Fixed(0, 0, 1, 2))  # angle, shear, scale, shift in pixels
    np.testing.assert_allclose(shifted[:, :, :26, :26], batch[:, :, 2:, 2:], atol=1e-6)
    assert shifted.dtype == np.float32 and shifted[:, :, 26:].max() == 0


def test_jitter_is_the_same_for_the_same_seed_and_stays_close():
    batch = digits_data.load(None).train_images[:50]
    one, other = (digits_data.jitter(batch, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert 0.6 < np.corrcoef(one.ravel(), batch.ravel())[0, 1] < 0.99
