"""The kernel language: the values of `kernel:`, checked and analysed.

    kernel: elementwise.addcmul                     addcmul of a file in src/gradloom/kernels/elementwise/
    kernel: self + value * tensor1 * tensor2        arguments, operators, constants
    kernel: xp.where(self > 0, self, slope * self)  functions of NumPy
    kernel: self.max(), self.min()                  a tuple gives several outputs

The expression is read with `ast`; nothing is executed. `Checker` allows the nodes in a table here and refuses all
others; array_language.py lists the allowed parts of `xp`, of arrays and of Python.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import numpy

from ..errors import SpecError, did_you_mean, shorten
from ..reading.python_files import A_LIST, NO_ARRAY, NOTHING, FunctionIndex, Signature
from ..reading.yaml_files import Text
from ..schema import GENERATED_NAMES, FunctionSchema, Return, Type
from . import array_language as language
from .array_language import ARRAY_MEMBERS, LANGUAGE, NUMPY_FORMS, NUMPY_NAMES, constant_problem, parse_expression

# Nodes without a rule of their own: allowed if their parts are.
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
    """Walks an expression, refuses parts outside of the language, and records the names used."""

    def __init__(self, text: Text, lead: int, schema: FunctionSchema, kernels: FunctionIndex) -> None:
        self.text, self.lead, self.schema, self.kernels = text, lead, schema, kernels
        self.arguments = tuple(a.python_name for a in schema.inputs)
        self.modules: dict[str, str] = {}  # family.function -> its module
        self.taken = frozenset((*self.arguments, "xp", *language.BUILTINS, *kernels.families)) | GENERATED_NAMES

    def check(self, tree: ast.expr) -> None:
        """Walk a tree of `parse_expression`. Raises SpecError at the first node outside of the language."""
        self.visit(tree, frozenset())

    def error(self, node: ast.expr | ast.keyword, message: str, hint: str = LANGUAGE) -> SpecError:
        start, end = node.col_offset, node.end_col_offset or node.col_offset + 1
        if isinstance(node, ast.Attribute):  # the dot and the part before it are not at fault
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
        if name in local or name in self.arguments:
            return
        if name == "xp" or name in language.BUILTINS - _TYPES:
            hint = "call a function of it: `xp.<function>(...)`" if name == "xp" else f"call it: `{name}(...)`"
            raise self.error(node, f"`{name}` is not a value", hint)
        elif name not in _TYPES:
            raise self.error(node, f"unknown name `{name}`", self.name_hint(name))

    def name_hint(self, name: str, called: bool = False) -> str:
        if name in _FOREIGN:
            return f"NumPy is called `{_FOREIGN[name]}` here"
        if language.kind_of((name,)) is not None:
            return f"did you mean `xp.{name}`?"
        families = self.kernels.find(name)
        if families:
            return f"did you mean `{families[0]}.{name}`?"
        if called:
            in_python = did_you_mean(name, sorted(language.BUILTINS), cutoff=0.65)
            return self.numpy_hint(name, "", 0.8) or in_python or LANGUAGE
        if name == "input" and "self" in self.arguments:
            return "did you mean `self`?"
        known = (*self.arguments, "xp", *self.kernels.families)
        return did_you_mean(name, known) or f"the arguments are {', '.join(self.arguments) or 'none'}"

    def numpy_hint(self, name: str, submodule: str, cutoff: float = 0.7) -> str:
        """Return the hint for a name that NumPy lacks, or that the language excludes."""
        if not submodule and name in NUMPY_FORMS:
            return NUMPY_FORMS[name]
        where = f"xp.{submodule}." if submodule else "xp."
        meant = NUMPY_NAMES.get(name, "") if not submodule else ""
        if meant:
            return f"did you mean `xp.{meant}`?"
        known = language.names_in(submodule) | (language.SUBMODULES if not submodule else set())
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
        allowed = language.METHODS if called else language.ATTRIBUTES
        if node.attr not in allowed:
            other = language.ATTRIBUTES if called else language.METHODS
            what = "method" if called else "attribute"
            if node.attr in ARRAY_MEMBERS:
                hint = ARRAY_MEMBERS[node.attr]
            elif node.attr in other:
                hint = f"write `{node.attr}` without calling it" if called else f"call it: `{node.attr}(...)`"
            elif language.kind_of((node.attr,)) in ("ufunc", "function"):
                hint = f"write `xp.{node.attr}({ast.unparse(node.value)})`"
            else:
                hint = did_you_mean(node.attr, sorted(allowed)) or f"the {what}s are {', '.join(sorted(allowed))}"
            # If the part before the dot is not a value, report that first.
            self.visit(node.value, local)
            raise self.error(node, f"{what} `{node.attr}` of an array is outside the kernel language", hint)
        self.visit(node.value, local)

    def is_family(self, name: str, local: frozenset[str]) -> bool:
        return name not in local and name not in self.arguments and name in self.kernels.families

    def namespace(self, node: ast.Attribute, path: tuple[str, ...], called: bool) -> None:
        kind = language.kind_of(path)
        shown = ".".join(("xp", *path))
        if kind is None:
            submodule = path[0] if len(path) > 1 and path[0] in language.SUBMODULES else ""
            bad = node
            while not submodule and isinstance(bad.value, ast.Attribute):
                bad = bad.value
            exists = bad.attr in dir(getattr(numpy, submodule) if submodule else numpy)  # hasattr might import it
            where = f"xp.{submodule}" if submodule else "xp"
            if len(path) > 1 and not submodule and language.kind_of(path[:1]) is not None:
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
        if called and path[0] in language.CONSTANTS:
            raise self.error(node, f"`{shown}` is not a function", f"write `{shown}`")

    def call(self, node: ast.Call, local: frozenset[str]) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            self.attribute(function, local, called=True)
            self.writes_nothing(node, function, local)
            self.kernel_call(node, function, local)
        elif isinstance(function, ast.Name):
            if function.id in local or function.id in self.arguments:
                raise self.error(function, f"`{function.id}` is not a function")
            if function.id not in language.BUILTINS:
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
        """Refuse writes to arrays, and arrays of Python objects."""
        path = dotted_name(function)
        is_xp = path[:1] == ("xp",) and "xp" not in self.arguments
        if not is_xp and path and self.is_family(path[0], local):
            return
        keywords = [k.arg for k in node.keywords if k.arg]
        # A method takes the arguments of the function of that name after the first.
        called, positional = (path[1:], len(node.args)) if is_xp else ((function.attr,), len(node.args) + 1)
        if any(isinstance(a, ast.Starred) for a in node.args):
            positional += 64
        name = language.written_parameter(called, positional, keywords)
        if name is not None:
            keyword_ = next((k for k in node.keywords if k.arg == name), None)
            hint = "remove it: the generator gives `out`" if name == "out" else "remove it"
            what = "keyword" if keyword_ else "the argument"
            raise self.error(keyword_ or node.args[-1], f"{what} `{name}` writes to an array", hint)
        for value in (*node.args, *(k.value for k in node.keywords)):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                if language.OBJECT_DTYPE.fullmatch(value.value):
                    raise self.error(value, "a dtype of Python objects", "kernels compute with numbers")

    def kernel_call(self, node: ast.Call, function: ast.Attribute, local: frozenset[str]) -> None:
        """Check the arguments of a kernel that is called by name against its definition."""
        path = dotted_name(function)
        open_ended = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
        if len(path) != 2 or open_ended or not self.is_family(path[0], local):
            return
        signature = self.kernels.functions(path[0])[path[1]]
        types = {a.python_name: a.type for a in self.schema.inputs if a.python_name not in local}
        given = {k.arg or "": k.value for k in node.keywords}
        wrong = signature.misuse(len(node.args), list(given))
        if wrong is not None:
            raise self.error(function, *_cannot_be_called(".".join(path), signature, wrong[1]))
        for parameter, value in (*zip(signature.positional or (), node.args, strict=False), *given.items()):
            type_ = types.get(value.id) if isinstance(value, ast.Name) else None
            if type_ is not None and not _fits(type_, signature.words.get(parameter, frozenset())):
                shown = ast.unparse(value)
                raise self.error(value, *_wrong_type(".".join(path), signature, parameter, shown, type_))

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
                    raise self.error(
                        target,
                        f"`{target.id}` is already the name of something else",
                        "choose another name for the variable",
                    )
                local = local | {target.id}
            for condition in generator.ifs:
                self.visit(condition, local)
        self.visit(node.elt, local)


def dotted_name(node: ast.expr) -> tuple[str, ...]:
    """Return ('xp', 'linalg', 'norm') for `xp.linalg.norm`; empty for anything but names and dots."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()


