"""Questions that packages ask PyTorch's private module of this name about the compiler and fake tensors.

There are no fake tensors: `torch.compile` and `torch.export` read shapes from tensors on the meta device.
"""

from __future__ import annotations

from typing import Any


def active_fake_mode() -> None:
    """Return None: no mode of fake tensors is entered."""
    return None


def detect_fake_mode(inputs: Any = None) -> None:
    """Return None: there are no fake tensors among `inputs`."""
    return None


class TracingContext:
    """The state of a running compilation in PyTorch; here there is none to be read."""

    @staticmethod
    def try_get() -> None:
        """Return None: no compilation of PyTorch's runs."""
        return None

    @staticmethod
    def get() -> TracingContext:
        """Raise RuntimeError, as PyTorch's does outside of a compilation."""
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")


class CompileContext(TracingContext):
    """The state of a running `torch.compile` in PyTorch; here there is none to be read."""

    @staticmethod
    def current_compile_id() -> None:
        """Return None: no compilation of PyTorch's runs."""
        return None
