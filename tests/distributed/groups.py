"""Functions that run as the ranks of a process group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.distributed import ranks


def run(size: int, call: Callable[..., Any], folder: Path, *args: Any) -> list[Any]:
    """Call `call(rank, size, *args)` in `size` processes that have a process group; return what they return."""
    return ranks.run(size, _grouped, folder, folder / "rendezvous", call, args)


def _grouped(rank: int, size: int, store: Any, file: Path, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    import gradloom.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    try:
        found = call(rank, size, *args)
        dist.barrier()
        return found
    finally:
        dist.destroy_process_group()


def whole(value):
    """Return the whole tensor of a DTensor, and of an ordinary one itself."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value
