"""What an event holds: arrays, pictures, and the messages of TensorBoard's plugins."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...types.dtype import bfloat16, uint16


def package(name: str) -> Any:
    """Return a module of tensorboard. Raises ImportError that names the extra that installs it."""
    try:
        return import_module(f"tensorboard.{name}")
    except ImportError as error:
        raise ImportError(
            "gradloom.utils.tensorboard needs the package tensorboard: pip install 'gradloom[tensorboard]'"
        ) from error


def array(value: Any) -> Any:
    """Return a tensor, array or number as an array.

    Raises NotImplementedError for anything else, by which programs find out what can be written.
    """
    if isinstance(value, np.ndarray):
        return value
    if np.isscalar(value):
        return np.asarray(value)
    if not isinstance(value, Tensor):
        raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")
    value = value.detach()
    return (value.float() if value.dtype is bfloat16 else value).numpy()


def number(value: Any) -> float:
    """Return the first element of a tensor or array, or a number; TypeError for a complex one."""
    return float(array(value).reshape(-1)[0].item())


# Names of dtypes -> TensorBoard's name of the type, and the field that has its numbers.
_CONTENTS = {
    "bool": ("DT_BOOL", "bool_val"),
    "uint8": ("DT_UINT8", "int_val"),
    "int8": ("DT_INT8", "int_val"),
    "int16": ("DT_INT16", "int_val"),
    "int32": ("DT_INT32", "int_val"),
    "int64": ("DT_INT64", "int64_val"),
    "float16": ("DT_HALF", "half_val"),
    "bfloat16": ("DT_BFLOAT16", "half_val"),
    "float32": ("DT_FLOAT", "float_val"),
    "float64": ("DT_DOUBLE", "double_val"),
    "complex64": ("DT_COMPLEX64", "scomplex_val"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val"),
}


def tensor_content(tag: str, tensor: Tensor) -> tuple[str, str, list[Any]]:
    """Return TensorBoard's name of a tensor's dtype, the field that has its numbers, and these: bits of 16-bit floats,
    and pairs of complex numbers. Raises ValueError for another dtype."""
    kind = tensor.dtype
    name = str(kind).removeprefix("torch.")
    if name not in _CONTENTS:
        raise ValueError(f"{tag} has unsupported tensor dtype {kind}")
    elements = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    if kind.itemsize == 2 and kind.is_floating_point:
        elements = elements.view(uint16)
    numbers = elements.numpy()
    if kind.is_complex:
        numbers = numbers.view(np.float32 if kind.itemsize == 8 else np.float64)
    return *_CONTENTS[name], numbers.tolist()


def buckets() -> Any:
    """Return TensorBoard's limits of buckets: 0 and powers of 1.1 from 1e-12 to 1e20, of both signs."""
    positive = 1e-12 * 1.1 ** np.arange(775)
    positive = positive[positive < 1e20]
    return np.concatenate([-positive[::-1], [0.0], positive])


# --- pictures ---


def pixels(array: Any, order: str) -> Any:
    """Return an image, or a grid of a batch of images, as uint8 values (height, width, channels)."""
    if len(order) != array.ndim or len(set(order)) != len(order) or not set(order) <= set("NCHW"):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, input_format: {order}"
        )
    every = "".join(set("NCHW") - set(order)) + order  # dimensions that are not there have size 1
    whole = array.reshape((1,) * (4 - array.ndim) + array.shape)
    batch = whole.transpose([every.index(dim) for dim in "NHWC"])
    if array.dtype == np.int8:
        batch = batch.astype(np.int16)  # which has 255
    if array.dtype != np.uint8:
        batch = (np.clip(batch, 0, 1) * 255).astype(np.uint8)
    count, height, width, channels = batch.shape
    columns = min(8, count)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = batch
    grid = grid.reshape(rows, columns, height, width, -1).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, -1)


