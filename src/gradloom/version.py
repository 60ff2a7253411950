"""The version of gradloom; None for the toolkits that PyTorch builds are tied to."""

from __future__ import annotations

from . import __version__ as __version__

cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
debug: bool = False
git_version: str = "unknown"
