"""An operator as what the template of a module prints: its kernel and its formulas, in terms of PyTorch or JAX."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradloom.codegen.derivatives.model import Derivative, DifferentiabilityInfo
from gradloom.codegen.derivatives.specification import Specification
from gradloom.codegen.errors import SpecError, UsageError
from gradloom.codegen.operators.model import NativeFunction
from gradloom.codegen.reading.yaml_files import Node, Text, TextList, TextMap
from gradloom.schema.model import Symbol

from . import library
from .definitions import in_place, of_elements, of_rows
from .library import TORCH
from .translation import Arrays, Carrier, UntranslatedError

_SHOWN = ("func", "over", "where", "scalar", "kernel", "type_promotion")
_PROMOTES = {"int_to_float": True, "default": False, "default_with_numbers": False, "no_bool": False}


@dataclass(slots=True)
class Emitted:
    """An operator of the module: every field is text that the template prints, or a list of lines."""

    name: str
    function: str
    path: str  # behind torch.ops.<namespace>
    title: str
    entry: list[str]
    doc: str
    schema: str
    signature: str
    positional: str  # its parameters, in order
    call: str  # the arguments of a call by them
    differentiable: bool
    pointwise: bool
    kernel: list[str]
    fake: list[str] = field(default_factory=list)
    node: str = ""
    outputs: str = ""
    undifferentiable: str = ""
    unpacked: str = ""  # the parameters, as targets of an assignment
    saved: str = ""  # tensors, for the backward formulas
    saved_forward: str = ""
    values: str = ""
    gradients: str = ""
    tangents: str = ""
    backward: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # inputs that may not require a gradient
    tensors: str = ""
    as_arrays: list[str] = field(default_factory=list)
    static: str = ""
    leading: str = ""


class Emitter:
    """Collects the operators of a module, and what they need.

    Args:
        kind: `torch` or `jax`.
        specification: of the operators to be written.
        base: gradloom's own, if that is another.
        namespace: of the operators in torch.ops.
        made: the class of an operator of that kind.
    """

    def __init__(
        self, kind: str, specification: Specification, base: Specification | None, namespace: str, made: type[Operator]
    ) -> None:
        self.kind, self.specification, self.base, self.namespace = kind, specification, base, namespace
        self.made = made
        own, of = specification.target, library.PACKAGE if base is not None else library.OPERATORS
        groups: dict[str, Iterable[NativeFunction]] = {of: specification.functions}
        if base is not None:
            groups[library.OPERATORS] = base.functions
        self.library = library.make(kind, groups, namespace, self.request)
        self.library.is_definable, self.library.in_place = self.is_definable, in_place
        targets = [own, *([base.target] if base is not None else [])]
        folders = {t.package: t.source for t in targets if t.source is not None}
        self.carrier = Carrier(self.library, folders, frozenset([own.namespace] if own.namespace else []))
        self.carrier.reserved |= set(self.library.functions.texts)
        self.kernels = replace(self.carrier, library=Arrays())  # into the same module
        self.queue: list[NativeFunction] = []
        self.names: dict[str, str] = {}

    def request(self, function: NativeFunction) -> str:
        """Make an operator a part of the module; return the function's name there."""
        if function.name not in self.names:
            base = identifier(function.schema.name.name)
            name = base if base not in self.names.values() else identifier(function.schema.name.unambiguous)
            self.names[function.name] = name
            self.carrier.reserved.add(name)
            self.queue.append(function)
        return self.names[function.name]

    def is_definable(self, function: NativeFunction) -> bool:
        """Return whether an operator's definition can be written."""
        if function.name in self.names:
            return True
        if function.rows is None:
            return function.scalar is not None
        used = set(self.library.functions.used)
        try:
            of_rows(function, self.library)
        except UntranslatedError:
            return False
        finally:
            self.library.functions.used = used
        return True

    def emitted(self, functions: Iterable[NativeFunction]) -> Iterator[Emitted]:
        """Yield the operators of the module, and those that they need. Raises SpecError for what has no counterpart."""
        for function in functions:
            self.request(function)
        for function in self.queue:  # which grows
            yield self.made(self, function).emitted()

    def info(self, function: NativeFunction) -> DifferentiabilityInfo | None:
        for specification in (self.specification, self.base):
            if specification is not None and specification.functions.get(function.name) is function:
                return specification.derivatives.entries.get(function.name, {}).get("Default")
        return None


