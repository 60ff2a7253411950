"""`gradloom new`: make the project of a new package of operators.

The files are the templates in templates/new/, whose folders are the project's; `PACKAGE` in a path stands for the name.
Either the whole project is made, or nothing.
"""

from __future__ import annotations

import argparse
import keyword
import re
import shutil
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from gradloom.codegen.errors import UsageError, did_you_mean
from gradloom.codegen.outputs.render import TEMPLATES, fill, generated_files
from gradloom.codegen.target import FILES, project
from gradloom.codegen.writing.folder import write


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the package, and its namespace under gradloom.ops: myops")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where to make the folder of that name; default: the current folder",
    )


def run(arguments: argparse.Namespace) -> int:
    folder = make(arguments.name, arguments.dir)
    print(
        f"made {folder}/, with the operators softabs, rolling_mean and softabs_loss to start from\n\n"
        f"  cd {folder}\n  make test        # its tests\n  make generate    # after a change of its YAML files\n"
        f"  make install     # so that `import {arguments.name}` works everywhere"
    )
    return 0


_FOLDER = "new"
_STANDS_FOR_NAME = "PACKAGE"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Taken namespaces of gradloom.ops, and packages that gradloom needs or replaces.
RESERVED = frozenset(
    "define register aten prim user gradloom torch numpy scipy yaml jinja2 pytest src test tests "
    "generated kernels formulas composite".split()
)


def check_name(name: str) -> None:
    """Refuse an invalid name for a package. Raises UsageError with a name to choose instead."""
    if not _NAME.fullmatch(name):
        better = re.sub(r"\W+", "_", name).strip("_").lower()
        better = better if _NAME.fullmatch(better) else "myops"
        raise UsageError(
            f"`{name}` cannot be the name of a package: a small letter first, then small letters, digits "
            f"and underscores, such as `{better}`"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UsageError(f"`{name}` is a keyword of Python: choose another name, such as `{name}_ops`")
    if name in sys.stdlib_module_names:
        raise UsageError(f"`{name}` is a module of Python's own: choose another name, such as `{name}_ops`")
    if name in RESERVED:
        raise UsageError(f"`{name}` is reserved: choose another name, such as `{name}_ops`")
    spec = find_spec(name)
    folders = spec.submodule_search_locations if spec is not None else None
    if spec is not None and not any((Path(f) / file).is_file() for f in folders or () for file in FILES):
        raise UsageError(f"a package `{name}` is installed, which this one would hide: choose another name")


def make(name: str, parent: Path) -> Path:
    """Make the project of a package in `parent / name`, with its generated code; return the folder. Raises UsageError
    for a bad name, a folder that exists, or a parent that does not."""
    check_name(name)
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} exists already: choose another name, or another place with --dir")
    if not parent.is_dir():
        near = [p.name for p in parent.parent.iterdir() if p.is_dir()] if parent.parent.is_dir() else []
        raise UsageError(f"--dir {parent}: no such folder. {did_you_mean(parent.name, near)}".rstrip(" ."))
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    try:
        _write(name, unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def _write(name: str, folder: Path) -> None:
    ours = version("gradloom").split(".")
    facts = {"name": name, "version": ".".join(ours[:2]), "next_version": f"{ours[0]}.{int(ours[1]) + 1}"}
    for template in sorted((TEMPLATES / _FOLDER).rglob("*.jinja")):
        relative = template.relative_to(TEMPLATES).as_posix()
        path = relative.removeprefix(f"{_FOLDER}/").removesuffix(".jinja").replace(_STANDS_FOR_NAME, name)
        target = folder / (".gitignore" if path == "gitignore" else path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fill(relative, **facts), encoding="utf-8", newline="\n")
    made = project(folder)
    assert made is not None and made.output is not None
    write(made.output, generated_files(made))
