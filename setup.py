"""Lay three source folders and two YAML files out as one package; everything else is in pyproject.toml.

    src/gradloom -> gradloom      codegen -> gradloom.codegen      generated -> gradloom.generated
    generated/stubs/gradloom-stubs/_stubs -> gradloom._stubs

A folder with an `__init__.py` under one of the three is packaged without being listed anywhere. The YAML
files live once, at the top of the checkout: an editable install reads them there, and a wheel carries a copy
in gradloom/_spec/.

The same sources give the same wheel and the same sdist, byte for byte: times are SOURCE_DATE_EPOCH or a fixed one,
modes and owners those of nobody in particular.

An editable install is found by an import hook, which type checkers do not follow. It therefore comes with a .pth file
that names two folders: src, and generated/stubs, whose gradloom-stubs is a partial stub package (PEP 561).

Not hatchling: ten lines of pyproject.toml would lay the wheel out, but hatchling 1.33 refuses editable installs of a
layout in which a folder's prefix changes (codegen -> gradloom.codegen).
"""

import gzip
import os
import tarfile
from compileall import compile_dir
from pathlib import Path

import setuptools
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

STUBS = "generated/stubs"
FOLDERS = {
    "gradloom": "src/gradloom",
    "gradloom.codegen": "codegen",
    "gradloom.generated": "generated",
    "gradloom._stubs": f"{STUBS}/gradloom-stubs/_stubs",
}
SPECIFICATION = ("native_functions.yaml", "derivatives.yaml")

# pip brings the right setuptools itself, except under --no-build-isolation, where an old one fails obscurely.
if tuple(map(int, setuptools.__version__.split(".")[:3])) < (77, 0, 3):
    raise SystemExit("gradloom is built by setuptools 77.0.3 or newer: pip install --upgrade setuptools")

EPOCH = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600"))  # the first of January 2026, in UTC
os.umask(0o022)


def packages() -> list[str]:
    nested = (f"{root}.{name}" for root, folder in FOLDERS.items() for name in find_packages(folder))
    return [*FOLDERS, *nested]


class BuildWithSpecification(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            # pip compiles what it installs, but not this; and where PYTHONDONTWRITEBYTECODE is set, no import
            # would do it either, so that each would pay for it.
            for folder in FOLDERS.values():
                compile_dir(folder, quiet=2)
            site = Path(self.get_finalized_command("install").install_lib)
            site.joinpath("gradloom_types.pth").write_text("".join(f"{Path(f).resolve()}\n" for f in ("src", STUBS)))
            return
        target = Path(self.build_lib, "gradloom", "_spec")
        self.mkpath(str(target))
        for name in SPECIFICATION:
            self.copy_file(name, str(target / name))
        for path in Path(self.build_lib).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)


class ReproducibleSdist(sdist):
    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None) -> str:
        if format != "gztar":
            raise SystemExit(f"an sdist of gradloom is a .tar.gz, not {format}")
        path = Path(f"{base_name}.tar.gz")
        top = Path(root_dir or ".", base_dir or ".")
        names = sorted(p for p in top.rglob("*") if p.is_file())
        with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=EPOCH) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for name in names:
                    entry = tarfile.TarInfo(name.relative_to(root_dir or ".").as_posix())
                    entry.size, entry.mtime, entry.mode = name.stat().st_size, EPOCH, 0o644
                    with open(name, "rb") as source:
                        archive.addfile(entry, source)
        return str(path)


setup(
    packages=packages(), package_dir=FOLDERS, cmdclass={"build_py": BuildWithSpecification, "sdist": ReproducibleSdist}
)
