"""`gradloom.ops.define`: operators from YAML in memory, with everything that `gradloom generate` does for a file."""

from __future__ import annotations

import ast
import inspect
import itertools
import keyword
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.derivatives.entries import DERIVED, NAME
from gradloom.codegen.derivatives.specification import Given, Specification, analyse
from gradloom.codegen.errors import SpecError, raise_all
from gradloom.codegen.language.scope import Callables, Helper, Kind
from gradloom.codegen.operators.entries import parse_func
from gradloom.codegen.reading.python_files import GivenFunctions, Signature, signature
from gradloom.codegen.reading.yaml_files import Entry, Text, parse_entries
from gradloom.codegen.schema import MODULE_NAMES
from gradloom.codegen.target import in_memory
from gradloom.dispatch.state import DEBUG
from gradloom.ops import _registry
from gradloom.schema import IDENTIFIER

SHOWN, SHOWN_DERIVATIVES = "<define>", "<define, derivatives>"
KERNELS = "python"  # the family of kernels that are given as functions
_numbers = itertools.count(1)


class Definition:
    """The result of `gradloom.ops.define`.

    Attributes:
        namespace: the operators are in `gradloom.ops.<namespace>`.
        operators: their names there, variants included.
        overrides: full names of gradloom's operators whose derivative is replaced, variants included.
        sources: the generated code, by module, and `derived.yaml`, the derivatives that follow from definitions.
    """

    namespace: str
    operators: tuple[str, ...]
    overrides: tuple[str, ...]

    def __init__(
        self,
        specification: Specification,
        modules: dict[str, ModuleType],
        sources: dict[str, str],
        registration: _registry.Registration,
    ) -> None:
        self.namespace = specification.target.namespace
        self.operators = registration.operators
        self.overrides = tuple(f.name for f in specification.overrides)
        self.sources = sources
        self.specification = specification
        self._modules, self._registration = modules, registration

    def remove(self) -> None:
        """Remove the operators and restore the derivatives of gradloom's own. A second call does nothing. Existing
        graphs can still be differentiated."""
        self._registration.remove()
        _forget(self._modules)
        if self in _definitions:
            _definitions.remove(self)

    def __enter__(self) -> Definition:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        made = [f"gradloom.ops.{self.namespace}.{name}" for name in self.operators]
        made += [f"the derivative of {name}" for name in self.overrides]
        return f"<definition of {', '.join(made) or 'nothing'}>"


def definitions() -> tuple[Definition, ...]:
    """Return the definitions that are in force, oldest first."""
    return tuple(_definitions)


# Definitions in force; defining an operator again replaces the old definition.
_definitions: list[Definition] = []
# Namespace -> the module through which its operators call one another, also across definitions.
_operators: dict[str, ModuleType] = {}


def define(
    text: str,
    formulas: str | None = None,
    *,
    namespace: str = "user",
    kernels: Iterable[Callable[..., Any]] = (),
    helpers: Iterable[Callable[..., Any]] = (),
) -> Definition:
    """See `gradloom.ops.define`."""
    try:
        return _define(text, formulas, namespace, kernels, helpers)
    except SpecError as error:
        raise error.with_traceback(None) from None  # its frames are of no use to the user


