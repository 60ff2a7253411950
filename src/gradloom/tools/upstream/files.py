"""The files of a release: in a wheel, or installed."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from gradloom.codegen.errors import UsageError


class Files:
    """The files of a release of PyTorch, by their paths in the wheel.

    Attributes:
        version: such as `2.15.0`, without the build.
        python: the interpreter of the environment that has it installed; None for a wheel.
    """

    def __init__(self, where: str, version: str, python: Path | None = None) -> None:
        self.where, self.version, self.python = where, version.partition("+")[0], python

    def __str__(self) -> str:
        return self.where

    def read(self, path: str) -> bytes | None:
        """Return a file's content; None if there is no such file."""
        raise NotImplementedError

    def paths(self) -> Iterable[str]:
        """Return the paths of the Python files and stubs of the package `torch`."""
        raise NotImplementedError


class Wheel(Files):
    """A wheel of PyTorch. Raises UsageError if the file is none."""

    def __init__(self, path: Path) -> None:
        name, _, rest = path.name.partition("-")
        version = rest.partition("-")[0]
        if name != "torch" or path.suffix != ".whl" or not version[:1].isdigit():
            raise UsageError(f"{path} is not named like a wheel of PyTorch, torch-<version>-...whl")
        super().__init__(path.name, version)
        try:
            self.archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError) as error:
            raise UsageError(f"{path} is not a wheel: {error}") from None

    def read(self, path: str) -> bytes | None:
        try:
            return self.archive.read(path)
        except KeyError:
            return None
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            raise UsageError(f"{self.where} is damaged: {error}") from None

    def paths(self) -> Iterable[str]:
        return [n for n in self.archive.namelist() if n.startswith("torch/") and n.endswith((".py", ".pyi"))]


class Installed(Files):
    """PyTorch in a folder of installed packages. Raises UsageError if it is not there."""

    def __init__(self, folder: Path, python: Path | None) -> None:
        found = sorted(folder.glob("torch-*.dist-info"))
        if not found or not (folder / "torch").is_dir():
            raise UsageError(f"{folder} has no PyTorch")
        self.folder = folder
        version = found[0].name.removeprefix("torch-").removesuffix(".dist-info")
        super().__init__(str(folder), version, python)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.folder / path).read_bytes()
        except FileNotFoundError:
            return None

    def paths(self) -> Iterable[str]:
        files = (p for end in ("py", "pyi") for p in (self.folder / "torch").rglob(f"*.{end}"))
        return [p.relative_to(self.folder).as_posix() for p in files]


def environment(path: Path) -> Installed:
    """Return what an environment, its interpreter, or its folder of packages has. Raises UsageError."""
    if path.is_file():  # an interpreter
        path = path.parent.parent
    if (path / "torch").is_dir():
        base = next((p for p in path.parents if (p / "bin" / "python").exists() or (p / "python.exe").exists()), None)
        python = None if base is None else _python(base)
        return Installed(path, python)
    folders = [*path.glob("lib/python3*/site-packages"), *path.glob("Lib/site-packages")]
    for folder in folders:
        if (folder / "torch").is_dir():
            return Installed(folder, _python(path))
    raise UsageError(f"{path} is no environment with PyTorch: it has no lib/python3*/site-packages/torch")


def _python(base: Path) -> Path | None:
    tried = (base / "bin" / "python", base / "Scripts" / "python.exe", base / "python.exe")
    return next((p for p in tried if p.exists()), None)
