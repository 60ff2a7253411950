"""Rules of `fused:`: the steps of optimizers that are operators on lists. Note [Operators on lists] in ops/lists.

A rule writes a step to its lists: parameters, gradients, and what is kept of former steps. `options` are the operator's
other arguments but the last two, in the schema's order.
"""

from __future__ import annotations

from typing import Any

from gradloom.autograd import increment_version
from gradloom.core.tensor import Tensor
from gradloom.optim._arrays import arrays_of, in_blocks
from gradloom.optim.adagrad import adagrad as _adagrad
from gradloom.optim.adam import adam as _adam, numbers_of
from gradloom.optim.sgd import sgd as _sgd

_Lists = tuple[list[Tensor], ...]


def adam(lists: _Lists, options: tuple[Any, ...]) -> None:
    """Write a step of Adam with `options` to `lists`."""
    _adam_step(lists, options, False)


def adamw(lists: _Lists, options: tuple[Any, ...]) -> None:
    """Write a step of AdamW with `options` to `lists`."""
    _adam_step(lists, options, True)


def _adam_step(lists: _Lists, options: tuple[Any, ...], decoupled: bool) -> None:
    parameters, gradients, means, squares, greatest, counts = lists
    lr, beta1, beta2, weight_decay, eps, amsgrad, maximize = options
    for i, parameter in enumerate(parameters):
        numbers = numbers_of(counts[i].item(), lr, beta1, beta2, weight_decay, eps, maximize, decoupled)
        _update(_adam, parameter, gradients[i], means[i], squares[i], greatest[i] if amsgrad else None, *numbers)


def sgd(lists: _Lists, options: tuple[Any, ...]) -> None:
    """Write a step of SGD with `options` to `lists`."""
    parameters, gradients, buffers = lists
    weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step = options
    numbers = lr, weight_decay, momentum, nesterov, maximize, 0 if is_first_step else dampening
    for i, parameter in enumerate(parameters):
        if momentum and is_first_step:
            buffers[i].zero_()
        _update(_sgd, parameter, gradients[i], buffers[i] if momentum else None, *numbers)


def adagrad(lists: _Lists, options: tuple[Any, ...]) -> None:
    """Write a step of Adagrad with `options` to `lists`."""
    parameters, gradients, sums, counts = lists
    lr, lr_decay, weight_decay, eps, maximize = options
    for i, parameter in enumerate(parameters):
        rate = lr / (1 + (counts[i].item() - 1) * lr_decay)
        _update(_adagrad, parameter, gradients[i], sums[i], rate, weight_decay, eps, maximize)


def _update(rule, parameter, gradient, *kept_and_numbers):
    kept = [value for value in kept_and_numbers if value is None or isinstance(value, Tensor)]
    in_blocks(rule, arrays_of(parameter, gradient, *kept), *kept_and_numbers[len(kept) :])
    increment_version(parameter)
