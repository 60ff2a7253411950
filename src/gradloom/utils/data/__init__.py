"""Data sets, samplers of their examples, and batches."""

from __future__ import annotations

import typing as _typing
from importlib import import_module as _import_module

from ...types.public import found_in as _found_in
from ._utils.collate import default_collate, default_convert
from .dataloader import DataLoader, get_worker_info
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .distributed import DistributedSampler
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]

# DataPipes are imported when they are asked for.
_PIPES = ("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe")
_MODULES = ("backward_compatibility", "datapipes", "graph", "graph_settings")

if _typing.TYPE_CHECKING:
    from . import datapipes as datapipes, graph as graph, graph_settings as graph_settings
    from .datapipes._decorator import (
        argument_validation as argument_validation,
        functional_datapipe as functional_datapipe,
        guaranteed_datapipes_determinism as guaranteed_datapipes_determinism,
        non_deterministic as non_deterministic,
        runtime_validation as runtime_validation,
        runtime_validation_disabled as runtime_validation_disabled,
    )
    from .datapipes.datapipe import (
        DataChunk as DataChunk,
        DFIterDataPipe as DFIterDataPipe,
        IterDataPipe as IterDataPipe,
        MapDataPipe as MapDataPipe,
    )
else:

    def __getattr__(name):
        if name in _MODULES:
            return _import_module(f"{__name__}.{name}")
        if name not in __all__:
            from gradloom.types.absent import absent

            raise absent(__name__, name)
        home = "datapipe" if name in _PIPES else "_decorator"
        found = globals()[name] = getattr(_import_module(f"{__name__}.datapipes.{home}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


_found_in(__name__, default_collate, default_convert, get_worker_info)
