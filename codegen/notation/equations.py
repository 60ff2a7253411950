"""The derivative of an operator in mathematical notation, and the docstring of its generated function.

    notation = Notation(package / "formulas")
    for equation in notation.of(derivatives["mul.Tensor"]).backward:
        print(equation.text)                    # ∂L/∂x = g · y*
        print(equation.latex)                   # \\frac{\\partial L}{\\partial x} = g \\, y^{*}

`docstring` returns the schema on the first line, from which error messages read it, then the value, the derivative, and
the name of the entry:

    mul.Tensor(Tensor self, Tensor other) -> Tensor

    z = x · y
    ∂L/∂x = g · y*
    ∂L/∂y = g · x*
    dz = dy · x + dx · y
    where x = self, y = other, z = result, g = ∂L/∂z

    MulBackward0, from the entry mul.Tensor of derivatives.yaml.

Note [Notation]
L is the differentiated scalar, z the result, and g the gradient of L for z; d marks a tangent; `*` marks a conjugate,
which is the value itself where it is real. `self` and `input` are x, `other` is y; other arguments keep their names.
Shapes are omitted if they follow from broadcasting. A helper with a short definition is written out; any other stays a
call, and `where` describes it by its docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..derivatives.entries import DERIVED
from ..derivatives.model import Derivative, DifferentiabilityInfo, DifferentiableFunction, ForwardDerivative
from ..operators.model import NativeFunction
from ..reading.python_files import Functions
from ..schema import FunctionSchema
from .expressions import Expr, Style, Text, conj, has, is_awkward
from .markup import Latex, MathML
from .read import MASK, Reader, Unreadable, table

_FAVOURITES = {"self": "x", "input": "x", "other": "y"}


@dataclass(frozen=True, slots=True)
class Equation:
    """One equation. `of` has its inputs (backward) or outputs (forward); empty for the value."""

    of: tuple[str, ...]
    left: Expr
    right: Expr

    @property
    def latex(self) -> str:
        return f"{latex(self.left)} = {latex(self.right)}"

    @property
    def mathml(self) -> str:
        return mathml(self.left, self.right)

    @property
    def text(self) -> str:
        return f"{text(self.left)} = {text(self.right)}"


def latex(e: Expr) -> str:
    """Write an expression as LaTeX, for mathematics mode."""
    return _style(Latex).write(e)


def text(e: Expr) -> str:
    """Write an expression as text, with Unicode's mathematical characters."""
    return _style(Text).write(e)


def mathml(*parts: Expr) -> str:
    """Write expressions, joined by equals signs, as a `<math>` element."""
    inside = "<mo>=</mo>".join([_style(MathML).write(e) for e in parts])
    return f'<math display="block"><mrow>{inside}</mrow></math>'


@cache
def _style(kind: type[Style]) -> Style:
    return kind(table().forms, table().numbers)


@dataclass(frozen=True, slots=True)
class Remark:
    """The first paragraph of the docstring of a helper that remains a call. `module` is its module in formulas/."""

    name: str
    module: str
    text: str


@dataclass(frozen=True, slots=True)
class Equations:
    """All equations of an operator."""

    value: Equation | None  # the value of the operator, if its entry or kernel is an expression of it; else None
    backward: tuple[Equation, ...]  # one for each differentiable input, or for several that share a formula
    forward: tuple[Equation, ...]  # the tangents of the outputs
    where: tuple[Remark, ...]  # the helpers that the equations call by name
    symbols: Mapping[str, str]  # argument or output -> its symbol in the equations, if that differs
    gradients: tuple[str, ...] = ()  # the definitions of the gradients in the equations, such as `g = ∂L/∂z`


