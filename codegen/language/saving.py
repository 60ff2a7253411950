"""Write a resolved formula as generated code, and find the values that it takes from the forward pass.

    written = write_backward(resolved)
    written.text          # 'grad.expand(self_sym_sizes)' for `grad.expand(self.sym_sizes())`
    written.captures      # (Capture(name='self_sym_sizes', read='self.shape', ...),)

Note [What is saved]
A formula that mentions a tensor needs the tensor itself, unless it uses metadata only: then only the metadata is saved,
and the tensor's memory can be freed. The text between rewritten parts keeps the author's spelling.

Metadata that PyTorch shows as a public `_saved_<field>` (sizes, strides, number of elements and of dimensions) is
always a field of its own; other metadata (dtype, device, whether it is None) is read from the tensor where the same
formula needs the tensor anyhow. A single size is saved alone. It is read when the operator runs, even if the formula
guards it by a condition, so the read must not fail for a tensor of fewer dimensions: at a literal index it gives None
there, otherwise all sizes are saved.

Note [Formulas on arrays]
In a backward pass that is not recorded, a formula such as `grad * self.cos()` needs no tensors between its operators:
if all its tensors have one real floating dtype, it is the same expression on their arrays, at half the cost for small
ones. A formula has this form if it is made of Python's arithmetic and of operators whose kernel is one NumPy function
of one tensor, or that return a real tensor as it is (`on_real: self` in native_functions.yaml). The generated node
checks for the case; the formula on tensors stays beside it for all others.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..schema import Base, List, Optional, Type
from .formula import constant_int
from .names import SAVE_IF, Resolved
from .scope import DEVICE, DTYPE, NUMBER_METHODS, SIZES, Kind, Metadata, Operator, Read, Role, Variable, metadata_read

_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}

# Methods for metadata that gradloom's tensors lack, in Python.
_PYTHON_SPELLING = {
    "sizes": "{}.shape", "sym_sizes": "{}.shape", "strides": "{}.stride()", "sym_strides": "{}.stride()",
    "sym_numel": "{}.numel()", "nelement": "{}.numel()", "ndimension": "{}.dim()", "scalar_type": "{}.dtype",
    "sym_storage_offset": "{}.storage_offset()", "element_size": "{}.dtype.itemsize",
    "sym_size": "{}.size([])", "sym_stride": "{}.stride([])",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Capture:
    """A value that a formula takes from the forward pass."""

    name: str  # of the variable in the written formula, and of the node's field
    of: str  # the argument or return that it is taken from
    read: str  # the expression that the wrapper evaluates
    type: Type  # its schema type
    is_whole: bool = True  # whether it is the argument or return itself
    is_public: bool = True  # whether PyTorch shows it as `_saved_<name>`
    condition: str | None = None  # the condition under which it is needed, from `wrap_opt_if`; None for always


@dataclass(frozen=True, slots=True)
class Written:
    """A formula in generated code, and its captures in the order of first use."""

    text: str
    captures: tuple[Capture, ...]


def write_backward(resolved: Resolved, inputs: Sequence[str] = ()) -> Written:
    """Write a formula of the backward direction. `inputs` are the names in its key, in the order of the mask."""
    first = _Writer(resolved, inputs=inputs)
    first.write(resolved.formula.tree)
    whole = frozenset(c.of for c in first.captures.values() if c.is_whole and c.condition is None)
    writer = _Writer(resolved, whole, inputs)
    text = writer.write(resolved.formula.tree)
    return Written(_one_line(text, resolved), tuple(writer.captures.values()))


def write_forward(resolved: Resolved, substitutions: Mapping[str, str] | None = None) -> str:
    """Write a formula for the forward pass: nothing is saved; names may be replaced by text."""
    text = _Writer(resolved, saves=False, substitutions=substitutions).write(resolved.formula.tree)
    return _one_line(text, resolved)


def _one_line(text: str, resolved: Resolved) -> str:
    """Join the lines of a formula, without their indentation."""
    return ast.unparse(ast.parse(text, mode="eval")) if "  " in resolved.formula.text.strip() else text


class _Writer:
    """Copies the text of a formula and replaces the parts that generated code spells differently."""

    def __init__(
        self,
        resolved: Resolved,
        whole: frozenset[str] = frozenset(),
        inputs: Sequence[str] = (),
        saves: bool = True,
        substitutions: Mapping[str, str] | None = None,
    ) -> None:
        self.resolved, self.formula = resolved, resolved.formula
        self.whole, self.inputs, self.saves = whole, inputs, saves
        self.substitutions = substitutions or {}
        self.captures: dict[str, Capture] = {}
        self.unconditional = True

    def write(self, node: ast.AST) -> str:
        """Return the text of a node."""
        rule = _RULES.get(type(node))
        text = rule(self, node) if rule is not None else None
        return self.copy(node) if text is None else text

    def copy(self, node: ast.AST) -> str:
        """Return the text of a node with its children written."""
        start, end = self.formula.span(node)
        return self.between(_children(node), start, end)

    def between(self, children: Sequence[ast.AST], start: int, end: int) -> str:
        """Return the text from `start` to `end` with these children written."""
        parts, position = [], start
        for child in children:
            child_start, child_end = self.formula.span(child)
            parts += [self.formula.text[position:child_start], self.write(child)]
            position = child_end
        return "".join([*parts, self.formula.text[position:end]])

    # Rules: the text of a node, or None if it is unchanged.

    def name(self, node: ast.Name) -> str | None:
        operator = self.resolved.operators.get(node)
        if operator is not None:
            return operator.in_code
        variable = self.resolved.variables.get(node)
        if variable is not None and node.id in self.substitutions:
            return self.substitutions[node.id]
        if variable is not None and self.is_captured(variable):
            self.capture_whole(variable)
        return None

    def attribute(self, node: ast.Attribute) -> str | None:
        constant = self.resolved.constants.get(node)
        if constant is not None:
            return constant
        operator = self.resolved.operators.get(node)
        return operator.in_code if operator is not None else self.read(node)

    def subscript(self, node: ast.Subscript) -> str | None:
        return self.read(node)

    def call(self, node: ast.Call) -> str | None:
        if isinstance(node.func, ast.Name):
            if node.func.id == SAVE_IF and SAVE_IF not in self.resolved.scope.variables:
                return self.save_if(node)
            if node.func.id == "len":
                return self.length(node)
            return self.like(node)
        if self.resolved.kinds.get(node.func.value) is Kind.NUMBER:  # type: ignore[attr-defined]
            return f"{self.before_dot(node.func)}.{NUMBER_METHODS[node.func.attr]}()"  # type: ignore[arg-type,attr-defined]
        return self.read(node)

    def binop(self, node: ast.BinOp) -> str | None:
        """Write an operation on a tensor and a number as the overload for numbers, as in PyTorch's formulas."""
        sign = _SIGNS.get(type(node.op), "")
        infix = self.resolved.scope.callables.infixes.get(sign)
        kinds = self.resolved.kinds[node.left], self.resolved.kinds[node.right]
        if infix is None or set(kinds) != {Kind.TENSOR, Kind.NUMBER}:
            return None
        left, right = self.write(node.left), self.write(node.right)
        if kinds[0] is Kind.TENSOR:
            return infix.with_number.format(left, right)
        return infix.with_number.format(right, left) if sign in "+*" else f"{infix.of_tensors}({left}, {right})"

    def keyword(self, node: ast.keyword) -> str | None:
        """Expand `**x.options()`."""
        if node.arg is not None:
            return None
        base = node.value.func.value  # type: ignore[attr-defined]
        return ", ".join(
            f"{word}={self.capture_or_read(base, metadata)}"
            for word, metadata in (("dtype", DTYPE), ("device", DEVICE))
        )

    def conditional(self, node: ast.IfExp | ast.BoolOp | ast.ListComp) -> str:
        outer, self.unconditional = self.unconditional, False
        text = self.comprehension(node) if isinstance(node, ast.ListComp) else None
        text = self.copy(node) if text is None else text
        self.unconditional = outer
        return text

    def compare(self, node: ast.Compare) -> str | None:
        """Replace `x is None` for an optional tensor that is not needed otherwise."""
        variable = self.saved_tensor(node.left)
        if variable is None or not isinstance(node.ops[0], (ast.Is, ast.IsNot)) or variable.of in self.whole:
            return None
        name = f"{variable.name}_is_none"
        self.capture(Capture(name, variable.of, f"{variable.name} is None", Base("bool"), False, False))
        return name if isinstance(node.ops[0], ast.Is) else f"not {name}"

    # Variables

    def is_captured(self, variable: Variable) -> bool:
        return self.saves and variable.role in (Role.ARGUMENT, Role.RESULT)

    def saved_tensor(self, node: ast.expr, kind: Kind = Kind.TENSOR) -> Variable | None:
        """Return the variable if the expression names a tensor to be saved, else None."""
        variable = self.resolved.variables.get(node) if isinstance(node, ast.Name) else None
        fits = variable is not None and variable.kind is kind and self.is_captured(variable)
        return variable if fits else None

    def capture(self, capture: Capture) -> str:
        """Record a capture. A capture that occurs twice is needed under either condition, or always."""
        known = self.captures.get(capture.name)
        if known is not None:
            condition = _either(known.condition, capture.condition)
            capture = replace(known, condition=condition, is_public=known.is_public or capture.is_public)
        self.captures[capture.name] = capture
        return capture.name

    def capture_whole(self, variable: Variable, condition: str | None = None) -> str:
        type_ = variable.type or Base("Tensor")
        is_public = variable.kind is not Kind.DTYPE and str(type_) != "bool?"  # PyTorch has no getter for it
        return self.capture(Capture(variable.name, variable.of, variable.name, type_, True, is_public, condition))

    def capture_metadata(self, variable: Variable, metadata: Metadata, is_public: bool) -> str:
        name, read, type_ = (f"{variable.name}_{metadata.suffix}", metadata.read.format(variable.name), metadata.type)
        if variable.is_optional:
            name, read, type_ = f"{name}_opt", f"None if {variable.name} is None else {read}", Optional(type_)
        return self.capture(Capture(name, variable.of, read, type_, False, is_public))

    # Metadata

    def read(self, node: ast.expr) -> str | None:
        """Replace an expression that reads metadata, or a method that has another spelling in Python."""
        read = metadata_read(node)
        if read is None or not self.resolved.kinds[read.base].may_be_tensor:
            return None
        variable = self.saved_tensor(read.base)
        if variable is None or (variable.of in self.whole and not read.metadata.is_public):
            return self.respell(node)
        if read.index is not None and read.metadata is SIZES:
            one = self.one_size(variable, read.index)
            if one is not None:
                return one
        field = self.capture_metadata(variable, read.metadata, read.metadata.is_public)
        index = "" if read.index is None else f"[{self.write(read.index)}]"
        return f"{field}{index}{read.rest}"

    def one_size(self, variable: Variable, index: ast.expr) -> str | None:
        """Return the field of a single size, if it can be saved alone: at a literal index, or at an argument."""
        number = constant_int(index)
        argument = self.resolved.variables.get(index) if isinstance(index, ast.Name) else None
        named = argument is not None and argument.role is Role.ARGUMENT and not argument.is_optional
        if variable.is_optional or (number is None and not (named and self.unconditional)):
            return None
        text = self.formula.source(index).replace(" ", "")
        name = f"{variable.name}_sym_argsize_{text.replace('-', 'minus_')}"
        read = f"{variable.name}.shape[{text}]"
        if number is not None and not self.unconditional:
            dims = -number if number < 0 else number + 1
            read = f"{read} if {variable.name}.dim() >= {dims} else None"
        return self.capture(Capture(name, variable.of, read, Base("int"), False))

    def respell(self, node: ast.expr) -> str | None:
        """Replace C++ spellings of metadata by Python's."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return None
        spelling = _PYTHON_SPELLING.get(node.func.attr)
        if spelling is None:
            return None
        index = self.write(node.args[0]) if node.args else ""
        return spelling.replace("[]", index).format(self.before_dot(node.func))

    def before_dot(self, node: ast.Attribute) -> str:
        """Return the text before an attribute's dot, with the brackets around it."""
        start, end = self.formula.span(node)
        text = self.between([node.value], start, end - len(node.attr)).rstrip().removesuffix(".").rstrip()
        return f"({text})" if text.isdigit() else text  # `1.conj` is no Python

    def capture_or_read(self, base: ast.expr, metadata: Metadata) -> str:
        variable = self.saved_tensor(base)
        if variable is None or variable.of in self.whole:
            return metadata.read.format(self.write(base))
        return self.capture_metadata(variable, metadata, metadata.is_public)

    # Calls

    def like(self, node: ast.Call) -> str | None:
        """Replace `zeros_like(x)` of a tensor that is not needed otherwise: its size, dtype and device suffice."""
        operator = self.resolved.operators.get(node.func)
        factory = _factory_of(operator, self.resolved)
        variable = self.saved_tensor(node.args[0]) if node.args else None
        words = {item.arg for item in node.keywords}
        if factory is None or variable is None or variable.of in self.whole or variable.is_optional:
            return None
        if not words <= {"dtype", "device"}:
            return None
        parts = [self.capture_metadata(variable, SIZES, False), *(self.write(part) for part in node.args[1:])]
        parts += [self.write(item) for item in node.keywords]
        for word, metadata in (("dtype", DTYPE), ("device", DEVICE)):
            if word not in words:
                parts.append(f"{word}={self.capture_metadata(variable, metadata, False)}")
        return f"{factory.in_code}({', '.join(parts)})"

    def length(self, node: ast.Call) -> str | None:
        variable = self.saved_tensor(node.args[0], Kind.TENSORS) if len(node.args) == 1 else None
        return None if variable is None or variable.of in self.whole else self.capture(list_size(variable.name))

    def comprehension(self, node: ast.ListComp) -> str | None:
        """Replace `[x.shape for x in tensors]` of a list that is not needed otherwise."""
        generator = node.generators[0]
        variable = self.saved_tensor(generator.iter, Kind.TENSORS)
        read = metadata_read(node.elt)
        if variable is None or read is None or variable.of in self.whole or generator.ifs:
            return None
        target, base = generator.target, read.base
        same = isinstance(target, ast.Name) and isinstance(base, ast.Name) and base.id == target.id
        if not same or read.index is not None:
            return None
        return self.capture_list_metadata(variable, read)

    def capture_list_metadata(self, variable: Variable, read: Read) -> str:
        metadata, rest = read.metadata, read.rest
        element = (metadata.read + rest).format("t")
        assert variable.type is not None
        list_type = variable.type.required
        type_: Type = Base("bool") if rest.startswith(".is_") else Base("int") if rest else metadata.type
        if isinstance(list_type, List) and list_type.elem.is_optional:
            element, type_ = f"None if t is None else {element}", Optional(type_)
        name = f"{variable.name}_args_{metadata.suffix}{rest.replace('.', '_')}"
        read_text = f"[{element} for t in {variable.name}]"
        return self.capture(Capture(name, variable.of, read_text, List(type_), False, False))

    def save_if(self, node: ast.Call) -> str:
        tensor, condition = node.args
        if not self.saves:
            return self.write(tensor)
        variable = self.resolved.variables[tensor]  # type: ignore[index]
        return self.capture_whole(variable, _condition(condition, self.resolved, self.inputs))


