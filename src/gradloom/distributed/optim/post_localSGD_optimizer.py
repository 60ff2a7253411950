"""PostLocalSGDOptimizer: an optimizer that averages the parameters of the ranks after its steps."""

from __future__ import annotations

import warnings
from typing import Any

from ...optim.optimizer import Optimizer
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Step with another optimizer, and let an averager average the parameters.

    With DistributedDataParallel and the hook of `post_localSGD_hook`, gradients are reduced over all ranks in the first
    steps, and over subgroups later.

    Args:
        optim: the other optimizer.
        averager: says when parameters are averaged.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """Return the state of the other optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the other optimizer's state, and the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned; without a step of the averager, warn and let it begin at 0."""
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Step, and average the parameters if it is time."""
        found = self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of the other optimizer's parameters."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group to the other optimizer."""
        self.optim.add_param_group(param_group)
