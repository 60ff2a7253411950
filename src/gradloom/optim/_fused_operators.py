"""The operators `_fused_adam_`, `_fused_adamw_`, `_fused_sgd_` and `_fused_adagrad_`: a step of all parameters at once.

Each has its in-place form, which is also a function of the main namespace, and in `gradloom.ops.aten` a functional one
and one with `out=`, and for each a learning rate that is a number or a tensor. The steps are counted before the call.
With `grad_scale`, gradients are divided by it in place first; with a `found_inf` of 1, nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gradloom.autograd import increment_version, no_grad
from gradloom.core.tensor import Tensor
from gradloom.dispatch.overloads import overloaded_function
from gradloom.ops._schema import parse_schema
from gradloom.optim._arrays import arrays_of, in_blocks, number
from gradloom.optim._fused import unscale
from gradloom.optim.adagrad import adagrad
from gradloom.optim.adam import adam, numbers_of
from gradloom.optim.sgd import sgd

_Lists = tuple[list[Tensor], ...]
_END = "Tensor? grad_scale=None, Tensor? found_inf=None"
_ADAM = "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize"


class _Fused(NamedTuple):
    """An operator on lists of tensors.

    Attributes:
        step: carries it out, from its lists and its options.
        lists: the names of its lists: parameters, gradients and what is kept.
        options: its other arguments but the last two, with `{lr}` for the type of the learning rate.
        returned: how many of its lists change, which the functional form returns; with a number and with a tensor as
            learning rate.
    """

    step: Callable[..., None]
    lists: str
    options: str
    returned: tuple[int, int]


def _adam_step(decoupled: bool) -> Callable[..., None]:
    def step(lists, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize):
        parameters, gradients, means, squares, greatest, counts = lists
        for i, parameter in enumerate(parameters):
            numbers = numbers_of(counts[i].item(), lr, beta1, beta2, weight_decay, eps, maximize, decoupled)
            _update(adam, parameter, gradients[i], means[i], squares[i], greatest[i] if amsgrad else None, *numbers)

    return step


def _sgd_step(lists, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step):
    parameters, gradients, buffers = lists
    numbers = lr, weight_decay, momentum, nesterov, maximize, 0 if is_first_step else dampening
    for i, parameter in enumerate(parameters):
        if momentum and is_first_step:
            buffers[i].zero_()
        _update(sgd, parameter, gradients[i], buffers[i] if momentum else None, *numbers)


def _adagrad_step(lists, lr, lr_decay, weight_decay, eps, maximize):
    parameters, gradients, sums, counts = lists
    for i, parameter in enumerate(parameters):
        rate = lr / (1 + (counts[i].item() - 1) * lr_decay)
        _update(adagrad, parameter, gradients[i], sums[i], rate, weight_decay, eps, maximize)


def _update(rule, parameter, gradient, *kept_and_numbers):
    kept = [value for value in kept_and_numbers if value is None or isinstance(value, Tensor)]
    in_blocks(rule, arrays_of(parameter, gradient, *kept), *kept_and_numbers[len(kept) :])
    increment_version(parameter)


_OPERATORS = {
    **{
        name: _Fused(
            _adam_step(name == "adamw"),
            "self grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
            f"{{lr}} lr, {_ADAM}",
            (5, 5),
        )
        for name in ("adam", "adamw")
    },
    "sgd": _Fused(
        _sgd_step,
        "self grads momentum_buffer_list",
        "float weight_decay, float momentum, {lr} lr, float dampening, bool nesterov, bool maximize, "
        "bool is_first_step",
        (3, 3),
    ),
    "adagrad": _Fused(
        _adagrad_step,
        "self grads state_sums state_steps",
        "{lr} lr, float lr_decay, float weight_decay, float eps, bool maximize",
        (4, 3),
    ),
}


def _run(operator: _Fused, lists: _Lists, options: tuple[Any, ...]) -> None:
    *given, grad_scale, found_inf = options
    lengths = {len(tensors) for tensors in lists if tensors}
    if len(lengths) > 1:
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {sorted(lengths)}")
    if unscale(lists[1], grad_scale, found_inf):
        return
    with no_grad():
        operator.step(lists, *map(number, given))


def _inplace(operator, count):
    def call(*values):
        _run(operator, values[:count], values[count:])

    return call


def _functional(operator, count, returned):
    def call(*values):
        lists = tuple([tensor.detach().clone() for tensor in tensors] for tensors in values[:count])
        _run(operator, lists, values[count:])
        return lists[:returned]

    return call


def _out(operator, count):
    functional = _functional(operator, count, 1)

    def call(*values, out):
        with no_grad():
            for target, parameter in zip(out, functional(*values)[0], strict=True):
                target.copy_(parameter)

    return call


def overloads() -> dict[str, list[tuple[str, Callable[..., Any], str]]]:
    """Return the overloads of all operators: name -> (overload, function of all arguments, schema)."""
    found = {}
    for short, operator in _OPERATORS.items():
        name = f"_fused_{short}"
        rows = found[f"{name}_"], found[name] = [], []
        for kind, returned in zip(("float", "Tensor"), operator.returned, strict=True):
            for group, row in zip((0, 1, 1), _rows(name, operator, kind, returned), strict=True):
                rows[group].append(row)
    return found


def _rows(name, operator, kind, changed):
    """Return the in-place, functional and out overload for a learning rate of one type; the first `changed` lists
    change."""
    lists, rate = operator.lists.split(), "" if kind == "float" else "tensor_lr"
    plain = [f"Tensor[] {name}" for name in lists]
    written = [f"Tensor({letter}!)[] {name}" for letter, name in zip("abcde", lists[:changed], strict=False)]
    written += plain[changed:]
    options = f"*, {operator.options.format(lr=kind)}, {_END}"
    results = ", ".join(f"Tensor[] {name}_out" for name in lists[:changed])
    overload, dot, out = rate or "default", f".{rate}" if rate else "", f"{rate}_out" if rate else "out"
    to_out = ", ".join([plain[0], *written[1:], options])
    return (
        (overload, _inplace(operator, len(lists)), f"{name}_{dot}({', '.join([*written, options])}) -> ()"),
        (
            overload,
            _functional(operator, len(lists), changed),
            f"{name}{dot}({', '.join([*plain, options])}) -> ({results})",
        ),
        (out, _out(operator, len(lists)), f"{name}.{out}({to_out}, Tensor(a!)[] out) -> ()"),
    )


def _function(name: str) -> Callable[..., Any]:
    entries = [(parse_schema(schema).parameters(), function) for _, function, schema in overloads()[name]]
    return overloaded_function(name, tuple(entries))


globals().update({name: _function(name) for name in (f"_fused_{short}_" for short in _OPERATORS)})
