"""Steps on other tensors than an optimizer's own."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from gradloom import Tensor
from gradloom.optim.optimizer import Optimizer

from ..types.public import found_in as _found_in

__all__ = ["swap_in_optimizer_params_and_state"]

_WHO = "swap_in_optimizer_params_and_state requires"


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: Mapping[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Let an optimizer act on other parameters with another state within a block; it has its own again afterwards.

    Args:
        optimizer: has made a step, so that it has a state.
        swapin_parameters: tensors by name, in the order of the optimizer's parameters.
        swapin_optim_state: as `optimizer.state_dict()` returns it. Steps change its tensors in place; what else they
            set is forgotten with the block.

    Raises:
        RuntimeError: if the optimizer has no state, or the dictionary does not fit it.

    Example:
        >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, parameters, state):    # doctest: +SKIP
        ...     optimizer.step()
    """
    state, groups = _checked(optimizer, swapin_optim_state)
    tensors = list(swapin_parameters.values())
    found: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    replacements = []
    for group in groups:
        numbers = group["params"]
        if len(tensors) < len(numbers):
            raise RuntimeError(f"{_WHO} the explicit parameter state to match optimizer.param_groups ordering.")
        own, tensors = tensors[: len(numbers)], tensors[len(numbers) :]
        replacements.append({**group, "params": own})
        found.update({tensor: dict(state.get(number, {})) for tensor, number in zip(own, numbers, strict=True)})
    before, own_state = [dict(group) for group in optimizer.param_groups], optimizer.state
    try:
        _set(optimizer.param_groups, replacements)
        optimizer.state = found
        yield
    finally:
        _set(optimizer.param_groups, before)
        optimizer.state = own_state


def _set(groups, contents):
    """Give each dictionary other contents; it stays the same object, which schedulers hold."""
    for group, content in zip(groups, contents, strict=True):
        group.clear()
        group.update(content)


def _checked(optimizer, state_dict):
    """Return the state and the groups of a state dict; raise RuntimeError if they are not of the optimizer's form."""
    if not optimizer.state:
        raise RuntimeError(f"{_WHO} initialized optimizer state.")
    if not isinstance(state_dict, dict):
        raise RuntimeError(f"{_WHO} a DCP-style optimizer state_dict.")
    state, groups = state_dict.get("state"), state_dict.get("param_groups")
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_WHO} swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param state dicts, "
            f"got {type(state).__name__}."
        )
    if any(not isinstance(key, int) for key in state):
        raise RuntimeError(f"{_WHO} optimizer.state_dict()-style state keyed by packed parameter ids.")
    if any(not isinstance(value, dict) for value in state.values()):
        raise RuntimeError(f"{_WHO} per-parameter optimizer state entries to be dictionaries.")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_WHO} swapin_optim_state['param_groups'] to be a list of param-group dicts, got {type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    for number, (own, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        _check_group(number, own, group)
    extra = [key for key in state if not any(key in group["params"] for group in groups)]
    if extra:
        raise RuntimeError(
            f"{_WHO} swapin_optim_state['state'] to be keyed only by packed parameter ids from "
            f"param_groups[*]['params']; got extra keys {extra!r}."
        )
    return state, groups


def _check_group(number, own, group):
    if not isinstance(group, dict):
        raise RuntimeError(f"{_WHO} each optimizer param group to be a dictionary.")
    numbers = group.get("params")
    if not isinstance(numbers, list) or not all(isinstance(one, int) for one in numbers):
        raise RuntimeError(
            f"{_WHO} optimizer.state_dict()-style param_groups[*]['params'] entries keyed by packed parameter ids."
        )
    if len(numbers) != len(own["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {number} has a different number of params than the live optimizer param "
            "group."
        )
    if set(group) != set(own):
        raise RuntimeError(
            f"{_WHO} optimizer.state_dict()-style param group keys to exactly match the live optimizer group keys for "
            f"group {number}. Keys only in swap-in: {[key for key in group if key not in own]}. Keys only in live: "
            f"{[key for key in own if key not in group]}."
        )


_found_in("gradloom.optim", swap_in_optimizer_params_and_state)
