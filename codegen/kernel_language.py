"""The language of kernel expressions: which Python expressions `kernel:` may hold.

Every node of an expression is either named in a table here or refused. array_namespace.py lists what may be
used of `xp`, of an array and of Python.
"""

from __future__ import annotations

import ast

import numpy

from . import array_namespace as xp_names
from .constants import constant_problem
from .errors import SpecError, shorten
from .expression import LANGUAGE
from .foreign_words import ARRAY_MEMBERS, NUMPY_FORMS, NUMPY_NAMES
from .kernel_index import FunctionIndex
from .reserved import GENERATED_NAMES
from .schema import did_you_mean
from .text import Text

# Nodes without a rule of their own: they are allowed where their parts are.
_PLAIN = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Subscript, ast.Slice,
    ast.Starred, ast.Load, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip

_REFUSED = {
    ast.Lambda: "a lambda", ast.NamedExpr: "an assignment with `:=`", ast.JoinedStr: "an f-string",
    ast.Dict: "a dict", ast.Set: "a set",
    ast.DictComp: "a dict comprehension", ast.SetComp: "a set comprehension",
    ast.Await: "`await`", ast.Yield: "`yield`", ast.YieldFrom: "`yield from`",
}  # fmt: skip

_TYPES = frozenset({"bool", "complex", "float", "int"})  # values too: `self.astype(float)`
_FOREIGN = {"np": "xp", "numpy": "xp", "torch": "xp", "math": "xp", "scipy": "xp"}


