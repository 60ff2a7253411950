"""Modules as functions of their tensors, in the form that functorch had before `torch.func.functional_call`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..func import functional_call
from ..nn.modules.module import Module


def _names_map(named: Iterable[tuple[str, Tensor]]) -> dict[str, list[str]]:
    """Return the names of each tensor by its first one."""
    found: dict[int, list[str]] = {}
    for name, tensor in named:
        found.setdefault(id(tensor), []).append(name)
    return {names[0]: names for names in found.values()}


def _without_values(model: Module) -> Module:
    return copy.deepcopy(model).to("meta")


class FunctionalModule(Module):
    """A module as a function `f(params, *args, **kwargs)`; made by `make_functional`.

    Args:
        stateless_model: the module, whose own parameters are not used.
        param_names: names of the parameters, in the order of `params`.
        names_map: all names of each parameter by its first one.
    """

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.names_map = names_map

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
        names = _names_map(model.named_parameters(remove_duplicate=False))
        params = _copies(model, names, disable_autograd_tracking)
        return FunctionalModule(_without_values(model), tuple(names), names), params

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Return the module's result with other parameters."""
        given = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A module as a function `f(params, buffers, *args, **kwargs)`; made by `make_functional_with_buffers`.

    Args:
        stateless_model: the module, whose own tensors are not used.
        param_names, buffer_names: names of the tensors, in the order of `params` and `buffers`.
        param_names_map, buffer_names_map: all names of each tensor by its first one.
    """

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: dict[str, list[str]],
        buffer_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
        params = _names_map(model.named_parameters(remove_duplicate=False))
        buffers = _names_map(model.named_buffers(remove_duplicate=False))
        function = FunctionalModuleWithBuffers(_without_values(model), tuple(params), tuple(buffers), params, buffers)
        return function, _copies(model, params, disable_autograd_tracking), _copies(model, buffers, False)

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Return the module's result with other parameters and buffers."""
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


def _copies(model: Module, names: Iterable[str], untracked: bool) -> tuple[Tensor, ...]:
    found = copy.deepcopy(model)
    tensors = {**dict(found.named_parameters()), **dict(found.named_buffers())}
    chosen = tuple(tensors[name] for name in names)
    if untracked:
        for tensor in chosen:
            tensor.requires_grad_(False)
    return chosen


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Return a module as a function of its parameters, and copies of these.

    Args:
        model: a module without buffers.
        disable_autograd_tracking: whether the copies do not require grad.

    Raises:
        RuntimeError: if it has buffers.
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a module as a function of its parameters and buffers, and copies of these; see `make_functional`."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return modules of one kind as one function, and their stacked parameters and buffers, to map over.

    Args:
        models: modules of one class, all in training mode or none.

    Returns:
        The function of one module's tensors; parameters and buffers of shape (len(models), *), without gradients.

    Raises:
        RuntimeError: if there are none, or they differ in class or mode.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*map(make_functional_with_buffers, models), strict=True)
    return functions[0], _stacked(params), _stacked(buffers)


def _stacked(tensors: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """Stack the models' tensors; the results do not require grad."""
    import gradloom as torch

    return tuple(torch.stack(column).detach() for column in zip(*tensors, strict=True))
