"""What a wrapper records: the node of its backward formulas, and the tangents of forward mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from .derivative_model import DifferentiableInput, ForwardDerivative, SavedAttribute
from .formula_scope import OWN
from .wrapper_parts import Edge, ForwardFormula, Primal, Result, TangentRead, Unnamed, rename
from .wrapper_results import Results


@dataclass(frozen=True, slots=True)
class History(Results):
    """A wrapper with the history that it gives its results."""

    @property
    def node(self) -> str | None:
        """The node class, as the code names it."""
        if self.info is None or self.info.node is None:
            return None
        return f"{self.replacement}.{self.info.node}" if self.replacement else self.info.node

    @property
    def inputs(self) -> tuple[Edge, ...]:
        assert self.info is not None
        return tuple(self._edge(i) for i in self.info.inputs)

    def _edge(self, i: DifferentiableInput) -> Edge:
        return Edge(i.name, self.names.get(i.name, i.name), i.is_list, "?" in str(i.type))

    @property
    def unnamed(self) -> tuple[Unnamed, ...]:
        """The tensors that may not require a gradient, since they have no derivative."""
        assert self.info is not None
        schema = self.info.schema
        optional = {a.python_name: a.type.is_optional for a in schema.inputs}
        return tuple(Unnamed(n, self.names.get(n, n), optional[n], schema.name.name) for n in self.info.unnamed)

    @property
    def edge_list(self) -> str:
        return ", ".join(f"*edges_{e.name}" if e.is_list else f"edge_{e.name}" for e in self.inputs) + (
            "," if len(self.inputs) == 1 else ""
        )

    @property
    def other_inputs(self) -> str:
        """The differentiable inputs after the first, as the inside of a tuple."""
        return "".join(f"{e.variable}, " for e in self.inputs if e.variable != self.first).rstrip()

    @property
    def needed(self) -> tuple[Edge, ...]:
        assert self.info is not None
        return tuple(self._edge(i) for i in self.info.needed)

    @property
    def requires(self) -> str:
        return " or ".join(e.requires for e in self.inputs)

    def _saved(self, items: Iterable[SavedAttribute]) -> tuple[SavedAttribute, ...]:
        names = dict(self.names)
        for o, known in zip(self.outputs, self.info.outputs if self.info else (), strict=True):
            names[known.name] = o.variable
        return tuple(
            replace(s, read=rename(s.read, names), condition=rename(s.condition, self.names) if s.condition else None)
            for s in items
        )

    @property
    def saved_inputs(self) -> tuple[SavedAttribute, ...]:
        return self._saved(self.info.saved_inputs) if self.info else ()

    @property
    def saved_outputs(self) -> tuple[SavedAttribute, ...]:
        return self._saved(self.info.saved_outputs) if self.info else ()

    # --- forward mode ------------------------------------------------------------------------------------------------

    @property
    def _forward(self) -> tuple[ForwardDerivative, ...]:
        return self.info.forward if self.info is not None else ()

    @property
    def forward(self) -> tuple[ForwardFormula, ...]:
        names = dict(self.names)
        if self.info is not None:
            for o, known in zip(self.outputs, self.info.outputs, strict=True):
                names[known.name] = o.variable
        found = []
        for f in self._forward:
            targets = ", ".join(f"{name}_tangent" for name in f.outputs)
            message = repr(
                f"the forward-mode derivative for '{self.name}' is not implemented. {f.not_implemented or ''}"
            )
            formula = rename(f.formula, {**names, **self._moved}) if f.not_implemented is None else ""
            found.append(
                ForwardFormula(
                    targets, formula, f"{', '.join(f.outputs)}: {_one_line(f.source)}", f.not_implemented, message
                )
            )
        return tuple(found)

    @property
    def _moved(self) -> Mapping[str, str]:
        """What a formula calls, as code says that runs in another module than the one that imports it."""
        if not self.replacement or self.info is None:
            return {}
        return {name: f"{self.replacement}.{name}" for name in (OWN, *(n for _, n in self.info.forward_helpers))}

    @property
    def tangents(self) -> tuple[TangentRead, ...]:
        found: dict[str, TangentRead] = {}
        for f in self._forward:
            for t in f.tangents:
                known = found.get(t.name)
                found[t.name] = TangentRead(
                    t.name,
                    self.names[t.input],
                    t.is_list,
                    t.is_optional,
                    t.materialize or (known is not None and known.materialize),
                )
        return tuple(found.values())

    @property
    def refuses_tangents(self) -> bool:
        """Whether forward mode must stop here: the operator has derivatives, or might have, and no forward formula."""
        return not self._forward and (self.node is not None or self.not_implemented)

    @property
    def has_tangent(self) -> str:
        tests = [
            f"any([t is not None for t in {t.name}])" if t.is_list else f"{t.name} is not None" for t in self.tangents
        ]
        return " or ".join(tests) or "False"

    @property
    def primals(self) -> tuple[Primal, ...]:
        found: dict[str, Primal] = {}
        for f in self._forward:
            for name in f.primals:
                keeps = name in f.keeps_original or (name in found and found[name].keeps_original)
                found[name] = Primal(name, self.names[name], keeps)
        return tuple(found.values())

    @property
    def forward_outputs(self) -> tuple[Result, ...]:
        given = {name for f in self._forward if f.not_implemented is None for name in f.outputs}
        if self.info is None:
            return ()
        return tuple(
            replace(o, name=known.name) if not o.is_list else replace(o, variable="results", name=known.name)
            for o, known in zip(self.outputs, self.info.outputs, strict=True)
            if known.name in given
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())