_DOTTED = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)


OF_GRADLOOM = "gradloom:"


@dataclass(frozen=True, slots=True)
class KernelExpr:
    """An analysed kernel."""

    kind: str  # 'named' (family.function, called with the operator's arguments) or 'expression'
    source: str  # the expression on one line, or 'family.function'
    text: Text  # its place in the YAML file
    # (family.function, module) for each kernel that it calls by name: ('shape.view', 'shape.views'); those of gradloom
    # that a package's operators call begin with `OF_GRADLOOM`
    modules: tuple[tuple[str, str], ...] = ()
    # the NumPy ufunc whose call is the whole expression, so that it can take `out=`, by name; else None
    ufunc: str | None = None
    operands: tuple[str, ...] = ()  # the source of that ufunc's inputs

    @property
    def families(self) -> tuple[str, ...]:
        """The families of the package's kernels that it calls by name."""
        return tuple(sorted({name.partition(".")[0] for name, m in self.modules if not m.startswith(OF_GRADLOOM)}))

    @property
    def family(self) -> str | None:
        """The family of a named kernel; None for an expression."""
        return self.families[0] if self.kind == "named" else None

    @property
    def function(self) -> str | None:
        """The function of a named kernel; None for an expression."""
        return self.source.split(".")[1] if self.kind == "named" else None


