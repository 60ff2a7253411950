"""The way of a user from nothing: the wheel in a new environment, a package of operators, its wheel, and its use.

Packages are installed by pip as a user would, with what they need; where that cannot be had, this is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PACKAGED = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "Makefile",
    "native_functions.yaml",
    "derivatives.yaml",
    "src",
    "codegen",
    "generated",
)
PROGRAM = """
import sys
import gradloom, myops
assert gradloom.__file__.startswith(sys.prefix) and myops.__file__.startswith(sys.prefix), myops.__file__
x = gradloom.tensor([-3.0, 0.5, 4.0], dtype=gradloom.float64, requires_grad=True)
assert gradloom.autograd.gradcheck(myops.softabs, (x,), check_forward_ad=True)
assert gradloom.autograd.gradgradcheck(lambda x: gradloom.ops.myops.rolling_mean(x, 2), (x,))
x.softabs().sum().backward()
print(x.grad)
"""


def run(*command, cwd, check=True):
    """Run a command as in a shell that knows nothing of this checkout; returns what it printed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "SOURCE_DATE_EPOCH")}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=environment,
        text=True,
        timeout=600,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}"
    return done


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A new environment with nothing but what gradloom's metadata asks for, pytest and setuptools."""
    folder = tmp_path_factory.mktemp("clean")
    try:
        venv.create(folder / "env", with_pip=True)
    except subprocess.CalledProcessError as error:  # a Python without ensurepip
        pytest.skip(f"no environment with pip can be made here: {error}")
    found = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    done = run(
        found, "-m", "pip", "install", "--quiet", *needed, "pytest>=8.2", "setuptools>=77.0.3", cwd=folder, check=False
    )
    if done.returncode:
        pytest.skip(f"pip cannot install packages here: {done.stdout.strip().splitlines()[-1]}")
    return found


@pytest.fixture(scope="module")
def wheels(python, tmp_path_factory):
    """A folder with the wheel of this checkout, which is installed, and nothing else."""
    top = tmp_path_factory.mktemp("wheels")
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, top / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (top / "source").mkdir(exist_ok=True)
            shutil.copy(ROOT / name, top / "source" / name)
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", top / "dist", top / "source", cwd=top)
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", top / "dist", "gradloom", cwd=top)
    shutil.rmtree(top / "source")
    return top / "dist"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_from_the_wheel_to_a_published_package_of_operators(python, wheels, tmp_path):
    gradloom = python.with_name("gradloom")
    assert "made myops/" in run(gradloom, "new", "myops", cwd=tmp_path).stdout
    project = tmp_path / "myops"
    make = ("make", f"PYTHON={python}")
    yaml = project / "src/myops/native_functions.yaml"
    yaml.write_text(yaml.read_text() + "\n- func: cube(Tensor self) -> Tensor\n  kernel: self * self * self\n")
    formulas = project / "src/myops/derivatives.yaml"
    formulas.write_text(
        formulas.read_text() + "\n- name: cube(Tensor self) -> Tensor\n"
        "  self: grad * (3 * self * self).conj()\n  result: auto_element_wise\n"
    )
    said = run(*make, "generate", cwd=project).stdout
    assert "generated " in said
    assert "5 passed" in run(*make, "test", cwd=project).stdout
    assert "4 operators: all right" in run(*make, "verify", cwd=project).stdout
    run(*make, "wheel", cwd=project)
    (wheel,) = (project / "dist").glob("myops-0.1.0-py3-none-any.whl")
    shutil.copy(wheel, wheels)
    shutil.rmtree(project)

    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels, "myops", cwd=tmp_path)
    said = run(python, "-W", "error", "-c", PROGRAM, cwd=tmp_path).stdout
    assert said.startswith("tensor([-0.9994,  0.9806,  0.9997]")
    assert "CubeBackward0" in run(gradloom, "explain", "cube", "--package", "myops", cwd=tmp_path).stdout
    assert "1 operator: all right" in run(gradloom, "verify", "--package", "myops", "--op", "cube", cwd=tmp_path).stdout


def test_the_wheels_gradloom_needs_nothing_of_the_checkout(python, wheels, tmp_path):
    code = (
        "import gradloom as t, sys; x = t.ones(2, requires_grad=True); x.exp().sum().backward(); "
        "print(t.__file__.startswith(sys.prefix), t.explain(x.exp().grad_fn).text()[:3] != '')"
    )
    assert run(python, "-c", code, cwd=tmp_path).stdout == "True True\n"
    done = run(python.with_name("gradloom"), "generate", cwd=tmp_path, check=False)
    assert done.returncode == 2 and "gradloom new" in done.stdout
