"""Run a program of programs/ in a process of its own, and compare what it prints with what is expected.

A program's result is what it prints: words and numbers, such as a step, its loss and the norm of its gradient. Words
must be equal, and numbers agree within a relative error.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 300  # seconds that a program may take
TOLERANCE = 1e-5  # of a number, relative
SMALLEST = 1e-7  # an absolute error that is rounding in any of the programs: float32 of values of about 1
_PART = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)\b|[^\W\d]\w*|\S", re.IGNORECASE)


def programs() -> list[str]:
    """Return the names of the programs."""
    return sorted(path.stem for path in (HERE / "programs").glob("*.py"))


def expectation(name: str) -> Path:
    """Return the file that has what a program prints with PyTorch."""
    return HERE / "expected" / f"{name}.json"


def reason_to_skip(name: str) -> str | None:
    """Return the reason that a program gives in a first line `# skip: reason`, or None."""
    first = (HERE / "programs" / f"{name}.py").read_text().partition("\n")[0]
    return first.removeprefix("# skip: ") if first.startswith("# skip: ") else None


def printed(name: str, *launcher: str, folder: Path) -> list[str]:
    """Run a program with this interpreter and return the lines that it printed.

    Args:
        name: of a file in programs/.
        launcher: arguments before the file: `-m gradloom run`, or none to import the torch that is installed.
        folder: the current folder of the program.

    Raises:
        AssertionError: with the end of its errors, if the program fails.
        subprocess.TimeoutExpired: after LIMIT seconds.
    """
    # Bytecode is written: modules of packages are imported again and again. The hub of models cannot be reached.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    command = [sys.executable, *launcher, str(HERE / "programs" / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=folder, env=environment)
    assert done.returncode == 0, f"{name} failed:\n{done.stderr[-6000:]}"
    return done.stdout.splitlines()


def difference(found: list[str], expected: list[str]) -> str | None:
    """Return the first difference of two programs' lines, with its line; None if they agree."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=False), 1):
        ours_parts, theirs_parts = _PART.findall(ours), _PART.findall(theirs)
        if len(ours_parts) != len(theirs_parts) or not all(map(_agree, ours_parts, theirs_parts)):
            return f"line {number}: {ours}\nexpected: {theirs}"
    if len(found) != len(expected):
        return f"{len(found)} lines, expected {len(expected)}"
    return None


def _agree(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=TOLERANCE, abs_tol=SMALLEST)
    except ValueError:
        return False
