"""`DataParallel`, which calls its module: there are no accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradloom.nn.modules.module import Module
from gradloom.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


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

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Any]:
        """Refuse to copy `module` to the accelerators in `device_ids`. Raises RuntimeError always."""
        raise RuntimeError("torch.nn.parallel.replicate: there are no accelerators: use the module itself")

    def scatter(self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]) -> Any:
        """Return which of `inputs` and `kwargs` each of `device_ids` gets; see `gradloom.nn.parallel.scatter`."""
        return scatter_kwargs(inputs, kwargs, device_ids)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Refuse to call `replicas` with their `inputs` and `kwargs` on accelerators. Raises RuntimeError always."""
        raise RuntimeError("torch.nn.parallel.parallel_apply: there are no accelerators: call the module itself")

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Refuse to collect `outputs` on `output_device`. Raises AssertionError always."""
        return gather(outputs, output_device)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Refuse to call a module on accelerators, of which there are none.

    Args:
        module, inputs, module_kwargs: what would be called, and its arguments.
        device_ids, output_device, dim: the accelerators, that of the result, and the dimension of the batch.

    Raises:
        RuntimeError: always; call the module, or wrap it in `DataParallel`.
    """
    raise RuntimeError("device type could not be determined: there are no accelerators. Call the module itself")
