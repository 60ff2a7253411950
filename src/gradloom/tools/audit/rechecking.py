"""Run the programs of former audits with the version of a library that is installed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .findings import Finding, shown
from .libraries import Library
from .processes import Audit

STILL_RIGHT, REFUSED = "right", "refused"
_NUMBER = re.compile(r"[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan)")


def rechecked(audits: Sequence[Audit], library: Library) -> Audit:
    """Return an audit of the installed version with what the programs of these audits print with it.

    Programs are run in this process: those whose library crashed have none.
    """
    found = Audit(library.name, library.version)
    for finding in (f for audit in audits for f in audit.findings):
        if finding.program and finding.program not in found.printed:
            found.printed[finding.program] = _printed(finding, library)
    return found


def _printed(finding: Finding, library: Library) -> str:
    """Return the numbers that a program prints, STILL_RIGHT if they are right, or REFUSED and the error."""
    *lines, last = finding.program.splitlines()
    names: dict[str, object] = {}
    try:
        exec("\n".join(lines), names)
        value = eval(last.removeprefix("print"), names)
    except Exception as error:
        return f"{REFUSED} ({type(error).__name__})"
    text = shown([library.array(a) for a in (value if isinstance(value, (list, tuple)) else [value])])
    return STILL_RIGHT if _are_near(text, finding.right) else text


def _are_near(text: str, right: str) -> bool:
    a, b = (np.array([float(n) for n in _NUMBER.findall(t)]) for t in (text, right))
    size = np.abs(b[np.isfinite(b)]).max(initial=0)
    return a.shape == b.shape and bool(np.allclose(a, b, 1e-4, 1e-5 * size, equal_nan=True))
