"""Shape rules: how the meta device finds the results of an operator, by `shape:` of its entry.

Note [Shape rules]
A rule is a function of a call's run on stand-ins (`runs.Run`), the call's arguments by name, and what the entry gives
it. It returns tensors of the meta device, or NotImplemented for arguments that do not fit together: the kernel then
runs, and raises. The files:

    general     rules that follow from other keys of most entries: views, and results with sizes of the arguments
    sizes       results whose sizes are computed
    large       the same, for calls that are too large to be run as they are; smaller ones are run, so that a rule
                states sizes and nothing else. A test computes the calls of PyTorch's database by the rules.
    images      operators on images: of smaller calls, the kernel runs on few images of true size

An operator without a rule runs on small arrays; see Note [Meta runs].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

__all__ = ["rule_of"]


@lru_cache(1024)  # more than there are values of `shape:`
def rule_of(shape: tuple[int | str, ...]) -> Callable[[Any, dict[str, Any]], Any]:
    """Return the rule of a record's `shape`, which a run and its arguments are given to."""
    file, _, function = str(shape[0]).rpartition(".")
    arguments: tuple[Any, ...] = shape[1:]
    rule = getattr(import_module(f"{__name__}.{file or 'general'}"), function)

    def found(run: Any, values: dict[str, Any]) -> Any:
        return rule(run, values, *arguments)

    def found_if_large(run: Any, values: dict[str, Any]) -> Any:
        if not run.is_large():
            return NotImplemented
        result = rule(run, values, *arguments)
        return run.refused() if result is NotImplemented else result

    return found_if_large if file == "large" else found
