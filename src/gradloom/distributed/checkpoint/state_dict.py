"""State of models and optimizers by the names of parameters, whatever they are wrapped in and distributed over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gradloom as gl

from ...optim.optimizer import Optimizer
from .. import distributed_c10d as dist
from ..optim import ZeroRedundancyOptimizer
from ..tensor._dtensor import DTensor, distribute_tensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """What the functions of this module do.

    Attributes:
        full_state_dict: whole tensors instead of DTensors; with `cpu_offload`, on rank 0 only.
        cpu_offload: see `full_state_dict`.
        ignore_frozen_params: leave out parameters that require no gradient.
        keep_submodule_prefixes: has no effect.
        strict: as for `load_state_dict`.
        broadcast_from_rank0: take the state from rank 0; the others may give an empty one.
        flatten_optimizer_state_dict: False; nested states are what optimizers have.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _plain_name(name: str) -> str:
    """Return a name without what wrappers add: DistributedDataParallel's `module.`."""
    return name.removeprefix("module.")


def _is_wrapped(model: Any) -> bool:
    return isinstance(model, gl.nn.parallel.DistributedDataParallel)


def _name(model: Any, name: str) -> str:
    return _plain_name(name) if _is_wrapped(model) else name


def _names(model: Any) -> dict[int, str]:
    """Return the parameters' names by id; of tied parameters the first."""
    found: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(parameter), _name(model, name))
    return found


def _finished(value: Any, options: StateDictOptions) -> Any:
    """Return a tensor as the options ask for it."""
    if not isinstance(value, gl.Tensor):
        return value
    value = value.detach()
    if not options.full_state_dict:
        return value
    return value.full_tensor() if isinstance(value, DTensor) else value.clone()


def _kept(state: Any, options: StateDictOptions) -> Any:
    """Return the state, or on other ranks than 0 nothing where only rank 0 gets it."""
    only_first = options.full_state_dict and options.cpu_offload and dist.is_initialized()
    return {} if only_first and dist.get_rank() else state


def get_model_state_dict(
    model: Any, *, submodules: set[Any] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return the state of a model. With shards, all ranks call this.

    Args:
        model: a module, also one in DistributedDataParallel or after `fully_shard`.
        submodules: None.
        options: see StateDictOptions.
    """
    options = options or StateDictOptions()
    if submodules:
        raise NotImplementedError("get_model_state_dict returns the state of the whole model: leave `submodules` out")
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad and options.ignore_frozen_params}
    state = {
        _name(model, key): _finished(value, options) for key, value in model.state_dict().items() if key not in frozen
    }
    return _kept(state, options)


def set_model_state_dict(
    model: Any, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load the state of a model, of whole tensors or of DTensors like the model's.

    Args:
        model: as for `get_model_state_dict`.
        model_state_dict: as `get_model_state_dict` returns it.
        options: see StateDictOptions.

    Returns:
        missing and unexpected keys, as `load_state_dict` does.
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        model_state_dict = _of_rank0(model_state_dict)
    prefix = "module." if _is_wrapped(model) else ""
    own = model.state_dict()
    given = {
        key: _like(value, own.get(key)) for key, value in ((f"{prefix}{k}", v) for k, v in model_state_dict.items())
    }
    return model.load_state_dict(given, strict=options.strict)


def _of_rank0(value: Any) -> Any:
    found = [value if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def _listed(optimizers: Any) -> list[Optimizer]:
    found = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    for optimizer in found:
        if isinstance(optimizer, ZeroRedundancyOptimizer):
            raise NotImplementedError("use consolidate_state_dict and state_dict of ZeroRedundancyOptimizer")
    return found


def _init_optim_state(optim: Optimizer) -> None:
    """Give an optimizer that never stepped its state: a step without gradients and with a learning rate of 0."""
    if optim.state:
        return
    groups = optim.param_groups
    if any(p.grad is not None for group in groups for p in group["params"]):
        raise RuntimeError("get_optimizer_state_dict of an optimizer that never stepped: call zero_grad() before")
    rates = [group.get("lr") for group in groups]
    for group in groups:
        if "lr" in group:
            group["lr"] = gl.zeros_like(group["lr"]) if isinstance(group["lr"], gl.Tensor) else 0.0
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.grad = gl.zeros_like(parameter.detach())
    optim.step(closure=None)
    for group, rate in zip(groups, rates, strict=True):
        if "lr" in group:
            group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: Any,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Any] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Return the state of optimizers, with names of parameters instead of numbers. With shards, all ranks call this.

    Args:
        model: whose parameters they optimize.
        optimizers: one or several. One that never stepped gets its state, without a change of parameters.
        submodules: None.
        options: see StateDictOptions.
    """
    options = options or StateDictOptions()
    names, state, groups = _names(model), dict[str, Any](), list[Any]()
    for optimizer in _listed(optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            groups.append({**group, "params": [names[id(parameter)] for parameter in group["params"]]})
            for parameter in group["params"]:
                if parameter in optimizer.state:
                    state[names[id(parameter)]] = {
                        key: _finished(value, options) for key, value in optimizer.state[parameter].items()
                    }
    return _kept({"state": state, "param_groups": groups}, options)


def set_optimizer_state_dict(
    model: Any,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load the state of optimizers, of whole tensors or of DTensors like the parameters.

    Args:
        model, optimizers: as for `get_optimizer_state_dict`.
        optim_state_dict: as `get_optimizer_state_dict` returns it.
        options: see StateDictOptions.
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        optim_state_dict = _of_rank0(optim_state_dict)
    names = _names(model)
    number = 0
    for optimizer in _listed(optimizers):
        state: dict[int, Any] = {}
        groups: list[dict[str, Any]] = []
        index = 0
        for group in optimizer.param_groups:
            given = optim_state_dict["param_groups"][number]
            number += 1
            numbers = []
            for parameter in group["params"]:
                found = optim_state_dict["state"].get(names[id(parameter)])
                if found is not None:
                    state[index] = {key: _like(value, parameter) for key, value in found.items()}
                numbers.append(index)
                index += 1
            groups.append({**given, "params": numbers})
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _like(value: Any, own: Any) -> Any:
    """Return this rank's part of a whole tensor, if what it is loaded into is distributed."""
    is_whole = isinstance(value, gl.Tensor) and not isinstance(value, DTensor)
    if not isinstance(own, DTensor) or not is_whole or value.shape != own.shape:
        return value
    return distribute_tensor(value.detach(), own.device_mesh, own.placements, src_data_rank=None)


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: set[Any] | None = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states of a model and its optimizers.

    Args:
        model, optimizers, submodules, options: as for `get_model_state_dict` and `get_optimizer_state_dict`.
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the states of a model and its optimizers; return the model's missing and unexpected keys.

    Args:
        model, optimizers, options: as for `set_model_state_dict` and `set_optimizer_state_dict`.
        model_state_dict, optim_state_dict: as `get_state_dict` returns them.
    """
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found
