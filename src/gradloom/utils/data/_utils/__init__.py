"""Batches and worker processes of a DataLoader, in the modules where PyTorch has them."""

from __future__ import annotations

from . import collate as collate, pin_memory as pin_memory, worker as worker
