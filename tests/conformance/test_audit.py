"""`gradloom audit torch` finds faults again that are known in PyTorch 2.13, and keeps conventions out."""

from __future__ import annotations

import pytest
import torch

from gradloom.tools.audit.auditing import audit_operator
from gradloom.tools.audit.findings import Finding
from gradloom.tools.audit.libraries import load
from gradloom.tools.verify import own_operators

KNOWN = {"cumprod": {"forward over forward"}, "as_strided_scatter": {"reverse"}, "cholesky_inverse": {"forward"}}
RIGHT = ("relu", "frac")  # kinks and jumps


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="these are the faults of 2.13")
@pytest.mark.parametrize("name", [*KNOWN, *RIGHT])
def test_faults_are_found_again(name):
    (operator,) = [o for o in own_operators() if o.name == name]
    wanted = set(KNOWN.get(name, ()))
    modes = set()
    for found in audit_operator(operator, load("torch"), load("gradloom")):
        if isinstance(found, Finding):
            modes.add(found.mode)
            assert found.how and found.found != found.right
            exec(found.program, {})
            if wanted and wanted <= modes:
                break
    assert modes >= wanted and bool(modes) == bool(wanted)
