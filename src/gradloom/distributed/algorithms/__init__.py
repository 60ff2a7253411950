"""Algorithms that stand on collectives: joining uneven inputs, hooks of DistributedDataParallel."""

from __future__ import annotations

from .join import Join as Join, Joinable as Joinable, JoinHook as JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
