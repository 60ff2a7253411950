"""Audit a library's derivatives: `gradloom audit torch`, or `gradloom`, `jax`, `autograd`.

    from gradloom.tools.audit import audit

    for finding in audit("torch", ["linalg_det"]).findings:
        print(finding)

Operators are called by name in the library and in gradloom, with numbers at boundaries first. Their derivatives, see
Note [Six derivatives], are compared, and difference quotients decide who is wrong (Note [Judging]). A finding has the
shortest program that shows it with the library alone, which was run. Processes of their own do the calls, so that a
crash of the library is an entry, not the end.

    drawing -> problems, libraries -> judging, by quotients -> shrinking -> findings, programs
    auditing (one operator) -> worker (a process) -> processes (all) -> report, page
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .findings import Finding
    from .processes import Audit, audit

__all__ = ["Audit", "Finding", "audit"]


def __getattr__(name: str) -> Any:
    homes = {"Audit": "processes", "audit": "processes", "Finding": "findings"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
