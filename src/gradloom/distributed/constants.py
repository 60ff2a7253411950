"""Constants of torch.distributed."""

from __future__ import annotations

from .errors import default_pg_timeout as default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_nccl_timeout = None  # there is no NCCL
