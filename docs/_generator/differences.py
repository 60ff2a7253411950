"""Generate the parts of differences.md that are facts: missing names, and differences from PyTorch in conformance."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

MISSES = "tests/conformance/known_misses.yaml"
# What users of PyTorch may look for. Only what is missing when the site is built is shown.
WANTED = {
    "functional transforms": ("func", "vmap"),
    "jacobians and Hessians by function": ("autograd.functional",),
    "Fourier transforms": ("fft",),
    "decompositions": ("linalg.svd", "linalg.eigh", "linalg.eig", "linalg.qr", "linalg.cholesky", "linalg.lu"),
    "inverses and solvers": ("linalg.inv", "linalg.solve", "linalg.lstsq", "linalg.det", "linalg.pinv"),
    "matrix functions": ("linalg.matrix_exp", "linalg.matrix_power", "linalg.norm", "linalg.vector_norm"),
    "saving tensors": ("save", "load"),
    "data sets and loaders": ("utils.data",),
    "checkpointing": ("utils.checkpoint",),
    "mixed precision": ("autocast", "amp"),
    "profilers": ("profiler", "autograd.profiler"),
    "subclasses that intercept calls": ("overrides",),
    "compilers": ("compile", "jit", "export"),
    "distributed training": ("distributed",),
}


def is_there(dotted: str) -> bool:
    """Return whether gradloom has a member or module of that name."""
    place = import_module("gradloom")
    for part in dotted.split("."):
        try:
            place = getattr(place, part)
        except (AttributeError, ModuleNotFoundError):
            return False
    return True


def not_there() -> str:
    """Return the missing names as a list."""
    lines = []
    for what, names in WANTED.items():
        missing = [f"`gradloom.{n}`" for n in names if not is_there(n)]
        if missing:
            lines.append(f"- {what}: {', '.join(missing)}")
    return "\n".join(lines) or "Nothing that anybody has asked for."


def known_misses(root: Path) -> str:
    """Return a table of the known differences, with those that only all samples of all dtypes show, and those beside
    some releases of PyTorch."""
    found = yaml.safe_load((root / MISSES).read_text(encoding="utf-8"))
    releases = {title: found.pop(title) for title in list(found) if title.startswith(("before ", "since "))}
    with_all_samples = found.pop("with --whole", None) or {}
    rows = ["| name | where | why |", "|---|---|---|", *_rows(found, with_all_samples)]
    for title, kinds in releases.items():
        rows += _rows(kinds, {}, f" ({title})")
    return "\n".join(rows)


def _rows(kinds: dict[str, Any], with_all_samples: dict[str, Any], ending: str = "") -> Iterator[str]:
    for kind in {**kinds, **with_all_samples}:
        some, others = kinds.get(kind) or {}, with_all_samples.get(kind) or {}
        for name in {**some, **others}:
            stages = {**some.get(name, {}), **others.get(name, {})}
            by_reason: dict[str, list[str]] = {}
            for stage, reason in stages.items():
                first, _, more = reason.partition(";")
                known = stages.get(first.removeprefix("as ").strip()) if first.startswith("as ") else None
                by_reason.setdefault((known or reason) + (f";{more}" if known and more else ""), []).append(stage)
            for reason, where in by_reason.items():
                yield f"| `{name}` | {', '.join(where).replace('_', ' ')}{ending} | {reason} |"


def fill(root: Path, text: str) -> str:
    """Return the text of a page with its marks replaced."""
    if "<!-- not there yet -->" not in text:
        return text
    return text.replace("<!-- not there yet -->", not_there()).replace("<!-- known misses -->", known_misses(root))
