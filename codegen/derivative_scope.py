"""The names that the formulas of one operator may use, in either direction."""

from __future__ import annotations

from collections.abc import Iterable

from .derivative_model import Output
from .formula_scope import Callables, Kind, Role, Scope, Variable, kind_of_type
from .schema import FunctionSchema

GRAD, GRADS, MASK, RETAIN = "grad", "grads", "grad_input_mask", "retain_variables"


def backward_scope(
    schema: FunctionSchema, outputs: tuple[Output, ...], names: tuple[str, ...], callables: Callables
) -> Scope:
    """What the formula of the inputs `names` may use."""
    variables = {v.name: v for v in _gradients(outputs)}
    variables[MASK] = Variable(MASK, Kind.NUMBERS, Role.MASK, size=len(names))
    variables[RETAIN] = Variable(RETAIN, Kind.NUMBER, Role.FLAG)
    arguments = [v for v in _arguments(schema) if v.name not in (GRAD, GRADS)]
    variables.update({v.name: v for v in (*_results(outputs), *arguments)})
    elsewhere = {}
    for variable in arguments:
        for suffix, what in (("_t", "tangents"), ("_p", "primals")):
            hint = f"{what} belong to `{_example(outputs)}:` formulas; write `{variable.name}`"
            elsewhere[f"{variable.name}{suffix}"] = hint
    elsewhere.update(_other_outputs(outputs))
    for output in outputs:
        if not output.is_differentiable:
            elsewhere[f"grad_{output.name}"] = f"output `{output.name}` is not differentiable"
    return Scope(variables, {k: v for k, v in elsewhere.items() if k not in variables}, callables)


def forward_scope(
    schema: FunctionSchema, outputs: tuple[Output, ...], inputs: Iterable[str], callables: Callables
) -> Scope:
    """What a formula of outputs may use. `inputs` are the differentiable inputs."""
    inputs = tuple(inputs)
    variables = {v.name: v for v in _results(outputs)}
    elsewhere = dict(_other_outputs(outputs))
    for variable in _arguments(schema):
        name, kind = variable.name, variable.kind
        if name not in inputs:
            variables[name] = variable
            continue
        variables[f"{name}_t"] = Variable(f"{name}_t", kind, Role.TANGENT, name, variable.type)
        for primal in (f"{name}_p", name):
            variables[primal] = Variable(primal, kind, Role.PRIMAL, name, variable.type)
    tangents = ", ".join(f"`{name}_t`" for name in inputs)
    for word in (GRAD, GRADS, MASK, RETAIN, *(f"grad_{o.name}" for o in outputs)):
        elsewhere[word] = f"it belongs to the formulas of inputs; write tangents here: {tangents}"
    for argument in schema.inputs:
        name = argument.python_name
        if argument.type.is_tensor_like and name not in inputs:
            elsewhere[f"{name}_t"] = elsewhere[f"{name}_p"] = f"`{name}` has no formula, so it has no tangent"
    elsewhere = {k: v for k, v in elsewhere.items() if k not in variables}
    return Scope(variables, elsewhere, callables, writes_tangent=schema.kind == "inplace")


def condition_scope(schema: FunctionSchema, callables: Callables) -> Scope:
    """What a condition in `output_differentiability` may use: the arguments."""
    return Scope({v.name: v for v in _arguments(schema)}, {}, callables)


def _arguments(schema: FunctionSchema) -> list[Variable]:
    return [Variable(a.python_name, kind_of_type(a.type), Role.ARGUMENT, a.python_name, a.type) for a in schema.inputs]


def _results(outputs: tuple[Output, ...]) -> list[Variable]:
    return [Variable(o.name, kind_of_type(o.type), Role.RESULT, o.name, o.type) for o in outputs]


def _gradients(outputs: tuple[Output, ...]) -> list[Variable]:
    """`grad`, `grads` and `grad_<name>`."""
    differentiable = [o for o in outputs if o.is_differentiable]
    known = None if any(o.is_list for o in differentiable) else len(differentiable)
    found = [Variable(GRAD, Kind.TENSOR, Role.GRADIENT), Variable(GRADS, Kind.TENSORS, Role.GRADIENTS, size=known)]
    for number, output in enumerate(differentiable if known is not None else []):
        found.append(Variable(f"grad_{output.name}", Kind.TENSOR, Role.GRADIENT, output.name, index=number))
    return found


def _example(outputs: tuple[Output, ...]) -> str:
    return outputs[0].name if outputs else "result"


def _other_outputs(outputs: tuple[Output, ...]) -> dict[str, str]:
    """`result`, `result1` and so on where the outputs are called otherwise."""
    names = [o.name for o in outputs]
    wrong = {f"result{i}": f"write `{name}`" for i, name in enumerate(names)}
    wrong["result"] = (
        f"write `{names[0]}`" if len(names) == 1 else f"the outputs are {', '.join(f'`{n}`' for n in names)}"
    )
    for i in range(len(names), len(names) + 8):
        wrong[f"result{i}"] = (
            f"there {'is' if len(names) == 1 else 'are'} {len(names)} output{'s' * (len(names) != 1)}: "
            + (", ".join(f"`{n}`" for n in names))
        )
    return {word: hint for word, hint in wrong.items() if word not in names}
