"""Fast-forwarding a pipe to where a pickled one stood."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ...graph_settings import apply_random_seed
from .._hook_iterator import _SnapshotState
from ..datapipe import IterDataPipe


def _simple_graph_snapshot_restoration(datapipe: IterDataPipe[Any], n_iterations: int, rng: Any = None) -> None:
    """Make a pipe go on after its first examples, which are made anew and dropped.

    Args:
        datapipe: the last pipe of a graph; its next iterator goes on.
        n_iterations: number of examples, as a pickled pipe's `_number_of_samples_yielded`.
        rng: the generator that seeds the shuffling pipes, in the state in which it first did.

    Raises:
        RuntimeError: if the pipe was restored and not iterated since, or has fewer examples.
    """
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the graph if your graph "
            "has not been restored."
        )
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    examples = iter(datapipe)
    if sum(1 for _ in islice(examples, n_iterations)) < n_iterations:
        raise RuntimeError(
            f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples available."
        )
    datapipe._fast_forward_iterator = examples
    datapipe._snapshot_state = _SnapshotState.Restored