class Notation:
    """Derivatives in mathematical notation, from the folders of helpers: gradloom's and that of another package."""

    def __init__(self, *formulas: Path) -> None:
        self.helpers = Functions(*formulas)

    def of(self, function: DifferentiableFunction) -> Equations:
        """Return the equations of an operator or variant."""
        info = function.info
        return (
            self.equations(info, function.function)
            if info is not None
            else Equations(self.value(function.function, function.schema), (), (), (), {})
        )

    def equations(self, info: DifferentiabilityInfo, native: NativeFunction | None = None) -> Equations:
        """Return the equations of an entry; `native` supplies the value."""
        writer = _Entry(self, info)
        backward = [e for d in info.derivatives for e in writer.backward(d)]
        forward = [e for f in info.forward for e in writer.forward(f)]
        signs = {name: text(e) for name, e in writer.names.items() if e.name != name}
        value = self.value(native, info.schema) if native is not None else None
        return Equations(
            value, tuple(backward), tuple(forward), self.remarks(writer.calls), signs, writer.meanings(backward)
        )

    def value(self, native: NativeFunction, schema: FunctionSchema) -> Equation | None:
        """Return the value of an operator, if its entry defines it or its kernel is an expression."""
        kernel = native.kernel
        source = native.scalar or (kernel if kernel is not None and kernel.kind == "expression" else None)
        if source is None:
            return None
        names = symbols(schema, [])
        try:
            right = Reader(names).read(ast.parse(source.source, mode="eval").body)
        except Unreadable:
            return None
        if is_awkward(right) or has(right, "word"):  # an implementation, not a definition
            return None
        return Equation((), Expr("symbol", name="z"), right)

    def remarks(self, calls: Iterable[str]) -> tuple[Remark, ...]:
        found = []
        for name in dict.fromkeys(calls):
            helper = self.helpers.find(name, None)
            doc = ast.get_docstring(helper[1]) if helper is not None else None
            if helper is not None and doc:
                found.append(Remark(name, helper[0], " ".join(doc.split("\n\n")[0].split()).removeprefix("Return ")))
        return tuple(found)


def symbols(schema: FunctionSchema, outputs: Iterable[str]) -> dict[str, Expr]:
    """Return the symbol of each argument and output."""
    arguments = [a.python_name for a in schema.inputs]
    taken = set(arguments)
    found: dict[str, Expr] = {}
    for name in arguments:
        sign = _FAVOURITES.get(name, name)
        sign = name if sign != name and sign in taken else sign
        taken.add(sign)
        found[name] = Expr("symbol", name=sign)
    for name in outputs:
        if name not in found:
            is_result = name.rstrip("0123456789") == "result" and "z" not in arguments
            found[name] = Expr("symbol", name=name.replace("result", "z") if is_result else name)
    return found


