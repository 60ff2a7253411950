"""A library of operators in C++ is refused, and what packages say about its operators is ignored from then on."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

from tests.waiting import LIMIT

PROGRAM = """
    import gradloom as torch

    def register():
        @torch.library.register_fake("unknown_extension::scale")
        def fake(x):
            return torch.empty_like(x)

    for load in (lambda: None, lambda: torch.ops.load_library("scale.so"), lambda: None):
        try:
            load()
        except (OSError, RuntimeError) as error:
            print("refused", type(error).__name__)
        try:
            register()
            print("ignored")
        except RuntimeError:
            print("unknown")
    print(hasattr(torch.ops.unknown_extension, "scale"))
    """


def test_unknown_operators_are_ignored_after_a_library_was_refused():
    done = subprocess.run([sys.executable, "-c", dedent(PROGRAM)], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    kinds = [line.split()[0] for line in done.stdout.splitlines()]
    assert kinds == ["unknown", "refused", "ignored", "ignored", "False"]
