"""nn and optim are imported when they are first used."""

import subprocess
import sys

from tests.waiting import LIMIT


def test_importing_gradloom_imports_neither():
    program = """
import sys
import gradloom
assert not [name for name in sys.modules if name.startswith(("gradloom.nn", "gradloom.optim"))]
assert gradloom.nn.Linear and gradloom.optim.SGD
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def test_every_exported_name_exists():
    from gradloom import nn, optim

    for module in (nn, nn.modules, nn.init, nn.utils, optim, optim.lr_scheduler):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
