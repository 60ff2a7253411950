"""How much of the public interface has types that a checker need not guess: pyright's own count, `--verifytypes`.

pyright counts every module without an underscore; what is not meant for users (generated code, kernels, the engine) is
left out here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.waiting import LIMIT

from .checkers import environment

PUBLIC = frozenset(
    "amp device dtype func library linalg nn ops optim random serialization signal size special storage "
    "types utils".split()
)
LEAST = 0.985


@pytest.mark.slow
def test_nearly_all_of_the_public_interface_is_typed(tmp_path):
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    python = environment(tmp_path, "wheel")
    (site,) = python.parents[1].glob("lib/*/site-packages")
    shutil.move(tmp_path / "site" / "gradloom", site / "gradloom")  # pyright looks for py.typed there only
    (tmp_path / "empty").mkdir()
    activated = os.environ | {
        "VIRTUAL_ENV": str(python.parents[1]),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--verifytypes", "gradloom", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path / "empty",
        env=activated,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    try:
        symbols = json.loads(done.stdout[done.stdout.index("{") :])["typeCompleteness"]["symbols"]
    except (ValueError, KeyError):
        pytest.skip(f"pyright does not run here: {(done.stderr or done.stdout).strip()[-300:]}")
    public = [
        s for s in symbols if s["isExported"] and (s["name"].count(".") == 1 or s["name"].split(".")[1] in PUBLIC)
    ]
    unknown = sorted(s["name"] for s in public if not s["isTypeKnown"])
    assert len(public) > 2000, done.stdout[:500]
    assert len(unknown) <= (1 - LEAST) * len(public), unknown
