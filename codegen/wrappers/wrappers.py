"""The stage: from operators joined to their derivatives to wrappers, and the public names that reach them.

One `Wrapper` is one generated function: an operator, or the in-place variant of one. It makes all decisions, so that
templates need only loops and conditions. Expressions from the YAML files (kernels, formulas) are text with their names
replaced: in a wrapper `self` is called `input`, as callers know it, and in kernels a tensor's name stands for its
array, `self_`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..derivatives.model import Derivative, DifferentiabilityInfo, DifferentiableFunction
from ..errors import SpecError, raise_all
from ..operators.model import NativeFunction
from ..schema import check_kernel_schema
from ..target import OPERATORS, Target
from .calls import Parameter, is_direct, module_alias
from .results import History


@dataclass(frozen=True, slots=True)
class Wrapper(History):
    """A generated function; the templates show the use of each property."""


def make_wrapper(
    joined: DifferentiableFunction, is_single: bool, taken: Collection[str] = (), target: Target | None = None
) -> Wrapper:
    """Return the wrapper of an operator or of its in-place variant. `is_single`: its Python name has no other overload;
    `taken`: the Python names of all operators, which no other overload may have."""
    native, schema = joined.function, joined.schema
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
    if native.deprecated_order and not direct:
        hint = "remove it, or make the other overloads `internal`"
        raise native.entry.keys["deprecated_order"].error(f"`{name}` has several overloads, or takes lists", hint)
    function = name if direct else schema.name.unambiguous
    if function != name and function in taken:
        function += "_overload"
    return Wrapper(
        name=str(schema.name),
        function=function,
        python_name=name,
        kind=kind,
        doc=str(schema),
        schema=schema,
        native=native,
        parameters=parameters,
        info=joined.info if native.composite is None else None,
        strategy=joined.strategy,
        guard=f"_{schema.name.unambiguous.upper()}" if direct else None,
        has_out=kind != "inplace" and any(v.kind == out_kind for v in native.derived),
        composite=_composite(native),
        operators=OPERATORS if target is None else target.operators,
    )


def _composite(native: NativeFunction) -> str | None:
    """Return the name of a composite in generated code."""
    if native.composite is None or native.composite_module is None:
        return None
    return f"{module_alias('composite', native.composite_module)}.{native.composite.partition('.')[2]}"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PublicName:
    """A public name, with the wrappers that a call chooses from."""

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
    def family(self) -> str:
        """The family whose module has the name: that of the last overload, which imports the other families."""
        return self.wrappers[-1].native.family

    @property
    def method_entries(self) -> tuple[int, ...]:
        """The positions of the overloads that are methods."""
        return tuple(i for i, w in enumerate(self.wrappers) if "method" in w.variants)

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
    """Return the overloads that a call by name chooses from: all but the internal ones, or all if all are internal."""
    return [o for o in overloads if "internal" not in variants(o)] or overloads


def public_names(wrappers: Iterable[Wrapper]) -> list[PublicName]:
    names: dict[str, list[Wrapper]] = {}
    for w in wrappers:
        names.setdefault(w.python_name, []).append(w)
    return [PublicName(name, tuple(chosen_from(group, lambda w: w.variants))) for name, group in sorted(names.items())]


def make_all(joined: Sequence[DifferentiableFunction], target: Target | None = None) -> list[Wrapper]:
    """Return the wrappers of all operators, in the order of the file; their docstrings are written later."""
    groups: dict[str, list[DifferentiableFunction]] = {}
    for f in joined:
        groups.setdefault(f.schema.name.name, []).append(f)
    single = {
        id(group[0])
        for group in (chosen_from(fs, lambda f: f.function.variants) for fs in groups.values())
        if len(group) == 1
    }
    wrappers = [make_wrapper(f, id(f) in single, groups.keys(), target) for f in joined]
    _check_names(wrappers)
    return wrappers


def _check_names(wrappers: Iterable[Wrapper]) -> None:
    """Refuse operators for which no code can be generated, and the second of two with the same name in it (`add.Tensor`
    and `add_Tensor`). Raises SpecError."""
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
    skipped: str  # the condition under which it is not evaluated, for one gradient of one tensor; else empty
    is_short: bool  # whether it is the formula and nothing else

    @property
    def is_verbatim(self) -> bool:
        """Return whether its code is the formula of the entry, and nothing else."""
        return self.is_short and self.comment.partition(": ")[2] == self.formula


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
    def entry(self) -> str:
        """The name of its entry in derivatives.yaml."""
        return self.info.name.partition("(")[0]

    @property
    def single_gradient(self) -> bool:
        return self.info.single_gradient

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(f"saved_{s.name}" for s in self.info.saved)

    @property
    def public(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.info.saved if s.is_public)

    @property
    def raw(self) -> tuple[str, ...]:
        """The public fields that hold tensors."""
        return tuple(s for s in self.public if s in self.releases)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The public fields that hold numbers of any type, rather than sizes, dimensions or indices."""
        return tuple(s.name for s in self.info.saved if s.is_public and s.type.base.name == "Scalar")

    @property
    def release_text(self) -> str:
        return "".join(f"fn.saved_{s} = " for s in self.releases) + "RELEASED"

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.info.saved if s.kind != "value")

    @property
    def sizes(self) -> tuple[str, ...]:
        """Fields with the lengths of list inputs, which determine where edges begin."""
        return tuple(i.size for i in self.info.inputs if i.size)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The formulas in the order of their inputs' names, in which PyTorch evaluates them. With create_graph, the
        nodes that they make are numbered, and later run, in that order."""
        return tuple(self._block(d) for d in sorted(self.info.derivatives, key=lambda d: d.inputs))

    def _range(self, name: str, of: str = "{} is not NO_EDGE") -> str:
        """Return the expression for `this input needs a gradient`; `of` is the test of an edge."""
        i = self.info.input(name)
        assert i is not None
        if i.is_list:
            return f"any([{of.format('e')} for e in edges[{i.edge}:{i.edge} + {i.size}]])"
        return of.format(f"edges[{i.edge}]")

    @property
    def materializes_in_list(self) -> bool:
        """Return whether a formula puts zeros into its own list of gradients, while others read the given list."""
        return any(
            g.index in d.materialize and g.name.startswith("grads[") for d in self.info.derivatives for g in d.gradients
        )

    def _needed(self, d: Derivative) -> str:
        """Return the condition under which a formula is evaluated."""
        # An error is raised only if the gradient reaches a node; that of a view made in no_grad mode reaches none.
        of = "{} is not NO_EDGE" if d.not_implemented is None else "as_pair({})[0] is not None"
        wanted = " or ".join(self._range(name, of) for name in d.inputs)
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
        unpacked = tuple(
            (name, saved[name].kind, saved[name].is_optional) for name in d.saved if name not in self.sizes
        )
        is_plain = len(inputs) == 1 and undefined == ["None"] and d.not_implemented is None and not d.defined_by
        reads = [
            g for g in d.gradients if g.name != "grad" and not g.name.startswith("grads[") or g.index in materialize
        ]
        return Block(
            comment=f"{', '.join(d.inputs)}: {' '.join(d.source.split())}",
            needed=self._needed(d),
            unpacked=unpacked,
            gradients=tuple((g.name, g.index, g.index in materialize) for g in d.gradients),
            formula=d.formula,
            targets=targets,
            mask=f"({', '.join(self._range(name) for name in d.inputs)},)" if d.mask else None,
            not_implemented=None
            if d.not_implemented is None
            else repr(f"the derivative for '{d.not_implemented}' is not implemented."),
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
            skipped=self._range(d.inputs[0], "{} is NO_EDGE") if is_plain else "",
            is_short=is_plain and not (unpacked or reads or d.mask or d.retain_variables or d.on_arrays),
        )

    @property
    def only(self) -> Block | None:
        """The block of a node that has one gradient and one input."""
        blocks = self.blocks
        return blocks[0] if self.single_gradient and len(blocks) == 1 and blocks[0].skipped else None

    @property
    def has_arrays(self) -> bool:
        """Return whether some formula has a form on arrays."""
        return any(d.on_arrays for d in self.info.derivatives)

    @property
    def results(self) -> str:
        return "".join(f"{'*' if i.is_list else ''}grad_of_{i.name}, " for i in self.info.inputs).rstrip() or ""

    @property
    def undefined(self) -> str:
        """The return value of `apply` if no gradient is defined."""
        if any(i.is_list for i in self.info.inputs):
            return "(None,) * len(edges)"
        return f"({'None, ' * len(self.info.inputs)})".replace(", )", ",)" if len(self.info.inputs) == 1 else ")")


def _is_flat(d: Derivative) -> str:
    """Return the condition under which a formula may be computed on arrays; see Note [Formulas on arrays]."""
    tensors = d.on_arrays.tensors if d.on_arrays else ()
    return " and ".join(f"{name}._array.dtype is grad_dtype" for name in tensors) or "grad_dtype is not None"
