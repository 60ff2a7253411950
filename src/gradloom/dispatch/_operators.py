"""The operators, late bound: an empty module that `gradloom.binding.operators` fills with the generated wrappers.

The core and the formulas call operators as `_operators.mul(a, b)`. They are imported before any wrapper exists, so that
imports run in one direction. The operator's own name (`mul`, `sum`) stands for the function that picks an overload, the
unambiguous name (`sum_dim_IntList`) for one overload. `exact.sum` is the overload without a name. Members of `exact`
take normalised arguments (tuples of ints), which saves the parser's time.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._stubs.operators import *  # noqa: F403

    def __getattr__(name: str) -> Any: ...
