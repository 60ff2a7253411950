"""Every Python that the metadata names can read the sources; `make matrix` runs the tests on each."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.packaging.matrix import ROWS, interpreter
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = re.findall(r":: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
COMPILE = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("error")
for path in sys.stdin.read().split("\\n"):
    compile(Path(path).read_text(encoding="utf-8"), path, "exec")
"""


def test_the_matrix_has_the_versions_of_the_metadata():
    assert VERSIONS[0] == PROJECT["requires-python"].removeprefix(">=")
    assert set(VERSIONS) <= {version for version, _, _ in ROWS}
    oldest = next(r for r in PROJECT["dependencies"] if r.startswith("numpy")).partition(">=")[2]
    assert any(numpy == f"numpy=={oldest}.*" for _, numpy, _ in ROWS)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_sources_compile(version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    paths = [p for folder in ("src", "codegen", "generated") for p in (ROOT / folder).rglob("*.py")]
    text = "\n".join(str(p) for p in paths)
    done = subprocess.run([python, "-c", COMPILE], input=text, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
