"""Type stubs of the operators, which describe functions and methods made at run time to type checkers and editors.

Note [Stubs]
The stubs are a separate package, `gradloom._stubs`, which is not imported at run time: under `if TYPE_CHECKING`,
hand-written modules import from it the names that they bind dynamically. `operators` has every operator under the name
of its function; `functions`, `nn`, `linalg` and the others list the operators of a namespace; `methods` is a base class
of Tensor; `return_types` has the named results. They are rendered into generated/stubs/gradloom-stubs/_stubs/. A wheel
has them at gradloom/_stubs/; an editable install puts the folder above on the path, where type checkers take it for a
partial stub package (PEP 561).

A name that is also written by hand (einsum, Tensor.norm) is left out: the hand-written signature is more precise.

A package of operators has its stubs beside its generated code: `operators.pyi`, from which its `__init__.py` imports
under `if TYPE_CHECKING`, and `methods.pyi`. Type checkers cannot see the names that it adds to gradloom's own classes
and modules at run time; `methods_of`, which returns its argument, declares the methods.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..schema import ALIASES, Type
from ..target import METHODS_OF, Target
from ..wrappers.calls import Parameter
from ..wrappers.wrappers import PublicName, Wrapper

FOLDER = "stubs/gradloom-stubs"
TEMPLATE = "package.jinja"

# Schema type -> the annotation of one value, of a list of any length, and of a list of n or one value for all.
_TYPES = {
    "Tensor": ("Tensor", "Sequence[Tensor]", "Sequence[Tensor]"),
    "Scalar": ("Number", "Sequence[Number]", "Sequence[Number]"),
    "int": ("int", "IntList", "int | IntList"),
    "float": ("float", "Sequence[float]", "float | Sequence[float]"),
    "bool": ("bool", "Sequence[bool]", "Sequence[bool]"),
    "str": ("str", "Sequence[str]", "Sequence[str]"),
    "ScalarType": ("DType", "Sequence[DType]", "Sequence[DType]"),
    "Device": ("Device", "Sequence[Device]", "Sequence[Device]"),
    "Layout": ("layout", "Sequence[layout]", "Sequence[layout]"),
    "MemoryFormat": ("memory_format", "Sequence[memory_format]", "Sequence[memory_format]"),
    "Generator": ("Generator", "Sequence[Generator]", "Sequence[Generator]"),
    "Storage": ("UntypedStorage | TypedStorage", "object", "object"),
}
_SYMBOLIC = {"SymInt": "int", "SymBool": "bool", "DeviceIndex": "int"}


def argument_type(type_: Type, number: bool = False) -> str:
    """Return the annotation of an argument; `number`: a Python number may replace the tensor."""
    base = type_.base.name
    single, many, some = _TYPES.get(_SYMBOLIC.get(base, base), ("object",) * 3)
    text = single
    if type_.is_list:
        text = some if getattr(type_.required, "size", None) else many
        if f"{base}?" in str(type_):
            text = f"Sequence[{single} | None]"
    if number:
        text += " | Number"
    return f"{text} | None" if type_.is_optional else text


def return_type(type_: Type) -> str:
    """Return the annotation of one returned value: lists are returned as tuples."""
    base = type_.base.name
    single = _TYPES.get(_SYMBOLIC.get(base, base), ("object",))[0]
    text = f"tuple[{single}, ...]" if type_.is_list else single
    return f"{text} | None" if type_.is_optional else text


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload in the form for the template."""

    parameters: str
    returns: str


@dataclass(frozen=True, slots=True)
class Stub:
    """A function or method with its overloads."""

    name: str
    signatures: tuple[Signature, ...]

    @property
    def overloaded(self) -> bool:
        return len(self.signatures) > 1


@dataclass(frozen=True, slots=True)
class ResultClass:
    """The class of a named result."""

    name: str
    fields: tuple[str, ...]
    types: tuple[str, ...]


