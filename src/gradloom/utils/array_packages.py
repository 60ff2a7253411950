"""Make gradloom's tensors known to einops and opt_einsum, which keep lists of the array libraries that they know.

    import gradloom as torch
    import gradloom.utils.array_packages
    from einops import rearrange

    rearrange(torch.ones(2, 3), "a b -> b a")

Import it before or after these packages, in a process that may use PyTorch, too. `gradloom.as_torch` makes it
unnecessary, because both packages know PyTorch. Neither asks an array what it can do: einops looks for a subclass of
its `AbstractBackend`, opt_einsum for a module named in a table, and so this module adds one to each. Packages that are
not installed are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_NAME = __name__.partition(".")[0]


def transpose(x: Any, axes: Sequence[int]) -> Any:
    """Return `x` with its dimensions in another order, as `numpy.transpose` does. opt_einsum calls it."""
    return x.permute(tuple(axes))


def tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    """Return the contraction of `x` and `y`, with the arguments of `numpy.tensordot`. opt_einsum calls it."""
    return sys.modules[_NAME].tensordot(x, y, dims=axes)


def einsum(equation: str, *operands: Any) -> Any:
    """Return `gradloom.einsum` of the operands. opt_einsum calls it, with any letters for the dimensions."""
    letters = import_module("opt_einsum.parser").convert_to_valid_einsum_chars(equation)
    return sys.modules[_NAME].einsum(letters, *operands)


def _add_to_einops() -> None:
    backends = import_module("einops._backends")

    class Backend(backends.TorchBackend):  # type: ignore[name-defined, misc]
        framework_name = _NAME

        def __init__(self) -> None:  # the base class would import torch
            self.torch = sys.modules[_NAME]

        def layers(self) -> Any:
            raise NotImplementedError("einops has layers for torch: import gradloom.as_torch, and use these")

    vars(backends)["_gradloom_backend"] = Backend  # einops finds subclasses by weak references


def _add_to_opt_einsum() -> None:
    import_module("opt_einsum.backends.dispatch")._aliases[_NAME] = __name__


def _register() -> None:
    if sys.modules.get("torch") is sys.modules[_NAME]:
        return
    if find_spec("einops") is not None:
        _add_to_einops()
    if find_spec("opt_einsum") is not None:
        _add_to_opt_einsum()


_register()
