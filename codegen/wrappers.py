"""What the templates print of each wrapper: decided here, so that the templates need only loops and conditions.

One `Wrapper` is one generated function: an operator, or the in-place variant of one. Expressions from the YAML files
(kernels, formulas) are text with their names replaced: in a wrapper `self` is called `input`, as callers know it, and
in kernels a tensor's name stands for its array, `self_`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .derivative_model import DifferentiableFunction
from .formula_scope import OPERATORS
from .native_functions import NativeFunction
from .target import Target
from .wrapper_calls import is_direct
from .wrapper_history import History
from .wrapper_parts import Parameter, module_alias


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
