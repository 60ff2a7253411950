"""Every kind of error in the YAML files: one broken file each, and the message that it must give.

A case is a folder in errors/ with a broken `native_functions.yaml` or `derivatives.yaml` (or both, where they
disagree) and `expected.txt`, the whole message. What a case does not have is taken from errors/sound, which
is a small checkout without a fault. To write the messages anew, and review them:

    GRADLOOM_UPDATE_EXPECTED=1 pytest tests/codegen/test_errors.py
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from gradloom.codegen import cli

ERRORS = Path(__file__).parent / "errors"
SOUND = ERRORS / "sound"
CASES = sorted(p for p in ERRORS.iterdir() if p.is_dir() and p != SOUND)
FILES = {"native_functions.yaml", "derivatives.yaml"}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of errors/sound, and the current folder: a value that were executed would leave its file
    here.
    """
    folder = tmp_path / "checkout"
    shutil.copytree(SOUND, folder)
    monkeypatch.chdir(folder)
    return folder


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("command", ["generate", "check"])
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_error(case, command, checkout, capsys):
    shutil.copytree(case, checkout, dirs_exist_ok=True)
    before = contents(checkout)

    code = cli.main([command, "--root", str(checkout)])

    out, message = capsys.readouterr()
    assert (code, out) == (1, "")
    assert contents(checkout) == before
    if os.environ.get("GRADLOOM_UPDATE_EXPECTED"):
        (case / "expected.txt").write_text(message, encoding="utf-8")
    assert message == (case / "expected.txt").read_text(encoding="utf-8")
    for part in message.rstrip("\n").split("\n\n"):
        check_form(part, checkout)


def check_form(message, folder):
    """The first line names a place in the file, the second is that line, the third points below the word."""
    lines = message.splitlines()
    place = re.fullmatch(r"([\w/]+\.(?:yaml|py)):(\d+):(\d+): error: (.+)", lines[0])
    assert place, lines[0]
    path, line, col = place[1], int(place[2]), int(place[3])
    text = (folder / path).read_bytes().decode("utf-8", "replace")
    data = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    source = data[line - 1]
    assert 1 <= col <= len(source) + 1
    assert lines[-1].startswith("hint: ")
    if not source.strip() or not source.isprintable() or len(source) > 150:
        return
    assert lines[1] == source
    assert re.fullmatch(r" *\^~*", lines[2])
    assert lines[2].index("^") == col - 1
    marked = source[col - 1 : len(lines[2])]
    behind = source[col - 1 :].strip()  # the value ends here, and a comment or nothing follows
    assert marked.strip() or behind == "" or behind.startswith("#"), "the caret is below nothing"


def test_the_sound_checkout_is_sound(checkout, capsys):
    """Otherwise every case would fail for a reason of its own."""
    assert cli.main(["generate", "--root", str(checkout)]) == 0
    assert cli.main(["check", "--root", str(checkout)]) == 0


def test_every_folder_is_a_case():
    for case in CASES:
        files = {p.name for p in case.iterdir()}
        assert files & FILES, case
        assert "expected.txt" in files or os.environ.get("GRADLOOM_UPDATE_EXPECTED"), case
