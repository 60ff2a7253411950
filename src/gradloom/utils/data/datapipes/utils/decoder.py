"""Decoders of files by their extension: functions(extension, bytes) that return the content, or None."""

from __future__ import annotations

import io
import json
import os.path
import pickle
import tempfile
from collections.abc import Callable, Container
from importlib import import_module
from typing import Any

import numpy as np

import gradloom as gl

from .common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]

_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")
_VIDEOS = ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv")
_SOUNDS = ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma")
# name -> (what images become, dtype of pixels, mode of PIL)
imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{mode + "8": ("numpy", "uint8", mode) for mode in ("l", "rgb", "rgba")},
    **{mode: ("numpy", "float", mode) for mode in ("l", "rgb", "rgba")},
    **{f"torch{mode}8": ("torch", "uint8", mode) for mode in ("l", "rgb", "rgba")},
    **{f"torch{mode}": ("torch", "float", mode) for mode in ("l", "rgb", "rgba")},
    "torch": ("torch", "float", "rgb"),
    "pill": ("pil", None, "l"),
    "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}


def _number(data: bytes) -> int | None:
    try:
        return int(data)
    except ValueError:
        return None


def basichandlers(extension: str, data: bytes) -> Any:
    """Decode text (txt, text, transcript), numbers (cls, id, ...), json, pickle and pt files; else return None."""
    # PyTorch asks whether the extension is a part of the words "txt text transcript" and "json jsn", so "" is text.
    known: tuple[tuple[Container[str], Callable[[bytes], Any]], ...] = (
        ("txt text transcript", bytes.decode),
        (_NUMBERS, _number),
        ("json jsn", json.loads),
        (("pyd", "pickle"), pickle.loads),
        (("pt",), lambda content: gl.load(io.BytesIO(content))),
    )
    decode = next((function for extensions, function in known if extension in extensions), None)
    return None if decode is None else decode(data)


def handle_extension(extensions: str, f: Callable[[bytes], Any]) -> Callable[[str, bytes], Any]:
    """Return a handler that decodes by a function of the bytes.

    Args:
        extensions: the extensions, separated by spaces, with dots between several of one name ("seg.jpg"). The first
            that is not longer than the name decides, as in PyTorch.
        f: the function.
    """
    wanted = [target.split(".") for target in extensions.lower().split()]

    def handler(key: str, data: bytes) -> Any:
        parts = key.lower().split(".")
        first = next((target for target in wanted if len(target) <= len(parts)), None)
        return f(data) if first is not None and parts[-len(first) :] == first else None

    return handler


class ImageHandler:
    """Decoder of images, by PIL.

    Args:
        imagespec: what they become: "pil", "torch" or nothing for an array, then "l", "rgb" or "rgba" for the mode,
            then "8" for uint8 instead of float32 from 0 to 1; "torch" is "torchrgb" and "pil" "pilrgb". Tensors are
            (C, H, W).

    Raises:
        AssertionError: for another one.
        ModuleNotFoundError: when an image is decoded without PIL.
    """

    def __init__(self, imagespec: str) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec: str = imagespec.lower()

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension.lower() not in _IMAGES:
            return None
        images = _imported("PIL.Image", "PIL", "image decoder", "Pillow")
        kind, dtype, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = images.open(stream)
            image.load()
            image = image.convert(mode.upper())
        if kind == "pil":
            return image
        pixels = np.asarray(image)
        if kind == "numpy":
            return pixels if dtype == "uint8" else pixels.astype("f") / 255.0
        tensor = gl.tensor(np.array(pixels.transpose(2, 0, 1)))
        return tensor if dtype == "uint8" else tensor / 255.0


def _imported(module: str, package: str, use: str, distribution: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Package `{package}` is required to be installed for default {use}.Please use `pip install "
            f"{distribution}` to install the package"
        ) from error


def imagehandler(imagespec: str) -> ImageHandler:
    """Return an ImageHandler."""
    return ImageHandler(imagespec)


def videohandler(extension: str, data: bytes) -> Any:
    """Decode videos by torchvision; return None for other files. Raises ModuleNotFoundError without it."""
    return _by_file(extension, data, _VIDEOS, "torchvision.io", "video file loader", "read_video")


def audiohandler(extension: str, data: bytes) -> Any:
    """Decode sound by torchaudio; return None for other files. Raises ModuleNotFoundError without it."""
    return _by_file(extension, data, _SOUNDS, "torchaudio", "audio file loader", "load")


def _by_file(extension: str, data: bytes, known: tuple[str, ...], module: str, use: str, function: str) -> Any:
    if extension not in known:
        return None
    package = module.partition(".")[0]
    reader = _imported(module, package, use, package)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return getattr(reader, function)(path)


class MatHandler:
    """Decoder of MATLAB's files, by SciPy.

    Args:
        loadmat_kwargs: arguments of scipy.io.loadmat.
    """

    def __init__(self, **loadmat_kwargs: Any) -> None:
        self.sio: Any = _imported("scipy.io", "scipy", "mat file", "scipy")
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension: str, data: bytes) -> Any:
        return self.sio.loadmat(io.BytesIO(data), **self.loadmat_kwargs) if extension == "mat" else None


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """Return a MatHandler."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname: str) -> str:
    """Return the extension of a path, without the dot."""
    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """Decode files by the first handler that knows them.

    Args:
        handler: functions(key, bytes) that return the content, or None.
        key_fn: function from a path to the key.
    """

    def __init__(self, *handler: Callable[..., Any], key_fn: Callable[[str], str] = extension_extract_fn) -> None:
        self.handlers: list[Callable[..., Any]] = list(handler)
        self.key_fn: Callable[[str], str] = key_fn

    def add_handler(self, *handler: Callable[..., Any]) -> None:
        """Add handlers before the others."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data: Any) -> bool:
        stream = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(stream, (io.BufferedIOBase, io.RawIOBase))

    def decode1(self, key: str, data: Any) -> Any:
        """Return the content of bytes or of a binary stream, which is closed; the data if no handler knows it."""
        if not data:
            return data
        if self._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        found = (handler(key, data) for handler in self.handlers)
        return next((content for content in found if content is not None), data)

    def decode(self, data: Any) -> dict[str, Any]:
        """Return {path: content} for one pair (path, data) in a tuple, or for several.

        Bytes of a path that begins with "_" are text.
        """
        pairs = [data] if isinstance(data, tuple) else [] if data is None else data
        return {
            path: content.decode("utf-8")
            if path[0] == "_" and isinstance(content, bytes)
            else self.decode1(self.key_fn(path), content)
            for path, content in pairs
        }

    def __call__(self, data: Any) -> dict[str, Any]:
        return self.decode(data)