def analyse(text: Text, schema: FunctionSchema, kernels: FunctionIndex) -> KernelExpr:
    """Check a `kernel:` value against the language and the schema. Raises SpecError at the offending word."""
    arguments = tuple(a.python_name for a in schema.inputs)
    named = _DOTTED.fullmatch(text.value.strip())
    if named is not None:
        family, function = named.groups()
        is_argument = family in arguments and kernels.explain(family, function) is not None
        if not is_argument and family != "xp":
            name = check_function(text, schema, kernels)
            return KernelExpr("named", name, text, ((name, kernels.module(family, function)),))
    tree, lead = parse_expression(text)
    checker = Checker(text, lead, schema, kernels)
    checker.check(tree)
    _check_outputs(checker, tree, schema)
    ufunc, operands = outermost_ufunc(tree)
    return KernelExpr(
        "expression",
        text.value.strip() if "\n" not in text.value.strip() else ast.unparse(tree),
        text,
        tuple(sorted(checker.modules.items())),
        ufunc,
        operands,
    )


# Arguments for the placement of a result, which kernels do not get: it is always on the CPU, in a strided layout.
PLACEMENT = ("layout", "device", "pin_memory", "non_blocking")

# What a parameter that is annotated with one of these may be given.
_NUMBERS = ("bool", "int", "float", "complex")
_SEQUENCES = frozenset(("tuple", "list", "Sequence"))
_HOLDS = {
    "Tensor": frozenset(("ndarray",)),
    **dict.fromkeys(("int", "SymInt", "DeviceIndex"), frozenset(_NUMBERS[1:])),
    "float": frozenset(_NUMBERS[2:]),
    **dict.fromkeys(("bool", "SymBool"), frozenset(_NUMBERS[:2])),
    "Scalar": frozenset(_NUMBERS),
    "str": frozenset(("str",)),
}
_KNOWN = frozenset((*_NUMBERS, *_SEQUENCES, "ndarray", "str", "bytes", "dict", "set", "None"))


