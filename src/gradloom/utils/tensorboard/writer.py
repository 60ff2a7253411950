"""SummaryWriter: event files for TensorBoard, as PyTorch's torch.utils.tensorboard writes them.

Needs the package tensorboard: `pip install 'gradloom[tensorboard]'`.
"""

from __future__ import annotations

import io
import os
import socket
import time
import wave
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Self

import numpy as np

from ...core.tensor import Tensor
from ._file_writer import FileWriter
from ._projector import write_embedding
from .summary import (
    array,
    buckets,
    custom_scalars,
    gif,
    hparams,
    mesh,
    number,
    package,
    pixels,
    png,
    tensor_content,
    with_boxes,
)

__all__ = ["FileWriter", "SummaryWriter"]


class SummaryWriter:
    """Writes an event file to a folder, from which TensorBoard shows curves, images and text.

    Args:
        log_dir: the folder; None for runs/DATE_HOST and `comment`.
        comment: end of the default folder's name.
        purge_step: steps from this one on of earlier files are hidden.
        max_queue: number of events that wait to be written.
        flush_secs: seconds after which they are written at the latest.
        filename_suffix: end of the file's name.

    Raises:
        ImportError: if the package tensorboard is not installed.

    Attributes:
        file_writer: the FileWriter of `log_dir`; None after `close`.
        all_writers: folder -> FileWriter, also of the runs in folders below; None after `close`.

    Methods take `global_step`, the step of the event, and `walltime`, its time in seconds since the epoch.

    Example:
        >>> with SummaryWriter("runs/first") as writer:
        ...     writer.add_scalar("loss", loss, step)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if log_dir is None:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir: str = os.fspath(log_dir)
        self._options = (max_queue, flush_secs, filename_suffix)
        self.purge_step = purge_step
        self._summary = package("compat.proto.summary_pb2")
        self._event = package("compat.proto.event_pb2")
        self._tensor = package("compat.proto.tensor_pb2").TensorProto
        self._shape = package("compat.proto.tensor_shape_pb2").TensorShapeProto
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """Return the writer of the own folder; a new one after `close`, which hides steps from `purge_step` on."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                log = self._event.SessionLog(status=self._event.SessionLog.START)
                self.file_writer.add_event(self._event.Event(step=self.purge_step, session_log=log))
                self.purge_step = None
        return self.file_writer

    def _writer_of(self, folder: str | None) -> FileWriter:
        own = self._get_file_writer()
        if folder is None:
            return own
        writers: Any = self.all_writers
        if folder not in writers:
            writers[folder] = FileWriter(folder, *self._options)
        found: FileWriter = writers[folder]
        return found

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _write(self, value: Any, step: int | None, walltime: float | None, folder: str | None = None) -> None:
        self._writer_of(folder).add_summary(self._summary.Summary(value=[value]), step, walltime)

    def _write_all(self, values: Sequence[Any], step: int | None, walltime: float | None) -> None:
        for value in values:
            self._write(value, step, walltime)

    def _value(self, tag: str, **fields: Any) -> Any:
        return self._summary.Summary.Value(tag=tag, **fields)

    def _metadata(self, plugin: str, content: bytes = b"") -> Any:
        data = self._summary.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
        return self._summary.SummaryMetadata(plugin_data=data)

    # --- numbers ---

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number.

        Args:
            tag: name of the curve.
            scalar_value: a number, or a tensor or array of one element.
            global_step, walltime: see SummaryWriter.
            new_style: write it as a tensor, which loads faster.
            double_precision: in the new style, write it in float64.

        Raises:
            AssertionError: for several elements.
            NotImplementedError: for a value of another type, such as a list.
        """
        value = array(scalar_value).reshape(-1)
        if value.size != 1:
            shape = np.shape(scalar_value)
            raise AssertionError(
                "Tensor should contain one element (0 dimensions). Was given size: "
                f"{value.size} and {len(shape)} dimensions."
            )
        scalar = float(value[0].item())
        if not new_style:
            self._write(self._value(tag, simple_value=scalar), global_step, walltime)
            return
        tensor = self._tensor(double_val=[scalar], dtype="DT_DOUBLE")
        if not double_precision:
            tensor = self._tensor(float_val=[scalar], dtype="DT_FLOAT")
        self._write(self._value(tag, tensor=tensor, metadata=self._metadata("scalars")), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers, each to a folder of its own beside the file, so that they share a diagram."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            found = self._value(main_tag, simple_value=number(value))
            self._write(found, global_step, walltime, folder)

    def add_tensor(
        self, tag: str, tensor: Tensor, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write the values of a tensor.

        Raises:
            ValueError: for unsigned ints of more than 8 bits and 8-bit floats, for which files have no type.
        """
        kind, field, numbers = tensor_content(tag, tensor)
        shape = self._shape(dim=[self._shape.Dim(size=size) for size in tensor.shape])
        proto = self._tensor(dtype=kind, tensor_shape=shape, **{field: numbers})
        self._write(self._value(tag, tensor=proto, metadata=self._metadata("tensor")), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str | Sequence[float] = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write the distribution of the elements of a tensor.

        Args:
            tag: name of the histogram.
            values: the tensor or array.
            global_step, walltime: see SummaryWriter.
            bins: "tensorflow" for TensorBoard's buckets, a method of `numpy.histogram` such as "auto", or limits.
            max_bins: the largest number of buckets.

        Raises:
            ValueError: for an empty tensor.
        """
        elements = array(values).astype(np.float64).reshape(-1)
        if not elements.size:
            raise ValueError("The input has no element.")
        counts, limits = np.histogram(elements, buckets() if bins == "tensorflow" else bins)  # type: ignore[arg-type]
        if max_bins is not None and len(counts) > max_bins:
            counts, limits = np.histogram(elements, max_bins)
        used = np.flatnonzero(counts)
        first, last = (used[0], used[-1]) if used.size else (0, len(counts) - 1)
        # The bucket before the first used one is kept, empty, so that its limit is known.
        filled = [0, *counts[first : last + 1].tolist()]
        self.add_histogram_raw(
            tag,
            elements.min(),
            elements.max(),
            elements.size,
            elements.sum(),
            elements @ elements,
            limits[first : last + 2].tolist(),
            filled,
            global_step,
            walltime,
        )

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[int],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that was computed elsewhere: for each bucket its upper limit and count.

        Raises ValueError if the lengths of the two differ.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        histogram = self._summary.HistogramProto(
            min=min,
            max=max,
            num=num,
            sum=sum,
            sum_squares=sum_squares,
            bucket_limit=bucket_limits,
            bucket=bucket_counts,
        )
        self._write(self._value(tag, histo=histogram), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a curve of precision and recall.

        Args:
            tag: name of the curve.
            labels: true classes, 0 or 1, of any shape.
            predictions: probabilities of class 1, of the same shape.
            num_thresholds: number of thresholds, at most 127.
            weights: weights of the elements; None for 1.
            global_step, walltime: see SummaryWriter.
        """
        count = min(num_thresholds, 127)
        truth, found = array(labels).reshape(-1).astype(bool), array(predictions).reshape(-1)
        weight = (
            np.ones(len(truth)) if weights is None else np.broadcast_to(np.asarray(weights).reshape(-1), truth.shape)
        )
        bins = np.floor(found * (count - 1)).astype(np.int64)
        true, false = (
            np.bincount(bins[chosen], weight[chosen], count)[::-1].cumsum()[::-1] for chosen in (truth, ~truth)
        )
        precision = true / np.maximum(1e-7, true + false)
        recall = true / np.maximum(1e-7, true[0])
        rows = np.stack([true, false, false[0] - false, true[0] - true, precision, recall])
        self._write_curve(tag, rows, count, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a curve of precision and recall whose points are computed.

        Args:
            tag: name of the curve.
            true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall:
                values at the thresholds, 1-D.
            num_thresholds: number of thresholds, at most 127.
            weights: accepted without effect.
            global_step, walltime: see SummaryWriter.
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        rows = np.stack([np.asarray(values) for values in (*counts, precision, recall)])
        self._write_curve(tag, rows, min(num_thresholds, 127), global_step, walltime)

    def _write_curve(self, tag: str, rows: Any, count: int, global_step: int | None, walltime: float | None) -> None:
        plugin = package("plugins.pr_curve.plugin_data_pb2").PrCurvePluginData(version=0, num_thresholds=count)
        shape = self._shape(dim=[self._shape.Dim(size=size) for size in rows.shape])
        tensor = self._tensor(dtype="DT_FLOAT", float_val=rows.reshape(-1).tolist(), tensor_shape=shape)
        metadata = self._metadata("pr_curves", plugin.SerializeToString())
        self._write(self._value(tag, tensor=tensor, metadata=metadata), global_step, walltime)

    # --- media ---

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image, or a batch of images as a grid of eight in a row.

        Args:
            tag: name of the image.
            img_tensor: uint8 values from 0 to 255, or floating ones from 0 to 1; 1, 3 or 4 channels.
            global_step, walltime: see SummaryWriter.
            dataformats: the order of its dimensions: some of N, C, H and W.
        """
        image_pixels = pixels(array(img_tensor), dataformats.upper())
        height, width, channels = image_pixels.shape
        image = self._summary.Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=png(image_pixels)
        )
        self._write(self._value(tag, image=image), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of images as a grid; see `add_image`."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of matplotlib, or a list of figures of one size as a grid, and close them."""
        figures = figure if isinstance(figure, (list, tuple)) else [figure]
        images = []
        for one in figures:
            canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(one)
            canvas.draw()
            images.append(np.asarray(canvas.buffer_rgba())[:, :, :3])
            if close:
                import_module("matplotlib.pyplot").close(one)
        self.add_image(tag, np.stack(images), global_step, walltime, "NHWC")

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound: values from -1 to 1, in one channel."""
        samples = array(snd_tensor).reshape(-1)
        data = io.BytesIO()
        with wave.open(data, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(sample_rate)
            file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
        audio = self._summary.Summary.Audio(
            sample_rate=sample_rate,
            num_channels=1,
            length_frames=len(samples),
            encoded_audio_string=data.getvalue(),
            content_type="audio/wav",
        )
        self._write(self._value(tag, audio=audio), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text, which TensorBoard shows as Markdown."""
        plugin = package("plugins.text.plugin_data_pb2").TextPluginData(version=0)
        shape = self._shape(dim=[self._shape.Dim(size=1)])
        tensor = self._tensor(dtype="DT_STRING", string_val=[text_string.encode()], tensor_shape=shape)
        metadata = self._metadata("text", plugin.SerializeToString())
        self._write(self._value(f"{tag}/text_summary", tensor=tensor, metadata=metadata), global_step, walltime)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Write videos side by side, as an animated GIF. Needs the package pillow.

        Args:
            tag: name of the video.
            vid_tensor: (videos, frames, channels, height, width), uint8 values from 0 to 255 or floating ones from 0
                to 1; 1 or 3 channels.
            global_step, walltime: see SummaryWriter.
            fps: frames a second.
        """
        image = self._summary.Summary.Image(**gif(array(vid_tensor), fps))
        self._write(self._value(tag, image=image), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: str | Sequence[str] | None = None,
    ) -> None:
        """Write an image with red rectangles. Needs the package pillow.

        Args:
            tag: name of the image.
            img_tensor, dataformats: as for `add_image`.
            box_tensor: (boxes, 4): left, upper, right and lower edges in pixels.
            global_step, walltime: see SummaryWriter.
            rescale: factor of the image's size.
            labels: text for each box.
        """
        plain = pixels(array(img_tensor), dataformats.upper())
        drawn = with_boxes(plain, array(box_tensor), rescale, [labels] if isinstance(labels, str) else labels)
        self.add_image(tag, drawn, global_step, walltime, "HWC")

    # --- what the plugins of TensorBoard show ---

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a 3-dimensional mesh or a cloud of points.

        Args:
            tag: name of the mesh.
            vertices: (batch, vertices, 3), coordinates.
            colors: (batch, vertices, 3), red, green and blue from 0 to 255.
            faces: (batch, faces, 3), numbers of vertices.
            config_dict: settings of the scene, such as its camera.
            global_step, walltime: see SummaryWriter.
        """
        parts = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
        arrays = {kind: array(part) for kind, part in parts.items() if part is not None}
        self._write_all(mesh(tag, arrays, config_dict), global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Arrange curves in charts: {category: {title: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}."""
        self._write_all([custom_scalars(layout)], None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show several curves in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show a curve with its margin: tags of the value, the lower and the upper limit.

        Raises AssertionError for another number of tags.
        """
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write the settings of a run and what they led to, as a run of its own in a folder below.

        Args:
            hparam_dict: name -> number, bool, text or tensor of one element.
            metric_dict: name -> number; curves of these names should not be used elsewhere.
            hparam_domain_discrete: name -> the values that a setting may have.
            run_name: name of the folder; None for the time.
            global_step: step of the metrics.

        Raises TypeError for dicts that are none, ValueError for values of other types.
        """
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        for found in hparams(hparam_dict, metric_dict, hparam_domain_discrete):
            self._writer_of(folder).add_summary(found, global_step)
        for name, metric in metric_dict.items():
            self._write(self._value(name, simple_value=number(metric)), global_step, None, folder)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write points for TensorBoard's projector.

        Args:
            mat: (points, features).
            metadata: a label for each point, or, with `metadata_header`, a list of labels.
            label_img: (points, channels, height, width), square pictures of the points.
            global_step: step of the points, 0 if None.
            tag: name of the points.
            metadata_header: names of the labels' columns.

        Raises AssertionError if the numbers of points differ, or pictures are not square.
        """
        images = None if label_img is None else array(label_img)
        write_embedding(self.log_dir, array(mat), metadata, images, global_step or 0, tag, metadata_header)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Write the operators that a module runs, in the boxes of its modules.

        Args:
            model: the module.
            input_to_model: its argument, or a tuple of them.
            verbose: print the operators.
            use_strict_trace: accepted for compatibility.
        """
        from ._pytorch_graph import graph

        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt: str | os.PathLike[str]) -> None:
        """Write the operators of an ONNX model. Needs the package onnx: `pip install 'gradloom[onnx]'`.

        Args:
            prototxt: path of the model.
        """
        from ._pytorch_graph import graph_of_file

        self._get_file_writer().add_onnx_graph(graph_of_file(prototxt))

    # --- files ---

    def flush(self) -> None:
        """Write all events to the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write all events, and close the files; what is written later goes to a new file."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
