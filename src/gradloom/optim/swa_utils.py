"""Averages of a model's parameters during training: equal weights (SWA) and exponential decay (EMA)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn.modules.batchnorm import _BatchNorm
from gradloom.nn.modules.module import Module
from gradloom.optim.lr_scheduler.base import LRScheduler, for_step
from gradloom.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return a function (average, current, count) -> decay * average + (1 - decay) * current.

    Raises:
        ValueError: for a decay outside [0, 1].
    """
    _check_decay(decay)

    @gl.no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return a function (average, current, count) -> average + (current - average) / (count + 1)."""

    @gl.no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """Return a function that updates a list of averages in place, as `get_ema_avg_fn` does.

    Raises:
        ValueError: for a decay outside [0, 1].
    """
    _check_decay(decay)

    @gl.no_grad()
    def ema_update(ema_param_list: Sequence[Tensor], current_param_list: Sequence[Tensor], _: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """Return a function that updates a list of averages in place, as `get_swa_avg_fn` does."""

    @gl.no_grad()
    def swa_update(
        averaged_param_list: Sequence[Tensor], current_param_list: Sequence[Tensor], num_averaged: Any
    ) -> None:
        weight = float(1 / (num_averaged + 1))
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, weight)
            else:
                average.copy_(average + (current - average) * weight)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's during training.

    The first `update_parameters` copies the parameters; later ones average.

    Args:
        model: copied.
        device: of the copy, if given.
        avg_fn: function of an average, the current parameter and the number averaged so far; returns the new average.
        multi_avg_fn: the same of lists, which it updates in place. By default, all values have equal weights.
        use_buffers: average the buffers as well; otherwise they are copied.

    Raises:
        AssertionError: if both functions are given.
    """

    module: Module
    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Sequence[Tensor], Sequence[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", gl.tensor(0, dtype=gl.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the copy."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Average the parameters of `model`, and its buffers if `use_buffers`, into the copy's."""
        averages = [tensor.detach() for tensor in self._averaged(self.module)]
        currents = [tensor.detach() for tensor in self._averaged(model)]
        with gl.no_grad():
            if self.n_averaged == 0:
                for average, current in zip(averages, currents, strict=False):
                    average.copy_(current)
            elif self.avg_fn is not None:
                for average, current in zip(averages, currents, strict=False):
                    average.copy_(self.avg_fn(average, current, self.n_averaged))
            else:
                update = self.multi_avg_fn or get_swa_multi_avg_fn()
                # As PyTorch's, the function gets lists of one dtype.
                for dtype in dict.fromkeys(average.dtype for average in averages):
                    pairs = [p for p in zip(averages, currents, strict=False) if p[0].dtype == dtype]
                    update([average for average, _ in pairs], [current for _, current in pairs], self.n_averaged)
            if not self.use_buffers:
                for ours, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                    ours.copy_(theirs)
            self.n_averaged += 1

    def _averaged(self, model):
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch normalizations anew, as plain averages over a data set.

    Args:
        loader: batches, each a tensor or a list or tuple whose first element is the model's input.
        model: called with the batches in training mode; its mode is restored.
        device: to which the inputs are moved, if given.
    """
    layers = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not layers:
        return
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    with gl.no_grad():
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    for layer, momentum in layers.items():
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneal the learning rates to fixed ones, `swa_lr`, during `anneal_epochs` epochs.

    Args:
        optimizer: optimizer whose learning rates are set.
        swa_lr: final rate, or a list with one per group.
        anneal_epochs: number of epochs until the final rate.
        anneal_strategy: "cos" or "linear".

    Raises:
        ValueError: for another strategy, or a number of epochs that is negative or not an int.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                f"swa_lr must have the same length as optimizer.param_groups. swa_lr has {len(rates)} values, "
                f"param_groups has {len(groups)}."
            )
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._set_anneal_func(anneal_strategy)
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        """Set the share of the final rate after a fraction of the epochs, under PyTorch's name for pickles."""
        self._anneal_strategy = anneal_strategy
        self.anneal_func: Callable[[float], float] = SWALR._cosine_anneal
        if anneal_strategy == "linear":
            self.anneal_func = SWALR._linear_anneal

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer and the function that the strategy names."""
        state = super().state_dict()
        state.pop("anneal_func", None)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)

    def _share(self, step):
        step = max(step, 0)
        return 1.0 if step >= self.anneal_epochs else self.anneal_func(step / self.anneal_epochs)

    @for_step
    def get_lr(self) -> list[float]:
        """Return the next rates: each group's share of its initial rate follows from its present one."""
        before, now = self._share(self._step_count - 2), self._share(self._step_count - 1)
        rates = []
        for group in self.optimizer.param_groups:
            final = group["swa_lr"]
            initial = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            rates.append(final * now + initial * (1 - now))
        return rates
