"""The default generator of random numbers: seeding it, and saving and restoring its state."""

from __future__ import annotations

from .generator import default_generator, fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
