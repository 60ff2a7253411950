"""Whose calls of public functions are gradloom's own affair; see Note [Torch functions]."""

from __future__ import annotations

import sys

# Modules that call public functions as users would: what they call is asked about. In PyTorch, they are Python, too.
_AS_USERS = (
    "nn",
    "optim",
    "utils",
    "func",
    "signal",
    "overrides",
    "python_dispatch.torch_function",
    "library",
    "_library.custom_ops",
    "ops",
    "autograd.functional",
    "autograd.gradcheck",
)
# Functions that only put public functions together, by name: in PyTorch they are shown as what they call.
_COMPOSED = frozenset(("__iter__",))
_known: dict[str, bool] = {}  # name of a module -> whether it is internal; emptied when it reaches 1,000


def is_internal(frame) -> bool:
    """Whether a frame runs code of gradloom's that is no user of public functions.

    Args:
        frame: of the caller of a public function; None at the bottom of a stack.
    """
    if frame is None:
        return False
    name = frame.f_globals.get("__name__") or ""
    found = _known.get(name)
    if found is None:
        if len(_known) >= 1000:
            _known.clear()
        found = _known[name] = _decide(name)
    return found and frame.f_code.co_name not in _COMPOSED


def forget_modules() -> None:
    """Decide anew: packages of operators have come or gone."""
    _known.clear()


def _decide(name: str) -> bool:
    own = __name__.partition(".")[0]
    root, _, inside = name.partition(".")
    if root != own:
        registry = sys.modules.get(f"{own}.ops._registry")
        packages = registry.registered() if registry is not None else ()
        return any(name == package or name.startswith(f"{package}.") for package in packages)
    return not any(inside == module or inside.startswith(f"{module}.") for module in _AS_USERS)