def _define(
    text: str,
    formulas: str | None,
    namespace: str,
    kernels: Iterable[Callable[..., Any]],
    helpers: Iterable[Callable[..., Any]],
) -> Definition:
    _check_namespace(namespace)
    texts = _texts(text, formulas)
    operators, entries = _sorted(texts)
    from gradloom.codegen.outputs.render import render_package  # which others who import this module do not need

    target = in_memory(namespace, f"gradloom.ops.{namespace}.defined_{next(_numbers)}")
    replaced = _replaced_by(operators, entries, namespace)
    given = {"kernels": named("kernels", kernels), "helpers": named("helpers", helpers)}
    index = GivenFunctions(KERNELS, {name: signature_of(f) for name, f in given["kernels"].items()})
    known = {name: helper_of(f, f"{target.generated}.helpers") for name, f in given["helpers"].items()}
    specification = analyse(target, operators, entries, Given(index, known, _earlier(namespace, replaced)))
    sources = render_package(specification, DEBUG)
    if DEBUG:
        sources = {name: sources.get(f"debug/{name}", text) for name, text in sources.items() if name[:6] != "debug/"}
    modules: dict[str, ModuleType] = {}
    lines = tuple((shown, t.splitlines()) for shown, t in texts.items())
    try:
        _give(f"{target.generated}.kernels", {}, modules)
        _give(f"{target.generated}.kernels.{KERNELS}", given["kernels"], modules)
        _give(f"{target.generated}.helpers", given["helpers"], modules)
        for name in sorted(sources.keys() - {DERIVED}, key=_order):
            _load(target.generated, name, sources[name], modules, lines)
        registration = _registry.Registration(target.generated, namespace)
        generated = target.generated
        _registry.bind(
            registration,
            modules[f"{generated}.namespaces"],
            modules[f"{generated}.operators"],
            modules[f"{generated}.records"],
            modules.get(f"{generated}.overrides"),
            tuple(d._registration for d in replaced),
        )
    except BaseException:
        _forget(modules)
        raise
    for old in replaced:
        old.remove()
    definition = Definition(specification, modules, sources, registration)
    _definitions.append(definition)
    return definition


def _replaced_by(operators: list[Entry], formulas: list[Entry], namespace: str) -> tuple[Definition, ...]:
    """Return earlier definitions of the same operators, or of the same derivatives of gradloom's operators."""
    texts = [entry.get(key) for entries, key in ((operators, "func"), (formulas, NAME)) for entry in entries]
    names = [parse_func(text).name for text in texts if isinstance(text, Text) and text.value.strip()]
    return tuple(
        d
        for d in _definitions
        if d.namespace == namespace
        and not ({name.name for name in names}.isdisjoint(d.operators) and {*map(str, names)}.isdisjoint(d.overrides))
    )


def _check_namespace(namespace: str) -> None:
    if not isinstance(namespace, str) or not IDENTIFIER.fullmatch(namespace) or namespace.startswith("_"):
        raise ValueError(f"the namespace {namespace!r} is not a name")
    if namespace in _registry.RESERVED:
        raise ValueError(f"gradloom.ops.{namespace} is gradloom's own: choose another namespace")
    owner = _registry.owner_of(namespace)
    if owner is not None:
        raise ValueError(f"gradloom.ops.{namespace} belongs to {owner.generated}: choose another namespace")


def _texts(text: str, formulas: str | None) -> dict[str, str]:
    """Return {name in messages: text}."""
    found = {SHOWN: _plain(text)}
    if formulas is not None:
        found[SHOWN_DERIVATIVES] = _plain(formulas)
    return found


def _sorted(texts: Mapping[str, str]) -> tuple[list[Entry], list[Entry]]:
    """Return the entries that belong to native_functions.yaml, and those that belong to derivatives.yaml."""
    entries = [entry for shown, text in texts.items() for entry in parse_entries(text, shown)]
    operators = [e for e in entries if "func" in e]
    others = [e for e in entries if "func" not in e]
    errors: list[SpecError] = []
    for entry in entries:
        if "func" in entry and NAME in entry:
            hint = "start a second entry with `- ` before `name:`: one for the operator, one for its derivative"
            errors.append(entry.keys[NAME].error("`func` and `name` in one entry", hint))
        elif "func" not in entry and NAME not in entry:
            hint = "an operator starts with `- func: <schema>`, a derivative with `- name: <schema>`"
            errors.append(entry.error("the entry has neither `func` nor `name`", hint))
    raise_all(errors)
    return operators, others


def _plain(text: str) -> str:
    """Return the text without common indentation."""
    if not isinstance(text, str):
        raise TypeError(f"define() takes YAML as a string, not {type(text).__name__}")
    return textwrap.dedent(text.replace("\r\n", "\n"))


def _earlier(namespace: str, replaced: tuple[Definition, ...]) -> Callables | None:
    """Return the operators of the namespace whose definitions stay."""
    found: Callables | None = None
    for definition in _definitions:
        if definition.namespace == namespace and definition not in replaced:
            known = definition.specification
            one = derivatives.callables_of(known.functions, {}, known.target.operators)
            one = replace(one, array_forms={})  # they may be defined anew, so no kernel of theirs is copied
            found = one if found is None else found.extended_by(one)
    return found


