"""The docstrings of generated functions: the schema, what is computed, the derivative, and the entry it comes from.

    mul.Tensor(Tensor self, Tensor other) -> Tensor

    z = x · y
    ∂L/∂x = g · y*
    ∂L/∂y = g · x*
    dz = dy · x + dx · y
    where x = self, y = other, z = result, g = ∂L/∂z

    MulBackward0, from the entry mul.Tensor of derivatives.yaml.

The first line is the schema, alone: error messages read it there.
"""

from __future__ import annotations

from .derivative_model import DifferentiabilityInfo, DifferentiableFunction
from .notation import Equations, Notation

_WITHOUT = {
    "not_differentiable": "Its result never requires a gradient.",
    "not_implemented": "Its derivative is not implemented.",
}


def docstring(function: DifferentiableFunction, notation: Notation) -> str:
    """What a wrapper says about itself."""
    info, schema = function.info, str(function.schema)
    composite = function.function.composite
    if composite is not None:
        last = ", and differentiable through them" if function.strategy == "composition" else ""
        return f"{schema}\n\nMade of other operators by composite.{composite}{last}."
    if info is None or info.node is None:
        takes_tensors = any(a.type.is_tensor_like for a in function.schema.inputs)
        without = _WITHOUT.get(function.strategy, "") if takes_tensors else ""
        value = notation.value(function.function, function.schema) if function.schema.kind == "functional" else None
        return "\n\n".join([schema, *([value.text] if value is not None else []), *([without] if without else [])])
    if info.schema.kind == "inplace" and not _is_own(info):
        entry = info.name.partition("(")[0]
        return f"{schema}\n\n{entry}, written into {info.schema.arguments[0].name}; see there for the derivative."
    is_copy = function.variant is not None and function.variant.kind == "copy"
    entry = function.function.name if is_copy else info.name.partition("(")[0]
    return f"{schema}\n\n{_body(notation.of(function))}\n\n{info.node}, from the entry {entry} of derivatives.yaml."


def _is_own(info: DifferentiabilityInfo) -> bool:
    """Whether a variant has an entry of its own, and not that of the functional operator."""
    return info.name == str(info.schema)


def _body(equations: Equations) -> str:
    lines = [e.text for e in (*([equations.value] if equations.value else []), *equations.backward, *equations.forward)]
    signs = [f"{sign} = {name}" for name, sign in equations.symbols.items()]
    lines.append(f"where {', '.join([*signs, *equations.gradients])}")
    lines += [f"{remark.name}: {remark.text}" for remark in equations.where]
    return "\n".join(lines)
