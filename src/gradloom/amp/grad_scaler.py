"""`GradScaler`: gradients of a scaled loss, so that small ones do not vanish in float16.

Note [Gradient scaling]
float16 has no number between 0 and 6e-8, and the gradients of a loss are often smaller. The loss is multiplied by a
large number, the scale, and so are all gradients; before the optimizer steps they are divided by it. Where the scale
was too large, some gradient is infinite or NaN: that step is left out and the scale made smaller. Where a number of
steps went well in succession, it is made larger. bfloat16 has float32's range and needs none of this.
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
    """What has been done with an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales the loss before backward, and the gradients back before the optimizer's step.

        scaler = GradScaler("cpu")
        for input, target in data:
            optimizer.zero_grad()
            with autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(input), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)      # left out if a gradient is infinite or NaN
            scaler.update()

    Args:
        device: where the parameters are: "cpu". With "cuda", PyTorch's default, the scaler is disabled and a warning
            says so.
        init_scale: the first scale.
        growth_factor: what the scale is multiplied by after `growth_interval` steps without infinite gradients.
        backoff_factor: what it is multiplied by after a step that was left out.
        growth_interval: see growth_factor.
        enabled: if False, `scale` and `unscale_` do nothing, and `step` calls the optimizer's.

    Raises:
        AssertionError: if the growth factor is not larger than 1, or the backoff factor not smaller.
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
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh)

    def scale(self, outputs: Any) -> Any:
        """The outputs, multiplied by the scale.

        Args:
            outputs: a Tensor, or an iterable of them, also nested.

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
        """Divide the gradients of an optimizer's parameters by the scale, such as to clip them before `step`.

        Args:
            optimizer: holds the parameters.

        Raises:
            RuntimeError: if that was done already since the last `update`, or `step` was.
            AssertionError: if nothing was scaled.
            ValueError: for gradients in float16: parameters have to be float32, which autocast leaves them.
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
        """Whether some gradient is infinite or NaN, as 1.0 or 0.0, by device; multiplies them by `inverse`.

        Empty if there are no gradients at all.
        """
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
        """Call the optimizer's step, unless a gradient is infinite or NaN; scales gradients back before, if nobody did.

        Args:
            optimizer: one whose parameters have the gradients of a scaled loss.
            args, kwargs: for its step.

        Returns:
            What its step returns; None where it was left out.

        Raises:
            RuntimeError: if that was done already since the last `update`, or for a closure.
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
        """The step of an optimizer that scales back and looks for infinite gradients itself.

        It reads `grad_scale`, None if the gradients are scaled back already, and `found_inf`.
        """
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
        """Make the scale smaller if a step was left out, larger if enough steps were not.

        Args:
            new_scale: the scale to go on with instead, a float or a float32 Tensor of one element that requires no
                grad.

        Raises:
            AssertionError: if nothing was scaled, or no gradients were looked at, since the last update; or for another
                new scale.
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
                grown = float(np.float32(scale.item()) * np.float32(self._growth_factor))
                if math.isfinite(grown):
                    scale.fill_(grown)
                tracker.zero_()
        self._per_optimizer_states = defaultdict(_fresh)

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
        """Look for infinite gradients without scaling them back."""
        self._check_scale("_check_inf_per_device")
        found = self._per_optimizer_states[id(optimizer)]
        found["found_inf_per_device"] = self._unscale(optimizer, None, allow_fp16=True)
        return found["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def _get_growth_tracker(self) -> int:
        """How many steps in succession went well."""
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def get_scale(self) -> float:
        """The scale; 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows.

        Args:
            new_factor: a number larger than 1.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after infinite gradients."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after infinite gradients.

        Args:
            new_factor: a number smaller than 1.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps in succession the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps in succession the scale grows.

        Args:
            new_interval: how many.
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and what decides about its growth; empty if the scaler is disabled. Save it after `update`."""
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
        """Take over the state of another scaler.

        Args:
            state_dict: what its `state_dict` returned.

        Raises:
            RuntimeError: if that is empty, as a disabled scaler's is.
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
    """Raise AssertionError, which PyTorch raises here, also where Python leaves out assert statements."""
    if not condition:
        raise AssertionError(message)
