"""The older spectral normalisation, by a hook: `weight` is `weight_orig` over its greatest singular value."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom.nn import functional as F
from gradloom.nn.modules import conv
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter, UninitializedParameter

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook. In training, each call improves the estimate of the singular vectors in two buffers.

    Args:
        name: the weight.
        n_power_iterations: the number of steps of the power method in a call.
        dim: the dimension of outputs.
        eps: the least norm of vectors.
    """

    _version = 1
    name: str
    dim: int
    n_power_iterations: int
    eps: float

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: gl.Tensor) -> gl.Tensor:
        """Return `weight` as a matrix with a row for each output."""
        if self.dim:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> gl.Tensor:
        """Return the normalised weight of `module`; with `do_power_iteration` after steps of the power method."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with gl.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(gl.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(gl.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next call writes to the buffers
        return weight / gl.dot(u, gl.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the normalised weight a parameter of `module` again."""
        with gl.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Move the weight of `module` to `weight_orig`, add the buffers, and register the hook.

        Args:
            module: is changed in place.
            name, n_power_iterations, dim, eps: see the class.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        found = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        with gl.no_grad():
            rows, columns = found.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(found)
        return found


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its spectral norm, by a hook; `parametrizations.spectral_norm` is the newer way.

    Args:
        module: is changed in place, and returned.
        name: the weight.
        n_power_iterations: the number of steps of the power method in a call.
        eps: the least norm of vectors.
        dim: the dimension of outputs; by default 1 for transposed convolutions, else 0.
    """
    if dim is None:
        transposed = (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm` of the weight `name`, and return the module. Raises ValueError if there is no such hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