def list_size(name: str) -> Capture:
    """Capture the number of tensors of a list argument, in PyTorch's field for it."""
    return Capture(f"{name}_size_", name, f"len({name})", Base("int"), False, False)


def _factory_of(operator: Operator | None, resolved: Resolved) -> Operator | None:
    """Return `zeros` for `zeros_like`: the operator that makes the same result from a size."""
    if operator is None or not operator.name.endswith("_like"):
        return None
    factory = resolved.scope.callables.operators.get(operator.name.removesuffix("_like"))
    return factory if factory is not None and factory.is_factory else None


def _either(first: str | None, second: str | None) -> str | None:
    if first is None or second is None or first == second:
        return None if first is None or second is None else first
    return f"({first}) or ({second})"


def _condition(node: ast.expr, resolved: Resolved, inputs: Sequence[str]) -> str:
    """Return a condition of `wrap_opt_if` in the wrapper's variables: `needs_weight` for `grad_input_mask[1]`."""
    masks: list[ast.Subscript] = []
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
            variable = resolved.variables.get(part.value)
            if variable is not None and variable.role is Role.MASK:
                masks.append(part)
    start, end = resolved.formula.span(node)
    text, position = "", start
    for mask in sorted(masks, key=lambda part: part.col_offset):
        mask_start, mask_end = resolved.formula.span(mask)
        text += resolved.formula.text[position:mask_start] + needs(inputs[mask.slice.value])  # type: ignore
        position = mask_end
    return text + resolved.formula.text[position:end]


