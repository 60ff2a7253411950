"""Checkpoints that several ranks write and any number of ranks reads.

A checkpoint is a folder, in PyTorch's format (`.metadata`, `__i_j.distcp`) or as files of safetensors; each library
loads what the other has written in PyTorch's. It is written beside its place and renamed when it is complete, so that a
reader finds either the former checkpoint or the new one.
"""

from __future__ import annotations

from ...utils._refused import declare
from ._saving import (
    CheckpointException as CheckpointException,
    DefaultLoadPlanner as DefaultLoadPlanner,
    DefaultSavePlanner as DefaultSavePlanner,
    async_save as async_save,
    load as load,
    save as save,
)
from .filesystem import FileSystemReader as FileSystemReader, FileSystemWriter as FileSystemWriter
from .metadata import (
    BytesStorageMetadata as BytesStorageMetadata,
    ChunkStorageMetadata as ChunkStorageMetadata,
    Metadata as Metadata,
    TensorStorageMetadata as TensorStorageMetadata,
)

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "TensorStorageMetadata",
    "async_save",
    "load",
    "save",
]

__getattr__ = declare(
    __name__,
    {
        "": "LoadPlanner SavePlanner StorageReader StorageWriter HuggingFaceStorageReader HuggingFaceStorageWriter",
        "default_planner": "DefaultLoadPlanner DefaultSavePlanner LoadPlanner SavePlanner",
        "format_utils": "dcp_to_torch_save torch_save_to_dcp",
        "hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
        "optimizer": "load_sharded_optimizer_state_dict",
        "state_dict_loader": "_load_state_dict load load_state_dict",
        "state_dict_saver": "async_save save save_state_dict",
    },
    "save and load of torch.distributed.checkpoint write and read folders, by FileSystemWriter and FileSystemReader",
    dict.fromkeys("DefaultLoadPlanner DefaultSavePlanner async_save load save".split(), "._saving"),
)
