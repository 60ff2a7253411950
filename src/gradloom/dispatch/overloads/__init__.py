"""Overloads: one function per operator name that picks the overload as PyTorch's Python argument parser does.

    ENTRIES = (
        ("std(Tensor self, bool unbiased=True)", std_default),
        ("std(Tensor self, int[1]? dim, bool unbiased=True, *, Tensor? out=None)", std_dim),
    )
    std = overloaded_function("std", ENTRIES)              # gradloom.std(x, 0)
    Tensor.std = overloaded_method("std", ENTRIES)         # x.std(dim=0)

An entry is (signature, wrapper) or (signature, wrapper, wrapper for out=). Entries are tried in their order,
except that a tensor goes before a number, for which a 0-dim tensor would pass, and a signature before one
that has more positional parameters of the same kind. A signature is a native schema, with a keyword-only
`Tensor? out=None` (`Tensor[2]? out=None` for a pair) where there is an out variant, and `Tensor|number` for a
tensor parameter that takes a Python number. The wrapper is called as `wrapper(*args)`: all arguments in
schema order, keyword-only ones included, defaults filled in, lists as tuples; out follows as `out=` if it is
given and not None. Signatures are parsed on the first call.

Note [Remembered calls]
Which overload a call means is nearly always decided by the classes of its arguments. So the decision is made
once for each combination of classes and keyword names and kept as a *plan*: a closure over the wrapper that
takes the values as they came, converts those that need it and calls. Where a class does not decide (a list, a
0-dim tensor as a number) a plan looks at the value and raises `Mismatch`, upon which the next candidate is
tried. A parser keeps at most 256 plans.

Note [Guarded wrappers]
A name with one overload needs no parser: its wrapper is the public function, and its straight-line code is
for the usual classes. Otherwise it returns `GUARD(...)`, a `GuardedOverload`, which normalises the arguments
and calls the wrapper once more, or raises PyTorch's TypeError:

    def unsqueeze(input, dim=MISSING, axis=MISSING):
        if type(dim) is not int or type(input) not in plain_classes:
            return UNSQUEEZE(input, dim, axis=axis)        # values that are MISSING count as not passed
        ...
    UNSQUEEZE = GuardedOverload("unsqueeze", (("unsqueeze(Tensor self, int dim)", unsqueeze),))

The second call is made as users make it, keyword-only arguments by their names. A guard must let normalised
arguments pass: int, float, bool, str, tuples of them, None where it is allowed, and tensors of any class in
`plain_classes`, to which the parser adds a subclass when it first sees one. That is what prevents endless
recursion: when nothing was missing, given by another name, converted or added, the second call would be the
first again, and a TypeError says that the guard refuses what its signature accepts.

Layout: `registry` (what is told from outside), `types` (what a value may be), `signature` (one schema),
`plans` (a schema meets the classes of a call), `parser` (the public face), `guard` (the same behind a
wrapper), `errors` (PyTorch's words).
"""

from .guard import GuardedOverload
from .parser import Overloads, overloaded_function, overloaded_method
from .registry import MISSING, learn_plain, overrides, plain_classes, register_types

__all__ = [
    "MISSING",
    "GuardedOverload",
    "Overloads",
    "learn_plain",
    "overloaded_function",
    "overloaded_method",
    "overrides",
    "plain_classes",
    "register_types",
]
