"""Overloads: one function per operator name that picks the overload as PyTorch's Python argument parser does.

    ENTRIES = (
        ((("self", "Tensor"), ("unbiased", "bool", True)), std_default),
        ((("self", "Tensor"), ("dim", "int[1]?"), ("unbiased", "bool", True), "*", ("out", "Tensor?", None)), std_dim),
    )
    std = overloaded_function("std", ENTRIES)              # gradloom.std(x, 0)
    Tensor.std = overloaded_method("std", ENTRIES)         # x.std(dim=0)

An entry is (parameters, wrapper) or (parameters, wrapper, wrapper for out=). Entries are tried in their order, with two
exceptions: a tensor goes before a number, which would accept a 0-dim tensor; and a signature goes before one with more
positional parameters of the same kind. A parameter is (name, type, default if there is one), as
`gradloom.schema.parameters` makes it of a schema; "*" stands before the keyword-only ones. `out` is the keyword-only
parameter of an out variant, of type `Tensor?` (`Tensor[2]?` for a pair), and `Tensor|number` the type of a tensor
parameter that takes a Python number. The wrapper is called as `wrapper(*args)`: all arguments in schema order,
keyword-only ones included, defaults filled in, lists as tuples; out follows as `out=` if it is given and not None.
Signatures are made on the first call.

Note [Remembered calls]
The classes of the arguments nearly always decide the overload of a call. So the decision is made once for each
combination of classes and keyword names, and kept as a *plan*: a closure that takes the values as they were passed,
converts those that need it, and calls the wrapper. Where a class does not decide (a list, a 0-dim tensor as a number),
a plan checks the value and raises `Mismatch`; then the next candidate is tried. A parser keeps at most 256 plans.

Note [Guarded wrappers]
A name with one overload needs no parser: its wrapper is the public function, whose straight-line code handles the
usual classes. For others it returns `GUARD(...)`, a `GuardedOverload`, which normalises the arguments and calls the
wrapper again, or raises PyTorch's TypeError:

    def unsqueeze(input, dim=MISSING, axis=MISSING):
        if type(dim) is not int or type(input) not in plain_classes:
            return UNSQUEEZE(input, dim, axis=axis)        # values that are MISSING count as not passed
        ...
    UNSQUEEZE = GuardedOverload("unsqueeze", (((("self", "Tensor"), ("dim", "int")), unsqueeze),))

The second call passes keyword-only arguments by their names, as users do. A guard must let normalised arguments pass:
int, float, bool, str, tuples of them, None where it is allowed, and tensors of any class in `plain_classes`, to which
the parser adds a subclass when it first sees one. Endless recursion is prevented: if no value was missing, passed by
another name, converted or added, the second call would equal the first, so a TypeError reports that the guard refuses
arguments that its signature accepts.

Layout: `registry` (types and hooks from outside), `types` (the values that a type accepts), `signature` (one overload),
`plans` (a signature meets the classes of a call), `parser` (the public functions and guards), `errors` (PyTorch's
messages).
"""

from .parser import GuardedOverload, Overloads, overloaded_function, overloaded_method, parsed
from .registry import MISSING, learn_plain, overrides, plain_classes, register_types

__all__ = [
    "MISSING",
    "GuardedOverload",
    "Overloads",
    "learn_plain",
    "overloaded_function",
    "overloaded_method",
    "overrides",
    "parsed",
    "plain_classes",
    "register_types",
]
