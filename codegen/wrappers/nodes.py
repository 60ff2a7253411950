"""Node classes as the template of functions/ prints them: decisions about each formula, made once."""

from __future__ import annotations

from dataclasses import dataclass

from ..derivatives.model import Derivative, DifferentiabilityInfo


@dataclass(frozen=True, slots=True)
class Block:
    """The part of `apply` that computes one formula."""

    comment: str
    needed: str
    unpacked: tuple[tuple[str, str, bool], ...]
    gradients: tuple[tuple[str, int, bool], ...]
    formula: str
    targets: str
    mask: str | None
    not_implemented: str | None
    otherwise: str
    or_undefined: str
    materializes_in_list: bool
    retain_variables: bool
    on_arrays: str
    is_flat: str


@dataclass(frozen=True, slots=True)
class NodeClass:
    """A node class as the template prints it."""

    info: DifferentiabilityInfo

    @property
    def name(self) -> str:
        assert self.info.node is not None
        return self.info.node

    @property
    def schema(self) -> str:
        return self.info.name

    @property
    def single_gradient(self) -> bool:
        return self.info.single_gradient

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.info.saved)

    @property
    def public(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.info.saved if s.is_public)

    @property
    def slots_text(self) -> str:
        return repr(tuple(f"saved_{s}" for s in self.slots))

    @property
    def raw(self) -> tuple[str, ...]:
        """The public fields that hold tensors."""
        return tuple(s for s in self.public if s in self.releases)

    @property
    def raw_text(self) -> str:
        return repr(self.raw)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The public fields that hold numbers of any type, rather than sizes, dimensions or indices."""
        return tuple(s.name for s in self.info.saved if s.is_public and s.type.base.name == "Scalar")

    @property
    def numbers_text(self) -> str:
        return repr(self.numbers)

    @property
    def public_text(self) -> str:
        return repr(self.public)

    @property
    def release_text(self) -> str:
        return "".join(f"fn.saved_{s} = " for s in self.releases) + "RELEASED"

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.info.saved if s.kind != "value")

    @property
    def sizes(self) -> tuple[str, ...]:
        """Fields with the lengths of list inputs, which say where edges begin."""
        return tuple(i.size for i in self.info.inputs if i.size)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The formulas in the order of their inputs' names, which PyTorch evaluates them in: nodes that they make in a
        backward pass with create_graph are then numbered, and run, in the same order."""
        return tuple(self._block(d) for d in sorted(self.info.derivatives, key=lambda d: d.inputs))

    def _range(self, name: str) -> str:
        """The expression for `this input needs a gradient`."""
        i = self.info.input(name)
        assert i is not None
        if i.is_list:
            return f"any([e is not NO_EDGE for e in edges[{i.edge}:{i.edge} + {i.size}]])"
        return f"edges[{i.edge}] is not NO_EDGE"

    @property
    def materializes_in_list(self) -> bool:
        """Whether some formula puts zeros into a list of gradients of its own, while others look at what was given."""
        return any(
            g.index in d.materialize and g.name.startswith("grads[") for d in self.info.derivatives for g in d.gradients
        )

    def _needed(self, d: Derivative) -> str:
        """The condition under which a formula is evaluated."""
        wanted = " or ".join(self._range(name) for name in d.inputs)
        if not d.defined_by:
            return wanted
        grads = "given" if self.materializes_in_list else "grads"
        defined = " or ".join(f"{grads}[{i}] is not None" for i in d.defined_by)
        return f"({wanted}) and ({defined})"

    def _block(self, d: Derivative) -> Block:
        saved = {s.name: s for s in self.info.saved}
        inputs = [self.info.input(name) for name in d.inputs]
        targets = ", ".join(f"grad_of_{name}" for name in d.inputs)
        undefined = [f"[None] * {i.size}" if i is not None and i.is_list else "None" for i in inputs]
        materialize = set(d.materialize)
        return Block(
            comment=f"{', '.join(d.inputs)}: {' '.join(d.source.split())}",
            needed=self._needed(d),
            unpacked=tuple(
                (name, saved[name].kind, saved[name].is_optional) for name in d.saved if name not in self.sizes
            ),
            gradients=tuple((g.name, g.index, g.index in materialize) for g in d.gradients),
            formula=d.formula,
            targets=targets,
            mask=f"({', '.join(self._range(name) for name in d.inputs)},)" if d.mask else None,
            not_implemented=None
            if d.not_implemented is None
            else repr(
                f"the derivative for '{d.inputs[0]}' of '{self.info.schema.name}' is not implemented. "
                f"{d.not_implemented}"
            ),
            otherwise=" = ".join(f"grad_of_{n}" for n in d.inputs) + " = None"
            if len(set(undefined)) == 1 and undefined[0] == "None"
            else f"{targets} = {', '.join(undefined)}",
            or_undefined=f" or [None] * {inputs[0].size}"
            if len(inputs) == 1 and inputs[0] and inputs[0].is_list
            else "",
            materializes_in_list=any(g.index in materialize and g.name.startswith("grads[") for g in d.gradients),
            retain_variables=d.retain_variables,
            on_arrays=d.on_arrays.text if d.on_arrays else "",
            is_flat=_is_flat(d),
        )

    @property
    def has_arrays(self) -> bool:
        """Whether some formula has a form on arrays."""
        return any(d.on_arrays for d in self.info.derivatives)

    @property
    def results(self) -> str:
        return "".join(f"{'*' if i.is_list else ''}grad_of_{i.name}, " for i in self.info.inputs).rstrip() or ""

    @property
    def undefined(self) -> str:
        """What `apply` returns when no gradient arrives."""
        if any(i.is_list for i in self.info.inputs):
            return "(None,) * len(edges)"
        return f"({'None, ' * len(self.info.inputs)})".replace(", )", ",)" if len(self.info.inputs) == 1 else ")")


def _is_flat(d: Derivative) -> str:
    """The condition under which a formula may be computed on arrays; see Note [Formulas on arrays]."""
    tensors = d.on_arrays.tensors if d.on_arrays else ()
    return " and ".join(f"{name}._array.dtype is flat" for name in tensors) or "flat is not None"
