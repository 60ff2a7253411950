"""Records of operators: every overload's facts, from its entry in native_functions.yaml.

Note [Records]
What is true of an operator stands in its YAML entry. `gradloom generate` writes it into one record per overload, in
records/<family>.py of a generated package; records/__init__.py says which family has an operator. Features read
records: vmap its rule, the compiler the definition, `gradloom.ops` schema and tags. They reach a record from the
function that the operator is called by (`record_of`), or by its name from the `RECORDS` of the package. A family's
records are imported when the first of them is asked for.

A fact that a new feature needs is a key of the entry, a field of `Record`, and a line in outputs/records.py of the
generator, which writes fields that differ from their defaults.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from ..types.public import home_of

# Annotations of the parameters of rules that entries name: what an entry may give; Note [Rules in entries].
ArgumentName = str
OperatorName = str


class Argument(NamedTuple):
    """An argument of an overload.

    Attributes:
        name: its name as a parameter of the wrapper.
        type: its type as the schema has it, with the alias annotation: `Tensor(a!)`, `int[2]?`.
        tensors: the type if it holds tensors: `Tensor`, `Tensor?`, `Tensor[]` or `Tensor?[]`; empty if it does not.
    """

    name: str
    type: str
    tensors: str

    @property
    def is_written(self) -> bool:
        """Return whether the overload writes to it."""
        return "!" in self.type


_SIZE_OR_ANNOTATION = re.compile(r"\([^)]*\)|(?<=\[)\d+")
# In a schema's normal form. Annotations and types have no spaces, but for `(a -> *)`.
_ARGUMENT = re.compile(
    r"(?P<type>\w+(?:\([^)]*\))?[^ ]*) (?P<name>\w+)(?:=(?:\[[^\]]*\]|\"[^\"]*\"|'[^']*'|[^,()]*))?(?:, )?"
)
_RENAMED = frozenset(("from", "wrap"))  # parameters with these names end in an underscore


class Rows(NamedTuple):
    """A definition on rows: `scalar:` of an entry with `over:`.

    Attributes:
        results: a definition for each result; empty for one that the entry leaves out.
        over: for each result, what its rows extend over.
        named: names for parts of the definitions, with their definitions.
        written: arguments that are written to, with the definitions of their new values.
    """

    results: tuple[str, ...]
    over: tuple[str, ...]
    named: tuple[tuple[str, str], ...] = ()
    written: tuple[tuple[str, str], ...] = ()


class Kernel(NamedTuple):
    """A kernel that an overload's definition describes, so that machine code can replace it.

    Attributes:
        module, name: its place, below `gradloom`.
        arrays: positions of the arrays among its parameters.
        is_large: whether machine code is faster for large arrays only.
    """

    module: str
    name: str
    arrays: tuple[int, ...]
    is_large: bool = False


class Float8(NamedTuple):
    """What an overload does with tensors of 8-bit floats: Note [Float8 tensors].

    Attributes:
        computes: for how many elements it computes: `all`, `in_float32` (all, by rounding what float32 gives), `empty`,
            `one`, `empty_or_one`; empty if it refuses all.
        error: the error otherwise: the name that PyTorch's message quotes, or a message with {} for the dtype.
        number_error: the error for a number or a 0-dimensional tensor as the second operand.
    """

    computes: str
    error: str = ""
    number_error: str = ""


class Record:
    """The facts of one overload. Records are made by generated code and do not change.

    Attributes:
        name: its name with the overload: `add.Tensor`, `relu`.
        schema: its schema in normal form.
        family: the family of its wrapper.
        wrapper: the name of its wrapper, a function in variable_type/<family>.py. An overload that writes to `out`, or
            that takes a number for a tensor, has the wrapper of another.
        tags: its tags, in alphabetical order.
        numbers: names of the tensor arguments that may be Python numbers.
        is_composite: whether it is made of other operators.
        is_differentiable: whether its results may have derivatives: those of comparisons and factories have none.
        batch: its batching rule and the rule's arguments; Note [Batching rules]. Empty if it needs none.
        shape: the rule by which the meta device finds the shapes of its results, and the rule's arguments; Note [Shape
            rules]. Empty if it runs on small arrays.
        shard: the rule by which it is computed from parts of distributed tensors, and the rule's arguments; Note
            [Sharding rules]. Empty if it needs whole tensors.
        onnx: the rule by which it is exported to ONNX, and the rule's arguments; Note [ONNX rules]. Empty if it is not.
        out: words about a tensor that its wrapper writes results to: `same_dtype`, `as_cat` ...; `write_out` in
            tensors/out.py describes them.
        out_errors: for each result the error for such a tensor of another dtype, if it is the operator's own.
        promotion: its rule of type promotion.
        promotes: tensor arguments that type promotion brings to one dtype.
        keeps_numbers: whether a number keeps its digits beside half precision.
        scalar: the definition of one element; None if it has none.
        rows: its definition on rows; None if it has none.
        sparse: what computes it for sparse tensors: a function in sparse/kernels/, `values` or `stored_values`, and
            `inplace` if the result replaces the entries of the first argument.
        float8: what it does with 8-bit floats; None if the operators of a composite say it, or the error is the common
            one.
        float8_e8m0: the same for float8_e8m0fnu, where that is another case.
        kernel: the kernel that `scalar` describes, if machine code is faster; None otherwise.
        foreach: the rule for each tensor of an operator on lists, and the rule's arguments; Note [Operators on lists].
        fused: the rule of an operator on lists that is a step of an optimizer.
    """

    name: str
    schema: str
    family: str
    wrapper: str
    # Facts that a record does not give have these values.
    tags: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    is_composite: bool = False
    is_differentiable: bool = True
    batch: tuple[str, ...] = ()
    shape: tuple[int | str, ...] = ()
    shard: tuple[int | str, ...] = ()
    onnx: tuple[int | str, ...] = ()
    out: tuple[str, ...] = ()
    out_errors: tuple[str, ...] = ()
    promotion: str = "none"
    promotes: tuple[str, ...] = ()
    keeps_numbers: bool = False
    scalar: str | None = None
    rows: Rows | None = None
    kernel: Kernel | None = None
    sparse: tuple[str, ...] = ()
    float8: Float8 | None = None
    float8_e8m0: Float8 | None = None
    foreach: tuple[int | str, ...] = ()
    fused: tuple[int | str, ...] = ()

    def __init__(self, schema: str, family: str, wrapper: str, **facts: Any) -> None:
        facts["name"], facts["schema"] = schema.partition("(")[0], schema
        facts["family"], facts["wrapper"] = family, wrapper
        self.__dict__.update(facts)  # a fifth of the time of a frozen dataclass, for two thousand records

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a record does not change: {name} is a fact of native_functions.yaml")

    def __repr__(self) -> str:
        return f"<record {self.name}>"

    @property
    def operator(self) -> str:
        """The name without the overload: `add`."""
        return self.name.partition(".")[0]

    @property
    def overload(self) -> str:
        """The overload: `Tensor`; `default` for the one without a name."""
        return self.name.partition(".")[2] or "default"

    @cached_property
    def functional(self) -> str:
        """The name of the operator whose values it writes in place: `add.Tensor` for `add_.Tensor`, else its own."""
        return self.name.replace(self.operator, self.operator[:-1], 1) if self.is_inplace else self.name

    @property
    def is_inplace(self) -> bool:
        """Return whether it writes to its first argument, by its name."""
        return is_inplace(self.name)

    @property
    def is_out(self) -> bool:
        """Return whether it writes to `out`."""
        return "out" in self.tags

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Its arguments, in the order of the schema."""
        text = self.schema.partition("(")[2].rpartition(" -> ")[0][:-1]
        found = []
        for match in _ARGUMENT.finditer(text.replace("*, ", "", 1) if "*, " in text else text):
            name = match["name"]
            tensors = _SIZE_OR_ANNOTATION.sub("", match["type"]) if match["type"].startswith("Tensor") else ""
            found.append(Argument(f"{name}_" if name in _RENAMED else name, match["type"], tensors))
        return tuple(found)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The positions of the arguments that it writes to."""
        return tuple([i for i, a in enumerate(self.arguments) if a.is_written])

    @property
    def is_random(self) -> bool:
        """Return whether it draws random numbers."""
        return "nondeterministic_seeded" in self.tags or "Generator" in self.schema

    @property
    def depends_on_values(self) -> bool:
        """Return whether a result has a shape or a value that depends on values of tensors."""
        return "dynamic_output_shape" in self.tags or "data_dependent_output" in self.tags


class Records(Mapping[str, Record]):
    """The records of a family by their names, in the order of the YAML file."""

    def __init__(self, *records: Record) -> None:
        self._by_name = {r.name: r for r in records}

    def __getitem__(self, name: str) -> Record:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @cached_property
    def by_wrapper(self) -> dict[str, Record]:
        """The record of each wrapper's own overload: the first that names it."""
        found: dict[str, Record] = {}
        for record in self._by_name.values():
            found.setdefault(record.wrapper, record)
        return found


