"""mypy and pyright, run as a user runs them: on a file, in an environment where gradloom is installed."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections import defaultdict
from pathlib import Path

import pytest

from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "gradloom": "src/gradloom",
    "gradloom/codegen": "codegen",
    "gradloom/generated": "generated",
    "gradloom/_stubs": "generated/stubs/gradloom-stubs/_stubs",
}
_IGNORED = shutil.ignore_patterns("__pycache__", "stubs")
_MYPY_ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*?)(?:  \[(?P<code>[\w-]+)\])?$")

Found = dict[tuple[str, int], list[tuple[str, str]]]  # (file, line) -> (code, message) of its errors


def environment(folder: Path, layout: str) -> Path:
    """A new environment with gradloom in it; returns its python.

    Args:
        layout: "editable", the folders that setup.py puts on the path; "wheel", the files where a wheel has them.
    """
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    if layout == "editable":
        paths = [ROOT / "src", ROOT / "generated" / "stubs"]
    else:
        for name, source in FOLDERS.items():
            shutil.copytree(ROOT / source, folder / "site" / name, ignore=_IGNORED)
        paths = [folder / "site"]
    paths.append(Path(sysconfig.get_path("purelib")))  # NumPy
    paths += [Path(line) for pth in paths[-1].glob("base*.pth") for line in pth.read_text().split()]
    site = folder / "env" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "paths.pth").write_text("".join(f"{path}\n" for path in paths))
    return python


def mypy(python: Path, cache: Path, *files: Path) -> Found:
    """The errors that `mypy --strict` reports."""
    pytest.importorskip("mypy")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file=",
            "--strict",
            "--no-error-summary",
            "--show-absolute-path",
            "--hide-error-context",
            "--no-pretty",
            f"--cache-dir={cache}",
            "--python-executable",
            python,
            *files,
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: Found = defaultdict(list)
    for line in done.stdout.splitlines():
        if match := _MYPY_ERROR.match(line):
            found[match["file"], int(match["line"])].append((match["code"] or "", match["text"]))
    return found


def pyright(python: Path, *files: Path) -> Found:
    """The errors that pyright reports, with its settings as they come.

    The files are checked as copies beside `python`'s environment: in the checkout, pyright would look into src/ first.
    """
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    folder = python.parents[2] / "programs"
    copies = {str(folder / file.name): str(file) for file in files}
    folder.mkdir(exist_ok=True)
    for copy, file in copies.items():
        shutil.copy(file, copy)
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", python, *copies],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=folder,
    )
    try:
        report = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        pytest.skip(f"pyright does not run here: {(done.stderr or done.stdout).strip()[-300:]}")
    found: Found = defaultdict(list)
    for entry in report["generalDiagnostics"]:
        if entry["severity"] == "error":
            line = entry["range"]["start"]["line"] + 1
            found[copies.get(entry["file"], entry["file"]), line].append((entry.get("rule", ""), entry["message"]))
    return found
