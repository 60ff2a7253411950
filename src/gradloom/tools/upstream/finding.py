"""Find a release: a wheel, an environment that has it, a known release, or one that pip downloads."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gradloom.codegen.errors import UsageError

from .facts import Facts, read
from .files import Installed, Wheel, environment
from .releases import kept, order, versions

_VERSION = re.compile(r"\d+\.\d+(\.\d+)?((a|b|rc|\.dev|\.post)\d+)*")
# Small wheels: those for macOS. Which versions of Python a release has wheels for changes; the first that is found.
_PYTHONS = ("3.12", "3.10", "3.14")
_PLATFORM = "macosx_14_0_arm64"
SECONDS = 600  # for a download


@dataclass
class Release:
    """The facts of a release, and the interpreter of an environment that has it, to run it; None without one."""

    facts: Facts
    python: Path | None = None

    @property
    def version(self) -> str:
        return self.facts.version


def find(word: str, progress: Callable[[str], None]) -> Release:
    """Return a release.

    Args:
        word: the path of a wheel, of an environment, or of its folder of packages; `installed`; or a version.
        progress: called with what is done, where that takes time.

    Raises:
        UsageError: for anything else, or a release that cannot be found or read.
    """
    path = Path(word)
    if word == "installed":
        found = installed()
        if found is None:
            raise UsageError("PyTorch is not installed here: name a wheel, an environment that has it, or a version")
        return Release(_known(found) or _read(found, progress), found.python)
    if path.suffix == ".whl":
        if not path.is_file():
            raise UsageError(f"{word}: there is no such file")
        return Release(_read(Wheel(path), progress))
    if path.exists() and not _VERSION.fullmatch(word):
        found = environment(path)
        return Release(_known(found) or _read(found, progress), found.python)
    if not _VERSION.fullmatch(word):
        hint = "name a wheel, an environment, `installed`, or a version such as 2.15.0"
        raise UsageError(f"`{word}` is no release of PyTorch: {hint}")
    here = installed()
    python = (
        here.python if here is not None and order(here.version) == order(word + ".0" * (2 - word.count("."))) else None
    )
    return Release(kept(word) or _download(word, progress), python)


def installed() -> Installed | None:
    """Return the PyTorch of the running environment."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.parent
    return Installed(folder, Path(sys.executable)) if next(folder.glob("torch-*.dist-info"), None) else None


def _known(files: Installed) -> Facts | None:
    """Return the facts that are kept of an installed release, which spares reading it; None without its names."""
    facts = kept(files.version)
    return facts if facts is not None and facts.names else None


def _read(files: Wheel | Installed, progress: Callable[[str], None]) -> Facts:
    progress(f"reading {files}")
    return read(files)


def _download(version: str, progress: Callable[[str], None]) -> Facts:
    """Download a wheel to a temporary folder and read it."""
    said = ""
    for python in _PYTHONS:
        with tempfile.TemporaryDirectory() as folder:
            progress(f"downloading PyTorch {version}")
            abi = f"cp{python.replace('.', '')}"
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            command += ["--dest", folder, "--platform", _PLATFORM, "--python-version", python]
            command += ["--implementation", "cp", "--abi", abi, f"torch=={version}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise UsageError(f"the download of PyTorch {version} took more than {SECONDS} s") from None
            wheel = next(Path(folder).glob("torch-*.whl"), None)
            if wheel is not None:
                return _read(Wheel(wheel), progress)
            said = said or next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr)
    known = versions()
    raise UsageError(
        f"pip found no wheel of PyTorch {version} ({' '.join(said.split())[:300]}); known without a download: "
        f"{known[0]} to {known[-1]}"
    )
