"""Distribute arguments to accelerators, of which there are none: only what holds no tensor can be distributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradloom import Tensor
from gradloom.types.device import no_gpu

__all__ = ["gather", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Return whether `obj` is a named tuple, made by `collections` or `typing`."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Return what each device gets of nested tuples, lists and dicts: the same objects, other than tensors.

    Args:
        inputs: nested tuples, lists and dicts.
        target_gpus: the devices.
        dim: the dimension in which PyTorch splits tensors.

    Raises:
        AssertionError: if there is a tensor in `inputs`, since there is no device to copy a part of it to.
    """
    if isinstance(inputs, Tensor):
        raise no_gpu()
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        items = inputs.items() if isinstance(inputs, dict) else inputs
        make: Callable[..., Any] = type(inputs)
        parts = zip(*[scatter(item, target_gpus, dim) for item in items], strict=True)
        return [make(*part) if is_namedtuple(inputs) else make(part) for part in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the positional arguments and the keywords that each device gets; see `scatter`.

    Args:
        inputs, kwargs: the positional arguments and the keywords.
        target_gpus: the devices.
        dim: the dimension in which PyTorch splits tensors.
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    positional += [()] * (len(named) - len(positional))
    named += [{}] * (len(positional) - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Refuse to collect results from devices: there are none.

    Args:
        outputs, target_device, dim: the results, where PyTorch puts them, and the dimension in which it joins them.

    Raises:
        AssertionError: always.
    """
    raise AssertionError("Gather function not implemented for CPU tensors: use gradloom.cat")
