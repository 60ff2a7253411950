"""Runs the tests on other versions of Python and NumPy: `make matrix`, or

    python tests/packaging/matrix.py [--only TEXT] [--ends] [pytest arguments]

For every row of ROWS whose Python is on this machine, an environment is made in .venv-matrix/ (kept for the next time),
this checkout is installed into it, editable, since some of the tests are about the checkout, and the tests run. A row
whose interpreter is not there, or whose packages cannot be had, is skipped with the reason. The end is a table.

The last row runs a sample of WITHOUT_DOCSTRINGS once more as `python -OO` does, without docstrings and asserts. pytest
keeps the asserts of test modules, which it rewrites; those of other modules are not executed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-matrix"

# The oldest and the newest NumPy of each Python. SciPy and ml_dtypes are those of the same age.
ROWS = (
    ("3.11", "numpy==2.0.*", ("scipy==1.13.*", "ml_dtypes==0.5.0", "pyyaml==6.0.*", "jinja2==3.1.*")),
    ("3.11", "numpy", ("scipy", "ml_dtypes", "pyyaml", "jinja2")),
    ("3.12", "numpy==2.0.*", ("scipy==1.14.*", "ml_dtypes==0.5.0", "pyyaml", "jinja2")),
    ("3.12", "numpy", ("scipy", "ml_dtypes", "pyyaml", "jinja2")),
    ("3.13", "numpy==2.1.*", ("scipy==1.14.*", "ml_dtypes==0.5.0", "pyyaml", "jinja2")),
    ("3.13", "numpy", ("scipy", "ml_dtypes", "pyyaml", "jinja2")),
    ("3.14", "numpy", ("scipy", "ml_dtypes", "pyyaml", "jinja2")),
)
TESTS = ("tests/core", "tests/ops", "tests/codegen", "tests/nn", "tests/optim")
WITHOUT_DOCSTRINGS = ("tests/core", "tests/semantics", "tests/nn")
EVERY = 16  # one of so many tests


def interpreter(version: str) -> Path | None:
    """A Python of that version: on the path, or among those of pyenv and of uv."""
    homes = (Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions",
             Path("~/.local/share/uv/python").expanduser())  # fmt: skip
    candidates = [shutil.which(f"python{version}"), sys.executable]
    for home in homes:
        with contextlib.suppress(PermissionError):  # another user's, named by the environment
            candidates += [str(p) for p in sorted(home.glob(f"*{version}*/bin/python{version}"))]
    for candidate in filter(None, candidates):
        command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        # A shim of pyenv may be there and fail.
        if done.returncode == 0 and done.stdout.strip() == version:
            return Path(candidate)
    return None


def environment(python: Path, version: str, numpy: str, others: tuple[str, ...]) -> Path:
    """An environment with those packages; the path of its Python."""
    folder = ENVIRONMENTS / f"{version}-{numpy.replace('==', '-').replace('.*', '')}"
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run([python, "-m", "venv", folder])
        pip = [inside, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        run(
            [
                *pip,
                "setuptools>=77.0.3",
                "pytest>=8.2",
                "pytest-xdist>=3.5",
                "pytest-timeout>=2.3",
                "hypothesis>=6.100",
                numpy,
                *others,
            ]
        )
        (folder / "complete").touch()
    return inside


def run(command: list[object], **options: object) -> None:
    command = [str(c) for c in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, **options)  # type: ignore
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])


def install(python: Path) -> None:
    """Install the checkout."""
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    run([*pip, "--no-build-isolation", "--editable", ROOT])


def test(python: Path, arguments: list[str], settings: dict[str, str]) -> tuple[str, str]:
    """Run the tests: ('passed' or 'FAILED', the last line of pytest)."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=ROOT, timeout=3600, env=os.environ | settings, **output)  # type: ignore
    if done.returncode:
        told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "E  "))]
        print("\n".join(told)[-6000:])
    return ("FAILED" if done.returncode else "passed"), (done.stdout.strip().splitlines() or ["no output"])[-1]


def _optimized(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the settings of a run without docstrings and asserts, with the options of another."""
    options = [a for a in arguments if not a.startswith("tests")]
    silent = ["-W", "ignore:assertions not in test modules"]
    # not `-OO`, which the processes of pytest-xdist would not see
    return [*options, *silent, *WITHOUT_DOCSTRINGS], {"PYTHONOPTIMIZE": "2", "GRADLOOM_TEST_EVERY": str(EVERY)}


def _passes(row: tuple[str, str, tuple[str, ...]], runs: list[tuple[list[str], dict[str, str]]]) -> bool:
    """Run tests in the environment of a row, and print what came of them; return whether none failed."""
    version, numpy, others = row
    passes, python = True, interpreter(version)
    inside, problem = None, f"there is no Python {version} on this machine"
    start = time.monotonic()
    if python is not None:
        try:
            inside = environment(python, version, numpy, others)
            install(inside)
        except RuntimeError as error:
            inside, problem = None, f"its packages cannot be installed: {error}"
    for arguments, settings in runs:
        outcome, text = ("skipped", problem) if inside is None else test(inside, arguments, settings)
        passes = passes and outcome != "FAILED"
        name = numpy + " -OO" * bool(settings)
        print(f"Python {version:5} {name:14} {outcome:8} {text}  ({time.monotonic() - start:.0f} s)", flush=True)
        start = time.monotonic()
    return passes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="the rows in which TEXT occurs, such as 3.12 or 2.0")
    parser.add_argument(
        "--ends", action="store_true", help="the first and the last row whose Python is on this machine"
    )
    options, arguments = parser.parse_known_args()
    failed = False
    rows = [row for row in ROWS if options.only in f"{row[0]} {row[1]}"]
    if options.ends:
        present = [row for row in rows if interpreter(row[0]) is not None]
        rows = present[:1] + present[1:][-1:]
    for row in rows:
        failed = (
            not _passes(row, [(arguments or list(TESTS), {}), *[_optimized(arguments)] * (row is rows[-1])]) or failed
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
