"""The derivative of an operator after analysis: everything that templates print.

Note [Differentiability]
One `DifferentiabilityInfo` is one node class. Operators that share an entry (an in-place variant and its
functional one) share the class; what differs for the variant that writes is in `for_inplace`.

Note [Edges]
A node has one edge for each differentiable input, in the order of the schema, and as many as it has elements
for a list. `apply` gets one gradient per differentiable output, in the order of the schema, again one per
element for a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..language.saving import OnArrays, needs
from ..operators.model import NativeFunction, Variant
from ..reading.yaml_files import Text
from ..schema import FunctionSchema, Type


@dataclass(frozen=True, slots=True)
class DifferentiableInput:
    """An input with a formula."""

    name: str  # as a Python parameter
    index: int  # its position among the schema's arguments
    type: Type
    edge: str  # the expression for the number of its first edge: `0`, or `tensors_size_ + 1` after a list
    size: str | None  # the saved field with the number of its elements, for a list; else None
    derivative: int  # the position of its formula in `DifferentiabilityInfo.derivatives`
    # the position of its gradient among the results of that formula, if there are several; else None
    position: int | None

    @property
    def is_list(self) -> bool:
        return self.type.is_list

    @property
    def is_optional(self) -> bool:
        return self.type.is_optional

    @property
    def needs(self) -> str:
        """The wrapper's variable for "this input needs a gradient"."""
        return needs(self.name)


@dataclass(frozen=True, slots=True)
class Output:
    """A returned value."""

    name: str  # `result`, `result1` or the schema's name
    index: int  # its position among the returns
    type: Type
    # its number among the differentiable outputs (that of the first element, for a list); None if not differentiable
    output_nr: int | None
    condition: str | None = None  # a condition on the arguments under which it is differentiable; None for always

    @property
    def is_differentiable(self) -> bool:
        return self.output_nr is not None

    @property
    def is_list(self) -> bool:
        return self.type.is_list


@dataclass(frozen=True, slots=True)
class SavedAttribute:
    """A field of a node: a value from the forward pass that its formulas need."""

    name: str  # of the field, and of the variable in the formulas
    of: str  # the argument or return that it is taken from
    kind: str  # 'tensor' or 'tensor_list' (saved as a variable, with its version) or 'value'
    type: Type  # its schema type. `Tensor?` and `Tensor?[]` may be, or contain, None
    read: str  # the expression that the wrapper evaluates, before the kernel or, for an output, after it
    output: Output | None = None  # the output that it is, or is taken from; None for an input
    condition: str | None = None  # the wrapper's condition for saving it, over its `needs_<input>`; None for always
    is_public: bool = True  # whether `_saved_<name>` shows it
    is_optional: bool = False  # whether it may be None in a formula: a `Tensor?`, or saved by `wrap_opt_if`
    clone: bool = False  # whether an in-place operator writes to it, so that a copy must be saved

    @property
    def is_output(self) -> bool:
        return self.output is not None

    @property
    def output_nr(self) -> int | None:
        """The number of a differentiable tensor output, which must be saved without a reference cycle; else None."""
        return self.output.output_nr if self.output is not None and self.kind != "value" else None


