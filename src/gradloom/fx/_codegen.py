"""Python source of a graph.

`CodeGen` writes one function: a line per node, followed by the deletion of the values that no later line uses. A
subclass may change the signature, the preparation of inputs and the return statement.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..dispatch.python_operators import BINARY, COMPARISONS, SIGNS
from ..ops._objects import OpOverload, OpOverloadPacket
from ..types.device import device
from ..utils import _pytree as pytree
from ._names import is_from_torch, qualified_name, type_name
from ._namespace import CUSTOM_BUILTINS, Namespace, wrap
from .node import Argument, Node, _shape_text, dtype_abbreviation

TransformCodeFunc = Callable[[list[str]], list[str]]

# The operators of Python by their functions' names in the module `operator`.
_BINARY = {f"{name}_" if iskeyword(name) else name: f"{{}} {SIGNS[name]} {{}}" for name in BINARY}
_BINARY["getitem"] = "{}[{}]"
reflectable_magic_methods = dict(_BINARY)
magic_methods = {
    **{name: f"{{}} {sign} {{}}" for name, sign in COMPARISONS.items()},
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **_BINARY,
}
inplace_methods = {
    **{f"i{name.rstrip('_')}": text.replace(" {}", "= {}", 1) for name, text in _BINARY.items() if name != "getitem"},
    "setitem": "{}[{}] = {}",
}
_TYPING = {list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet, tuple: typing.Tuple}  # noqa: UP006
_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')
_COUNTER = re.compile(r"# COUNTER: (\d+)")
_COLORS = {"red": "31", "dim_green": "2m\x1b[32", "dim": "2", "dim_blue": "2m\x1b[34", "blue": "34"}


@dataclass
class PythonCode:
    """Source of a graph.

    Attributes:
        src: the source: imports excepted, a function definition.
        globals: the globals that it needs.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


def format_target(base: str, target: str) -> str:
    """Return an expression for a dotted attribute of `base`."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _Options(NamedTuple):
    verbose: bool
    include_stride: bool
    include_device: bool
    colored: bool
    expanded_def: bool
    additional_meta: Sequence[str]


class CodeGen:
    """Writes the source of a graph; see `Graph.set_codegen`."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the function's first line.

        Args:
            free_vars: parameters, with annotations and defaults.
            maybe_return_annotation: "" or " -> " and a type.
            expanded_def: write each parameter on a line of its own.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            lines = "".join(f"    {_with_comment(parameter)}\n" for parameter in free_vars)
            return f"def {self._func_name}(\n{lines}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Argument, *, descs: Sequence[str] | None = None, repr_fn: Callable[[Any], str] = repr
    ) -> str:
        """Return the return statement.

        Args:
            output_args: the argument of the output node.
            descs: descriptions of its elements, written as comments.
            repr_fn: takes an argument, and returns its source.
        """
        if descs is not None and isinstance(output_args, (list, tuple)):
            return _described(output_args, descs, "return ", repr_fn)
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of a call."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result of a call for the output node's value."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names and objects that the code needs besides those of its nodes."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, **options: Any
    ) -> PythonCode:
        return _Writer(self, root_module, namespace, _Options(**options)).write(nodes)


def _with_comment(parameter: str) -> str:
    code, mark, comment = parameter.partition("#")
    return f"{code.rstrip()},  # {comment.lstrip()}" if mark else f"{parameter},"


def _described(values: Sequence[Any], descs: Sequence[str], head: str, repr_fn: Callable[[Any], str]) -> str:
    left, right = "()" if isinstance(values, tuple) else "[]"
    lines = "".join(f"    {repr_fn(value)},  # {desc}\n" for value, desc in zip(values, descs, strict=False))
    return f"{head}{left}\n{lines}{right}"


