"""Modules as functions of their parameters: `functional_call`, `stack_module_state`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.module import Module

_MISSING = object()


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own.

    Args:
        module: the Module. Its own tensors are restored after the call, also after an error.
        parameter_and_buffer_dicts: a dict from names, as in `named_parameters` and `named_buffers`, to Tensors; or
            several such dicts with disjoint names. Names that are absent keep the module's tensors. If the module
            assigns to a buffer, a single dict receives the new tensor.
        args: a tuple of positional arguments; anything else is the only argument.
        kwargs: keyword arguments.
        tie_weights: use a tensor given for one name of a shared parameter for all its names.
        strict: raise for names that the module does not have, and for names that are missing.

    Returns:
        The result of the module.

    Raises:
        ValueError: if the dicts are not dicts, share a name, or give different tensors to tied names.
        TypeError: if a value is not a Tensor.
        AttributeError: if a name contains a submodule that does not exist.
        RuntimeError: in strict mode.
    """
    values = _merged(parameter_and_buffer_dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _instead(module, values, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _merged(dicts):
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (list, tuple)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(one, dict) for one in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for one in dicts for name in one]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: value for one in dicts for name, value in one.items()}


@contextmanager
def _instead(module, values, tie_weights, strict) -> Iterator[None]:
    """Replace tensors of a module for the length of a `with` block."""
    own = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    everything = _tied(own, values) if tie_weights else dict(values)
    if strict:
        _check_names(module, own, everything)
    for value in everything.values():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    places = {name: _place(module, name) for name in everything}
    before = {}
    try:
        for name, (holder, key) in places.items():
            before[name] = holder.get(key, _MISSING)
            holder[key] = everything[name]
        yield
    finally:
        for name, former in reversed(before.items()):
            holder, key = places[name]
            if name in values:
                values[name] = holder.get(key)
            if former is _MISSING:
                holder.pop(key, None)
            else:
                holder[key] = former


def _place(module, path):
    """Return the dictionary, and the key in it, where a module stores the tensor named `path`."""
    prefix, _, name = path.rpartition(".")
    owner = module.get_submodule(prefix)
    for holder in (owner._parameters, owner._buffers):
        if name in holder:
            return holder, name
    return owner.__dict__, name


def _tied(own, values):
    """Return `values` extended by the other names of the same tensors in the module."""
    found = dict(values)
    groups: dict[int, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(id(tensor), []).append(name)
    for names in groups.values():
        given = [name for name in names if name in values]
        if given:
            if any(values[name] is not values[given[0]] for name in given):
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted(given)}, which are tied. "
                    "Consider using tie_weights=False"
                )
            found.update(dict.fromkeys(names, values[given[0]]))
    return found


def _check_names(module, own, values):
    lines = []
    for kind, names in (("Unexpected", set(values) - set(own)), ("Missing", set(own) - set(values))):
        if names:
            lines.append(f"\n\t{kind} key(s): {', '.join(map(repr, sorted(names)))}.")
    if lines:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:{''.join(lines)}")


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters and buffers of several modules, for `vmap` over `functional_call`.

    Args:
        models: at least one Module; all of one class and training mode, with tensors of the same shapes.

    Returns:
        (parameters, buffers): dicts from names to Tensors of shape `(len(models), *shape)`. The parameters are new
        leaves, which require grad if the models' do.

    Raises:
        RuntimeError: if there are no models, or they differ in class, mode or requires_grad.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stacked_leaf(name, [dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: ops.stack([dict(m.named_buffers())[name] for m in models], 0).detach()
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stacked_leaf(name, tensors):
    requires_grad = {t.requires_grad for t in tensors}
    if len(requires_grad) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return ops.stack(tensors, 0).detach().requires_grad_(requires_grad.pop())


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make all batch normalization in a module use batch statistics, and remove its running statistics.

    Args:
        root: the Module; changed in place.

    Returns:
        `root`.
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
