"""What the operators of a package must not do, since others stand where they would: gradloom and its tensors."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import SpecError, raise_all
from .formula_metadata import ATTRIBUTE_NAMES, METHOD_NAMES
from .native_functions import NativeFunction, NativeFunctions
from .native_keys import words_of
from .schema import FunctionSchema
from .stubs import METHODS_OF
from .text import Text

# What `gradloom.ops.myops.softabs.<overload>` has beside its overloads.
OF_OPERATORS = frozenset(("default", "namespace", "op", "overloads"))
# What the stubs of a package say beside its operators.
UNTYPABLE = frozenset(("int", "float", "bool", "str", "complex", "tuple", "list", "object", METHODS_OF))


def check_package(functions: NativeFunctions, known: NativeFunctions, namespace: str) -> None:
    """Check the operators of a package against gradloom's.

    Args:
        functions: the operators of the package.
        known: gradloom's own.
        namespace: that of the package.

    Raises:
        SpecError, or SpecErrors where several things are wrong.
    """
    methods = {s.name.name for f in known for s in f.schemas if "method" in f.variants or s.kind == "inplace"}
    methods |= {*ATTRIBUTE_NAMES, *METHOD_NAMES}
    top = {s.name.name for f in known for s in f.schemas}
    raise_all(error for f in functions for error in _problems(f, methods, top, namespace))


def _problems(function: NativeFunction, methods: set[str], top: set[str], namespace: str) -> Iterator[SpecError]:
    entry, name = function.entry, function.schema.name
    if name.namespace is not None:
        message = f"`{name.namespace}::` in the name of an operator"
        hint = f"leave it out: the operators of this package are in gradloom.ops.{namespace}"
        yield function.text.error(message, hint, 0, len(name.namespace))
    if name.name in UNTYPABLE:
        hint = (
            "choose another name: the package has a function of that name"
            if name.name == METHODS_OF
            else "choose another name: type stubs say by it what operators take"
        )
        yield function.text.error(
            f"`{name.name}` cannot be the name of an operator of a package", hint, 0, len(name.name)
        )
    if name.overload in OF_OPERATORS or name.overload.startswith("_"):
        message = f"`{name.overload}` cannot be the name of an overload"
        hint = f"choose another: gradloom.ops.{namespace}.{name.name}.{name.overload} is something else"
        yield function.text.error(message, hint, len(name.name) + 1, len(name.overload))
    if function.python_module is not None:
        message = "`python_module` of an operator of a package"
        hint = f"remove it: the operator is in gradloom.ops.{namespace}; `top_level: true` gives gradloom one, too"
        yield entry.keys["python_module"].error(message, hint)
    taken = _taken(function, methods) if "method" in function.variants else None
    if taken is not None:
        word = next(w for w in words_of(entry, "variants") if w.value == "method")
        hint = f"remove `method`, or choose another name; the function is gradloom.ops.{namespace}.{taken}"
        yield word.error(f"tensors have a `{taken}` already", hint)
    taken = _taken(function, top) if function.top_level else None
    if taken is not None:
        key = entry.fields["top_level"]
        assert isinstance(key, Text)
        hint = f"remove the key, or choose another name; the function is gradloom.ops.{namespace}.{taken}"
        yield key.error(f"gradloom has a function `{taken}` already", hint)


def _taken(function: NativeFunction, names: set[str]) -> str | None:
    def called(schema: FunctionSchema) -> bool:
        return schema.kind != "out" and schema.name.name in names

    return next((s.name.name for s in function.schemas if called(s)), None)
