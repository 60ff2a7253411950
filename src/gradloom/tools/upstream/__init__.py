"""Compare releases of PyTorch: `gradloom upstream 2.13 2.15`, and what gradloom lacks: `--against gradloom`.

    from gradloom.tools.upstream import Options, find, move

    for change in move(find("2.13", print), find("2.15", print), Options(), print).changes:
        print(change.kind, change.change, change.name, change.meaning)

A release is a wheel, an installed PyTorch, or one whose facts are kept; Note [Facts, not files]. What a changed formula
means is decided by running both releases, where they are installed, on the calls of `verify` and `audit`.

    files, names -> facts <- releases (kept)
    finding (a release) -> comparing -> measuring, by libraries and worker -> moving (all), ours -> report, page
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparing import Change
    from .finding import Release, find
    from .moving import Move, Options, move

__all__ = ["Change", "Move", "Options", "Release", "find", "move"]


def __getattr__(name: str) -> Any:
    homes = {"Change": "comparing", "Release": "finding", "find": "finding"} | dict.fromkeys(
        ("Move", "Options", "move"), "moving"
    )
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
