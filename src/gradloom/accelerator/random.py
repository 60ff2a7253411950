"""Random numbers of the current accelerator: there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.tensor import Tensor

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed"]


def initial_seed(device: Any = None, /) -> NoReturn:
    """Refuse: there is no accelerator. Raises RuntimeError always."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


def get_rng_state(device: Any = None, /) -> NoReturn:
    """Refuse: there is no accelerator. Raises RuntimeError always."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all devices: an empty list."""
    return []
