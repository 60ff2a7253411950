"""How a wrapper is called: its parameters, and the calls of others that it makes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .derivative_model import DifferentiabilityInfo
from .formula_scope import OPERATORS
from .native_functions import NativeFunction
from .schema import FunctionSchema
from .wrapper_parts import ALIASES, GUARDED, Number, Parameter


@dataclass(frozen=True, slots=True)
class Calls:
    """What a wrapper is made of, and how it is called and calls."""

    name: str
    function: str
    python_name: str
    kind: str
    doc: str
    schema: FunctionSchema
    native: NativeFunction
    parameters: tuple[Parameter, ...]
    info: DifferentiabilityInfo | None
    strategy: str
    guard: str | None
    has_out: bool
    composite: str | None = None
    operators: str = OPERATORS  # what the code calls the module that has this operator
    of_methods: bool = True  # whether an in-place variant is a method even if nobody says so
    replacement: str = ""  # of a derivative that is replaced: the module with what the new formulas call

    @property
    def names(self) -> Mapping[str, str]:
        """Argument name -> variable in the wrapper."""
        return {p.argument.python_name: p.name for p in self.parameters}

    @property
    def signature(self) -> str:
        parts, starred, missing = [], False, False
        for p in self.parameters:
            if p.argument.kwarg_only and not starred and self.guard:
                parts.append("*")
                starred = True
            missing = missing or bool(self.guard and p.name in ALIASES)
            default = p.default if not missing or p.default is not None else "MISSING"
            parts.append(p.name if default is None or (not self.guard) else f"{p.name}={default}")
        tail = [f"{ALIASES[p.name]}=MISSING" for p in self.parameters if self.guard and p.name in ALIASES]
        tail += ["out=None"] if self.has_out else []
        if self.makes_leaf:  # the parser passes everything but `out` by position
            parts.append("requires_grad=False")
        if tail and not starred:
            parts.append("*")
        return ", ".join(parts + tail)

    @property
    def call_as_given(self) -> str:
        """The arguments as the guard passes them on."""
        parts = [f"{p.name}={p.name}" if p.argument.kwarg_only else p.name for p in self.parameters]
        parts += [f"{ALIASES[p.name]}={ALIASES[p.name]}" for p in self.parameters if p.name in ALIASES]
        return ", ".join(parts + (["out=out"] if self.has_out else []))

    @property
    def call_by_position(self) -> str:
        return ", ".join(p.name for p in self.parameters)

    @property
    def call_all(self) -> str:
        """All arguments in the order of the schema, and what a factory takes besides."""
        return ", ".join([p.name for p in self.parameters] + (["requires_grad"] if self.makes_leaf else []))

    @property
    def intercepted(self) -> str:
        """How the call is handed to whoever wants to see it: all arguments, in the order of the schema."""
        parts = [self.itself, f"({self.call_all}{'' if ',' in self.call_all else ','})"]
        if self.has_out or self.composite:
            parts.append("out" if self.has_out else "None")
        return f"intercept({', '.join(parts + ([self.composite] if self.composite else []))})"

    @property
    def call_values(self) -> str:
        """The arguments that a call passes by position, as the inside of a tuple."""
        names = [p.name for p in self.parameters if not (self.guard and p.argument.kwarg_only)]
        if self.makes_leaf:
            names = ["factory_dtype(dtype, out)" if name == "dtype" else name for name in names]
        return ", ".join(names) + ("," if len(names) == 1 else "")

    @property
    def out_takes(self) -> str:
        """What `write_out` is told of the tensor that it writes to, after other arguments."""
        words = " ".join(self.native.out_takes)
        return f', "{words}"' if words else ""

    @property
    def call_keywords(self) -> str:
        """The arguments that a call passes by keyword, after others."""
        return "".join(f", {p.name}={p.name}" for p in self.parameters if self.guard and p.argument.kwarg_only)

    @property
    def overload_text(self) -> str:
        """The signature as the argument parser reads it."""
        return repr(parser_signature(self))

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind != "value")

    @property
    def numbers(self) -> tuple[Number, ...]:
        tensors = [p for p in self.parameters if p.kind == "tensor"]
        found = []
        for p in self.parameters:
            if p.number and len(tensors) > 1 and not (self.kind == "inplace" and p is self.parameters[0]):
                other = next(t.name for t in tensors if t is not p)
                parts = [
                    f"wrapped_number({p.name}, {other})"
                    if q is p
                    else (f"{q.name}={q.name}" if q.argument.kwarg_only and self.guard else q.name)
                    for q in self.parameters
                ]
                follows = p is not tensors[0] and other == tensors[0].name
                found.append(Number(p.name, other, ", ".join(parts + (["out=out"] if self.has_out else [])), follows))
        return tuple(found)

    @property
    def checks(self) -> tuple[str, ...]:
        found = [p.check for p in self.parameters]
        found += [f"{ALIASES[p.name]} is not MISSING" for p in self.parameters if p.name in ALIASES]
        return tuple(c for c in found if c is not None)

    @property
    def device(self) -> bool:
        return any(p.argument.python_name == "device" for p in self.parameters)

    @property
    def layout(self) -> bool:
        return any(p.argument.python_name == "layout" for p in self.parameters)

    @property
    def variants(self) -> tuple[str, ...]:
        """How it is called: `function`, `method`; the copy variant of a view is a function."""
        return ("function",) if self.kind == "copy" else self.native.variants

    @property
    def makes_leaf(self) -> bool:
        """Whether it is a factory, which takes `requires_grad=`."""
        return self.kind == "functional" and is_factory(self.schema)

    @property
    def autocast(self) -> str | None:
        """The rule by which autocast casts the arguments; variants write where callers say and keep theirs."""
        return self.native.autocast if self.kind == "functional" else None

    @property
    def first(self) -> str:
        return self.parameters[0].name

    @property
    def first_array(self) -> str:
        return self.parameters[0].array

    @property
    def itself(self) -> str:
        """What the wrapper calls itself: its name, or another one where a parameter bears that (threshold)."""
        return f"{self.function}_wrapper" if any(p.name == self.function for p in self.parameters) else self.function

    @property
    def own_name(self) -> str:
        """The name that reaches this overload alone."""
        return self.schema.name.unambiguous if self.function == self.python_name else self.function


def is_factory(schema: FunctionSchema) -> bool:
    """Whether it makes a tensor of a given dtype on a given device, so that it may be asked for a leaf."""
    return {"dtype", "device"} <= {a.name for a in schema.kwarg_only}


def is_direct(schema: FunctionSchema) -> bool:
    """Whether a guard can check all arguments by their classes, so that no parser stands before the wrapper."""
    if is_factory(schema) or not schema.arguments or schema.arguments[0].type.base.name != "Tensor":
        return False
    for argument in schema.inputs:
        type_ = argument.type
        if type_.is_list or (type_.base.name not in GUARDED and type_.base.name not in ("Tensor", "Scalar")):
            return False
        if argument.name in ALIASES and argument.default is not None or argument.python_name != argument.name:
            return False
    return True


def parser_signature(wrapper: Calls) -> str:
    """The signature of a wrapper in the language of the argument parser."""
    schema = wrapper.schema
    parts, starred = [], False
    for p in wrapper.parameters:
        a = p.argument
        if a.kwarg_only and not starred:
            parts.append("*")
            starred = True
        type_ = a.type.text(None).replace("SymInt", "int")
        if p.number:
            type_ = type_.replace("Tensor", "Tensor|number", 1)
        parts.append(f"{type_} {a.name}" + ("" if a.default is None else f"={a.default}"))
    tail = ["bool? requires_grad=False"] if wrapper.makes_leaf else []
    if wrapper.has_out:
        count = len(schema.returns)
        tail.append(
            "Tensor? out=None"
            if count == 1 and not schema.returns[0].type.is_list
            else "Tensor[]? out=None"
            if count == 1
            else f"Tensor[{count}]? out=None"
        )
    if tail and not starred:
        parts.append("*")
    return f"{wrapper.python_name}({', '.join(parts + tail)})"
