"""Write expected/: what the programs print with PyTorch.

    python -m tests.ecosystem.record [NAME ...]

Without names, record all. Run it in an environment that has PyTorch 2.13 and the packages, which nothing else needs:

    python3 -m venv .venv-record
    .venv-record/bin/pip install torch==2.13.0
    .venv-record/bin/pip install --no-deps -r tests/ecosystem/requirements.txt

Programs that import torchvision need the PyTorch that its wheel was built for; with the CPU wheel of 2.13.0 its import
stops at the operator torchvision::nms, which a sitecustomize of the environment can declare by torch.library.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from . import running


def record(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = running.printed(name, folder=Path(folder))
    content = {"torch": version("torch"), "printed": lines}
    running.expectation(name).write_text(json.dumps(content, indent=1) + "\n")
    print(f"{name}: {len(lines)} lines")


if __name__ == "__main__":
    found = version("torch")
    if found.partition("+")[0] != "2.13.0":
        sys.exit(f"the programs are recorded with PyTorch 2.13.0, not {found}")
    for name in sys.argv[1:] or running.programs():
        record(name)
