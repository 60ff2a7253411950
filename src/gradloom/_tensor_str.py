"""Expose how tensors print under PyTorch's private name `torch._tensor_str`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .core.tensor import Tensor
from .tensors.printing import body, joined, options as PRINT_OPTS, set_printoptions, tensor_text

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]

_NAMES = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


def get_printoptions() -> dict[str, Any]:
    """Return the options of `set_printoptions` by name."""
    return {name: getattr(PRINT_OPTS, name) for name in _NAMES}


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Context with other options, of `set_printoptions`; those from before are set again at its end."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the elements in brackets; the first line starts `indent` characters into its line."""
    return body(self.detach()._array, indent)


def _add_suffixes(tensor_str: str, suffixes: Sequence[str], indent: int, force_newline: bool) -> str:
    """Join suffixes to the text of the elements, and close the parenthesis."""
    return joined(tensor_str, list(suffixes), indent, force_newline)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return `repr(self)`, with other contents than the elements if given."""
    return tensor_text(self, tensor_contents)


_str_intern = _str
