"""`gradloom generate --watch` in a checkout: whatever generation depends on is watched, the generator included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gradloom.codegen.derivatives import incremental
from gradloom.codegen.target import own
from gradloom.tools.commands import generate as watch
from tests.waiting import LIMIT, started

ROOT = Path(__file__).parents[2]
FILES = ("native_functions.yaml", "derivatives.yaml")
FOLDERS = ("src", "codegen", "generated")


@pytest.fixture
def checkout(tmp_path):
    """A copy of the checkout, and the environment in which it is what Python imports."""
    top = tmp_path / "checkout"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, top / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in FILES:
        shutil.copy(ROOT / name, top / name)
    path = tmp_path / "path" / "gradloom"
    path.mkdir(parents=True)
    for file in (top / "src" / "gradloom").iterdir():
        (path / file.name).symlink_to(file)
    for name in ("codegen", "generated"):
        (path / name).symlink_to(top / name)
    return top, os.environ | {"PYTHONPATH": str(path.parent)}


def test_everything_that_generation_reads_is_watched(tmp_path):
    """Every file of the checkout that is opened while code is generated, noted by Python itself."""
    code = """
import sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
from gradloom.codegen.outputs.render import generated_files
from gradloom.codegen.target import own
before = set(opened)
opened.clear()
generated_files(own())
while_generating = set(opened)
opened |= {m.__file__ for name, m in sys.modules.items() if name.startswith("gradloom.codegen")}
print(*sorted(opened | before), sep="\\n")
print("while generating:")
print(*sorted(while_generating), sep="\\n")
"""
    uncompiled = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}  # or their .pyc files are opened instead
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, cwd=ROOT, env=uncompiled
    )
    assert done.returncode == 0, done.stderr
    opened, while_generating = (
        {Path(name).resolve() for name in part.splitlines() if name.startswith("/")}
        for part in done.stdout.split("while generating:")
    )
    target = own(ROOT)
    watched = {p.resolve() for p in (*watch.sources(target), *watch.generator_files(target))}
    mine = {
        p
        for p in opened
        if p.is_file()
        and p.is_relative_to(ROOT)
        and p.suffix in (".py", ".yaml", ".jinja")
        and not p.is_relative_to(ROOT / ".venv")
    }
    # `import gradloom.codegen` imports gradloom first; the generator depends on none of its modules.
    mine = {
        p
        for p in mine
        if not p.is_relative_to(ROOT / "generated")
        and (
            not p.is_relative_to(ROOT / "src" / "gradloom")
            or {"kernels", "formulas", "composite", "rules"} & {*p.parts}
        )
    }
    assert len(mine) > 120 and ROOT / "codegen" / "notation" / "notation.yaml" in mine
    assert mine - watched == set()
    # Results of a run are kept by the contents of these files (Note [Kept steps]).
    known = {path.resolve() for path in incremental.sources(target)} | {(ROOT / name).resolve() for name in FILES}
    read = {path for path in while_generating if path.is_relative_to(ROOT) and ".venv" not in path.parts}
    assert len(read) > 100 and read - known == set()


@pytest.mark.slow
def test_a_template_a_helper_and_the_generator_itself_are_watched(checkout, tmp_path):
    top, environment = checkout
    command = [sys.executable, "-m", "gradloom", "generate", "--watch", "--root", str(top)]
    with started(command, tmp_path / "log", cwd=tmp_path, env=environment) as watching:
        watching.wait_for("watching")
        header = top / "codegen/templates/package.jinja"
        text = header.read_text()
        header.write_text(text.replace("{{ what", "Anew: {{ what", 1))
        watching.wait_for("package.jinja changed", "generated ", "changed")
        assert "Anew: " in (top / "generated/namespaces/__init__.py").read_text()

        module = top / "codegen" / "outputs" / "render.py"
        sound = module.read_text()
        module.write_text(sound + "\ndef broken(:\n")
        watching.wait_for("render.py changed", "SyntaxError")
        module.write_text(sound.replace('"Backward nodes, by family."', '"Nodes, by family."'))
        watching.wait_for("render.py changed", "1 changed")
        assert "Anew: Nodes, by family." in (top / "generated/functions/__init__.py").read_text()

        helper = top / "src/gradloom/formulas/special.py"
        helper.write_text(helper.read_text() + "\n\ndef unused_helper(x):\n    return x\n")
        watching.wait_for("special.py changed", "0 changed")
        assert watching.end() == 0
