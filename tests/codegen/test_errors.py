"""Every kind of error in the YAML files: one broken file each, and the message that it must give.

A case is a folder in errors/ with a `native_functions.yaml` and `expected.txt`, the whole message. Kernels
and composites that a case names are those of errors/package; they are never run. To write the messages anew,
and review them: GRADLOOM_UPDATE_EXPECTED=1 pytest tests/codegen/test_errors.py
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from gradloom.codegen import native_functions
from gradloom.codegen.errors import SpecError

ERRORS = Path(__file__).parent / "errors"
PACKAGE = ERRORS / "package"
CASES = sorted(p.parent for p in ERRORS.glob("*/native_functions.yaml") if p.parent != PACKAGE)


def message_of(folder):
    """What reading the files of a folder says; files are named without their folder, as in a checkout."""
    with pytest.raises(SpecError) as caught:
        native_functions.load(
            folder / "native_functions.yaml", shown="native_functions.yaml", package=folder / "package"
        )
    return str(caught.value)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_error(case, tmp_path, monkeypatch):
    folder = tmp_path / "case"
    shutil.copytree(case, folder)
    shutil.copytree(PACKAGE, folder / "package")
    monkeypatch.chdir(folder)  # a value that were executed would leave its file here
    before = contents(folder)

    message = message_of(folder)

    assert contents(folder) == before
    if os.environ.get("GRADLOOM_UPDATE_EXPECTED"):
        (case / "expected.txt").write_text(message + "\n", encoding="utf-8")
    assert message + "\n" == (case / "expected.txt").read_text(encoding="utf-8")
    check_form(message.split("\n\n")[0], folder)


def check_form(message, folder):
    """The first line names a place in the file, the second is that line, the third points below the word."""
    lines = message.splitlines()
    place = re.fullmatch(r"(\w+\.yaml):(\d+):(\d+): error: (.+)", lines[0])
    assert place, lines[0]
    path, line, col = place[1], int(place[2]), int(place[3])
    data = (folder / path).read_bytes().decode("utf-8", "replace").split("\n")
    source = data[line - 1]
    assert 1 <= col <= len(source) + 1
    assert lines[-1].startswith("hint: ")
    if not source.strip() or not source.isprintable() or len(source) > 150:
        return
    assert lines[1] == source
    assert re.fullmatch(r" *\^~*", lines[2])
    assert lines[2].index("^") == col - 1
    marked = source[col - 1 : len(lines[2])]
    assert marked.strip() or col == len(source) + 1, "the caret is below nothing"


def test_cases_are_complete():
    """Every folder has its message, and no message is there without a folder that gives it."""
    folders = {p.name for p in ERRORS.iterdir() if p.is_dir()} - {PACKAGE.name}
    assert folders == {p.name for p in CASES}
    assert all(
        (case / "expected.txt").is_file() or os.environ.get("GRADLOOM_UPDATE_EXPECTED") for case in CASES
    )