def _fits(type_: Type, words: frozenset[str]) -> bool:
    """Return whether a parameter whose annotation names `words` may get an argument of a schema type. Words that are
    not known here may mean anything."""
    if not words or not words <= _KNOWN:
        return True
    holds = _SEQUENCES if type_.is_list else _HOLDS.get(type_.base.name, frozenset())
    return not words.isdisjoint(holds) and ("None" in words or not type_.is_optional)


def _cannot_be_called(name: str, signature: Signature, problem: str) -> tuple[str, str]:
    hint = f"its definition is `{name.partition('.')[2]}({signature})`"
    return f"`{name}` cannot be called like this: {problem}", hint


def _wrong_type(name: str, signature: Signature, parameter: str, argument: str, type_: Type) -> tuple[str, str]:
    words = " | ".join(
        sorted(signature.words[parameter] - {"None"}) + ["None"] * ("None" in signature.words[parameter])
    )
    return (
        f"`{argument}` is {type_}, and `{parameter}` of `{name}` is {words}",
        "correct the annotation, or the order of the arguments",
    )


def check_function(text: Text, schema: FunctionSchema, index: FunctionIndex) -> str:
    """Return the `family.function` that computes an operator: a function of the index that can be called with the
    arguments of the schema, and returns what it says, as far as its source shows. Raises SpecError."""
    check_named(text, index)
    shown = text.value.strip()
    family, _, name = shown.partition(".")
    signature, place = index.functions(family)[name], (text.value.rindex(name), len(name))
    arguments = [a for a in schema.inputs if index.name != "kernels" or a.python_name not in PLACEMENT]
    wrong = signature.misuse(len(arguments), ())
    if wrong is not None:
        message, hint = _cannot_be_called(shown, signature, wrong[1])
        given = ", ".join(a.python_name for a in arguments)
        raise text.error(message.replace("like this", "by the schema"), f"{hint}; it gets `{given}`", *place)
    for argument, parameter in zip(arguments, signature.positional or (), strict=False):
        if not _fits(argument.type, signature.words.get(parameter, frozenset())):
            raise text.error(*_wrong_type(shown, signature, parameter, argument.name, argument.type), *place)
    if not (schema.kind == "inplace" and name.endswith("_")):  # those write
        wrong_result = _wrong_result(shown, signature, schema)
        if wrong_result is not None:
            raise text.error(*wrong_result, *place)
    return shown


def _wrong_result(name: str, signature: Signature, schema: FunctionSchema) -> tuple[str, str] | None:
    """Return message and hint for a kernel whose source shows that it does not return what the schema says."""
    results = _results(schema)
    is_list = len(results) == 1 and results[0].type.is_list
    said = f"the schema returns {', '.join(map(str, schema.returns)) or 'nothing'}"
    for line, count in signature.results:
        if count == A_LIST and len(results) == 1 and not is_list:
            return f"`{name}` returns a list in line {line}", said
        if count == NO_ARRAY:
            return f"`{name}` returns no array in line {line}", said
        if count == NOTHING and results and not (len(results) == 1 and results[0].type.is_optional):
            return f"`{name}`, line {line}, may end without a value", f"end it with `return <value>`; {said}"
        if count > NOTHING and not is_list and count != len(results):
            return f"`{name}` returns {count} values in line {line}", said
    return None


def _results(schema: FunctionSchema) -> tuple[Return, ...]:
    """Return what the kernel of an operator gives."""
    return schema.returns if schema.kind == "mutable" else schema.as_functional().returns