def _default(p: Parameter) -> str:
    if p.argument.default is None:
        return ""
    text = p.default
    if text is None or (text == "None" and p.argument.default != "None") or "inf" in text or "nan" in text:
        text = "..."  # a name of the schema language
    return f" = {text}"


def _varargs(shown: Sequence[Parameter]) -> Parameter | None:
    """Return the parameter whose integers may be passed separately: the only positional one, a list of any length."""
    positional = [p for p in shown if not p.argument.kwarg_only]
    if len(positional) != 1:
        return None
    type_ = positional[0].argument.type
    return positional[0] if "[]" in str(type_) and type_.base.name in ("int", "SymInt") else None


def _out(w: Wrapper) -> str:
    count = len(w.schema.returns)
    if count == 1:
        return f"out: {argument_type(w.schema.returns[0].type)} | None = None"
    pair = f"tuple[{', '.join(['Tensor'] * count)}]"
    return f"out: {pair} | list[Tensor] | None = None"


def _returns(w: Wrapper, method: bool, results: dict[str, ResultClass]) -> str:
    types = [return_type(r.type) for r in w.schema.returns]
    if method and w.kind == "inplace":
        return "Self"
    if len(types) < 2:
        return types[0] if types else "None"
    if w.result_class is None:
        return f"tuple[{', '.join(types)}]"
    made = ResultClass(w.python_name, tuple(r.name or "" for r in w.schema.returns), tuple(types))
    if results.setdefault(made.name, made) != made:  # overloads whose results have different names
        made = ResultClass(w.own_name, made.fields, made.types)
        results[made.name] = made
    return f"return_types.{made.name}"


def signatures(w: Wrapper, method: bool, results: dict[str, ResultClass]) -> list[Signature]:
    """Return the ways to call a wrapper: with lists as lists and, if allowed, with separate integers."""
    own = next((p for p in w.parameters if p.argument.name == "self"), None) if method else None
    shown = [p for p in w.parameters if p is not own]
    returns = _returns(w, method, results)
    varargs = _varargs(shown)
    found = []
    forms: list[tuple[Parameter | None, dict[str, str]]] = [(None, renamed) for renamed in _numpy_names(shown)]
    for starred, renamed in [*forms, (varargs, {})] if varargs is not None else forms:
        positional = ["self"] if method else []
        keywords: list[str] = []
        for p in shown:
            name = "input" if p.argument.name == "self" and p.argument.type.is_tensor else p.argument.name
            name = p.argument.python_name if keyword.iskeyword(name) else name
            if p is starred:
                positional.append(f"*{name}: int")
                continue
            default = "" if name in renamed else _default(p)  # this name selects the form
            text = f"{renamed.get(name, name)}: {argument_type(p.argument.type, p.number)}{default}"
            (keywords if keywords or name in renamed or p.argument.kwarg_only else positional).append(text)
        if w.makes_leaf:
            keywords.append("requires_grad: bool = False")
        if w.has_out and not method:
            keywords.append(_out(w))
        if keywords and starred is None:
            positional.append("*")
        found.append(Signature(", ".join(positional + keywords), returns))
    return found


def _numpy_names(shown: Sequence[Parameter]) -> list[dict[str, str]]:
    """Return the ways to use NumPy's names for parameters: none of them, `keepdims`, `axis`, both."""
    names = {p.argument.name for p in shown}
    found: list[dict[str, str]] = [{}]
    for name in sorted(ALIASES.keys() & names, reverse=True):
        found += [{**renamed, name: ALIASES[name]} for renamed in found]
    return found


def _stub(name: str, wrappers: Iterable[Wrapper], method: bool, results: dict[str, ResultClass]) -> Stub:
    found: dict[Signature, None] = {}
    for w in wrappers:
        found.update(dict.fromkeys(signatures(w, method, results)))
    return Stub(name, tuple(s for s in found if not any(_covers(o, s) for o in found if o is not s)))


