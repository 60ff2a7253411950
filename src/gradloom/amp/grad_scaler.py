"""`GradScaler`: scale the loss so that small gradients do not underflow in float16.

Note [Gradient scaling]
The smallest positive float16 is 6e-8, and gradients are often smaller. The loss is multiplied by a large number, the
scale, and with it all gradients; they are divided by the scale before the optimizer steps. If the scale was too large,
some gradient is infinite or NaN: that step is skipped and the scale decreases. After a number of good steps in
succession it increases. bfloat16 has float32's range and needs no scaling.
"""

from __future__ import annotations

import enum
import inspect
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..tensors.construction import tensor
from ..types.dtype import float16, float32, int32

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """What happened to an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scale the loss before backward, and unscale the gradients before the optimizer's step.

        scaler = GradScaler("cpu")
        for input, target in data:
            optimizer.zero_grad()
            with autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(input), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)      # skipped if a gradient is infinite or NaN
            scaler.update()

    Args:
        device: device of the parameters: "cpu". "cuda", PyTorch's default, disables the scaler with a warning.
        init_scale: initial scale.
        growth_factor: factor of the scale after `growth_interval` good steps in succession; greater than 1.
        backoff_factor: factor of the scale after a skipped step; less than 1.
        growth_interval: see growth_factor.
        enabled: if False, `scale` and `unscale_` do nothing and `step` calls the optimizer's step.

    Raises:
        AssertionError: if growth_factor is not greater than 1, or backoff_factor not less than 1.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warnings.warn(
                "GradScaler is enabled, but CUDA is not available. Disabling. Use GradScaler('cpu').", stacklevel=2
            )
            self._enabled = False
        if not self._enabled:
            return
        _require(growth_factor > 1.0, "The growth factor must be > 1.0.")
        _require(backoff_factor < 1.0, "The backoff factor must be < 1.0.")
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._scale: Tensor | None = None  # made by the first call of `scale`
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def scale(self, outputs: Any) -> Any:
        """Multiply outputs by the scale.

        Args:
            outputs: a Tensor, or a (nested) iterable of Tensors.

        Returns:
            Tensors of the same shapes, in containers of the same types; a `map` for other iterables.

        Raises:
            ValueError: for anything else.
        """
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = tensor(self._init_scale, dtype=float32)
            self._growth_tracker = tensor(self._init_growth_tracker, dtype=int32)
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if not isinstance(outputs, Iterable):
            raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, not {type(outputs).__name__}")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for example to clip them before `step`.

        Args:
            optimizer: the optimizer of the parameters.

        Raises:
            RuntimeError: if `unscale_` or `step` was already called for it since the last `update`.
            AssertionError: if nothing was scaled.
            ValueError: for float16 gradients: parameters must be float32; autocast keeps them so.
        """
        if not self._enabled:
            return
        self._check_scale("unscale_")
        found = self._per_optimizer_states[id(optimizer)]
        if found["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if found["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        assert self._scale is not None
        found["found_inf_per_device"] = self._unscale(optimizer, self._scale.double().reciprocal().float())
        found["stage"] = OptState.UNSCALED

    def _unscale(self, optimizer: Any, inverse: Tensor | None, allow_fp16: bool = False) -> dict[Any, Tensor]:
        """Multiply the gradients by `inverse`; return {device: 1.0 if one is infinite or NaN, else 0.0}. The result is
        empty if there are no gradients."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not allow_fp16 and any(g.dtype is float16 for g in grads):
            raise ValueError(
                "Attempting to unscale FP16 gradients. The parameters have to be float32; autocast casts "
                "them where they are used."
            )
        if not grads:
            return {}
        with no_grad():
            bad = [bool((~ops.isfinite(g)).any().item()) for g in grads]
            if inverse is not None:
                for g in grads:
                    g.mul_(inverse)
        return {grads[0].device: tensor(float(any(bad)))}

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if `unscale_` did not, and call the optimizer's step unless one is infinite or NaN.

        Args:
            optimizer: the optimizer; its parameters have the gradients of a scaled loss.
            args, kwargs: arguments of its step.

        Returns:
            The result of its step; None if the step was skipped.

        Raises:
            RuntimeError: if `step` was already called for it since the last `update`, or for a closure.
            AssertionError: if nothing was scaled, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        found = self._per_optimizer_states[id(optimizer)]
        if found["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_of_aware(optimizer, found, args, kwargs)
        else:
            if found["stage"] is OptState.READY:
                self.unscale_(optimizer)
            _require(
                len(found["found_inf_per_device"]) > 0,
                "No inf checks were recorded for this optimizer: none of its parameters has a gradient.",
            )
            infinite = any(f.item() for f in found["found_inf_per_device"].values())
            result = None if infinite else optimizer.step(*args, **kwargs)
        found["stage"] = OptState.STEPPED
        return result

    def _step_of_aware(self, optimizer: Any, found: dict[str, Any], args: tuple, kwargs: dict) -> Any:
        """Call the step of an optimizer that unscales and checks gradients itself. It reads its attributes `grad_scale`
        (None if the gradients are already unscaled) and `found_inf`."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the optimizer's step, "
                "which is to read its attributes `grad_scale` and `found_inf`.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if found["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        infinite = sum((f.item() for f in found["found_inf_per_device"].values()), 0.0)
        optimizer.grad_scale = None if found["stage"] is OptState.UNSCALED else self._scale
        optimizer.found_inf = tensor(infinite)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Decrease the scale after a skipped step; increase it after `growth_interval` good steps.

        Args:
            new_scale: the new scale instead: a float, or a float32 Tensor of one element that does not require grad.

        Raises:
            AssertionError: if nothing was scaled or no gradients were checked since the last update; or if `new_scale`
                is anything else.
        """
        if not self._enabled:
            return
        self._check_scale("update")
        scale, tracker = self._scale, self._growth_tracker
        assert scale is not None and tracker is not None
        if new_scale is not None:
            self._replace_scale(new_scale)
        else:
            infinite = [
                f for found in self._per_optimizer_states.values() for f in found["found_inf_per_device"].values()
            ]
            _require(len(infinite) > 0, "No inf checks were recorded prior to update.")
            if any(f.item() for f in infinite):
                scale.mul_(self._backoff_factor)
                tracker.zero_()
            elif tracker.item() + 1 < self._growth_interval:
                tracker.add_(1)
            else:
                with np.errstate(over="ignore"):
                    grown = float(np.float32(scale.item()) * np.float32(self._growth_factor))
                if math.isfinite(grown):
                    scale.fill_(grown)
                tracker.zero_()
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _replace_scale(self, new_scale: float | Tensor) -> None:
        assert self._scale is not None
        if isinstance(new_scale, Tensor):
            _require(
                new_scale.dtype is float32 and new_scale.numel() == 1 and not new_scale.requires_grad,
                "new_scale should be a float or a 1-element torch.FloatTensor with requires_grad=False.",
            )
            self._scale.copy_(new_scale.reshape(()))
        else:
            _require(
                isinstance(new_scale, (int, float)),
                "new_scale should be a float or a 1-element "
                f"torch.FloatTensor with requires_grad=False, not {type(new_scale).__name__}.",
            )
            self._scale.fill_(new_scale)

    def _check_scale(self, what: str) -> None:
        _require(
            getattr(self, "_scale", None) is not None,
            f"Attempted {what} but _scale is None. This may indicate "
            "that scaler.scale(loss or outputs) was not called earlier in the iteration.",
        )

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Check the gradients without unscaling them."""
        self._check_scale("_check_inf_per_device")
        found = self._per_optimizer_states[id(optimizer)]
        found["found_inf_per_device"] = self._unscale(optimizer, None, allow_fp16=True)
        return found["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def _get_growth_tracker(self) -> int:
        """Return the number of good steps in succession."""
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def get_scale(self) -> float:
        """Return the scale; 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return the growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor.

        Args:
            new_factor: a number greater than 1.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor.

        Args:
            new_factor: a number less than 1.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of good steps in succession after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of good steps in succession after which the scale grows.

        Args:
            new_interval: the number of steps.
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and what controls its growth; {} if the scaler is disabled. Call it after `update`."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of another scaler.

        Args:
            state_dict: the result of its `state_dict`.

        Raises:
            RuntimeError: if it is empty, as a disabled scaler's is.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            _require(
                len(self._per_optimizer_states) == 0,
                "A GradScaler instance may only be pickled at the beginning "
                "of an iteration, or at the end after scaler.update().",
            )
            state |= {
                "_init_scale": self.get_scale(),
                "_init_growth_tracker": self._get_growth_tracker(),
                "_scale": None,
                "_growth_tracker": None,
            }
        return state


def _require(condition: bool, message: str) -> None:
    """Raise AssertionError, as PyTorch does here, even under `python -O`."""
    if not condition:
        raise AssertionError(message)
