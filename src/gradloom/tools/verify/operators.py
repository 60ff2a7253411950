"""The operators to verify: what the YAML files say of each, joined to the function that calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradloom.codegen.derivatives.model import DifferentiableFunction

# What yields the calls of an operator that are tried, as (args, kwargs).
Samples = Callable[[], Iterable[tuple[tuple[Any, ...], dict[str, Any]]]]


@dataclass(frozen=True)
class Operator:
    """An entry of native_functions.yaml with what calls it.

    Attributes:
        joined: the entry with its derivative, as the generator has analysed them.
        call: takes the arguments in the order of the schema, keyword-only ones by name; `out=` reaches the out variant.
        inplace: the in-place variant that is derived from the entry, called in the same way; None if there is none.
        samples: calls to try instead of those that the schema gives.
        constant: arguments that have no derivative although the entry cannot say so, as in a composite.
    """

    joined: DifferentiableFunction
    call: Callable[..., Any]
    inplace: Callable[..., Any] | None = None
    samples: Samples | None = None
    constant: frozenset[str] = field(default_factory=frozenset)

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
    def tags(self) -> tuple[str, ...]:
        return self.joined.function.tags

    @property
    def is_pointwise(self) -> bool:
        return "pointwise" in self.tags

    @property
    def is_random(self) -> bool:
        return "nondeterministic_seeded" in self.tags

    @property
    def has_out(self) -> bool:
        return any(derived.kind == "out" for derived in self.joined.function.derived)

    @property
    def differentiable(self) -> bool:
        """Whether some input has a derivative, from a formula or by composition."""
        return self.joined.strategy in ("formula", "composition")

    @property
    def by_composition(self) -> bool:
        return self.joined.strategy == "composition" or self.joined.info is None

    @property
    def differentiable_names(self) -> frozenset[str]:
        """The arguments with a derivative that somebody wrote."""
        info = self.joined.info
        if self.by_composition or info is None:
            return frozenset(a.python_name for a in self.schema.inputs) - self.constant
        missing = {name for d in info.derivatives if d.not_implemented is not None for name in d.inputs}
        return frozenset(i.name for i in info.inputs) - missing - self.constant

    def completed(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) with the schema's defaults for what they leave out: a wrapper behind overloads has none."""
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


def join(
    functions: Iterable[DifferentiableFunction],
    overloads: Mapping[str, Callable[..., Any]],
    samples: Callable[[str], Mapping[str, Samples]] | None = None,
    constant: Callable[[str], Mapping[str, Iterable[str]]] | None = None,
) -> tuple[Operator, ...]:
    """The operators of some YAML files; variants that `autogen:` derives are reached from their entry.

    Args:
        functions: what `derivatives.load` gives.
        overloads: unambiguous name (`add_Tensor`) -> function that calls it: OVERLOADS of the generated namespaces.
        samples: family -> {full name: samples}, for operators whose schema says too little.
        constant: family -> {full name: arguments without a derivative}.
    """
    found = []
    for joined in functions:
        if joined.variant is not None:
            continue
        name, family = str(joined.schema.name), joined.function.family
        inplace = next((d.schema.name.unambiguous for d in joined.function.derived if d.kind == "inplace"), None)
        found.append(
            Operator(
                joined,
                _reach(overloads, joined.schema.name.unambiguous),
                inplace and _reach(overloads, inplace),
                samples(family).get(name) if samples else None,
                frozenset(constant(family).get(name, ())) if constant else frozenset(),
            )
        )
    return tuple(found)


def _reach(overloads, name):
    """An operator's own function; where another operator is called by its name, it has a longer one."""
    return overloads[f"{name}_overload"] if f"{name}_overload" in overloads else overloads[name]
