"""What a DataLoader does for DataPipes: seeds, shares of processes and workers, pickling.

Nothing here imports DataPipes before a program has: without one no data set is a pipe.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any

import gradloom as gl

_PACKAGE = __name__.rpartition(".")[0]


def kind_of(dataset: Any) -> str:
    """Return "iter" for an IterDataPipe, "map" for a MapDataPipe, and "" for anything else."""
    pipes = sys.modules.get(f"{_PACKAGE}.datapipes.datapipe")
    if pipes is not None and isinstance(dataset, pipes.IterDataPipe):
        return "iter"
    return "map" if pipes is not None and isinstance(dataset, pipes.MapDataPipe) else ""


def wrapped(dataset: Any, kind: str) -> Any:
    """Return a pipe that is pickled by dill if pickle cannot do it."""
    pipes = import_module(f"{_PACKAGE}.datapipes.datapipe")
    wrapper = pipes._IterDataPipeSerializationWrapper if kind == "iter" else pipes._MapDataPipeSerializationWrapper
    return wrapper(dataset)


def set_shuffle(dataset: Any, shuffle: bool | None) -> None:
    """Turn the shuffling pipes of a graph on or off. As in PyTorch, one that is added at the end is not read."""
    _settings().apply_shuffle_settings(dataset, shuffle=shuffle)


def shared_seed(generator: gl.Generator | None) -> int:
    """Return a seed that all processes of the default process group share, drawn by the first."""
    drawn = gl.empty((), dtype=gl.int64).random_(generator=generator)
    distributed = _distributed()
    if distributed is not None:
        distributed.broadcast(drawn, src=0)
    return int(drawn.item())


def seed(dataset: Any, number: int) -> None:
    """Seed the pipes of a graph by a generator with a seed."""
    _settings().apply_random_seed(dataset, gl.Generator().manual_seed(number))


def share(dataset: Any) -> None:
    """Give the pipes of a graph the share of this process."""
    _settings().apply_sharding(dataset, *_place())


def worker_init_fn(function: Any) -> Any:
    """Return the function that a worker calls first: it gives the pipes their share, and then calls the user's."""
    return partial(_initialize, function, *_place())


def _initialize(function: Any, processes: int, rank: int, worker: int) -> None:
    info = import_module(f"{_PACKAGE}._utils.worker").get_worker_info()
    _settings().apply_sharding(info.dataset, info.num_workers * processes, worker * processes + rank)
    if function is not None:
        function(worker)


def _settings() -> Any:
    return import_module(f"{_PACKAGE}.graph_settings")


def _place() -> tuple[int, int]:
    """Return the number of processes in the default process group, and this one's rank."""
    distributed = _distributed()
    return (1, 0) if distributed is None else (distributed.get_world_size(), distributed.get_rank())


def _distributed() -> Any:
    """Return the package of process groups if this process belongs to one, else None."""
    found = sys.modules.get("gradloom.distributed")
    return found if found is not None and found.is_initialized() else None
