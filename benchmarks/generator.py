"""The processor time of whole processes: generating code, beside PyTorch's generator, explaining, verifying; auditing.

Everything happens in a copy of the YAML files and of generated/, with a cache folder of its own. An edit changes the
formula of `mul`, each time to one that was never seen. PyTorch's is `torchgen.packaged.autograd.gen_autograd`, which is
installed with PyTorch and writes its C++ files of autograd anew. An audit of PyTorch says itself how long a derivative
and the first finding took.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = "generator"
FORMULA = "  self: grad * other.conj()\n"
PAUSE = 3.0  # seconds; files that are newer than a process are not used by it
LIMIT = 600.0


def measure(names: list[str], rounds: int) -> dict[tuple[str, str, str], list[float]]:
    """Return processor seconds by (contender, program, part); contenders take turns."""
    times: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = _copy(Path(folder))
        commands = {part: ("gradloom-1", command) for part, command in _own(copy).items()}
        theirs = _theirs(Path(folder) / "out") if "torch-1" in names else None
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["GRADLOOM_CACHE_DIR"] = str(Path(folder) / "cache")
        text = (copy / "derivatives.yaml").read_text(encoding="utf-8")
        for turn in range(rounds + 1):
            for part, (name, command) in commands.items():
                if part == "edited":
                    edited = FORMULA.replace("grad", f"grad * {turn + 2}")
                    (copy / "derivatives.yaml").write_text(text.replace(FORMULA, edited, 1), encoding="utf-8")
                seconds = _seconds(command, environment)
                if turn:  # the first turn fills the caches
                    times.setdefault((name, PROGRAM, part), []).append(seconds)
            for part, seconds in _audit(environment).items() if theirs is not None and turn else ():
                times.setdefault(("gradloom-1", PROGRAM, part), []).append(seconds)
            if theirs is not None:
                seconds = _seconds(theirs, environment)
                for part in ("afresh", "edited", "unchanged") if turn else ():
                    times.setdefault(("torch-1", PROGRAM, part), []).append(seconds)
    return times


def _copy(folder: Path) -> Path:
    copy = folder / "checkout"
    copy.mkdir()
    for name in ("native_functions.yaml", "derivatives.yaml"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(ROOT / "generated", copy / "generated", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "src").symlink_to(ROOT / "src")
    time.sleep(PAUSE)
    return copy


def _own(copy: Path) -> dict[str, list[str]]:
    gradloom = [sys.executable, "-m", "gradloom"]
    generate = [*gradloom, "generate", "--root", str(copy)]
    return {
        "afresh": [*generate, "--afresh"],
        "edited": generate,
        "unchanged": generate,
        "explain": [*gradloom, "explain", "mul"],
        "verify": [*gradloom, "verify", "--op", "softplus"],
    }


def _theirs(out: Path) -> list[str] | None:
    spec = find_spec("torchgen")
    if spec is None or spec.origin is None:
        return None
    out.mkdir()
    packaged = Path(spec.origin).parent / "packaged"
    native = packaged / "ATen" / "native"
    inputs = (native / "native_functions.yaml", native / "tags.yaml", out, packaged / "autograd")
    return [sys.executable, "-m", "torchgen.packaged.autograd.gen_autograd", *map(str, inputs)]


def _audit(environment: dict[str, str]) -> dict[str, float]:
    """Return the seconds of a derivative, and those to the first finding, of an audit of one operator."""
    command = [sys.executable, "-m", "gradloom", "audit", "torch", "--op", "cumprod", "--json", "-"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT).stdout
    head = json.loads(found.partition("\n")[0])
    return {"audit": head["seconds"] / head["derivatives"], "finding": head["first"]}


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    """Run a command; return the seconds that it took of the processor."""
    before = os.times()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, timeout=LIMIT)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system