def identifier(name: str) -> str:
    return name.replace(".", "_")


class Operator:
    def __init__(self, emitter: Emitter, function: NativeFunction) -> None:
        self.emitter, self.function, self.library = emitter, function, emitter.library
        self.schema, self.info = function.schema, emitter.info(function)
        self.inputs = function.schema.inputs
        self.names = [a.python_name for a in self.inputs]
        self.tensors = [a.python_name for a in self.inputs if a.type.is_tensor_like]
        self.optional = [a.python_name for a in self.inputs if a.type.is_tensor_like and a.type.is_optional]
        self.pointwise = "pointwise" in function.tags or function.scalar is not None and function.rows is None
        count = len(self.schema.returns)
        shown = [r.name or (f"result{n}" if count > 1 else "result") for n, r in enumerate(self.schema.returns)]
        self.results = [o.name for o in self.info.outputs] if self.info is not None else shown
        self.name = emitter.names[function.name]

    def emitted(self) -> Emitted:
        self.check()
        kernel, is_numpy = self.kernel()
        as_arrays = [
            f"{t} = None if {t} is None else jnp.asarray({t})" if t in self.optional else f"{t} = jnp.asarray({t})"
            for t in self.tensors
        ]
        found = Emitted(
            name=self.function.name,
            function=self.name,
            path=".".join(p for p in (self.schema.name.name, self.schema.name.overload) if p),
            title=self.function.name,
            entry=[*_entry(self.function), *(_formulas(self.info) if self.info is not None else ())],
            doc=self.doc(is_numpy),
            schema=str(self.schema),
            signature=self.signature(),
            positional=", ".join(self.names),
            call=", ".join(
                f"{a.python_name}={a.python_name}" if a in self.schema.kwarg_only else a.python_name
                for a in self.inputs
            ),
            differentiable=self.info is not None and self.info.node is not None,
            pointwise=self.pointwise,
            kernel=kernel,
            tensors=several(self.tensors),
            as_arrays=as_arrays,
        )
        if is_numpy and self.emitter.kind == TORCH:
            found.fake = [line.replace("_by_numpy(", "_empty_by_numpy(") for line in kernel]
            self.library.functions.use("_empty_by_numpy")
        if self.emitter.kind == TORCH:
            self.library.functions.use("_register")
        if found.differentiable:
            self.differentiate(found, is_numpy)
        return found

    def differentiate(self, found: Emitted, is_numpy: bool) -> None:
        """Write the formulas."""
        raise NotImplementedError

    # --- what is refused

    def check(self) -> None:
        """Raise for an operator that cannot be written: composites, views, operators that write, lists of tensors."""
        function, text = self.function, self.function.text
        name = function.name
        if function.composite is not None:
            raise text.error(f"`{name}` is made of other operators", f"call what {function.composite} calls")
        if self.schema.kind != "functional":
            raise text.error(f"`{name}` writes to its arguments", "write its functional form instead")
        if self.schema.is_view:
            raise text.error(f"`{name}` returns a view, which an operator of PyTorch's registry cannot", "leave it out")
        for a in (*self.inputs, *self.schema.returns):
            if a.type.is_list and a.type.is_tensor_like:
                raise text.error(
                    f"`{name}` has a list of tensors", "lists of tensors have no counterpart: leave it out"
                )
        if not self.tensors:
            raise text.error(f"`{name}` takes no tensor", "leave it out")
        if "nondeterministic_seeded" in function.tags:
            raise text.error(f"`{name}` draws random numbers", "leave it out")

    # --- texts

    def signature(self) -> str:
        parts: list[str] = []
        for a in self.inputs:
            if a in self.schema.kwarg_only and "*" not in parts:
                parts.append("*")
            default = "" if a.default is None else f"={self.default(a)}"
            parts.append(f"{a.python_name}{default}")
        return ", ".join(parts)

    def default(self, argument: Any) -> str:
        value = argument.default_value
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return "math.inf" if value > 0 else "-math.inf"
        if isinstance(value, Symbol):
            return repr(value.value) if value.value is not None else ast.unparse(self.library.dtype(value.name))
        return repr(value)

    def doc(self, is_numpy: bool) -> str:
        function = self.function
        shown = function.rows.source if function.rows is not None else function.scalar.source if function.scalar else ""
        if is_numpy:
            assert function.kernel is not None
            what = f"`{function.kernel.source}`" if function.kernel.kind == "named" else "an expression"
            return f"Compute {what} of NumPy, on the CPU."
        over = f", over {', '.join(dict.fromkeys(function.rows.over))}" if function.rows is not None else ""
        return f"Return {shown}{over}."

    # --- the kernel

    def kernel(self) -> tuple[list[str], bool]:
        """Return the lines of the kernel, and whether it is one of NumPy."""
        function, failed = self.function, None
        if function.scalar is not None or function.rows is not None:
            used = set(self.library.functions.used)
            try:
                return self.by_definition(), False
            except UntranslatedError as error:
                self.library.functions.used = used
                failed = error
        if function.kernel is None or not function.has_written_kernel:
            assert failed is not None
            raise self.error("scalar", failed)
        try:
            return self.by_numpy(), True
        except UntranslatedError as error:
            raise self.error("scalar" if failed else "kernel", failed or error) from None

    def by_definition(self) -> list[str]:
        if self.function.rows is None:
            return self.promoted([], [of_elements(self.function, self.library)])
        lines, results = of_rows(self.function, self.library)
        before = []
        if "dtype" in self.names:
            first, cast = self.tensors[0], "to" if self.emitter.kind == TORCH else "astype"
            before = [f"{first} = {first} if dtype is None else {first}.{cast}(dtype)"]
        return [*before, *self.promoted(lines, results)]

    def by_numpy(self) -> list[str]:
        kernel = self.function.kernel
        assert kernel is not None
        self.library.functions.use("_by_numpy")
        arguments = ", ".join(["", *self.names])
        package = self.emitter.specification.target.package
        modules = {name: f"{package}.kernels.{module}" for name, module in kernel.modules}
        if kernel.kind == "named":
            name = self.carried(modules[kernel.source], kernel.source.rpartition(".")[2])
            return self.promoted([], [ast.parse(f"_by_numpy({name}{arguments})", mode="eval").body])
        tree = ast.parse(kernel.source, mode="eval").body
        for node in ast.walk(tree):
            for child_name, child in ast.iter_fields(node):
                shown = ast.unparse(child) if isinstance(child, ast.Attribute) else ""
                if shown in modules:
                    name = self.carried(modules[shown], shown.rpartition(".")[2])
                    setattr(node, child_name, ast.Name(name, ast.Load()))
        expression = re.sub(r"\bxp\.", "np.", ast.unparse(tree))
        lines = [f"def compute({', '.join(self.names)}):", f"    return {expression}", ""]
        return [*lines, *self.promoted([], [ast.parse(f"_by_numpy(compute{arguments})", mode="eval").body])]

    def carried(self, module: str, name: str) -> str:
        """Carry a kernel along, which calls NumPy and no operators."""
        return self.emitter.kernels.function(module, name)

    def promoted(self, lines: list[str], results: Sequence[ast.expr]) -> list[str]:
        """Return the lines of a kernel that computes in the common dtype of the tensors."""
        promotion = self.function.type_promotion
        promotes = [t for t in self.tensors if not self.function.promotes or t in self.function.promotes]
        texts = [ast.unparse(r) for r in results]
        if promotion not in _PROMOTES and (promotion is not None or self.function.rows is None and len(promotes) > 1):
            return [*lines, f"return {', '.join(texts)}"]
        for name in ("_promoted", "_rounded"):
            self.library.functions.use(name)
        floating = ", floating=True" if _PROMOTES.get(promotion or "", False) else ""
        head = f"{', '.join(promotes)}, common = _promoted({', '.join(promotes)}{floating})"
        return [head, *lines, f"return {', '.join(f'_rounded({t}, common)' for t in texts)}"]

    # --- formulas

    def translated(self, formula: str, place: Text | None, source: str, forward: bool) -> ast.expr:
        """Return a formula of the analysed specification, translated. Raises SpecError at the word that cannot be."""
        assert self.info is not None
        helpers = {name: module for module, name in (self.info.forward_helpers if forward else self.info.helpers)}
        package = self.emitter.specification.target.operators if self.emitter.base is not None else ""
        try:
            return self.emitter.carrier.formula(formula, helpers, package)
        except UntranslatedError as error:
            if place is None:
                raise UsageError(f"`{self.function.name}`: {error}") from None
            raise self.misplaced(place, source, error) from None

    def misplaced(self, place: Text, source: str, error: UntranslatedError) -> SpecError:
        offset, length = 0, len(place.value)
        for word in (error.name, error.where.partition("`")[2].partition("`")[0]):
            match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", place.value) if word else None
            if match is not None:
                offset, length = match.start(), len(word)
                break
        message = f"`{self.function.name}` cannot be written for {self.emitter.kind}: {error}"
        return place.error(
            message, "write the formula by operators that it has, or leave the operator out", offset, length
        )

    def error(self, key: str, error: UntranslatedError) -> SpecError:
        place = self.function.entry.get(key) or self.function.entry.get("kernel")
        if not isinstance(place, Text):
            return self.function.text.error(f"`{self.function.name}` cannot be written: {error}", "leave it out")
        return self.misplaced(place, place.value, error)

    def fields(self, derivative: Derivative) -> list[str]:
        """Return assignments of the saved fields of a formula that are not tensors."""
        assert self.info is not None
        used = {s.name: s for s in self.info.saved if s.name in derivative.saved}
        fields = [s for s in used.values() if s.name not in (*self.names, *self.results)]
        return [f"{s.name} = {ast.unparse(self.translated(s.read, None, s.read, False))}" for s in fields]

    def comment(self, derivative: Derivative) -> str:
        """Return a formula as the entry has it."""
        return f"# {', '.join(derivative.inputs)}: {' '.join(derivative.source.split())}"

    def refuse_conditions(self, info: DifferentiabilityInfo) -> None:
        for o in info.outputs:
            if o.condition is not None:
                raise self.function.text.error(
                    f"`{self.function.name}` has a result that is differentiable if {o.condition}", "leave it out"
                )

    def plain(self, derivative: Derivative) -> str:
        """Return a formula for every backward pass: whether the graph is kept is not known outside of gradloom."""
        return (
            re.sub(r"\bretain_variables\b", "True", derivative.formula)
            if derivative.retain_variables
            else derivative.formula
        )

    def undifferentiable(self, name: str) -> str:
        return f"{self.name} is not differentiable with respect to argument '{name}'"


def several(names: Sequence[str]) -> str:
    """Return names as the targets that a tuple is unpacked to."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _entry(function: NativeFunction) -> Iterator[str]:
    """Yield the lines of an entry that say what the operator is."""
    for key, node in function.entry.fields.items():
        if key not in _SHOWN:
            continue
        lead = "- " if key == "func" else "  "
        if isinstance(node, TextMap):
            yield f"{lead}{key}:"
            yield from (f"    {name}: {_text(value)}" for name, value in node.fields.items())
        else:
            yield f"{lead}{key}: {_text(node)}"


def _text(node: Node) -> str:
    if isinstance(node, TextList):
        return ", ".join(_text(item) for item in node.items)
    return " ".join(node.value.split()) if isinstance(node, Text) else ""


def _formulas(info: DifferentiabilityInfo) -> Iterator[str]:
    """Yield the lines of an entry of derivatives."""
    yield f"- name: {info.name}"
    for derivative in info.derivatives:
        yield f"  {', '.join(derivative.inputs)}: {' '.join(derivative.source.split())}"
    for forward in info.forward:
        yield f"  {', '.join(forward.outputs)}: {' '.join(forward.source.split())}"