class _Entry:
    """The equations of one entry of derivatives.yaml."""

    def __init__(self, notation: Notation, info: DifferentiabilityInfo) -> None:
        self.notation, self.info = notation, info
        self.calls: list[str] = []
        self.names = symbols(info.schema, [o.name for o in info.outputs])
        tensors = [a.python_name for a in info.schema.inputs if a.type.is_tensor_like]
        self.tensors = frozenset(self.names[t].name for t in tensors) | {self.names[o.name].name for o in info.outputs}

    def readable(self, source: str, more: Mapping[str, Expr]) -> Expr:
        """Return a formula as mathematics; without a notation for it, as it stands in the file."""
        before = len(self.calls)
        try:
            return self.reader(more).read(ast.parse(source.strip(), mode="eval").body)
        except Unreadable:
            del self.calls[before:]
            return Expr("word", name=" ".join(source.split()))

    def reader(self, more: Mapping[str, Expr]) -> Reader:
        return Reader({**self.names, **more}, self.notation.helpers, None, self.tensors, self.calls)

    # Backward

    def gradients(self) -> dict[str, Expr]:
        found = {
            "grad": Expr("gradient"),
            "grads": Expr("gradient", (Expr("word", name="all"),)),
            MASK: Expr("mask"),
            "retain_variables": Expr("word", name="retained"),
        }
        for output in self.info.differentiable_outputs:
            found[f"grad_{output.name}"] = Expr("gradient", name=output.name)
        taken = {a.python_name for a in self.info.schema.inputs}
        return {name: e for name, e in found.items() if name == "grad" or name not in taken}

    def meanings(self, equations: Iterable[Equation]) -> tuple[str, ...]:
        """Return the definition of each gradient in the equations: `g = ∂L/∂z`."""
        outputs = self.info.differentiable_outputs
        found = []
        for name in dict.fromkeys(n for e in equations for n in _gradients_in(e.right)):
            output = next((o for o in outputs if name in (o.name, str(o.output_nr))), outputs[0])
            sign = text(Expr("gradient", name=name))
            several = name == "" and (output.is_list or any("grads" in d.source for d in self.info.derivatives))
            found.append(
                f"{sign} = the gradients of all results" if several else f"{sign} = ∂L/∂{text(self.names[output.name])}"
            )
        return tuple(found)

    def backward(self, d: Derivative) -> list[Equation]:
        lefts = [Expr("partial", (self.names[name],)) for name in d.inputs]
        if d.not_implemented is not None:
            return self.missing(d.inputs, lefts, d.not_implemented)
        return self.split(d.inputs, lefts, self.readable(d.source, self.gradients()))

    def missing(self, of: tuple[str, ...], lefts: list[Expr], reason: str) -> list[Equation]:
        right = Expr("word", name=f"not implemented: {reason}")
        return [Equation((name,), left, right) for name, left in zip(of, lefts, strict=True)]

    def split(self, of: tuple[str, ...], lefts: list[Expr], right: Expr) -> list[Equation]:
        """Return one equation for each side of a tuple, if they can be separated."""
        if len(of) > 1 and right.kind == "tuple" and len(right.args) == len(of):
            return [Equation((n,), left, part) for n, left, part in zip(of, lefts, right.args, strict=True)]
        left = lefts[0] if len(lefts) == 1 else Expr("tuple", tuple(lefts))
        return [Equation(of, left, right)]

    # Forward

    def forward(self, f: ForwardDerivative) -> list[Equation]:
        lefts = [Expr("tangent", (self.names[name],)) for name in f.outputs]
        if f.not_implemented is not None:
            return self.missing(f.outputs, lefts, f.not_implemented)
        tangents = {f"{i.name}_t": Expr("tangent", (self.names[i.name],)) for i in self.info.inputs}
        if f.kind == "auto_element_wise":
            source = self.info.derivatives[0]
            name = source.inputs[0]
            right = self.readable(source.source, {"grad": tangents[f"{name}_t"]})
            # A formula without a conjugate has a real derivative, which is the same in both directions.
            if has(right, "conj", "adjoint") or _hides(right):
                right = conj(self.readable(source.source, {"grad": conj(tangents[f"{name}_t"])}))
        elif f.kind == "auto_linear":
            of_tangents = [
                Expr("tangent", (self.names[a.python_name],))
                if self.info.input(a.python_name)
                else self.names[a.python_name]
                for a in self.info.schema.inputs
                if not (a.kwarg_only and a.default is not None)
            ]
            name = self.info.schema.name.base
            try:
                right = self.reader({}).function(name, of_tangents, {})
            except Unreadable:
                right = Expr("call", tuple(of_tangents), name)
        else:
            primals = {f"{name}_p": self.names[name] for name in self.names}
            right = self.readable(f.source, tangents | primals)
        return self.split(f.outputs, lefts, right)


def _hides(e: Expr) -> bool:
    """Return whether a remaining call takes a tangent, whose use in it is not visible."""
    return (e.kind == "call" and any(has(a, "tangent") for a in e.args)) or any(_hides(a) for a in e.args)


def _gradients_in(e: Expr) -> list[str]:
    """Return the names of the gradients in an expression, in order."""
    return [e.name] if e.kind == "gradient" else [n for a in e.args for n in _gradients_in(a)]


_WITHOUT = {
    "not_differentiable": "Its result never requires a gradient.",
    "not_implemented": "Its derivative is not implemented.",
}


def docstring(function: DifferentiableFunction, notation: Notation) -> str:
    """Return the docstring of a wrapper."""
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
    from_ = f"from the entry {entry} of derivatives.yaml"
    if info.place is not None and info.place.path == DERIVED:
        from_ = "derived from the definition"
    return f"{schema}\n\n{_body(notation.of(function))}\n\n{info.node}, {from_}."


def _is_own(info: DifferentiabilityInfo) -> bool:
    """Return whether a variant has its own entry, rather than that of the functional operator."""
    return info.name == str(info.schema)


def _body(equations: Equations) -> str:
    lines = [e.text for e in (*([equations.value] if equations.value else []), *equations.backward, *equations.forward)]
    signs = [f"{sign} = {name}" for name, sign in equations.symbols.items()]
    lines.append(f"where {', '.join([*signs, *equations.gradients])}")
    lines += [f"{remark.name}: {remark.text}" for remark in equations.where]
    return "\n".join(lines)
