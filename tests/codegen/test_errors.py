"""Every kind of error in the YAML files: a broken checkout, and the whole message that it must give.

The cases stand in errors/*.test; cases.py has their form. To write the messages anew, and review them:

    GRADLOOM_UPDATE_EXPECTED=1 pytest tests/codegen/test_errors.py
"""

import os

import pytest

from gradloom.tools import cli
from tests.codegen import cases
from tests.codegen.cases import CaseError, check_form
from tests.samples import ALL

CASES = cases.load_all()


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case, checkout, capsys):
    """`check` reads as `generate` does: every eighth case is given to both, and with GRADLOOM_ALL_SAMPLES=1 all are."""
    case.write(checkout)
    before = contents(checkout)
    commands = ["generate", "check"] if ALL or CASES.index(case) % 8 == 0 else ["generate"]
    messages = []
    for command in commands:
        code = cli.main([command, "--root", str(checkout)])
        out, message = capsys.readouterr()
        messages.append(message)
        assert (code, out) == (1, "")
        assert contents(checkout) == before
    assert len(set(messages)) == 1
    if os.environ.get("GRADLOOM_UPDATE_EXPECTED"):
        assert "PYTEST_XDIST_WORKER" not in os.environ, "expected messages are written by one process: pytest -n 0"
        cases.update(case.name, case.path, message)
    else:
        assert message == case.expected
    for part in message.rstrip("\n").split("\n\n"):
        check_form(part, checkout)


def test_the_base_is_sound(checkout, capsys):
    """Otherwise every case would fail for a reason of its own."""
    assert cli.main(["generate", "--root", str(checkout)]) == 0
    assert cli.main(["check", "--root", str(checkout)]) == 0


def test_there_are_cases():
    assert len(CASES) >= 457
    assert {path for path in cases.ERRORS.iterdir() if path.suffix != ".test"} == {cases.BASE}, (
        "no other form of a case"
    )


# --- the files of cases ----------------------------------------------------------------------------------------------

FILE = """\
-- A comment.

[derivatives.yaml, added]
# common

[case one]
[native_functions.yaml, escaped]
a\\x1b\\{=>*3}\\\\\\
b
[file src/gradloom/kernels/x.py]
x = 1

y = 2

[expected]
first

second

[case two]
[native_functions.yaml, added]
-- A comment, too.
- func: f
[expected]
third
"""


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a file of cases."""

    def write(text):
        path = tmp_path / "x.test"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_cases_are_read(file, tmp_path):
    one, two = cases.load(file(FILE))
    assert (one.name, one.expected) == ("one", "first\n\nsecond\n")
    assert (two.name, two.expected) == ("two", "third\n")
    base = (cases.BASE / "native_functions.yaml").read_text()
    one.write(tmp_path / "one")
    two.write(tmp_path / "two")
    assert (tmp_path / "one/native_functions.yaml").read_bytes() == b"a\x1b=>=>=>\\b\n"
    assert (tmp_path / "one/src/gradloom/kernels/x.py").read_text() == "x = 1\n\ny = 2\n"
    assert (tmp_path / "two/native_functions.yaml").read_text() == base + "- func: f\n"
    assert (tmp_path / "two/derivatives.yaml").read_text().endswith("other: grad * self\n# common\n")


def test_messages_are_updated(file):
    path = file(FILE)
    cases.update("one", path, "new\n")
    cases.update("two", path, "a\x1b \nb\\\n[c\n")
    one, two = cases.load(path)
    assert (one.expected, two.expected) == ("new\n", "a\x1b \nb\\\n[c\n")
    assert path.read_text() == FILE.replace("first\n\nsecond", "new").replace(
        "[expected]\nthird", "[expected, escaped]\na\\x1b\\x20\nb\\\\\n\\x5bc"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-- A comment.", "comment", "x.test:1: text that belongs to no section"),
        ("[derivatives.yaml, added]", "[derivative.yaml]", "x.test:3: `[derivative.yaml]` is no header"),
        ("[derivatives.yaml, added]", "[derivatives.yaml, add]", "x.test:3: `derivatives.yaml` cannot be add"),
        ("case one", "case The first", "x.test:6: the name of a case must be a new word"),
        ("case two", "case one", "x.test:20: the name of a case must be a new word"),
        ("a\\x1b", "a\\y", "x.test:7: a backslash that starts no escape"),
        ("[file src/gradloom/kernels/x.py]", "[expected]", "x.test:15: a second section `expected`"),
        ("[expected]\nthird\n", "", "x.test:20: case `two` has no [expected]"),
        (
            "[native_functions.yaml, added]\n-- A comment, too.\n- func: f\n",
            "",
            "x.test:20: case `two` changes no file",
        ),
        ("[expected]\nthird", "[expected, added]\nthird", "x.test:24: `expected` cannot be added"),
    ],
)
def test_faults_of_a_file_of_cases(file, old, new, message):
    assert old in FILE
    with pytest.raises(CaseError) as caught:
        cases.load(file(FILE.replace(old, new)))
    assert str(caught.value).startswith(message)


def test_a_name_stands_for_one_case(tmp_path, monkeypatch):
    monkeypatch.setattr(cases, "ERRORS", tmp_path)
    for name in ("a.test", "b.test"):
        (tmp_path / name).write_text(FILE, encoding="utf-8")
    with pytest.raises(CaseError, match=r"b\.test:6: case `one` is in a\.test, too"):
        cases.load_all()
