"""Writes the generated files: only what changed, all or nothing.

New text first goes to temporary files beside their targets; only when all of them are complete are they moved into
place, each by one atomic rename. A failure or an interruption before that leaves every file as it was.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def stale(folder: Path, files: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Which files differ from `files`, and which Python files in the folder are none of them."""
    changed = [name for name, text in files.items() if _read(folder / name) != text]
    extra = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*.py*")) if p.suffix in (".py", ".pyi")
             and str(p.relative_to(folder)) not in files]
    return changed, extra


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None


def write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Bring a folder to exactly these files.

    Returns:
        The paths that were written or removed.
    """
    changed, extra = stale(folder, files)
    temporary: list[tuple[str, Path]] = []
    try:
        for name in changed:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".tmp")
            temporary.append((path, target))
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(files[name])
            os.chmod(path, 0o644)
        while temporary:
            path, target = temporary[0]
            os.replace(path, target)
            temporary.pop(0)
    finally:
        for path, _ in temporary:
            Path(path).unlink(missing_ok=True)
    for name in extra:
        (folder / name).unlink()
    return changed + extra


def difference(folder: Path, files: Mapping[str, str], limit: int = 200) -> str:
    """A unified diff from what is in the folder to what should be there, at most `limit` lines of it."""
    changed, extra = stale(folder, files)
    lines: list[str] = []
    for name in changed + extra:
        before = (_read(folder / name) or "").splitlines()
        after = files.get(name, "").splitlines()
        lines += difflib.unified_diff(before, after, f"generated/{name}", f"generated/{name} (regenerated)",
                                      lineterm="")
    if len(lines) > limit:
        lines = [*lines[:limit], f"... {len(lines) - limit} more lines"]
    return "\n".join(lines)
