"""What constructors of optimizers check of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.optim._arrays import is_tensor_of_many

if TYPE_CHECKING:
    from gradloom import Tensor


def check_options(
    lr: float | Tensor,
    weight_decay: float = 0,
    eps: float = 0.0,
    betas: tuple[float | Tensor, float | Tensor] = (0.0, 0.0),
) -> None:
    """Raise ValueError for options outside their range that most optimizers have."""
    if is_tensor_of_many(lr):
        raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if not eps >= 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    for position, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
    if not weight_decay >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")


def check_implementation(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """Refuse what does not go together.

    There is one implementation, so `foreach` and `fused` choose nothing. `differentiable` would need a step that
    autograd records, which there is none of: NotImplementedError.
    """
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError("gradloom's optimizers do not support differentiable=True")
