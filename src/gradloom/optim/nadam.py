"""NAdam."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number, number_of_state
from gradloom.optim._rule import AdamLike, options, prepared, running_mean, running_square
from gradloom.optim.optimizer import ParamsT

__all__ = ["NAdam"]


class NAdam(AdamLike):
    """NAdam (Dozat 2016): Adam with Nesterov momentum.

    With g the gradient at step t::

        g = g + weight_decay * p                      # with decoupled_weight_decay: p = p - lr * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        mu(t) = betas[0] * (1 - 0.96 ** (t * momentum_decay) / 2)
        M = mu(1) * ... * mu(t)
        n = mu(t + 1) * m / (1 - M * mu(t + 1)) + (1 - mu(t)) * g / (1 - M)
        p = p - lr * n / (sqrt(v / (1 - betas[1] ** t)) + eps)

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decays of the running means m and v, in [0, 1).
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty, or of the decoupled decay.
        momentum_decay: decay of the momentum schedule mu.
        decoupled_weight_decay: decay the parameters themselves.
        foreach, capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, eps, weight_decay or momentum_decay, or betas outside [0, 1).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        names = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"
        )
        super().__init__(params, options(locals(), names))

    _numbers_of_state = ("step", "mu_product")

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        # The product of the momentum factors follows the step count, as in PyTorch.
        return {"step": state.pop("step"), "mu_product": number_of_state(1.0), **state}

    def _rule(self, group, count, state):
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (count, count + 1))
        product = state["mu_product"]._array
        product *= now
        so_far = product.item()
        root = (1 - beta2**count) ** 0.5
        of_gradient = lr * (1 - now) / (1 - so_far) * root
        of_mean = lr * following / (1 - so_far * following) * root
        eps = group["eps"] * root
        return nadam, (beta1, beta2, of_gradient, of_mean, eps, *self._descent(group, lr))


def nadam(xp, parameter, gradient, mean, square, scratch, beta1, beta2, of_gradient, of_mean, eps, *descent):
    """Apply NAdam's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        mean, square: running means of the gradient and of its square.
        beta1, beta2: their decays.
        of_gradient, of_mean, eps: factors of the direction and what is added to its denominator, corrected for bias.
        descent: of `prepared`.
    """
    gradient = prepared(parameter, gradient, *descent)
    running_mean(xp, mean, gradient, beta1, scratch)
    running_square(xp, square, gradient, beta2, scratch)
    direction = gradient * of_gradient
    direction += xp.multiply(mean, of_mean, out=scratch)
    root = xp.sqrt(square, out=scratch)
    root += eps
    direction /= root
    parameter -= direction
