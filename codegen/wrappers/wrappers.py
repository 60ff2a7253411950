"""The stage: from operators joined to their derivatives to wrappers, and the public names that reach them.

One `Wrapper` is one generated function: an operator, or the in-place variant of one. It decides everything that the
templates print, so that they need only loops and conditions. Expressions from the YAML files (kernels, formulas) are
text with their names replaced: in a wrapper `self` is called `input`, as callers know it, and in kernels a tensor's
name stands for its array, `self_`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..derivatives.model import DifferentiableFunction
from ..errors import SpecError, raise_all
from ..language.reserved import check_kernel_schema
from ..notation.equations import Notation, docstring
from ..operators.native_functions import NativeFunction
from ..target import OPERATORS, Target
from .calls import Parameter, is_direct, module_alias
from .results import History


@dataclass(frozen=True, slots=True)
class Wrapper(History):
    """A generated function; see the templates for what each property is used for.

    Its parts are in files of their own: how it is called (wrapper_calls), what it computes (wrapper_kernel), returns
    (wrapper_results) and records (wrapper_history).
    """


def make_wrappers(
    joined: DifferentiableFunction,
    is_single: bool,
    taken: Collection[str] = (),
    doc: str = "",
    target: Target | None = None,
) -> Wrapper:
    """The wrapper of an operator or of its in-place variant.

    Args:
        is_single: whether its Python name has only this overload.
        taken: the Python names of all operators; an overload must not be called like one of another name.
        doc: its docstring.
        target: the package that has it; gradloom itself by default.
    """
    native: NativeFunction = joined.function
    schema = joined.schema
    kind = "inplace" if schema.kind == "inplace" else "copy" if joined.variant is not None else "functional"
    out_kind = "copy_out" if kind == "copy" else "out"
    name = schema.name.name
    first_is_self = bool(schema.arguments) and schema.arguments[0].name == "self"
    is_copy = joined.variant is not None and joined.variant.kind == "copy"
    renames = first_is_self and (is_copy or native.variants != ("method",))
    parameters = tuple(
        Parameter(a, "input" if a.name == "self" and renames else a.python_name, a.name in native.accepts_number)
        for a in schema.inputs
    )
    direct = is_single and is_direct(schema)
    function = name if direct else schema.name.unambiguous
    if function != name and function in taken:
        function += "_overload"
    return Wrapper(
        name=str(schema.name),
        function=function,
        python_name=name,
        kind=kind,
        doc=doc or str(schema),
        schema=schema,
        native=native,
        parameters=parameters,
        info=joined.info if native.composite is None else None,
        strategy=joined.strategy,
        guard=f"_{schema.name.unambiguous.upper()}" if direct else None,
        has_out=kind != "inplace" and any(v.kind == out_kind for v in native.derived),
        composite=_composite(native),
        operators=OPERATORS if target is None else target.operators,
        of_methods=target is None or target.is_own,
    )


def _composite(native: NativeFunction) -> str | None:
    """What computes a composite, as generated code calls it."""
    if native.composite is None or native.composite_module is None:
        return None
    return f"{module_alias('composite', native.composite_module)}.{native.composite.partition('.')[2]}"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PublicName:
    """A name that people call, with the wrappers that it chooses from."""

    name: str
    wrappers: tuple[Wrapper, ...]

    @property
    def direct(self) -> Wrapper | None:
        """The wrapper that is itself the public function."""
        return self.wrappers[0] if len(self.wrappers) == 1 and self.wrappers[0].guard else None

    @property
    def is_function(self) -> bool:
        return any("function" in w.variants for w in self.wrappers)

    @property
    def method_entries(self) -> tuple[int, ...]:
        """The positions of the overloads that are methods, as all in-place variants are."""
        return tuple(
            i
            for i, w in enumerate(self.wrappers)
            if "method" in w.variants
            or (w.of_methods and w.kind == "inplace" and w.parameters[0].argument.name == "self")
        )

    @property
    def top_level(self) -> bool:
        return any(w.native.top_level for w in self.wrappers)

    @property
    def is_method(self) -> bool:
        return bool(self.method_entries)

    @property
    def module(self) -> str | None:
        return self.wrappers[0].native.python_module

    @property
    def short(self) -> str:
        """The name within its module: `inv` for `linalg_inv`."""
        module = self.module
        return self.name.removeprefix(f"{module}_") if module in ("linalg", "fft", "special") else self.name


def chosen_from(overloads: Sequence[T], variants: Callable[[T], Collection[str]]) -> Sequence[T]:
    """Those overloads of one name that a call by it chooses from: not the internal ones, unless all are internal."""
    return [o for o in overloads if "internal" not in variants(o)] or overloads


def public_names(wrappers: Iterable[Wrapper]) -> list[PublicName]:
    names: dict[str, list[Wrapper]] = {}
    for w in wrappers:
        names.setdefault(w.python_name, []).append(w)
    return [PublicName(name, tuple(chosen_from(group, lambda w: w.variants))) for name, group in sorted(names.items())]


def make_all(
    joined: Sequence[DifferentiableFunction], notation: Notation | None, target: Target | None = None
) -> list[Wrapper]:
    """The wrappers of all operators, in the order of the file."""
    groups: dict[str, list[DifferentiableFunction]] = {}
    for f in joined:
        groups.setdefault(f.schema.name.name, []).append(f)
    single = {
        id(group[0])
        for group in (chosen_from(fs, lambda f: f.function.variants) for fs in groups.values())
        if len(group) == 1
    }
    wrappers = [
        make_wrappers(f, id(f) in single, set(groups), docstring(f, notation) if notation is not None else "", target)
        for f in joined
    ]
    _check_names(wrappers)
    return wrappers


def _check_names(wrappers: Iterable[Wrapper]) -> None:
    """Refuses operators that code cannot be generated for, and two that would be one name in it, as `add.Tensor` and
    `add_Tensor` would be.

    Raises:
        SpecError: at the operator; of two, at the second.
    """
    errors: list[SpecError] = []
    taken: dict[tuple[str, str], Wrapper] = {}
    for w in wrappers:
        if w.native.kernel is not None:
            check_kernel_schema(w.native.text, w.native.schema)
        family = w.native.family
        names = [("", w.own_name), *((family, n) for n in {w.function, w.itself, w.guard, w.node} if n)]
        if w.result_class is not None:
            other = taken.setdefault((family, w.result_class), w)
            if [r.name for r in other.schema.returns] != [r.name for r in w.schema.returns]:
                names.append((family, w.result_class))
        for key in names:
            other = taken.setdefault(key, w)
            if other is not w and not (key[1] == w.node == other.node):
                message = f"`{w.name}` would be called `{key[1]}` in generated code, which is what `{other.name}` gives"
                errors.append(
                    w.native.text.error(
                        message, "choose another name, or another overload name", 0, len(str(w.native.schema.name))
                    )
                )
                break
    raise_all(errors)