def needs(name: str) -> str:
    """Return the wrapper's variable for whether an input needs a gradient."""
    return f"needs_{name}"


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the children with a position in the text, in order."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "col_offset"):
            found.append(child)
        elif isinstance(child, ast.comprehension):
            found += _children(child)
    return sorted(found, key=lambda child: child.col_offset)  # type: ignore[attr-defined]


_RULES: dict[type[ast.AST], Callable[[_Writer, Any], str | None]] = {
    ast.Name: _Writer.name, ast.Attribute: _Writer.attribute, ast.Subscript: _Writer.subscript,
    ast.Call: _Writer.call, ast.keyword: _Writer.keyword, ast.Compare: _Writer.compare,
    ast.IfExp: _Writer.conditional, ast.BoolOp: _Writer.conditional, ast.ListComp: _Writer.conditional,
    ast.BinOp: _Writer.binop,
}  # fmt: skip

GRADIENT = "grad"
GRADIENT_ARRAY = "grad_"  # the array of `grad` in generated code
_UFUNCS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "true_divide",
}
_ARITHMETIC = tuple(_UFUNCS)


@dataclass(frozen=True, slots=True)
class OnArrays:
    """A formula on arrays, and the saved tensors that must have the dtype of the gradient."""

    text: str
    tensors: tuple[str, ...]


