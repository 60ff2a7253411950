"""Average parameters over the ranks of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gradloom as gl

from ... import distributed_c10d as dist

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Any], process_group: Any) -> None:
    """Replace parameters by their means over the ranks, by one call for each dtype.

    Args:
        params: the same on all ranks.
        process_group: the ranks; the default group if None.
    """
    if dist._rank_not_in_group(process_group):
        return
    by_dtype: dict[Any, list[Any]] = {}
    for parameter in params:
        by_dtype.setdefault(parameter.dtype, []).append(parameter)
    size = dist.get_world_size(process_group)
    with gl.no_grad():
        for listed in by_dtype.values():
            flat = gl.cat([parameter.reshape(-1) for parameter in listed])
            flat /= size
            dist.all_reduce(flat, group=process_group)
            start = 0
            for parameter in listed:
                parameter.copy_(flat[start : start + parameter.numel()].view(parameter.shape))
                start += parameter.numel()


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """Return the parameters that have gradients.

    Args:
        params: parameters, or parameter groups of an optimizer.

    Raises:
        NotImplementedError: for anything else.
    """
    found = []
    for one in params:
        if not isinstance(one, (gl.Tensor, dict)):
            raise NotImplementedError(f"Parameter input of type {type(one)} is not supported")
        listed = [one] if isinstance(one, gl.Tensor) else one["params"]
        found += [parameter for parameter in listed if parameter.grad is not None]
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Average the parameters that have gradients; see the two functions above."""
    average_parameters(get_params_to_average(params), process_group)
