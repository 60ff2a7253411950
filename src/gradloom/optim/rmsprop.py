"""RMSprop."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._rule import RuleOptimizer, decayed, options, running_mean, running_square
from gradloom.optim.optimizer import ParamsT

__all__ = ["RMSprop"]


class RMSprop(RuleOptimizer):
    """RMSprop (Hinton 2012), optionally centered (Graves 2013).

    With g the gradient::

        g = g + weight_decay * p
        v = alpha * v + (1 - alpha) * g ** 2
        m = alpha * m + (1 - alpha) * g               # centered: v - m ** 2 replaces v below
        b = momentum * b + g / (sqrt(v) + eps)
        p = p - lr * b

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        alpha: decay of the running means.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty.
        momentum: factor of the previous update direction b; 0 keeps no b.
        centered: divide by the standard deviation of g instead of its root mean square.
        capturable, foreach: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, alpha, eps, weight_decay or momentum.
    """

    _later_options = {"momentum": 0, "centered": False, **RuleOptimizer._later_options}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        names = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        defaults = options(locals(), names)
        if not alpha >= 0.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        super().__init__(params, defaults)

    def _kept(self, group):
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return dict.fromkeys(names, 0)

    def _rule(self, group, count, state):
        rule = _RULES[group["momentum"] > 0, bool(group["centered"])]
        momentum = (group["momentum"],) if group["momentum"] > 0 else ()
        numbers = number(group["lr"]), group["alpha"], group["eps"], group["weight_decay"], group["maximize"], *momentum
        return rule, numbers


def _plain(xp, parameter, gradient, square, scratch, *numbers):
    rmsprop(xp, parameter, gradient, square, None, None, scratch, *numbers)


def _centered(xp, parameter, gradient, square, mean, scratch, *numbers):
    rmsprop(xp, parameter, gradient, square, None, mean, scratch, *numbers)


def _with_momentum(xp, parameter, gradient, square, buffer, scratch, *numbers):
    rmsprop(xp, parameter, gradient, square, buffer, None, scratch, *numbers)


def rmsprop(xp, parameter, gradient, square, buffer, mean, scratch, lr, alpha, eps, weight_decay, maximize, momentum=0):
    """Apply RMSprop's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        square, mean: running means of the gradient's square and, if centered, of the gradient, else None.
        buffer: the previous direction, or None without momentum.
        lr, alpha, eps, weight_decay, maximize, momentum: options of `RMSprop`.
    """
    gradient = decayed(parameter, gradient, weight_decay, maximize)
    running_square(xp, square, gradient, alpha, scratch)
    if mean is not None:
        running_mean(xp, mean, gradient, alpha, scratch)
        square = square - mean * mean
    root = xp.sqrt(square)
    root += eps
    update = xp.divide(gradient, root, out=scratch)
    if buffer is not None:
        buffer *= momentum
        buffer += update
        update = xp.multiply(buffer, lr, out=scratch)
    else:
        update *= lr
    parameter -= update


# By whether there is momentum, and whether it is centered: which tensors are kept.
_RULES = {(False, False): _plain, (True, False): _with_momentum, (False, True): _centered, (True, True): rmsprop}
