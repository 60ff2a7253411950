"""Modules in which NumPy's floating-point warnings are dropped.

Note [Floating-point warnings]

Operators divide by zero and overflow silently, as PyTorch's do, whatever filters a program sets; `pytest -W error` sets
one. NumPy warns from C in the name of the innermost Python frame, and CPython drops a warning whose frame has None for
`__name__` among its globals. So modules that compute with arrays set theirs to None, after their functions and classes
have taken it as `__module__`: the generated ones and some others by `silence(globals())` in their last line, those of
kernels by their packages (`kernels/__init__.py`). A call pays nothing for it. It holds in every thread, context and
generator, and leaves NumPy's error state to the program. docs/core.md (The process) has the cost of other ways.

Three rules follow:
- A function of NumPy or SciPy that is written in Python warns in its own name: its caller enters `np.errstate`, or
  calls the ufunc behind it (`np.add.reduce(x, None)` for `x.sum()`).
- A warning for users comes from `warn_user`: one that points at a silent module is lost.
- Who looks for the module of a frame or function calls `module_name(globals)`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

MODULE_NAME = "__module_name__"  # the global of a silent module that has its name


def silence(names: dict[str, Any]) -> None:
    """Drop the warnings of the functions whose globals are `names`, those of a module."""
    names[MODULE_NAME], names["__name__"] = module_name(names), None


def module_name(names: Mapping[str, Any]) -> str:
    """Return the name of the module with these globals, also of a silent one; "" if they are no module's."""
    return str(names.get("__name__") or names.get(MODULE_NAME) or "")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither in the library nor in a silent module."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(names: Mapping[str, Any]) -> bool:
    return MODULE_NAME in names or module_name(names).partition(".")[0] == "gradloom"