class _PyTreeInfo(NamedTuple):
    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """Code whose arguments and result are nested containers of the placeholders and outputs."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return out
        return pytree.tree_unflatten(out if isinstance(out, (list, tuple)) else [out], self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        given = self.pytree_info.orig_args
        if given and given[0] == "self":
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(given[:], maybe_return_annotation, expanded_def=expanded_def)
        return definition + self._bindings(given, free_vars, expanded_def) if free_vars else definition

    def _bindings(self, given: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """Return the lines that bind the placeholders to the leaves of the arguments."""
        spec = self.pytree_info.in_spec
        whole = f"[{', '.join(given)}]"
        if spec.type is tuple and [child.type for child in spec.children()] == [tuple, dict]:  # (args, kwargs)
            count = spec.child(0).num_children
            named = ", ".join(
                f"'{key}':{name}" for key, name in zip(spec.child(1).context, given[count:], strict=False)
            )
            whole = f"([{', '.join(given[:count])}], {{{named}}})"
        annotated = [name for name in free_vars if ":" in name]
        lines = ""
        if annotated and expanded_def:
            lines = "\n    " + "\n    ".join(annotated)
        elif annotated:
            lines = "\n    " + "".join(f"{name}; " for name in annotated) + "\n"
        bound = ", ".join(name.partition(":")[0].partition("#")[0] for name in free_vars)
        return f"{lines}\n    {bound}, = fx_pytree.tree_flatten_spec({whole}, self._in_spec)"

    def generate_output(
        self, output_args: Argument, *, descs: Sequence[str] | None = None, repr_fn: Callable[[Any], str] = repr
    ) -> str:
        if not self.pytree_info.out_spec:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        if descs is not None and isinstance(output_args, (list, tuple)):
            return _described(output_args, descs, "return pytree.tree_unflatten(", repr_fn) + ", self._out_spec)"
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"


class _Writer:
    """Writes the code of one graph."""

    def __init__(self, codegen: CodeGen, root: str, namespace: Namespace, options: _Options) -> None:
        self.codegen, self.root, self.namespace, self.options = codegen, root, namespace, options
        self.parameters: list[str] = []
        self.body: list[str] = []
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}  # global functions that fx.wrap marked
        self.annotation = ""
        self.summary = ""

    def write(self, nodes: Iterable[Node]) -> PythonCode:
        for name, custom in CUSTOM_BUILTINS.items():
            self.global_name(name, custom.obj)
        nodes = list(nodes)
        ends = _last_uses(nodes)
        for number, node in enumerate(nodes):
            if self.options.verbose:
                self.origin(node)
            self.body.append(f"# COUNTER: {number}\n")
            self.node(node)
            if node.op == "output":
                self.body.append("\n")
            elif node.op != "placeholder":
                self.deletions(ends.get(node, []) + ([] if node.users else [node]))
        return self.assemble()

    def assemble(self) -> PythonCode:
        wraps = ""
        if self.wrapped:
            called = self.global_name("wrap", wrap)
            wraps = "\n".join(f'{called}("{name}")' for name in self.wrapped)
        body = self.body or ["pass\n"]
        if self.codegen._body_transformer:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.global_name(name, value)
        head = self.codegen.gen_fn_def(self.parameters, self.annotation, **self.expanded())
        numbers: dict[int, int | None] = {}
        lines: list[str] = []
        current = None
        for line in "".join(body).split("\n"):
            if counter := _COUNTER.search(line):
                current = int(counter.group(1))
            else:
                numbers[len(lines) + head.count("\n") + 1] = current
                lines.append(line)
        text = "\n".join(f"    {line}" for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{text}", self.globals, numbers, wraps.count("\n") + 4)

    def expanded(self) -> dict[str, bool]:
        """Return the option as a keyword, unless it is off: overrides of `gen_fn_def` need not know it."""
        return {"expanded_def": True} if self.options.expanded_def else {}

    # --- names and values ---

    def global_name(self, hint: str, obj: Any) -> str:
        """Return an expression for a global object."""
        if is_from_torch(obj) and obj is not device and callable(obj):
            return qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    def type_text(self, annotation: Any) -> str:
        if annotation == ():
            return "()"
        is_union = isinstance(annotation, types.UnionType)
        origin: Any = typing.Union if is_union else getattr(annotation, "__origin__", None)
        if origin is None:
            return self.global_name(type_name(annotation), annotation)
        if isinstance(annotation, typing._GenericAlias):  # type: ignore[attr-defined]
            origin = _TYPING.get(origin, origin)
        name = self.global_name(type_name(origin), origin)
        args = typing.get_args(annotation)
        return f"{name}[{','.join(map(self.type_text, args))}]" if args else name

    def value_text(self, value: Any) -> str:
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.global_name(qualified_name(type(value)), type(value))}{tuple(value)!r}"
        if isinstance(value, (OpOverload, OpOverloadPacket)):
            return self.global_name(qualified_name(value), value)
        if isinstance(value, enum.Enum):
            return f"{self.global_name(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, Tensor):
            return f"torch.Tensor(size={list(value.size())}, dtype={str(value.dtype).rpartition('.')[2]})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.value_text, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value_text, value))}]"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.value_text, (value.start, value.stop, value.step)))})"
        return self.color("blue", repr(value))

    def arguments(self, args: Sequence[Any], kwargs: Any) -> str:
        named = [f"{name} = {self.value_text(value)}" for name, value in kwargs.items()]
        return ", ".join([*map(self.value_text, args), *named])

    def color(self, name: str, text: str) -> str:
        return f"\x1b[{_COLORS[name]}m{text}\x1b[0m" if self.options.colored else text

    # --- lines ---

    def node(self, node: Node) -> None:
        getattr(self, node.op)(node, self.annotated(node))

    def placeholder(self, node: Node, annotation: str) -> None:
        default = f" = {self.value_text(node.args[0])}" if node.args else ""
        description = node.meta.get("desc") if self.options.expanded_def else None
        comment = f"  # {description}" if description is not None else ""
        self.parameters.append(f"{node.target}{annotation}{default}{comment}")
        name = str(node.target).replace("*", "")
        if name != repr(node):
            self.body.append(f"{node!r} = {name}\n")

    def call_method(self, node: Node, annotation: str) -> None:
        method = format_target(self.value_text(node.args[0]), str(node.target))
        self.body.append(f"{node!r}{annotation} = {method}({self.arguments(node.args[1:], node.kwargs)})")

    def call_function(self, node: Node, annotation: str) -> None:
        target: Any = node.target
        if getattr(target, "__module__", "") == "_operator":
            values = [self.value_text(value) for value in node.args]
            if target.__name__ in magic_methods:
                self.body.append(f"{node!r}{annotation} = {magic_methods[target.__name__].format(*values)}")
                return
            if target.__name__ in inplace_methods:
                statement = inplace_methods[target.__name__].format(*values)
                self.body.append(f"{statement};  {node!r}{annotation} = {values[0]}")
                return
        name = self.global_name(qualified_name(target), target)
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            self.body.append(f"{node!r}{annotation} = {format_target(self.value_text(node.args[0]), node.args[1])}")
            return
        self.body.append(f"{node!r}{annotation} = {name}({self.arguments(node.args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)

    def call_module(self, node: Node, annotation: str) -> None:
        module = format_target(self.root, str(node.target))
        self.body.append(f"{node!r}{annotation} = {module}({self.arguments(node.args, node.kwargs)})")

    def get_attr(self, node: Node, annotation: str) -> None:
        self.body.append(f"{node!r}{annotation} = {format_target(self.root, str(node.target))}")

    def output(self, node: Node, annotation: str) -> None:
        if node.type is not None:
            self.annotation = f" -> {self.type_text(node.type)}"
        described = {"descs": node.meta["desc"]} if self.options.expanded_def and "desc" in node.meta else {}
        self.body.append(self.codegen.generate_output(node.args[0], repr_fn=self.value_text, **described))

    def annotated(self, node: Node) -> str:
        """Return the annotation of a node's variable; if verbose, with dtype and shape if a pass stored them."""
        value: Any = node.value() if self.options.verbose else None
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            strides = _shape_text(value.stride()) if self.options.include_stride and isinstance(value, Tensor) else ""
            place = str(value.device) if self.options.include_device and isinstance(value, Tensor) else ""
            text = (
                self.color("red", dtype_abbreviation(value.dtype))
                + self.color("blue", _shape_text(value.shape))
                + (
                    self.color("dim_blue", strides) + self.color("dim_green", place)
                    if isinstance(value, Tensor)
                    else ""
                )
            )
            plain = not isinstance(value, Tensor) or type(value).__name__ == "Tensor"  # a meta tensor, too
            return f': "{text}"' if plain else f': "{type(value).__name__}({text})"'
        return "" if node.type is None else f" : {self.type_text(node.type)}"

    def deletions(self, nodes: list[Node]) -> None:
        if not nodes:
            self.body.append("\n")
            return
        names = " = ".join([*map(repr, nodes), "None"])
        self.body.append(f";  {self.color('dim', names)}\n")

    def origin(self, node: Node) -> None:
        """Write a comment with the line of the traced program, unless it is that of the node before."""
        if node.op in ("placeholder", "output"):
            return
        shown = ", ".join(f"{key}: {node.meta[key]}" for key in self.options.additional_meta if key in node.meta)
        custom = {key: _shortened(value) for key, value in (node.meta.get("custom") or {}).items()}
        annotation = f" Annotation: {custom}" if custom else ""
        place = _innermost(node.stack_trace) if node.stack_trace else None
        text = f"{f'# {shown} ' if shown else ''}#{annotation} {place or 'No stacktrace found for following nodes'}"
        summary = f"\n{self.color('dim', text)}\n"
        if summary != self.summary:
            self.summary = summary
            self.body.append(summary)


def _shortened(value: Any) -> Any:
    return f"{str(value)[:40]}..." if len(str(value)) > 40 else value


def _innermost(stack: str) -> str | None:
    """Return the innermost frame of a formatted stack as a short text."""
    lines = stack.strip().split("\n")
    for index in range(len(lines) - 2, -1, -1):
        if found := _FRAME.fullmatch(lines[index].strip()):
            file, line, name = found.groups()
            return f"File: {file}:{line} in {name}, code: {lines[index + 1].strip()}"
    return None


def _last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return, for each node, those whose values it is the last to use."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found
