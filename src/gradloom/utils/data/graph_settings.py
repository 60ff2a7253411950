"""What DataLoader does to all pipes of a graph: seed them, shuffle or not, and share them among processes."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import gradloom as gl

from .datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from .graph import DataPipeGraph, traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """Return the pipes of a graph, each once, a pipe before its sources."""
    found: dict[int, Any] = {}

    def visit(graph: DataPipeGraph) -> None:
        for number, (pipe, sources) in graph.items():
            if number not in found:
                found[number] = pipe
                visit(sources)

    visit(graph)
    return list(found.values())


def _has_methods(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
) -> Any:
    """Give each pipe that has `apply_sharding` its share; return the last pipe.

    Args:
        datapipe: the last pipe of a graph.
        num_of_instances, instance_id: number of shares, and which one it is.
        sharding_group: SHARDING_PRIORITIES of the shares, for methods that take it.

    Raises:
        RuntimeError: for two such pipes one after the other.
    """

    def visit(graph: DataPipeGraph, before: Any) -> None:
        for pipe, sources in graph.values():
            shared = before
            if isinstance(pipe, _ShardingIterDataPipe) or _has_methods(pipe, "apply_sharding"):
                if before is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                        f"Sharding already applied to {before} while trying to apply to {pipe}"
                    )
                if len(inspect.signature(pipe.apply_sharding).parameters) < 3:
                    pipe.apply_sharding(num_of_instances, instance_id)
                else:
                    pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
                shared = pipe
            visit(sources, shared)

    visit(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn the shuffling pipes of a graph on or off; return the last pipe.

    Args:
        datapipe: the last pipe of the graph.
        shuffle: on or off; None changes nothing. If there is none to turn on, a shuffling pipe is added at the end.
    """
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if _has_methods(pipe, "set_shuffle", "set_seed")]
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
            "that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Any) -> Any:
    """Seed the pipes of a graph, as `apply_random_seed`, which replaces this deprecated function."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. Please use "
        "`apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: Any, rng: gl.Generator | None) -> Any:
    """Call `set_seed` of each pipe that has it, with a number drawn from a generator; return the last pipe.

    Args:
        datapipe: the last pipe of a graph.
        rng: the generator.
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has_methods(pipe, "set_seed"):
            pipe.set_seed(int(gl.empty((), dtype=gl.int64).random_(generator=rng).item()))
    return datapipe