class Checker:
    """Walks an expression; refuses what is not in the language, and notes what is used."""

    def __init__(self, text: Text, lead: int, arguments: tuple[str, ...], kernels: FunctionIndex) -> None:
        self.text, self.lead, self.arguments, self.kernels = text, lead, arguments, kernels
        self.used: set[str] = set()
        self.modules: dict[str, str] = {}  # family.function -> its module
        self.uses_xp = False
        self.taken = frozenset((*arguments, "xp", *xp_names.BUILTINS, *kernels.families)) | GENERATED_NAMES

    def check(self, tree: ast.expr) -> None:
        """Walks a tree of `parse_expression`. Raises SpecError at the first node that is outside the
        language.
        """
        self.visit(tree, frozenset())

    def error(self, node: ast.expr | ast.keyword, message: str, hint: str = LANGUAGE) -> SpecError:
        start, end = node.col_offset, node.end_col_offset or node.col_offset + 1
        if isinstance(node, ast.Attribute):  # the dot and what is before it are not at fault
            start = end - len(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            end = start + len(node.arg)
        return self.text.error(message, hint, self.lead + start, end - start)

    def visit(self, node: ast.AST, local: frozenset[str]) -> None:
        wrong = constant_problem(node)
        if wrong is not None:
            raise self.error(*wrong)
        if isinstance(node, ast.Name):
            self.name(node, local)
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float | complex | str | None | type(...)):
                raise self.error(node, f"a constant of type {type(node.value).__name__}", "write a number or a string")
        elif isinstance(node, ast.Attribute):
            self.attribute(node, local)
        elif isinstance(node, ast.Call):
            self.call(node, local)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            self.comprehension(node, local)
        elif isinstance(node, _PLAIN):
            for child in ast.iter_child_nodes(node):
                self.visit(child, local)
        else:
            what = _REFUSED.get(type(node), f"a {type(node).__name__}")
            raise self.error(node, f"{what} is outside the kernel language")  # type: ignore[arg-type]

    def name(self, node: ast.Name, local: frozenset[str]) -> None:
        name = node.id
        if name in local:
            return
        if name in self.arguments:
            self.used.add(name)
        elif name == "xp" or name in xp_names.BUILTINS - _TYPES:
            hint = "call a function of it: `xp.<function>(...)`" if name == "xp" else f"call it: `{name}(...)`"
            raise self.error(node, f"`{name}` is not a value", hint)
        elif name not in _TYPES:
            raise self.error(node, f"unknown name `{name}`", self.name_hint(name))

    def name_hint(self, name: str, called: bool = False) -> str:
        if name in _FOREIGN:
            return f"the array namespace is called `{_FOREIGN[name]}`"
        if xp_names.kind_of((name,)) is not None:
            return f"did you mean `xp.{name}`?"
        families = self.kernels.find(name)
        if families:
            return f"did you mean `{families[0]}.{name}`?"
        if called:
            in_python = did_you_mean(name, sorted(xp_names.BUILTINS), cutoff=0.65)
            return self.numpy_hint(name, "", 0.8) or in_python or LANGUAGE
        if name == "input" and "self" in self.arguments:
            return "did you mean `self`?"
        known = (*self.arguments, "xp", *self.kernels.families)
        return did_you_mean(name, known) or f"the arguments are {', '.join(self.arguments) or 'none'}"

    def numpy_hint(self, name: str, submodule: str, cutoff: float = 0.7) -> str:
        """What to write for a name that NumPy does not have, or that the language does not take from it."""
        if not submodule and name in NUMPY_FORMS:
            return NUMPY_FORMS[name]
        where = f"xp.{submodule}." if submodule else "xp."
        meant = NUMPY_NAMES.get(name, "") if not submodule else ""
        if meant:
            return f"did you mean `xp.{meant}`?"
        known = xp_names.names_in(submodule) | (xp_names.SUBMODULES if not submodule else set())
        close = did_you_mean(name, sorted(known), cutoff)
        families = self.kernels.find(name) if not close or name not in close else ()
        if families:
            return f"did you mean `{families[0]}.{name}`?"
        return close.replace("`", f"`{where}", 1)

    def attribute(self, node: ast.Attribute, local: frozenset[str], called: bool = False) -> None:
        path = dotted_name(node)
        root = path[0] if path else None
        if root == "xp" and root not in self.arguments:
            self.namespace(node, path[1:], called)
        elif root is not None and len(path) == 2 and self.is_family(root, local):
            problem = self.kernels.explain(root, path[1])
            if problem is not None:
                raise self.error(node if problem[0] == "function" else node.value, *problem[1:])
            if not called:
                raise self.error(node, f"kernel `{root}.{path[1]}` is not called", f"write `{root}.{path[1]}(...)`")
            self.modules[".".join(path)] = self.kernels.module(root, path[1])
        else:
            self.array_attribute(node, local, called)

    def array_attribute(self, node: ast.Attribute, local: frozenset[str], called: bool) -> None:
        allowed = xp_names.METHODS if called else xp_names.ATTRIBUTES
        if node.attr not in allowed:
            other = xp_names.ATTRIBUTES if called else xp_names.METHODS
            what = "method" if called else "attribute"
            if node.attr in ARRAY_MEMBERS:
                hint = ARRAY_MEMBERS[node.attr]
            elif node.attr in other:
                hint = f"write `{node.attr}` without calling it" if called else f"call it: `{node.attr}(...)`"
            elif xp_names.kind_of((node.attr,)) in ("ufunc", "function"):
                hint = f"write `xp.{node.attr}({ast.unparse(node.value)})`"
            else:
                hint = did_you_mean(node.attr, sorted(allowed)) or f"the {what}s are {', '.join(sorted(allowed))}"
            # What stands before the dot is wrong in the first place, if it is not a value.
            self.visit(node.value, local)
            raise self.error(node, f"{what} `{node.attr}` of an array is outside the kernel language", hint)
        self.visit(node.value, local)

    def is_family(self, name: str, local: frozenset[str]) -> bool:
        return name not in local and name not in self.arguments and name in self.kernels.families

    def namespace(self, node: ast.Attribute, path: tuple[str, ...], called: bool) -> None:
        kind = xp_names.kind_of(path)
        shown = ".".join(("xp", *path))
        if kind is None:
            submodule = path[0] if len(path) > 1 and path[0] in xp_names.SUBMODULES else ""
            bad = node
            while not submodule and isinstance(bad.value, ast.Attribute):
                bad = bad.value
            exists = bad.attr in dir(getattr(numpy, submodule) if submodule else numpy)  # hasattr might import it
            where = f"xp.{submodule}" if submodule else "xp"
            if len(path) > 1 and not submodule and xp_names.kind_of(path[:1]) is not None:
                raise self.error(node, f"`{shown}` is outside the kernel language")
            close = "" if exists else self.numpy_hint(bad.attr, submodule)
            problem = (
                f"`{where}.{bad.attr}` is outside the kernel language" if exists else f"`{where}` has no `{bad.attr}`"
            )
            raise self.error(bad, problem, close or "use a function of NumPy that computes arrays from arrays")
        if kind == "module" or (called is False and kind in ("function", "ufunc")):
            what = "a module" if kind == "module" else "a function, not its value"
            arguments = ", ".join(self.arguments[:1])
            hint = f"write `{shown}.<function>(...)`" if kind == "module" else f"write `{shown}({arguments})`"
            raise self.error(node, f"`{shown}` is {what}", hint)
        if called and path[0] in xp_names.CONSTANTS:
            raise self.error(node, f"`{shown}` is not a function", f"write `{shown}`")
        self.uses_xp = True

    def call(self, node: ast.Call, local: frozenset[str]) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            self.attribute(function, local, called=True)
            self.writes_nothing(node, function, local)
            self.kernel_call(node, function, local)
        elif isinstance(function, ast.Name):
            if function.id in local or function.id in self.arguments:
                raise self.error(function, f"`{function.id}` is not a function")
            if function.id not in xp_names.BUILTINS:
                raise self.error(
                    function, f"unknown function `{function.id}`", self.name_hint(function.id, called=True)
                )
        else:
            raise self.error(function, f"`{shorten(ast.unparse(function))}` is not a function's name")
        for argument in node.args:
            self.visit(argument, local)
        for keyword_ in node.keywords:
            if keyword_.arg is None:
                raise self.error(keyword_.value, "`**` is outside the kernel language", "write each keyword out")
            self.visit(keyword_.value, local)

    def writes_nothing(self, node: ast.Call, function: ast.Attribute, local: frozenset[str]) -> None:
        """Refuses what writes to an array, and arrays of Python objects."""
        path = dotted_name(function)
        is_xp = path[:1] == ("xp",) and "xp" not in self.arguments
        if not is_xp and path and self.is_family(path[0], local):
            return
        keywords = [k.arg for k in node.keywords if k.arg]
        # A method is the function of that name without its first argument.
        called, positional = (path[1:], len(node.args)) if is_xp else ((function.attr,), len(node.args) + 1)
        if any(isinstance(a, ast.Starred) for a in node.args):
            positional += 64
        name = xp_names.written_parameter(called, positional, keywords)
        if name is not None:
            keyword_ = next((k for k in node.keywords if k.arg == name), None)
            hint = "remove it: the generator gives `out`" if name == "out" else "remove it"
            what = "keyword" if keyword_ else "the argument"
            raise self.error(keyword_ or node.args[-1], f"{what} `{name}` writes to an array", hint)
        for value in (*node.args, *(k.value for k in node.keywords)):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                if xp_names.OBJECT_DTYPE.fullmatch(value.value):
                    raise self.error(value, "a dtype of Python objects", "kernels compute with numbers")

    def kernel_call(self, node: ast.Call, function: ast.Attribute, local: frozenset[str]) -> None:
        """Checks the arguments of a kernel that is called by name against its definition."""
        path = dotted_name(function)
        open_ended = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
        if len(path) != 2 or open_ended or not self.is_family(path[0], local):
            return
        signature = self.kernels.functions(path[0])[path[1]]
        problem = signature.mismatch(len(node.args), [k.arg for k in node.keywords if k.arg])
        if problem:
            shown = ".".join(path)
            hint = f"its definition is `{path[1]}({signature})`"
            raise self.error(function, f"`{shown}` cannot be called like this: {problem}", hint)

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp, local: frozenset[str]) -> None:
        for generator in node.generators:
            if generator.is_async:
                raise self.error(node, "`async` is outside the kernel language", "write a plain `for`")
            self.visit(generator.iter, local)
            targets = generator.target.elts if isinstance(generator.target, ast.Tuple) else [generator.target]
            for target in targets:
                if not isinstance(target, ast.Name):
                    raise self.error(target, "a comprehension's target is not a name", "write `for x in tensors`")
                if target.id in self.taken:
                    raise self.error(target, f"`{target.id}` is a name already", "choose another name for the variable")
                local = local | {target.id}
            for condition in generator.ifs:
                self.visit(condition, local)
        self.visit(node.elt, local)


def dotted_name(node: ast.expr) -> tuple[str, ...]:
    """('xp', 'linalg', 'norm') for `xp.linalg.norm`; empty for anything but names and dots."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()
