"""RuleOptimizer: an optimizer given by an update rule on arrays and the names of what it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.autograd import increment_version
from gradloom.optim._arrays import advance, arrays, in_blocks, new_step
from gradloom.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class RuleOptimizer(Optimizer):
    """A subclass defines `_kept(group)`, the names of its state's tensors, and `_rule(group, count, state)`.

    The rule is called once for every parameter and step, `count` being the step's number. It gives a function
    of (parameter, gradient, *kept, scratch) that changes the arrays but the gradient in place, block by
    block.
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _kept(self, group) -> dict[str, Any]:
        """What is kept for each parameter: the tensors' names and first values."""
        raise NotImplementedError

    def _rule(self, group, count, state):
        raise NotImplementedError

    def _initial_state(self, parameter, group) -> dict[str, Any]:
        state = {"step": new_step()}
        for name, value in self._kept(group).items():
            state[name] = gl.full_like(parameter, value) if value else gl.zeros_like(parameter)
        return state

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's loss, or None."""
        loss = self._loss_of(closure)
        name = type(self).__name__
        for group in self.param_groups:
            kept = tuple(self._kept(group))
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state.update(self._initial_state(parameter, group))
                rule = self._rule(group, advance(state), state)
                in_blocks(rule, arrays(parameter, name, *[state[key] for key in kept]))
                increment_version(parameter)
        return loss


def decayed(parameter, gradient, weight_decay, maximize):
    """The gradient to go against: its negative when climbing, plus the L2 penalty's.

    The given one is not changed.
    """
    if maximize:
        gradient = -gradient
    if weight_decay:
        penalty = parameter * weight_decay
        penalty += gradient
        return penalty
    return gradient
