"""`gradloom verify`: its arguments, its exit code and its report; packages and definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gradloom
from gradloom.codegen.errors import UsageError
from gradloom.tools.cli import main
from gradloom.tools.verify import CHECKS, operators_of, verify
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
WRONG = """
- func: planted_cube(Tensor self) -> Tensor
  kernel: self * self * self
- name: planted_cube(Tensor self) -> Tensor
  self: 2 * grad * (self * self).conj()
  result: 3 * self_t * self_p * self_p
"""
PYPROJECT = '[project]\nname = "{0}"\nversion = "0.1"\n\n[tool.gradloom]\npackage = "src/{0}"\n'
REGISTER = 'from gradloom import ops\n\nops.register(f"{__name__}.generated")\n'


def test_the_table_has_a_row_for_every_operator(capsys):
    assert main(["verify", "--root", str(ROOT), "--op", "tanh", "--op", "mul.Tensor"]) == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["operator", *" ".join(CHECKS).split()]
    assert [row.split()[0] for row in rows[:2]] == ["mul.Tensor", "tanh"]
    assert rows[-1].startswith("2 operators: all right (")


def test_a_name_means_all_its_overloads_and_variants(capsys):
    assert main(["verify", "--root", str(ROOT), "--fast", "--op", "pow"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("pow.")]
    assert sorted(rows) == ["pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor"]
    assert [r.name for r in verify(["tanh_"], mode="fast").results] == ["tanh"]


def test_many_operators_are_shown_by_family(capsys):
    assert main(["verify", "--root", str(ROOT), "--fast", "--family", "special"]) == 0
    out = capsys.readouterr()
    assert out.out.splitlines()[2].startswith("special (") and "special" in out.err


def test_results_are_written_as_json(tmp_path, capsys):
    assert main(["verify", "--root", str(ROOT), "--op", "sin", "--json", str(tmp_path / "found.json"), "--quiet"]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ok"] and found["operators"][0]["name"] == "sin"
    assert list(found["operators"][0]["checks"]) == list(CHECKS)
    assert capsys.readouterr() == ("", "")


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gradloom.tools.verify.runner.run", lambda *_: pytest.fail("the work is lost"))
    path = tmp_path / "no_such_folder" / "found.json"
    assert main(["verify", "--root", str(ROOT), "--op", "sin", "--json", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_an_unknown_operator_is_wrong_usage(capsys):
    assert main(["verify", "--root", str(ROOT), "--op", "tanhh"]) == 2
    assert "there is no operator `tanhh`; did you mean `tanh`?" in capsys.readouterr().err
    assert main(["verify", "--root", str(ROOT), "--family", "specials"]) == 2
    assert "there is no family `specials`; did you mean `special`?" in capsys.readouterr().err
    assert main(["verify", "--package", "no_such_package"]) == 2


def test_names_are_a_list():
    with pytest.raises(ValueError, match="are lists"):
        verify("tanh")
    with pytest.raises(ValueError, match="mode is 'slow'"):
        verify(["tanh"], mode="slow")


def test_what_gradloom_ops_define_makes_is_verified():
    with gradloom.ops.define(WRONG) as definition:
        report = verify(package=definition)
    assert not report.ok
    (first, *_) = report.wrong
    assert first.operator == "planted_cube" and first.where == "<define>:5" and first.input == "self"
    assert any("a constant factor of 0.6666667" in cause for cause in first.causes)
    assert "2 * grad * (self * self).conj()" in str(report) and "1 of 1 operator wrong" in str(report)


def test_a_derivative_that_replaces_one_of_gradlooms_is_verified():
    entry = (
        "- name: sin(Tensor self) -> Tensor\n  override: true\n  self: -grad * self.cos().conj()\n"
        "  result: self_t * self_p.cos()\n"
    )
    assert verify(["sin"], mode="fast").ok
    with gradloom.ops.define(entry) as definition:
        report = verify(package=definition)
        assert [f.where for f in report.wrong if f.check == "reverse"] == ["<define>:3"]
        assert "the sign" in report.wrong[0].causes
    assert verify(["sin"], mode="fast").ok


DEFAULTS = """
int reduction=Mean ; SymInt reduction=Sum ; int[2] sizes=1 ; int[] sizes=[2, 3] ; float weight=inf ; Scalar weight=2
float[2] weights=[0.5, 2] ; bool[2] masked=[True, False] ; str mode='a' ; ScalarType dtype=long ; int? size=None
MemoryFormat memory_format=contiguous_format ; Layout layout=strided ; Device device='cpu'
"""


@pytest.mark.parametrize("default", [d.strip() for line in DEFAULTS.strip().splitlines() for d in line.split(" ; ")])
def test_every_default_of_the_schema_language_is_verified(default):
    schema = f"planted_default(Tensor self, *, {default}) -> Tensor"
    entry = f"- func: {schema}\n  kernel: self * 2\n- name: {schema}\n  self: grad * {{}}\n  result: self_t * 2\n"
    for factor, right in ((2, True), (3, False)):
        with gradloom.ops.define(entry.format(factor)) as definition:
            report = verify(package=definition, mode="fast")
        assert report.ok == right, report
        assert all("the gradient of `self`" in finding.message for finding in report.findings)


def test_what_was_not_checked_is_said():
    operator = "- func: planted_{0}(Tensor self, float scale=2.0) -> {1}\n  kernel: {2}\n"
    entries = (("bare", "Tensor", "self * 2"), ("whole", "Tensor", "(self > scale)"))
    with gradloom.ops.define("".join(operator.format(*entry) for entry in entries)) as definition:
        report = verify(package=definition)
    bare, whole = report.results
    assert [f.message for f in bare.findings] == ["planted_bare: no derivative: derivatives.yaml has no entry for it"]
    assert bare.mark("reverse") == "missing" and bare.mark("variants") == "-"
    assert bare.ignored == ("scale",) and whole.ignored == ()
    assert report.ok and "planted_bare: `scale` is never used" in str(report) and "all right" not in str(report)
    assert "2 derivatives missing" in str(report) and "1 argument never used" in str(report)
    found = verify(["argmax"])
    assert "argmax: its entry says that it is not differentiable" in str(found)
    assert "1 operator without a derivative" in str(found) and found.as_dict()["operators"][0]["without_derivative"]


@pytest.fixture
def project(tmp_path):
    """A package of operators with a wrong formula, generated."""
    package = tmp_path / "src" / "planted_ops"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.format("planted_ops"))
    operators, formulas = WRONG.strip().split("\n- name", 1)
    (package / "native_functions.yaml").write_text(operators + "\n")
    (package / "derivatives.yaml").write_text("- name" + formulas + "\n")
    (package / "__init__.py").write_text(REGISTER)
    run("generate", "--root", tmp_path).check_returncode()
    return tmp_path


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "gradloom", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT)


def verify_in(folder, *arguments):
    return run("verify", *arguments, cwd=folder)


def test_a_package_is_verified_in_its_folder_and_by_its_folder(project, tmp_path):
    for done in (verify_in(project / "src"), verify_in(ROOT, "--package", str(project))):
        assert done.returncode == 1, done.stderr
        assert "derivatives.yaml:2:9: error: planted_cube: the gradient of `self` is wrong" in done.stdout
        assert "a constant factor of 0.6666667" in done.stdout


def test_a_package_may_bring_samples(project):
    (project / "src" / "planted_ops" / "samples.py").write_text(
        "import gradloom\n\nSAMPLES = {'planted_cube': lambda: iter([((gradloom.ones(1, 5).double(),), {})])}\n"
    )
    (found, *_) = json.loads(verify_in(project, "--json", "-").stdout)["operators"][0]["findings"]
    assert found["cases"][0] == "planted_cube(self=float64[1, 5])"


def test_an_exception_in_samples_is_the_operators_failure(project):
    (project / "src" / "planted_ops" / "samples.py").write_text("SAMPLES = {'planted_cube': lambda: 1 / 0}\n")
    done = verify_in(project)
    assert done.returncode == 1 and not done.stderr, done.stderr
    assert "planted_cube: the samples or a check raise ZeroDivisionError: division by zero (" in done.stdout
    assert "samples.py:1)" in done.stdout and "1 of 1 operator wrong" in done.stdout
    (project / "src" / "planted_ops" / "samples.py").write_text("1 / 0\n")
    assert "planted_ops.samples cannot be imported: ZeroDivisionError" in verify_in(project).stderr


def test_an_exception_in_a_check_is_the_operators_failure(monkeypatch):
    def fails(*arguments):
        raise KeyError("a check")

    monkeypatch.setattr("gradloom.tools.verify.runner.SecondOrder", fails)
    monkeypatch.setattr("gradloom.tools.verify.runner._static", fails)
    report = verify(["tanh", "sin"], mode="fast")
    assert [(f.operator, f.check) for f in report.wrong] == [("sin", "call"), ("tanh", "call")]
    monkeypatch.setattr("gradloom.tools.verify.diagnosis._finding", fails)
    assert len(verify(["tanh", "sin"], mode="fast").wrong) == 2


def test_a_package_that_was_not_generated_anew_is_refused(project):
    path = project / "src" / "planted_ops" / "derivatives.yaml"
    path.write_text(path.read_text().replace("2 * grad", "3 * grad"))
    with pytest.raises(UsageError, match="run `gradloom generate` first"):
        operators_of(project)
    done = verify_in(project)
    assert done.returncode == 2 and "run `gradloom generate` first" in done.stderr
    run("generate", "--root", project).check_returncode()
    assert verify_in(project).returncode == 0


def test_another_checkout_than_the_one_that_is_imported_is_refused(tmp_path, capsys):
    for name in ("native_functions.yaml", "derivatives.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert main(["verify", "--root", str(tmp_path)]) == 2
    assert "the checkout of another gradloom" in capsys.readouterr().err