def _covers(one: Signature, other: Signature) -> bool:
    """Return whether an overload accepts every call of another: tensors may be numbers, optional parameters added."""
    theirs = other.parameters.split(", ")
    names = {p.partition(":")[0] for p in theirs}
    mine = [p for p in one.parameters.split(", ") if p.partition(":")[0] in names or " = " not in p]
    if mine[-1] == "*":
        mine.pop()
    return (
        one.returns == other.returns
        and len(mine) == len(theirs)
        and all(
            a == b or b in (a.replace("Tensor | Number", "Tensor"), a.replace("Tensor | Number", "Number"))
            for a, b in zip(mine, theirs, strict=True)
        )
    )


def names_in(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements bind, also under `if`; imports of `*` are skipped."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name for a in node.names if a.name != "*"}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.If | ast.Try):
            found |= names_in(node.body) | names_in(node.orelse)
    return found


def written_names(path: Path) -> set[str]:
    """Return the names that a hand-written module binds; none if there is no such file."""
    return names_in(ast.parse(path.read_text(encoding="utf-8")).body) if path.is_file() else set()


def written_members(path: Path, name: str) -> set[str]:
    """Return the members that a hand-written class has."""
    if not path.is_file():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {m for node in body if isinstance(node, ast.ClassDef) and node.name == name for m in names_in(node.body)}


def render_stubs(names: Sequence[PublicName], package: Path, template: Callable[..., str]) -> dict[str, str]:
    """Return the text of every stub file, by path within the generated package, beside the hand-written `package`."""
    results: dict[str, ResultClass] = {}
    functions = [_stub(n.name, n.wrappers, False, results) for n in names]
    by_hand = {"core/tensor": "Tensor", "core/tensor_base": "TensorBase", "tensors/_members": "TensorMembers"}
    members = set().union(*(written_members(package / f"{file}.py", cls) for file, cls in by_hand.items()))
    methods = [
        _stub(n.name, [n.wrappers[i] for i in n.method_entries], True, results)
        for n in names
        if n.is_method and n.name not in members
    ]
    modules: dict[str, list[tuple[str, str]]] = {}
    written = {"functions": written_names(package / "__init__.py")}
    for n in names:
        if n.is_function:
            module = n.module or "functions"
            hidden = written.setdefault(module, written_names(package / f"{module}.py"))
            if n.short not in hidden:
                modules.setdefault(module, []).append((n.short, n.name))
    files = {
        "py.typed": "partial\n",
        "_stubs/__init__.pyi": template(TEMPLATE, "package"),
        "_stubs/operators.pyi": template(TEMPLATE, "operators", functions=functions, target=None, results=()),
        "_stubs/methods.pyi": template(TEMPLATE, "methods", stubs=methods),
        "_stubs/return_types.pyi": template(
            TEMPLATE, "return_types", target=None, results=[results[name] for name in sorted(results)]
        ),
    }
    for module, listed in sorted(modules.items()):
        files[f"_stubs/{module}.pyi"] = template(
            TEMPLATE,
            "namespace",
            module=module,
            same=[f"{name} as {name}" for short, name in listed if short == name],
            renamed=[(short, name) for short, name in listed if short != name],
        )
    return {f"{FOLDER}/{name}": text for name, text in files.items()}


def package_stubs(names: Sequence[PublicName], target: Target, template: Callable[..., str]) -> dict[str, str]:
    """Return a package's stubs and the function for its methods, by path within its generated code."""
    results: dict[str, ResultClass] = {}
    functions = [_stub(n.name, n.wrappers, False, results) for n in names]
    methods = [_stub(n.name, [n.wrappers[i] for i in n.method_entries], True, results) for n in names if n.is_method]
    named = [results[name] for name in sorted(results)]
    files = {
        "operators.pyi": template(TEMPLATE, "operators", functions=functions, target=target, results=named),
        "methods.pyi": template(
            TEMPLATE, "methods_of", function=METHODS_OF, methods=methods, target=target, results=named
        ),
        "methods.py": template(TEMPLATE, "methods_of_module", function=METHODS_OF, target=target),
    }
    if named:
        files["return_types.pyi"] = template(TEMPLATE, "return_types", target=target, results=named)
    return files
