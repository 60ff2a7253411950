"""Where checkpoints are: folders of files, in PyTorch's format or in that of safetensors."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import gradloom as gl

from ...core.tensor import wrap
from ._files import read_arrays, write_arrays
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
    _StorageInfo,
    dumped,
    parsed,
)

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_INDEX, _JSON, _VALUES = ".metadata", "metadata.json", "values.pt"


class SerializationFormat(Enum):
    """Formats of checkpoints.

    TORCH_SAVE is PyTorch's: `.metadata`, and a file `__i_j.distcp` of each rank, with one file of `save` after the
    other. SAFETENSORS has a file of safetensors and one of other values of each rank, and `metadata.json`.
    """

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemWriter:
    """Where and how `save` writes.

    Args:
        path: the folder.
        single_file_per_rank: put all that a rank writes into one file; in PyTorch's format only.
        sync_files: wait until the disk has everything.
        overwrite: replace a checkpoint that is there.
        serialization_format: a SerializationFormat, or its name: "torch_save", PyTorch's, or "safetensors".
        options: further ones of PyTorch's writer; they have no effect.
    """

    def __init__(self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True,
                 thread_count: int = 1, *, overwrite: bool = True,
                 serialization_format: SerializationFormat | str = SerializationFormat.TORCH_SAVE,
                 **options: Any) -> None:  # fmt: skip
        self.path, self.sync_files, self.overwrite = Path(path), sync_files, overwrite
        self.single_file_per_rank = single_file_per_rank
        self.serialization_format = SerializationFormat(serialization_format)

    def _write_part(
        self, folder: Path, rank: int, arrays: Mapping[MetadataIndex, np.ndarray], values: Mapping[str, Any]
    ) -> dict[MetadataIndex, _StorageInfo]:
        """Write what a rank has, and return where it is."""
        if self.serialization_format is SerializationFormat.SAFETENSORS:
            name = f"rank_{rank}.safetensors"
            write_arrays(folder / name, {index.fqn: array for index, array in arrays.items()}, self.sync_files)
            gl.save(dict(values), folder / f"rank_{rank}.{_VALUES}")
            return {index: _StorageInfo(name, 0, 0) for index in arrays}
        items: list[tuple[MetadataIndex, Any]] = [(MetadataIndex(key), value) for key, value in values.items()]
        # A copy, since `save` writes all of the memory of which an array is a part.
        items += [(index, wrap(array.copy())) for index, array in arrays.items()]
        groups = [items] if self.single_file_per_rank else [[item] for item in items]
        found = {}
        for number, group in enumerate(groups):
            if not group:
                continue
            name, at = f"__{rank}_{number}.distcp", 0
            with open(folder / name, "xb") as file:
                for index, value in group:
                    buffer = io.BytesIO()
                    gl.save(value, buffer)
                    file.write(buffer.getbuffer())
                    found[index] = _StorageInfo(name, at, buffer.tell())
                    at += buffer.tell()
                file.flush()
                if self.sync_files:
                    os.fsync(file.fileno())
        return found

    def _write_index(self, folder: Path, metadata: Metadata, world_size: int) -> None:
        """Write the index, which makes the checkpoint complete."""
        if self.serialization_format is SerializationFormat.SAFETENSORS:
            (folder / _JSON).write_text(json.dumps(_as_json(metadata, world_size)))
        else:
            (folder / _INDEX).write_bytes(dumped(metadata))


class FileSystemReader:
    """Where `load` reads; it sees itself which format the checkpoint has.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)
        self._arrays: dict[str, dict[str, np.ndarray]] = {}  # of files of safetensors
        self._values: dict[str, Any] | None = None  # of all files for values beside them

    def read_metadata(self, *options: Any, **more: Any) -> Metadata:
        """Return what the checkpoint has.

        Raises:
            FileNotFoundError: there is no complete checkpoint.
            RuntimeError: its index is damaged.
            UnpicklingError: its index names what it may not make.
        """
        former = self.path.with_name(f".{self.path.name}.former")
        for folder in (self.path, former):  # see `exchange`
            if (folder / _INDEX).exists() or (folder / _JSON).exists():
                self.path = folder
                break
        else:
            raise FileNotFoundError(f"{self.path} has no {_INDEX} or {_JSON}: it is not a complete checkpoint")
        try:
            if (self.path / _INDEX).exists():
                return parsed((self.path / _INDEX).read_bytes())
            return _from_json(json.loads((self.path / _JSON).read_text()))
        except (KeyError, TypeError, ValueError) as error:
            raise RuntimeError(f"{self.path / _JSON} is damaged: {type(error).__name__}: {error}") from error

    def _array(self, index: MetadataIndex, sizes: Any, metadata: Metadata) -> np.ndarray:
        """Return a part of a tensor.

        Raises:
            RuntimeError: if it is not there, or another.
        """
        info = self._info(index, metadata)
        if info.relative_path.endswith(".safetensors"):
            if info.relative_path not in self._arrays:
                self._arrays[info.relative_path] = read_arrays(self.path / info.relative_path)
            found = self._arrays[info.relative_path][index.fqn]
            if metadata.state_dict_metadata[index.fqn].properties.dtype is gl.complex128:  # type: ignore[union-attr]
                found = found.view(np.complex128)[..., 0]
        else:
            tensor = self._loaded(index, info)
            if not isinstance(tensor, gl.Tensor) or tensor.is_sparse or tensor.is_meta:
                raise RuntimeError(f"{self.path / info.relative_path} is damaged: {index.fqn} is no tensor")
            found = tensor.detach().resolve_conj().resolve_neg()._array
        if list(found.shape) != list(sizes):
            raise RuntimeError(
                f"{self.path / info.relative_path} is damaged: a part of {index.fqn} has the shape {found.shape}, "
                f"not {tuple(sizes)}"
            )
        return found

    def _value(self, key: str, metadata: Metadata) -> Any:
        """Return a value that is not a tensor."""
        if (self.path / _INDEX).exists():
            index = MetadataIndex(key)
            return self._loaded(index, self._info(index, metadata))
        if self._values is None:
            self._values = {}
            for file in sorted(self.path.glob(f"rank_*.{_VALUES}")):
                self._values.update(gl.load(file, weights_only=True))
        return self._values[key]

    def _info(self, index: MetadataIndex, metadata: Metadata) -> _StorageInfo:
        info: _StorageInfo | None = metadata.storage_data.get(index)
        if info is None:
            raise RuntimeError(f"{self.path} is damaged: it does not say where {index.fqn} is")
        return info

    def _loaded(self, index: MetadataIndex, info: _StorageInfo) -> Any:
        path = self.path / info.relative_path
        with open(path, "rb") as file:
            if info.offset + info.length > os.fstat(file.fileno()).st_size:
                raise RuntimeError(f"{path} is damaged: its end, with {index.fqn}, is missing")
            file.seek(info.offset)
            data = file.read(info.length)
        try:
            return gl.load(io.BytesIO(data), weights_only=True)
        except (RuntimeError, EOFError) as error:
            raise RuntimeError(f"{path} is damaged where {index.fqn} should be: {error}") from error