def on_arrays(resolved: Resolved, captures: Sequence[Capture]) -> OnArrays | None:
    """Return the form of a formula on arrays; None if it has none."""
    tree = resolved.formula.tree
    if isinstance(tree, ast.Name):  # the gradient itself: no new tensor is made
        return None
    writer = _ArrayWriter(resolved, {c.name for c in captures if c.is_whole and c.condition is None})
    try:
        written = writer.write(tree)
    except _OnTensorsOnly:
        return None
    if isinstance(written, ast.BinOp):  # by a function that `set_kernels` can replace, as in the wrappers
        function = ast.Attribute(ast.Name("xp"), _UFUNCS[type(written.op)])
        written = ast.Call(function, [written.left, written.right], [])
    return OnArrays(ast.unparse(written), tuple(dict.fromkeys(writer.tensors)))


class _OnTensorsOnly(Exception):
    """Raised for a part of a formula that has no known form on arrays."""


class _ArrayWriter:
    def __init__(self, resolved: Resolved, whole: set[str]) -> None:
        self.resolved, self.whole = resolved, whole
        self.tensors: list[str] = []

    def write(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant(value=int() | float()):
                return node
            case ast.Name():
                return self.name(node)
            case ast.BinOp(op=op) if isinstance(op, _ARITHMETIC):
                return ast.BinOp(self.write(node.left), op, self.write(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return ast.UnaryOp(node.op, self.write(node.operand))
            case ast.Call(keywords=[], func=ast.Attribute(value=base, attr=attr), args=[]):
                return self.call(base, attr)
            case ast.Call(keywords=[], func=ast.Name(id=name), args=[argument]) if node.func in self.resolved.operators:
                return self.call(argument, name)
        raise _OnTensorsOnly

    def name(self, node: ast.Name) -> ast.expr:
        variable = self.resolved.variables[node]
        if variable.role is Role.GRADIENT and node.id == GRADIENT:
            return ast.Name(GRADIENT_ARRAY)
        if variable.role not in (Role.ARGUMENT, Role.RESULT) or variable.is_optional or node.id not in self.whole:
            raise _OnTensorsOnly
        if variable.kind is Kind.NUMBER:
            return ast.Name(node.id)
        if variable.kind is not Kind.TENSOR:
            raise _OnTensorsOnly
        self.tensors.append(node.id)
        return ast.Attribute(ast.Name(node.id), "_array")

    def call(self, argument: ast.expr, name: str) -> ast.expr:
        kind = self.resolved.kinds.get(argument)
        if kind is Kind.NUMBER and name in NUMBER_METHODS:
            return ast.Call(ast.Attribute(self.write(argument), NUMBER_METHODS[name]), [], [])
        form = self.resolved.scope.callables.array_forms.get(name)
        if kind is not Kind.TENSOR or form is None:
            raise _OnTensorsOnly
        written = self.write(argument)
        return ast.Call(ast.parse(form, mode="eval").body, [written], []) if form else written