def is_inplace(name: str) -> bool:
    """Return whether an operator writes to its first argument, by its name: `add_.Tensor`."""
    base = name.partition(".")[0]
    return base.endswith("_") and not base.endswith("__")


@lru_cache(4096)  # more than there are wrappers
def record_of(wrapper: Any) -> Record | None:
    """Return the record of a generated function's own overload; None for other callables."""
    return record_at(home_of(wrapper), getattr(wrapper, "__name__", ""))


def record_at(module: str, function: str) -> Record | None:
    """Return the record of the wrapper with that name in a module; None if it is no module of wrappers."""
    package, _, family = module.rpartition(".")
    if not package.endswith(".variable_type") or package not in sys.modules:
        return None
    records: Records = sys.modules[package].records(family)
    return records.by_wrapper.get(function)


def package_of(wrapper: Any) -> str:
    """Return the generated package of a wrapper: `gradloom.generated`."""
    return home_of(wrapper).partition(".variable_type.")[0]


def name_of(wrapper: Any) -> str:
    """Return the name of an operator: `add.Tensor`, or, if it is a library's, `mylib::twice.overload`."""
    record = record_of(wrapper)
    return record.name if record is not None else str(getattr(wrapper, "name", wrapper.__name__))


class RecordIndex(Mapping[str, Record]):
    """The records of a generated package by their names. Looking one up imports the records of its family.

    Args:
        operators: operator -> the families of its overloads, separated by spaces.
        module_of, wrappers_of: import the module with the records, or the wrappers, of a family.
    """

    def __init__(
        self,
        operators: dict[str, str],
        module_of: Callable[[str], ModuleType],
        wrappers_of: Callable[[str], ModuleType],
    ) -> None:
        self.operators, self._module_of, self._wrappers_of = operators, module_of, wrappers_of

    def __getitem__(self, name: str) -> Record:
        for records in self._families_of(name.partition(".")[0]):
            if name in records:
                return records[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for family in self.families:
            yield from self._records(family)

    def __len__(self) -> int:
        return sum(len(self._records(family)) for family in self.families)

    def all(self) -> Iterator[Record]:
        """Yield all records; all families are imported."""
        for family in self.families:
            yield from self._records(family).values()

    @property
    def families(self) -> list[str]:
        """The families that have records, in alphabetical order."""
        return sorted({family for families in self.operators.values() for family in families.split()})

    def of_operator(self, name: str) -> list[Record]:
        """Return the records of an operator's overloads, those that write to `out` last. Raises KeyError."""
        self.operators[name]
        found = [r for records in self._families_of(name) for r in records.values() if r.operator == name]
        return sorted(found, key=lambda r: r.is_out)

    def out_of(self, record: Record) -> Record | None:
        """Return the record of the overload by which a wrapper writes to `out`; None if it does not."""
        return next((r for r in self.of_operator(record.operator) if r.is_out and r.wrapper == record.wrapper), None)

    def wrapper_of(self, record: Record) -> Any:
        """Return the wrapper of one of the records."""
        return getattr(self._wrappers_of(record.family), record.wrapper)

    def _records(self, family: str) -> Records:
        return self._module_of(family).RECORDS  # type: ignore[no-any-return]

    def _families_of(self, operator: str) -> list[Records]:
        return [self._records(family) for family in self.operators.get(operator, "").split()]
