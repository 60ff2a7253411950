"""Gradients for each example of a batch: the private module of PyTorch that packages import."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.autograd.function import Function
from gradloom.nn import Module
from gradloom.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_REDUCTIONS = ("sum", "mean")


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """Return the forward of a module, after which a backward pass sets `grad_sample` of the parameters, not `grad`.

    The module is called by vmap with one example after the other, as a batch of one, and with a copy of the
    parameters for each. So its operators must not combine the examples of a batch, as batch normalization does.

    Args:
        module: all of its parameters that require grad get `grad_sample`: (batch size, ...).
        batch_size: size of the batch; None for that of the arguments.
        loss_reduction: "sum", or "mean" for a loss that is a mean over the batch: then `grad_sample` is multiplied by
            the batch size.
        batch_first: whether the batch is dimension 0 of arguments and results, rather than 1.

    Raises:
        RuntimeError: for another `loss_reduction`, `batch_size` or class of module, if a parameter has a `grad_sample`
            already, and on a call whose arguments have no batch, or several sizes of it.
    """
    if loss_reduction not in _REDUCTIONS:
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                f"the parameter {name} has a grad_sample: set it to None first, since gradients of several calls would "
                "be added up"
            )
    dim = 0 if batch_first else 1

    @wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        count = _batch_size(leaves, dim) if batch_size is None else batch_size
        scale = count if loss_reduction == "mean" else 1
        copies = {
            name: _Copies.apply(parameter, count, scale)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }

        def one(copies: dict[str, Tensor], *leaves: Any) -> Any:
            given = [leaf.unsqueeze(dim) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(given, spec)
            results, out_spec = tree_flatten(gl.func.functional_call(module, copies, args, kwargs))
            return tree_unflatten([result.squeeze(dim) for result in results], out_spec)

        dims = tuple(dim if isinstance(leaf, Tensor) else None for leaf in leaves)
        return gl.vmap(one, in_dims=(0, *dims), out_dims=dim, randomness="different")(copies, *leaves)

    return wrapper


class _Copies(Function):
    """Copies of a parameter for the examples of a batch. Their gradient becomes its `grad_sample`."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, count: int, scale: int) -> Tensor:
        ctx.parameter, ctx.scale = parameter, scale
        return parameter.expand(count, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:  # type: ignore[override]
        before = getattr(ctx.parameter, "grad_sample", None)
        found = grad * ctx.scale if ctx.scale != 1 else grad
        ctx.parameter.grad_sample = found if before is None else before + found
        return None, None, None


def _batch_size(leaves: list[Any], dim: int) -> int:
    """Return the size of the batch in tensors among the arguments."""
    sizes = dict.fromkeys(leaf.shape[dim] for leaf in tree_leaves(leaves) if isinstance(leaf, Tensor))
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs, whose size would be the batch size: give batch_size"
        )
    if len(sizes) > 1:
        first, second, *_ = sizes
        raise RuntimeError(
            f"When computing batch size, found at least one input with batch size {first} and one with batch size "
            f"{second}. Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads"
        )
    return int(next(iter(sizes)))