@dataclass(frozen=True, slots=True)
class Gradient:
    """A gradient that a formula uses: `name` in the formula, `index` of the output."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class Derivative:
    """A formula of the backward direction."""

    inputs: tuple[str, ...]  # the inputs whose gradients it computes; for several, it evaluates to a tuple
    formula: str  # the Python expression, over saved fields, gradients and the flags below
    source: str  # the expression in derivatives.yaml
    gradients: tuple[Gradient, ...] = ()  # the gradients that it uses; if all of them are undefined, so is the result
    # whether it uses the whole list `grads` (then `gradients` is empty for a list output)
    uses_all_gradients: bool = False
    # the numbers of gradients that must be zeros instead of undefined: the formula computes with them while others may
    # be defined
    materialize: tuple[int, ...] = ()
    # the numbers of the gradients of which one must be defined, else the result is undefined and the formula must not
    # be evaluated; empty if it suffices that any gradient is defined
    defined_by: tuple[int, ...] = ()
    saved: tuple[str, ...] = ()  # names of the saved fields that it uses
    not_implemented: str | None = None  # the reason, if there is no formula
    mask: bool = False  # whether it uses `grad_input_mask`, a tuple of bools in the order of `inputs`
    retain_variables: bool = False  # whether it uses the flag `retain_variables`
    # its place in derivatives.yaml
    place: Text | None = field(default=None, compare=False, repr=False)
    on_arrays: OnArrays | None = None  # its form on arrays, if it has one


@dataclass(frozen=True, slots=True)
class Tangent:
    """A tangent that a forward formula uses, as `<input>_t`."""

    input: str  # the input of the tangent
    is_list: bool
    is_optional: bool
    # whether it must be zeros if undefined, because another tangent may be defined. In a list, this applies to each
    # element. An input that is None has no tangent and stays None
    materialize: bool

    @property
    def name(self) -> str:
        return f"{self.input}_t"


@dataclass(frozen=True, slots=True)
class ForwardDerivative:
    """A forward formula: the tangents of some outputs. It runs after the kernel if any of its tangents is defined."""

    outputs: tuple[str, ...]  # the outputs whose tangents it computes; for several, it evaluates to a tuple
    formula: str  # the Python expression, over `<input>_t`, `<input>_p`, outputs and arguments
    source: str  # the expression in derivatives.yaml
    kind: str  # 'auto_linear', 'auto_element_wise' or 'explicit'
    tangents: tuple[Tangent, ...]
    primals: tuple[str, ...] = ()  # the inputs whose value the formula uses, as `<input>_p`
    results: tuple[str, ...] = ()  # the outputs that it uses
    not_implemented: str | None = None  # the reason, if there is no formula
    # the inputs among `primals` that an in-place operator overwrites: copied before the kernel
    keeps_original: tuple[str, ...] = ()
    # its place in derivatives.yaml
    place: Text | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DifferentiabilityInfo:
    """An analysed entry of derivatives.yaml, for one dispatch key."""

    name: str  # the entry's schema, for comments
    dispatch_key: str  # 'Default', or the key of a section under `dispatch:`
    schema: FunctionSchema
    node: str | None  # the name of the node class; None if no input has a formula
    inputs: tuple[DifferentiableInput, ...]  # the inputs with a formula, in the order of the schema
    outputs: tuple[Output, ...]  # all outputs
    # derivatives, forward: the backward and the forward formulas
    derivatives: tuple[Derivative, ...]
    forward: tuple[ForwardDerivative, ...]
    saved: tuple[SavedAttribute, ...]  # the node's fields, inputs first
    # (module in gradloom.formulas, function) for each helper of the backward formulas
    helpers: tuple[tuple[str, str], ...] = ()
    forward_helpers: tuple[tuple[str, str], ...] = ()  # the same for the forward formulas
    uses_operators: bool = False  # whether the backward formulas use the module of operators
    # the tensors without a formula or `non_differentiable`: none of them may require a gradient
    unnamed: tuple[str, ...] = ()
    # the entry's `name:` (or the dispatch key of its section) in derivatives.yaml
    place: Text | None = field(default=None, compare=False, repr=False)

    @property
    def differentiable_outputs(self) -> tuple[Output, ...]:
        return tuple(o for o in self.outputs if o.is_differentiable)

    @property
    def single_gradient(self) -> bool:
        """Return whether the only differentiable output is a tensor: `apply` returns early if its gradient is None."""
        outputs = self.differentiable_outputs
        return len(outputs) == 1 and not outputs[0].is_list

    @property
    def saved_inputs(self) -> tuple[SavedAttribute, ...]:
        return tuple(s for s in self.saved if not s.is_output)

    @property
    def saved_outputs(self) -> tuple[SavedAttribute, ...]:
        return tuple(s for s in self.saved if s.is_output)

    @property
    def needed(self) -> tuple[DifferentiableInput, ...]:
        """The inputs whose `needs_<input>` occurs in a condition for saving."""
        conditions = " ".join(s.condition for s in self.saved if s.condition)
        words = set(re.findall(r"\w+", conditions))
        return tuple(i for i in self.inputs if i.needs in words)

    @property
    def retain_variables(self) -> bool:
        return any(d.retain_variables for d in self.derivatives)

    def input(self, name: str) -> DifferentiableInput | None:
        """Return the differentiable input of that name, or None."""
        return next((i for i in self.inputs if i.name == name), None)

    def for_inplace(self, schema: FunctionSchema) -> DifferentiabilityInfo:
        """Return the info, with the same node class, of a variant that writes to its arguments."""
        returned = {r.annotation for r in schema.returns}
        written = {a.python_name for a in schema.arguments if a.is_write and a.annotation in returned}
        saved = tuple(
            replace(s, clone=True) if s.kind != "value" and not s.is_output and s.of in written else s
            for s in self.saved
        )
        forward = tuple(replace(f, keeps_original=tuple(p for p in f.primals if p in written)) for f in self.forward)
        return replace(self, schema=schema, saved=saved, forward=forward)


@dataclass(frozen=True, slots=True)
class DifferentiableFunction:
    """An operator, or a variant derived from it, joined to its derivative.

    Attributes:
        function: its NativeFunction, or the one it is derived from.
        schema: its own schema.
        variant: its Variant; None for the entry itself.
        strategy: its way of differentiation:
            'formula'             its info has a node class;
            'composition'         it is written in terms of other operators, and its calls are recorded;
            'out'                 it writes to `out`: an error if an argument requires a gradient;
            'not_differentiable'  none of its outputs ever requires a gradient;
            'not_implemented'     there is no entry: backward raises "the derivative for '<name>' is not
                implemented".
        infos: by dispatch key; empty without an entry.
    """

    function: NativeFunction
    schema: FunctionSchema
    variant: Variant | None
    strategy: str
    infos: Mapping[str, DifferentiabilityInfo]

    @property
    def name(self) -> str:
        """The full name, `add_.Tensor`."""
        return str(self.schema.name)

    @property
    def info(self) -> DifferentiabilityInfo | None:
        """The info of the Default key."""
        return self.infos.get("Default")
