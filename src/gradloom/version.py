"""The version of gradloom, and of what PyTorch is built with and gradloom is not."""

from __future__ import annotations

from . import __version__ as __version__

cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
debug: bool = False
git_version: str = "unknown"
