"""Single steps of optimizers on lists of parameters, gradients and state tensors, which they change in place.

Each function takes the arguments of PyTorch's, for example `adam(params, grads, exp_avgs, exp_avg_sqs,
max_exp_avg_sqs, state_steps, *, lr, ...)`, and runs the optimizer of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from gradloom import optim
from gradloom.optim._arrays import number_of_state

_SCALED = "grad_scale=None found_inf=None"
_ADAM = f"""foreach=None capturable=False differentiable=False fused=None {_SCALED} has_complex=False
    {{}}* amsgrad beta1 beta2 lr weight_decay eps maximize"""
# Function -> optimizer, {list of state tensors: its key in an optimizer's state}, the arguments after the lists.
_FUNCTIONS: dict[str, tuple[str, dict[str, str], str]] = {
    "adadelta": (
        "Adadelta",
        {"square_avgs": "square_avg", "acc_deltas": "acc_delta", "state_steps": "step"},
        "capturable=False foreach=None differentiable=False has_complex=False * lr rho eps weight_decay maximize",
    ),
    "adafactor": (
        "Adafactor",
        {"row_vars": "row_var", "col_vars": "col_var", "variances": "variance", "state_steps": "step"},
        f"foreach=None {_SCALED} has_complex=False * d lr beta2_decay weight_decay eps1 eps2 maximize",
    ),
    "adagrad": (
        "Adagrad",
        {"state_sums": "sum", "state_steps": "step"},
        f"fused=None {_SCALED} has_sparse_grad=False foreach=None differentiable=False has_complex=False * lr "
        "weight_decay lr_decay eps maximize",
    ),
    **{
        name: (
            optimizer,
            {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "max_exp_avg_sqs": "max_exp_avg_sq"}
            | {"state_steps": "step"},
            _ADAM.format(further),
        )
        for name, optimizer, further in (("adam", "Adam", "decoupled_weight_decay=False "), ("adamw", "AdamW", ""))
    },
    "adamax": (
        "Adamax",
        {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", "state_steps": "step"},
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False * eps beta1 beta2 lr "
        "weight_decay",
    ),
    "asgd": (
        "ASGD",
        {"axs": "ax", "mus": "mu", "etas": "eta", "state_steps": "step"},
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False * lambd lr t0 alpha "
        "weight_decay",
    ),
    "muon": (
        "Muon",
        {"muon_momentum_bufs": "momentum_buffer"},
        "* foreach=None lr weight_decay momentum nesterov ns_coefficients ns_steps eps adjust_lr_fn has_complex",
    ),
    "nadam": (
        "NAdam",
        {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "mu_products": "mu_product", "state_steps": "step"},
        "decoupled_weight_decay=False foreach=None capturable=False differentiable=False has_complex=False "
        "maximize=False * beta1 beta2 lr weight_decay momentum_decay eps",
    ),
    "radam": (
        "RAdam",
        {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "state_steps": "step"},
        "decoupled_weight_decay=False foreach=None differentiable=False capturable=False has_complex=False "
        "maximize=False * beta1 beta2 lr weight_decay eps",
    ),
    "rmsprop": (
        "RMSprop",
        {"square_avgs": "square_avg", "grad_avgs": "grad_avg", "momentum_buffer_list": "momentum_buffer"}
        | {"state_steps": "step"},
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False * lr alpha eps "
        "weight_decay momentum centered",
    ),
    "rprop": (
        "Rprop",
        {"prevs": "prev", "step_sizes": "step_size", "state_steps": "step"},
        "foreach=None capturable=False maximize=False differentiable=False has_complex=False * step_size_min "
        "step_size_max etaminus etaplus",
    ),
    "sgd": (
        "SGD",
        {"momentum_buffer_list": "momentum_buffer"},
        f"has_sparse_grad=False foreach=None fused=None {_SCALED} * weight_decay momentum lr dampening nesterov "
        "maximize",
    ),
    "sparse_adam": (
        "SparseAdam",
        {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "state_steps": "step"},
        "* eps beta1 beta2 lr maximize",
    ),
}
# Arguments that an optimizer takes as one tuple.
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "eps": ("eps1", "eps2"),
    "step_sizes": ("step_size_min", "step_size_max"),
    "etas": ("etaminus", "etaplus"),
}
__all__ = [  # noqa: F822  (made below)
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "muon",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]


def _signature(name: str) -> Signature:
    _, lists, rest = _FUNCTIONS[name]
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    found = []
    for word in ("params", "d_p_list" if name == "sgd" else "grads", *lists, *rest.split()):
        if word == "*":
            kind = Parameter.KEYWORD_ONLY
            continue
        argument, _, value = word.partition("=")
        default = {"": Parameter.empty, "None": None, "False": False}[value]
        found.append(Parameter(argument, kind, default=default))
    return Signature(found)


def _step(name: str, given: dict[str, Any]) -> None:
    optimizer_name, keys, _ = _FUNCTIONS[name]
    lists = {key: given.pop(argument) for argument, key in keys.items()}
    grads = given.pop("d_p_list" if name == "sgd" else "grads")
    leaves = [parameter.detach() for parameter in given.pop("params")]  # which share memory and version counter
    scales = {key: given.pop(key) for key in ("grad_scale", "found_inf") if key in given}
    for together, parts in _PAIRS.items():
        if parts[0] in given:
            given[together] = tuple([given.pop(part) for part in parts])
    for ignored in ("has_complex", "has_sparse_grad", *(("foreach",) if name in ("muon",) else ())):
        given.pop(ignored, None)
    optimizer = getattr(optim, optimizer_name)(leaves, **given)
    for option, value in scales.items():
        if value is not None:
            setattr(optimizer, option, value)
    for i, (leaf, grad) in enumerate(zip(leaves, grads, strict=True)):
        leaf.grad = grad
        state = {key: values[i] for key, values in lists.items() if len(values) and values[i] is not None}
        if name == "sparse_adam":  # counted by the caller
            state["step"] = number_of_state(state["step"] - 1)
        optimizer.state[leaf] = state
    optimizer.step()
    for key, values in lists.items():
        for i, value in enumerate(values):
            if value is None:
                values[i] = optimizer.state[leaves[i]].get(key)


def _function(name: str) -> Callable[..., None]:
    signature = _signature(name)

    def step(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        _step(name, dict(bound.arguments))

    step.__name__ = step.__qualname__ = name
    step.__signature__ = signature  # type: ignore[attr-defined]
    step.__doc__ = f"Make one step of {_FUNCTIONS[name][0]}; see `gradloom.optim.functional`."
    return step


for _name in _FUNCTIONS:
    globals()[_name] = _function(_name)
