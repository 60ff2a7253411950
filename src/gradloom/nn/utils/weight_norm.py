"""The older weight normalisation, by a hook: `weight` is computed from `weight_g` and `weight_v` before each call."""

from __future__ import annotations

import warnings
from typing import Any

import gradloom as gl
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter, UninitializedParameter

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook.

    Args:
        name: the weight.
        dim: the dimension over which there are lengths; -1 for one length of the whole weight.
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """Return g v / |v| of the parameters of `module`."""
        return gl._weight_norm(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace the weight `name` of `module` by two parameters, and register the hook; see the class for `dim`."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying weight normalization"
            )
        found = WeightNorm(name, dim)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(gl.norm_except_dim(weight, 2, found.dim).data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, found.compute_weight(module))
        module.register_forward_pre_hook(found)
        return found

    def remove(self, module: Module) -> None:
        """Make the weight a parameter of `module` again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into its length and direction by a hook. Deprecated for `parametrizations.weight_norm`.

    Args:
        module: is changed in place, and returned.
        name: the weight.
        dim: the dimension over which there are lengths; None for one length of the whole weight.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm` of the weight `name`, and return the module. Raises ValueError if there is no such hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
