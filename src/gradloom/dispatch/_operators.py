"""The operators, late bound: an empty module that `gradloom.binding.operators` fills with the generated wrappers.

The core and the formulas call operators as `_operators.mul(a, b)`. They are imported before any wrapper exists, which
is what keeps imports running one way only. Names are the operators' own (`mul`, `sum`) for the function that picks an
overload, and the unambiguous names (`sum_dim_IntList`) for one overload. `exact.sum` is the overload without a name; it
and its kin take all arguments as the parser would hand them on (tuples of ints), which saves the parser's time.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._stubs.operators import *  # noqa: F403

    def __getattr__(name: str) -> Any: ...
