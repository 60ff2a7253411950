"""The same sources give the same wheel and sdist, byte for byte; what is installed from them works anywhere."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.waiting import LIMIT

pytest.importorskip("setuptools", minversion="77.0.3")

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "codegen", "generated")
FILES = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "native_functions.yaml",
    "derivatives.yaml",
    "Makefile",
    ".ci/environment.py",
)
LARGEST = 3_350_000  # bytes of the wheel
BUILD = "import sys, setuptools.build_meta as b; getattr(b, sys.argv.pop(1))(sys.argv.pop(1))"


def copy(folder):
    """The sources in a folder, without git and what is not packaged."""
    folder.mkdir()
    for name in FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return folder


def build(what, source, target, **environment):
    """A wheel or an sdist, built as pip does it without isolation; the path."""
    target.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"} | environment
    command = [sys.executable, "-c", BUILD, f"build_{what}", str(target)]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return path


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """A wheel and an sdist of two copies that differ in everything but the contents of their files."""
    top = tmp_path_factory.mktemp("builds")
    found = {}
    for number, (umask, zone) in enumerate(((0o022, "UTC"), (0o077, "Asia/Tokyo"))):
        source = copy(top / f"source{number}")
        for path in source.rglob("*.py" if number else "*.yaml"):
            os.utime(path, (1_600_000_000 + number, 1_600_000_000))
            path.chmod(0o755 if number else 0o600)
        before = os.umask(umask)
        try:
            for what in ("wheel", "sdist"):
                found[what, number] = build(what, source, top / f"{what}{number}", TZ=zone)
        finally:
            os.umask(before)
    return found


@pytest.mark.parametrize("what", ["wheel", "sdist"])
def test_two_builds_are_the_same_bytes(what, builds):
    first, second = (builds[what, number] for number in (0, 1))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_time_of_the_files_can_be_chosen(builds, tmp_path):
    wheel = build("wheel", copy(tmp_path / "source"), tmp_path / "wheel", SOURCE_DATE_EPOCH="1700000000")
    with zipfile.ZipFile(wheel) as archive:
        assert {entry.date_time[:3] for entry in archive.infolist()} == {(2023, 11, 14)}
    with zipfile.ZipFile(builds["wheel", 0]) as archive:
        assert {entry.date_time[:3] for entry in archive.infolist()} == {(2026, 1, 1)}


def test_the_sdist_gives_the_same_wheel(builds, tmp_path):
    with tarfile.open(builds["sdist", 0]) as archive:
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        assert {(e.uid, e.gid, e.uname, e.mode) for e in archive.getmembers()} == {(0, 0, "", 0o644)}
    (source,) = (p for p in tmp_path.iterdir() if p.is_dir())
    wheel = build("wheel", source, tmp_path / "wheel")
    assert wheel.read_bytes() == builds["wheel", 0].read_bytes()


def test_the_sdist_has_what_a_build_needs_and_no_more(builds):
    with tarfile.open(builds["sdist", 0]) as archive:
        names = {"/".join(Path(name).parts[1:]) for name in archive.getnames()}
    assert {
        *FILES,
        "src/gradloom/__init__.py",
        "codegen/templates/package.jinja",
        "generated/namespaces/__init__.py",
    } <= names
    rooms = {name.split("/")[0] for name in (*FILES, *SOURCES)}
    assert {name.split("/")[0] for name in names} <= rooms | {"PKG-INFO", "setup.cfg", "gradloom.egg-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_wheel_is_small(builds):
    assert builds["wheel", 0].stat().st_size < LARGEST


def test_the_metadata_says_what_is_needed(builds):
    with zipfile.ZipFile(builds["wheel", 0]) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    for line in (
        "Name: gradloom",
        "Requires-Python: >=3.11",
        "Requires-Dist: numpy>=2.0",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
        "Provides-Extra: test",
        "License-Expression: BSD-3-Clause",
        "License-File: LICENSE",
    ):
        assert line in metadata.splitlines(), line


def test_the_license_goes_with_both(builds):
    with zipfile.ZipFile(builds["wheel", 0]) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/licenses/LICENSE"))
        in_wheel = archive.read(name)
    with tarfile.open(builds["sdist", 0]) as archive:
        (name,) = (n for n in archive.getnames() if n.count("/") == 1 and n.endswith("/LICENSE"))
        in_sdist = archive.extractfile(name).read()
    assert in_wheel == in_sdist == (ROOT / "LICENSE").read_bytes()
    assert in_wheel.startswith(b"BSD 3-Clause License")


@pytest.fixture(scope="module")
def installed(builds, tmp_path_factory):
    """A new environment with the wheel, which sees NumPy and the rest of this one, but not this checkout."""
    import sysconfig
    import venv

    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    site = Path(subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                                        text=True, timeout=LIMIT).strip())  # fmt: skip
    (site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n" + _of_distribution("numpy") + "\n")
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python,
               "install", "--no-deps", builds["wheel", 0]]  # fmt: skip
    subprocess.run(command, check=True, timeout=LIMIT)
    return python


def _of_distribution(name):
    from importlib.metadata import distribution

    return str(distribution(name).locate_file(""))


def run(installed, *arguments, cwd):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [installed, "-I", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT
    )


def test_the_library_of_the_wheel_works(installed, tmp_path):
    code = (
        "import gradloom as t; x = t.tensor([2.0], requires_grad=True); (x ** 3).backward(); print(x.grad, t.__file__)"
    )
    done = run(installed, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tensor([12.])")
    assert str(installed.parents[1]) in done.stdout


def test_the_command_says_its_version(installed, tmp_path):
    done = run(installed, "-m", "gradloom", "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "gradloom 0.1.0\n"), done.stderr
    script = installed.with_name("gradloom")
    done = subprocess.run([script, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "gradloom 0.1.0\n"), done.stderr


def test_generate_outside_of_a_checkout_says_what_to_do(installed, tmp_path):
    done = run(installed, "-m", "gradloom", "generate", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "checkout" in done.stderr and "gradloom new" in done.stderr


def test_every_command_has_a_help_text(installed, tmp_path):
    done = run(installed, "-m", "gradloom", "--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("generate", "check", "new", "explain", "verify"):
        assert command in done.stdout
        assert run(installed, "-m", "gradloom", command, "--help", cwd=tmp_path).returncode == 0


def test_the_generator_mends_generated_code_that_cannot_be_imported(tmp_path):
    """Without generated code there is no library, but there must be a generator: one with what the last run kept."""
    source = copy(tmp_path / "source")
    before = {p: p.read_bytes() for p in (source / "generated").rglob("*.py")}
    shutil.copytree(source / "src" / "gradloom", tmp_path / "path" / "gradloom")
    (tmp_path / "path" / "gradloom" / "codegen").symlink_to(source / "codegen")
    (tmp_path / "path" / "gradloom" / "generated").symlink_to(source / "generated")
    command = [sys.executable, "-m", "gradloom", "generate", "--root", source]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "path"), "GRADLOOM_CACHE_DIR": str(tmp_path / "cache")}
    for damage in ("absent", "__init__.py", "elementwise.py", "linalg.py", "half"):
        if damage.endswith(".py"):
            (source / "generated" / "namespaces" / damage).write_text("def (")
        else:
            shutil.rmtree(source / "generated" / ("functions" if damage == "half" else ""))
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"{damage}: {done.stderr}"
        assert {p: p.read_bytes() for p in (source / "generated").rglob("*.py")} == before, damage