def check_named(text: Text, index: FunctionIndex) -> None:
    """Check that a value is a `family.function` of the index. Raises SpecError at the offending part."""
    value = text.value
    named = _DOTTED.fullmatch(value.strip())
    if named is None:
        folder = index.name
        hint = f"write `family.function` and define the function in {folder}/<family>.py"
        raise text.error(f"`{shorten(value)}` is not the name of a function in {folder}/", hint)
    family, function = named.groups()
    problem = index.explain(family, function)
    if problem is not None:
        word, message, hint = problem
        part = family if word == "family" else function
        offset = value.index(family) if word == "family" else value.rindex(function)
        raise text.error(message, hint, offset, len(part))


def _check_outputs(checker: Checker, tree: ast.expr, schema: FunctionSchema) -> None:
    results = _results(schema)
    wanted = len(results)
    if isinstance(tree, ast.IfExp):
        for branch in (tree.body, tree.orelse):
            _check_outputs(checker, branch, schema)
        return
    returns_list = wanted == 1 and results[0].type.is_list
    hint = f"the schema returns {', '.join(map(str, schema.returns)) or 'nothing'}"
    path = dotted_name(tree.func) if isinstance(tree, ast.Call) else ()
    if ".".join(path) in checker.modules:
        wrong = _wrong_result(".".join(path), checker.kernels.functions(path[0])[path[1]], schema)
        if wrong is not None:
            raise checker.error(tree.func, *wrong)  # type: ignore[attr-defined]
    elif path[:1] == ("xp",) and not returns_list:
        count = language.results_of(path[1:])
        if count is not None and count != wanted and (count or wanted == 1):
            what = f"{count} arrays" if count else "a list of arrays"
            raise checker.error(tree, f"`{'.'.join(path)}` gives {what} for {wanted} result(s)", hint)
    if isinstance(tree, ast.Tuple) and not returns_list and len(tree.elts) != wanted:
        raise checker.error(tree, f"a tuple of {len(tree.elts)} values for {wanted} result(s)", hint)
    if isinstance(tree, ast.List | ast.ListComp | ast.GeneratorExp) and not returns_list:
        raise checker.error(tree, f"a list for {wanted} result(s)", hint)
    if isinstance(tree, ast.Constant) and not isinstance(tree.value, bool | int | float | complex):
        raise checker.error(tree, f"`{ast.unparse(tree)}` is not an array", "write an expression that gives an array")
    certainly_one = ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant | ast.Name | ast.BoolOp
    if wanted > 1 and isinstance(tree, certainly_one):
        hint = "write a tuple with one value for each result"
        raise checker.error(tree, f"one value for {wanted} results", hint)
    lists = {a.python_name for a in schema.inputs if a.type.is_list}
    if (
        returns_list
        and isinstance(tree, certainly_one)
        and lists.isdisjoint(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    ):
        raise checker.error(tree, "one value for a list of results", "write a list or a tuple")


def outermost_ufunc(tree: ast.expr) -> tuple[str | None, tuple[str, ...]]:
    if isinstance(tree, ast.BinOp):
        return language.OPERATORS[type(tree.op).__name__], (ast.unparse(tree.left), ast.unparse(tree.right))
    if isinstance(tree, ast.UnaryOp) and type(tree.op).__name__ in language.OPERATORS:
        return language.OPERATORS[type(tree.op).__name__], (ast.unparse(tree.operand),)
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]).__name__ in language.OPERATORS:
        operator = language.OPERATORS[type(tree.ops[0]).__name__]
        return operator, (ast.unparse(tree.left), ast.unparse(tree.comparators[0]))
    if isinstance(tree, ast.Call) and not tree.keywords:
        path = dotted_name(tree.func)
        if path[:1] == ("xp",) and len(path) == 2 and language.kind_of(path[1:]) == "ufunc":
            ufunc = getattr(numpy, path[1])
            starred = any(isinstance(a, ast.Starred) for a in tree.args)
            if not starred and ufunc.nout == 1 and len(tree.args) == ufunc.nin:
                return path[1], tuple(map(ast.unparse, tree.args))
    return None, ()