_ORDER = ("__init__", "operators", "functions", "variable_type", "namespaces", "records", "overrides")


def _order(name: str) -> tuple[int, int]:
    """Sort key: modules before those that import them."""
    top = name.removesuffix(".py").split("/")[0]
    return _ORDER.index(top), 0 if name.endswith("__init__.py") else 1


def _load(
    package: str, name: str, text: str, modules: dict[str, ModuleType], lines: tuple[tuple[str, list[str]], ...]
) -> None:
    """Run a generated file as a module. Tracebacks and `inspect.getsource` find its text; errors find the YAML text."""
    dotted = name.removesuffix(".py").replace("/", ".")
    full = package if dotted == "__init__" else f"{package}.{dotted.removesuffix('.__init__')}"
    file = f"<define {full.removeprefix('gradloom.ops.')}>"
    if dotted == "operators":
        namespace = package.split(".")[-2]
        modules[full] = sys.modules[full] = _operators.setdefault(namespace, ModuleType(full, "Bound by definitions."))
        setattr(modules[package], dotted, modules[full])
        return
    module = ModuleType(full)
    vars(module)["__yaml__"] = lines
    module.__file__, module.__package__ = file, full if name.endswith("__init__.py") else full.rpartition(".")[0]
    if name.endswith("__init__.py"):
        module.__path__ = []
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    modules[full] = sys.modules[full] = module
    parent = modules.get(full.rpartition(".")[0])
    if parent is not None:
        setattr(parent, full.rpartition(".")[2], module)
    exec(compile(text, file, "exec"), module.__dict__)


def _give(name: str, functions: Mapping[str, Any], modules: dict[str, ModuleType]) -> None:
    """Make a module of functions that were passed, for generated code to import."""
    module = modules[name] = sys.modules[name] = ModuleType(name)
    vars(module).update(functions)
    parent = modules.get(name.rpartition(".")[0])
    if parent is not None:
        setattr(parent, name.rpartition(".")[2], module)


def _forget(modules: dict[str, ModuleType]) -> None:
    for name, module in modules.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
        linecache.cache.pop(getattr(module, "__file__", None) or "", None)


def named(what: str, functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return {name: function}; `what` names the argument of `define` in errors.

    Raises TypeError for a function whose name YAML cannot use, or two functions of one name.
    """
    if callable(functions):
        raise TypeError(f"define() takes {what} as a list of functions: {what}=[{_name(functions)}]")
    found: dict[str, Callable[..., Any]] = {}
    for function in functions:
        name = _name(function)
        if not callable(function) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise TypeError(
                f"define() takes {what} with names that YAML can use: write `{name}` with `def` and a name "
                "that does not start with an underscore"
            )
        if name in MODULE_NAMES:
            raise TypeError(f"generated code has a `{name}` of its own: give the one in {what} another name")
        if name in found:
            raise TypeError(f"define() got two {what} of the name `{name}`")
        found[name] = function
    return found


def _name(function: object) -> str:
    return str(getattr(function, "__name__", function))


def signature_of(function: Callable[..., Any]) -> Signature:
    """Return what is known of the signature of a kernel or helper, and, where its source can be read, of its body."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions written in C
        return Signature()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return Signature()
    keywords = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    positional = tuple(p.name for p in parameters if p.name not in keywords)
    required = frozenset(p.name for p in parameters if p.default is p.empty)
    read = _read_signature(function)
    if (read.positional, read.keywords) != (positional, keywords):
        read = Signature()
    return Signature(positional, positional, keywords, required, read.words, read.results)


def _read_signature(function: Callable[..., Any]) -> Signature:
    """Return what the source of a function shows; nothing if it cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return Signature()
    return signature(tree) if isinstance(tree, ast.FunctionDef) else Signature()


def helper_of(function: Callable[..., Any], module: str) -> Helper:
    """Return what is known of a helper's parameters and result; `module` is where generated code imports it from."""
    returns = getattr(function, "__annotations__", {}).get("return")
    is_tensor = getattr(returns, "__name__", returns) == "Tensor"
    return Helper(_name(function), module, signature_of(function), Kind.TENSOR if is_tensor else Kind.UNKNOWN)
