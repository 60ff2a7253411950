"""`DataParallel`, which calls its module: there are no accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradloom.nn.modules.module import Module
from gradloom.utils._refused import declare

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Call a module; with several accelerators, PyTorch would split the batch among them.

    Args:
        module: called with the arguments of `forward`. Its parameters have the prefix `module.`.
        device_ids: has no effect.
        output_device: has no effect.
        dim: the batch dimension; has no effect.

    Shape:
        input, output: as for `module`.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's result."""
        return self.module(*inputs, **kwargs)


__getattr__ = declare(
    __name__,
    {"": "DistributedDataParallel", "distributed": "DistributedDataParallel"},
    "gradloom runs in one process: use the module itself",
)
