"""Make a virtual environment for the Makefile, and say what is installed, how large it is and how long it takes.

    python .ci/environment.py FOLDER EXTRA[,EXTRA] STAMP [--into] [--with REQUIREMENTS] [--torch VERSION]

The checkout is installed into it, editable, with the extras. The stamp, a file in the folder, is written last and names
the checkout: an environment that came along in a copied folder would run the code of the original. A second process
waits until the first is done and then finds nothing left to do. With --into, the environment is there already.
With --with, the packages that a file lists are installed first, without what they depend on. --torch adds a release of
PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SIZES = {
    "dev,demo": "about 700 MB",
    "comparison,bench": "1 GB or, with a PyTorch that can use GPUs, six",
    "docs": "about 50 MB",
    "test": "about 500 MB",
}


def main(folder: Path, extras: str, stamp: Path, into: bool, requirements: str | None, torch: str | None) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036, this is what says so
        print(f"gradloom needs Python 3.11 or newer and {sys.executable} is {sys.version.split()[0]}; "
              "try: make PYTHON=python3.12")  # fmt: skip
        return 1
    with one_at_a_time():
        if is_current(stamp, "pyproject.toml", "setup.py", *filter(None, [requirements])):
            return 0
        start = time.monotonic()
        what = f"gradloom[{extras}]" + (f" and PyTorch {torch}" if torch else "")
        print(f"installing {what} into {folder}/: {SIZES[extras]}, in a minute or two, and longer where packages are "
              "downloaded", flush=True)  # fmt: skip
        if not into:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        code = install(python, "--no-deps", "--requirement", requirements) if requirements else 0
        code = code or install(python, "--editable", f".[{extras}]", *([f"torch=={torch}"] if torch else []))
        if code == 0:
            stamp.write_text(f"{CHECKOUT}\n")
            print(f"installed in {time.monotonic() - start:.0f} s, {size(folder) / 1e6:.0f} MB", flush=True)
        return code


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold a lock on the checkout; where there are none, as on Windows, go on without."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    held = os.open(CHECKOUT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another make installs something here; waiting until it has finished", flush=True)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def is_current(stamp: Path, *sources: str) -> bool:
    """Whether another process has made the environment, from these files of the checkout, since make looked."""
    with contextlib.suppress(OSError):
        made = stamp.stat().st_mtime
        named = stamp.read_text().strip() == str(CHECKOUT)
        return named and all(made > (CHECKOUT / name).stat().st_mtime for name in sources)
    return False


def install(python: Path, *packages: str) -> int:
    """Run `pip install`, and show the lines that tell how far it has come; all of them if it fails."""
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--no-compile"]
    lines = []
    with subprocess.Popen([*command, *packages], cwd=CHECKOUT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as pip:  # fmt: skip
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            if found := re.match(r"\s*Downloading .*?([^/ ]+) \((\d+(?:\.\d+)? [MG]B)\)", line):
                print(f"  downloading {found[1]}, {found[2]}", flush=True)
            elif line.startswith("Installing collected packages:"):
                print(f"  unpacking {line.count(',') + 1} packages", flush=True)
    if pip.returncode:
        sys.stdout.writelines(lines)
    return pip.returncode


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("extras")
    parser.add_argument("stamp", type=Path)
    parser.add_argument("--into", action="store_true")
    parser.add_argument("--with", dest="requirements")
    parser.add_argument("--torch")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(**vars(arguments())))