def _as_json(metadata: Metadata, world_size: int) -> dict[str, Any]:
    """Return the content of `metadata.json`."""
    tensors, values = {}, []
    for key, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata):
            values.append(key)
            continue
        chunks = []
        for number, chunk in enumerate(entry.chunks):
            file = metadata.storage_data[MetadataIndex(key, chunk.offsets, number)].relative_path
            chunks.append([list(chunk.offsets), list(chunk.sizes), file, key])
        dtype = str(entry.properties.dtype).rpartition(".")[2]
        tensors[key] = {"shape": list(entry.size), "dtype": dtype, "chunks": chunks}
    return {"tensors": tensors, "values": values, "world_size": world_size}


def _from_json(content: dict[str, Any]) -> Metadata:
    found, places = dict[str, Any](), {}
    for key, entry in content["tensors"].items():
        chunks = []
        for number, (offsets, sizes, file, _) in enumerate(entry["chunks"]):
            chunks.append(ChunkStorageMetadata(gl.Size(offsets), gl.Size(sizes)))
            places[MetadataIndex(key, gl.Size(offsets), number)] = _StorageInfo(Path(file).name, 0, 0)
        dtype = getattr(gl, entry["dtype"])
        found[key] = TensorStorageMetadata(TensorProperties(dtype), gl.Size(entry["shape"]), chunks)
    found.update({key: BytesStorageMetadata() for key in content["values"]})
    return Metadata(found, storage_data=places)
