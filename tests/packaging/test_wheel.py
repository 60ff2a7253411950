"""What pip makes of a checkout without git history: the three folders and a copy of the YAML files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.waiting import LIMIT

pytest.importorskip("setuptools", minversion="77.0.3")  # as the build does, which runs without network here

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "codegen", "generated")
YAML = ("native_functions.yaml", "derivatives.yaml")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", *YAML)
STUBS = "generated/stubs/gradloom-stubs"  # of an editable install; the wheel has them in the package
PACKAGES = {
    "src/gradloom": "gradloom",
    "codegen": "gradloom/codegen",
    "generated": "gradloom/generated",
    f"{STUBS}/_stubs": "gradloom/_stubs",
}
WHERE = "import gradloom, gradloom.codegen, gradloom.generated as g; print(gradloom.__file__, g.__file__)"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what is packaged, without git, environments and build results."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in FILES:
        shutil.copy(ROOT / name, copy / name)
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return copy


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    """The wheel of the copy, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, checkout)
    (path,) = folder.glob("gradloom-*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def run(*command, **options) -> str:
    """What a command prints, which has to succeed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments) -> None:
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def test_the_wheel_holds_every_source_file_once(checkout, wheel):
    expected = set()
    for folder, package in PACKAGES.items():
        for path in (checkout / folder).rglob("*"):
            if folder == "generated" and (checkout / STUBS) in path.parents:
                continue
            if path.suffix in (".py", ".pyi", ".jinja", ".yaml", ".xz") or path.name == "py.typed":
                expected.add(f"{package}/{path.relative_to(checkout / folder).as_posix()}")
    expected |= {f"gradloom/_spec/{name}" for name in YAML}
    found = {path.relative_to(wheel).as_posix() for path in wheel.rglob("*") if path.is_file()}
    assert {name for name in found if ".dist-info/" not in name} == expected


def test_the_specification_in_the_wheel_is_the_checkouts(wheel):
    for name in YAML:
        assert (wheel / "gradloom" / "_spec" / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_is_imported_from_itself(wheel, tmp_path):
    shown = run(sys.executable, "-c", WHERE, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(wheel)})
    package = wheel / "gradloom"
    assert shown.split() == [str(package / "__init__.py"), str(package / "generated" / "__init__.py")]


def test_the_gradloom_command_runs_from_the_wheel(wheel, tmp_path):
    (entry_points,) = wheel.glob("*.dist-info/entry_points.txt")
    assert "gradloom = gradloom.tools.cli:main" in entry_points.read_text()
    shown = run(sys.executable, "-m", "gradloom", "--help", cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(wheel)})
    assert "usage: gradloom" in shown


def test_explain_shows_the_wheels_own_files(wheel, tmp_path):
    shown = run(
        sys.executable, "-m", "gradloom", "explain", "asinh", cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(wheel)}
    )
    package = wheel / "gradloom"
    for path, text in (
        (package / "_spec" / "derivatives.yaml", "- name: asinh(Tensor self) -> Tensor"),
        (package / "_spec" / "native_functions.yaml", "- func: asinh(Tensor self) -> Tensor"),
        (package / "generated" / "functions" / "elementwise.py", "class AsinhBackward0(Node):"),
    ):
        assert f"{path}:" in shown and text in shown


def test_an_installed_gradloom_verifies_its_operators(wheel, tmp_path):
    shown = run(
        sys.executable,
        "-m",
        "gradloom",
        "verify",
        "--op",
        "tanh",
        "--op",
        "mm",
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(wheel)},
    )
    assert "2 operators: all right" in shown


def test_an_editable_install_uses_the_checkout(checkout, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Lets the new environment see what this one has (NumPy, setuptools), but not its editable gradloom, since
    # the .pth file that makes one is not read through this.
    seen = {str(distribution(name).locate_file("")) for name in ("numpy", "setuptools")}
    (site / "outer.pth").write_text("\n".join([sysconfig.get_path("purelib"), *sorted(seen)]))
    pip("--python", python, "install", "--no-deps", "--no-build-isolation", "--editable", checkout)
    shown = run(python, "-c", WHERE, cwd=tmp_path)
    folders = checkout / "src" / "gradloom", checkout / "generated"
    assert shown.split() == [str(folder / "__init__.py") for folder in folders]
    assert "usage: gradloom" in run(python.with_name("gradloom"), "--help", cwd=tmp_path)
    # Type checkers do not follow the import hook: they find the library, and the stubs of what it binds, by this.
    types = (site / "gradloom_types.pth").read_text().split()
    assert types == [str(checkout / "src"), str(checkout / "generated" / "stubs")]
    assert (checkout / STUBS / "py.typed").read_text() == "partial\n"


def test_an_import_loads_numpy_only():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [re.match(r"[a-z0-9_-]+", requirement).group() for requirement in project["dependencies"]]
    assert needed == ["numpy", "scipy", "ml_dtypes", "pyyaml", "jinja2"]  # the last two for the generator
    loaded = run(sys.executable, "-c", "import gradloom, sys; print(*sys.modules)").split()
    assert not {"yaml", "jinja2", "scipy", "ml_dtypes", "torch"} & set(loaded)


def test_torch_is_pinned_to_the_release_of_make_conformance():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "\nTORCH ?= 2.13.0\n" in (ROOT / "Makefile").read_text()
    requirements = [requirement for extra in extras.values() for requirement in extra]
    assert {text for text in requirements if text.startswith("torch")} == {"torch==2.13.0"}
