"""What DataLoader does to all pipes of a graph: seed them, shuffle or not, and share them among processes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
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

    for pipe, before in _with_those_before(traverse_dps(datapipe)):
        if not _is_shared(pipe):
            continue
        for other in filter(_is_shared, before):
            raise RuntimeError(
                "Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding already "
                f"applied to {other} while trying to apply to {pipe}"
            )
        takes_group = len(inspect.signature(pipe.apply_sharding).parameters) > 2
        pipe.apply_sharding(
            num_of_instances, instance_id, **({"sharding_group": sharding_group} if takes_group else {})
        )
    return datapipe


def _with_those_before(graph: DataPipeGraph, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield each pipe of a graph with those that read from it, the nearest first, once for each way to it."""
    for pipe, sources in graph.values():
        yield pipe, before
        yield from _with_those_before(sources, (pipe, *before))


def _is_shared(pipe: Any) -> bool:
    return isinstance(pipe, _ShardingIterDataPipe) or _has_methods(pipe, "apply_sharding")


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn the shuffling pipes of a graph on or off; return the last pipe.

    Args:
        datapipe: the last pipe of the graph.
        shuffle: on or off; None changes nothing. If there is none to turn on, a shuffling pipe is added at the end.
    """
    if shuffle is not None:
        shufflers = [
            pipe
            for pipe in get_all_graph_pipes(traverse_dps(datapipe))
            if _has_methods(pipe, "set_shuffle", "set_seed")
        ]
        for pipe in shufflers:
            pipe.set_shuffle(shuffle)
        if shuffle and not shufflers:
            return _shuffled(datapipe)
    return datapipe


def _shuffled(datapipe: Any) -> Any:
    warnings.warn(
        "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
        "that the default buffer size might not be sufficient for your task.",
        stacklevel=3,
    )
    return datapipe.shuffle()


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
