"""The operators under test, read from the YAML files, and how to call each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gradloom
from gradloom.codegen import derivatives, native_functions
from gradloom.codegen.derivative_model import DifferentiableFunction

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Operator:
    """An operator of the YAML files.

    `call` takes the arguments in the order of the schema, keyword-only ones by name.
    """

    joined: DifferentiableFunction
    call: object

    @property
    def name(self) -> str:
        return str(self.joined.schema.name)

    @property
    def schema(self):
        return self.joined.schema

    @property
    def family(self) -> str:
        return self.joined.function.family

    @property
    def is_pointwise(self) -> bool:
        return "pointwise" in self.joined.function.tags

    @property
    def differentiable(self) -> bool:
        """Whether some input has a derivative, from a formula or by composition."""
        return self.joined.strategy in ("formula", "composition")

    def completed(self, args, kwargs):
        """(args, kwargs) with the defaults of the schema for what they leave out: a wrapper behind overloads has none.
        """
        args, kwargs = list(args), dict(kwargs)
        for position, argument in enumerate(self.schema.inputs):
            name = argument.python_name
            if argument.default is None or position < len(args) or name in kwargs:
                continue
            value = argument.default_value
            value = tuple(value) if isinstance(value, list) else value
            if argument.kwarg_only or len(args) < position:
                kwargs[name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    @property
    def is_random(self) -> bool:
        return "nondeterministic_seeded" in self.joined.function.tags

    def variant(self, kind: str):
        """The in-place or out variant's function, or None."""
        for derived in self.joined.function.derived:
            if derived.kind == kind:
                return getattr(gradloom._operators, derived.schema.name.unambiguous, None) if kind == "inplace" \
                    else self.call
        return None


@cache
def joined_operators() -> tuple[DifferentiableFunction, ...]:
    functions = native_functions.load(ROOT / "native_functions.yaml", package=ROOT / "src" / "gradloom")
    return tuple(derivatives.load(ROOT / "derivatives.yaml", functions, package=ROOT / "src" / "gradloom"))


@cache
def operators() -> tuple[Operator, ...]:
    """Every entry of native_functions.yaml; derived variants are reached from their entry."""
    found = []
    for joined in joined_operators():
        if joined.variant is None:
            name = joined.schema.name.unambiguous
            call = getattr(gradloom._operators, f"{name}_overload", None)  # where another operator is called so
            found.append(Operator(joined, call or getattr(gradloom._operators, name)))
    return tuple(found)