def png(pixels: Any) -> bytes:
    """Return uint8 pixels (height, width, 1, 3 or 4 channels) as a PNG file."""
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # filter 0

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    data = zlib.compress(rows.tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def gif(videos: Any, fps: float) -> dict[str, Any]:
    """Return the fields of an image that shows videos in a grid.

    Args:
        videos: (videos, frames, channels, height, width); the grid has a power of two of places.
        fps: frames a second.
    """
    from PIL import Image

    if videos.dtype != np.uint8:
        videos = np.clip(videos * 255.0, 0, 255).astype(np.uint8)
    count, length, channels, height, width = videos.shape
    places = 1 << (count - 1).bit_length()
    videos = np.concatenate([videos, np.zeros((places - count, *videos.shape[1:]), np.uint8)])
    rows = 1 << ((places.bit_length() - 1) // 2)
    grid = videos.reshape(rows, places // rows, length, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    frames = grid.reshape(length, rows * height, places // rows * width, channels)
    pictures = [Image.fromarray(frame[:, :, 0] if channels == 1 else frame) for frame in frames]
    data = io.BytesIO()
    options = {"save_all": True, "append_images": pictures[1:], "duration": 1000 / fps, "loop": 0}
    pictures[0].save(data, "GIF", **options)
    size = {"height": frames.shape[1], "width": frames.shape[2], "colorspace": channels}
    return {**size, "encoded_image_string": data.getvalue()}


def with_boxes(image: Any, boxes: Any, rescale: float, labels: Sequence[str] | None) -> Any:
    """Return pixels (height, width, 3) with rectangles (left, upper, right, lower) and texts drawn into them."""
    from PIL import Image, ImageDraw

    plain = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).convert("RGB")
    picture = plain.resize((int(plain.width * rescale), int(plain.height * rescale)))
    draw = ImageDraw.Draw(picture)
    for number, box in enumerate(boxes * rescale):
        left, upper, right, lower = (float(edge) for edge in box)
        draw.line([(left, upper), (left, lower), (right, lower), (right, upper), (left, upper)], "Red", 2)
        if labels:
            _, _, wide, high = draw.textbbox((0, 0), labels[number])
            draw.rectangle([(left, lower - high - 2), (left + wide + 2, lower)], fill="Red")
            draw.text((left + 1, lower - high - 1), labels[number], fill="Black")
    return np.asarray(picture)


# --- plugins ---


def _plugin_value(tag: str, plugin: str, content: bytes, **fields: Any) -> Any:
    summary = package("compat.proto.summary_pb2")
    data = summary.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return summary.Summary.Value(tag=tag, metadata=summary.SummaryMetadata(plugin_data=data), **fields)


def mesh(tag: str, parts: Mapping[str, Any], config: Mapping[str, Any] | None) -> list[Any]:
    """Return the values of a mesh.

    Args:
        tag: its name.
        parts: "VERTEX", "FACE" and "COLOR" -> (batch, number, 3).
        config: settings of the scene.
    """
    metadata, plugin = package("plugins.mesh.metadata"), package("plugins.mesh.plugin_data_pb2").MeshPluginData
    types = package("compat.proto.types_pb2")
    kinds = {"VERTEX": types.DT_FLOAT, "FACE": types.DT_INT32, "COLOR": types.DT_UINT8}
    make = package("util.tensor_util").make_tensor_proto
    numbers = {kind: plugin.ContentType.Value(kind) for kind in parts}
    components = metadata.get_components_bitmask(list(numbers.values()))
    values = []
    for kind, part in parts.items():
        if part.dtype.kind == "c":
            raise TypeError(f"must be real number, not complex: {kind.lower()} of a mesh")
        name = metadata.get_instance_name(tag, numbers[kind])
        made = metadata.create_summary_metadata(
            tag,
            None,
            numbers[kind],
            components,
            part.shape,
            None,
            json_config=json.dumps(dict(config or {}), sort_keys=True),
        )
        tensor = make(part.astype({"VERTEX": np.float32, "FACE": np.int32, "COLOR": np.uint8}[kind]), dtype=kinds[kind])
        values.append(package("compat.proto.summary_pb2").Summary.Value(tag=name, tensor=tensor, metadata=made))
    return values


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Return the value that arranges curves in charts; see `SummaryWriter.add_custom_scalars`."""
    protos = package("plugins.custom_scalar.layout_pb2")
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
                names = dict(zip(("value", "lower", "upper"), tags, strict=True))
                series = [protos.MarginChartContent.Series(**names)]
                made.append(protos.Chart(title=title, margin=protos.MarginChartContent(series=series)))
            else:
                made.append(protos.Chart(title=title, multiline=protos.MultilineChartContent(tag=tags)))
        categories.append(protos.Category(title=category, chart=made))
    tensor = package("compat.proto.tensor_pb2").TensorProto(
        dtype="DT_STRING",
        string_val=[protos.Layout(category=categories).SerializeToString()],
        tensor_shape=package("compat.proto.tensor_shape_pb2").TensorShapeProto(),
    )
    return _plugin_value("custom_scalars__config__", "custom_scalars", b"", tensor=tensor)


def hparams(
    hparam_dict: Mapping[str, Any] | None = None,
    metric_dict: Mapping[str, Any] | None = None,
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the three `Summary` that describe a run with its settings; see `SummaryWriter.add_hparams`."""
    settings, metrics, domains = hparam_dict or {}, metric_dict or {}, hparam_domain_discrete
    for name, given in (("hparam_dict", settings), ("metric_dict", metrics), ("hparam_domain_discrete", domains or {})):
        if not isinstance(given, Mapping):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    api, plugin = package("plugins.hparams.api_pb2"), package("plugins.hparams.plugin_data_pb2")
    start, infos = plugin.SessionStartInfo(), []
    for name, value in settings.items():
        if value is None:
            continue
        plain = _plain(name, value)
        kind = "string" if isinstance(plain, str) else "number"  # bools are numbers, as in PyTorch's files
        setattr(start.hparams[name], f"{kind}_value", plain)
        info = api.HParamInfo(name=name, type={"string": 1, "number": 3}[kind])
        for allowed in (domains or {}).get(name, ()):
            setattr(info.domain_discrete.values.add(), f"{kind}_value", _plain(name, allowed))
        infos.append(info)
    measured = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metrics]
    experiment = api.Experiment(hparam_infos=infos, metric_infos=measured)
    end = plugin.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
    messages = {"experiment": experiment, "session_start_info": start, "session_end_info": end}
    first, second, third = (
        package("compat.proto.summary_pb2").Summary(
            value=[
                _plugin_value(
                    f"_hparams_/{tag}", "hparams", plugin.HParamsPluginData(**{tag: message}).SerializeToString()
                )
            ]
        )
        for tag, message in messages.items()
    )
    return first, second, third


def _plain(name: str, value: Any) -> Any:
    """Return a setting as TensorBoard holds it."""
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Tensor) and not value.ndim:
        raise IndexError(
            f"too many indices for array: array is 0-dimensional, but 1 were indexed: {name} is a number by item()"
        )
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return number(value)
    raise ValueError(
        f"value of {name} should be one of int, float, str, bool, or torch.Tensor, not {type(value).__name__}"
    )
