"""`gradloom upstream`: facts of a wheel, differences of two releases, what running shows, and what gradloom lacks."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest

from gradloom.codegen.errors import UsageError
from gradloom.tools import cli
from gradloom.tools.upstream import comparing, finding, libraries, measuring, ours, page, releases, report
from gradloom.tools.upstream.facts import DERIVATIVES, FUNCTIONS, arguments, read, returns
from gradloom.tools.upstream.files import Wheel
from gradloom.tools.upstream.moving import Move, Options, move

ROOT = Path(__file__).parents[2]

OLD = {
    FUNCTIONS: """
- func: clamp_min(Tensor self, Scalar min) -> Tensor
  dispatch:
    CPU, CUDA: clamp_min
- func: cholesky(Tensor self, bool upper=False) -> Tensor
- func: fold(Tensor self, int[2] size) -> Tensor
""",
    DERIVATIVES: """
# a comment
- name: clamp_min(Tensor self, Scalar min) -> Tensor
  self: where(self >= min, grad, at::scalar_tensor(0., grad.options()))
  result: auto_element_wise
- name: cholesky(Tensor self, bool upper=False) -> Tensor
  self: cholesky_backward(grad, upper, result)
- name: fold(Tensor self, int[2] size) -> Tensor
  self: not_implemented("fold")
- name: erf(Tensor self) -> Tensor
  self: 2.0 / sqrt(M_PI) * at::exp(-(self.pow(2))) * grad
""",
    "torch/optim/lbfgs.py": "__all__ = ['LBFGS']\nclass LBFGS:\n    def __init__(self, params, lr=1): pass\n"
    "    def step(self): pass\n    def _private(self): pass\n",
    "torch/_private.py": "def hidden(): pass\n",
    "torch/gone.py": "def f(): pass\n",
}
NEW = {
    FUNCTIONS: OLD[FUNCTIONS].replace("int[2] size)", "int[2] size, bool fast=False)")
    + "- func: polar_only(Tensor A) -> (Tensor U, Tensor H)\n  dispatch:\n    SparseCsrCUDA: f\n",
    DERIVATIVES: OLD[DERIVATIVES]
    .replace(">=", ">")
    .replace('not_implemented("fold")', "grad.unfold()")
    .replace("2.0 / sqrt(M_PI) * at::exp", "2 / std::sqrt(M_PI) *  exp")
    .replace("- name: cholesky", "- name: polar_only"),
    "torch/optim/lbfgs.py": OLD["torch/optim/lbfgs.py"].replace("lr=1", "lr=1, *, maximize=False"),
}


@pytest.fixture
def wheels(tmp_path):
    paths = []
    for version, content in (("7.0.0", OLD), ("7.1.0", NEW)):
        path = tmp_path / f"torch-{version}-cp312-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
        paths.append(path)
    return paths


@pytest.fixture
def facts(wheels):
    return [read(Wheel(path)) for path in wheels]


# --- facts ------------------------------------------------------------------------------------------------------------


def test_facts_of_a_wheel(facts):
    old = facts[0]
    assert old.version == "7.0.0"
    assert old.schemas["clamp_min"] == "(Tensor self, Scalar min) -> Tensor"
    assert old.kernels == {"clamp_min": "cpu device"}
    assert old.derivatives["fold"] == {"self": 'not_implemented("fold")'}
    assert old.names == {
        "torch.gone.f": "",
        "torch.optim.lbfgs.LBFGS": "params, lr=",
        "torch.optim.lbfgs.LBFGS.step": "",
    }
    assert not any("comment" in str(section) for section in vars(old).values())


def test_arguments_of_a_schema():
    schema = (
        "(Tensor(a!) self, SymInt[2] size=[0, 1], *, str mode='a, b', Tensor(a -> *)? out=None) -> (Tensor(a!), int)"
    )
    found = [(a.type, a.name, a.default, a.by_keyword) for a in arguments(schema)]
    assert found[0] == ("Tensor", "self", None, False)
    assert found[1] == ("int[2]", "size", "[0, 1]", False)
    assert found[-1] == ("Tensor?", "out", "None", True)
    assert returns(schema) == "(Tensor, int)"


def test_facts_are_kept_as_changes_and_read_back(facts, tmp_path, monkeypatch):
    rules, names = tmp_path / "rules", tmp_path / "names"
    monkeypatch.setattr(releases, "RULES", rules)
    monkeypatch.setattr(releases, "SECTIONS", {rules: ("schemas", "kernels", "derivatives"), names: ("names",)})
    releases.keep(facts[1:])
    releases.keep(facts[:1])
    assert releases.versions() == ["7.0.0", "7.1.0"]
    for one in facts:
        again = releases.kept(one.version.removesuffix(".0"))
        assert all(getattr(again, s) == getattr(one, s) for s in ("schemas", "kernels", "derivatives", "names"))
    names.unlink()  # as in an installed package
    assert releases.kept("7.1").names == {} and releases.kept("8.0") is None
    releases._changes.cache_clear()


# --- differences ------------------------------------------------------------------------------------------------------


def test_differences_of_two_releases(facts):
    found = {(c.kind, c.name): c for c in comparing.compare(*facts)}
    entry = {name: (c.change, c.meaning) for (kind, name), c in found.items() if kind == comparing.ENTRY}
    assert entry == {
        "polar_only": (comparing.NEW, ""),
        "cholesky": (comparing.GONE, ""),
        "clamp_min": (comparing.CHANGED, comparing.UNMEASURED),
        "fold": (comparing.CHANGED, comparing.DERIVATIVE),
        "erf": (comparing.CHANGED, comparing.EQUAL),
    }
    assert found[comparing.ENTRY, "clamp_min"].old == {"self": OLD[DERIVATIVES].split("self: ")[1].split("\n")[0]}
    assert found[comparing.SCHEMA, "fold"].words == "new argument `fast`"
    assert found[comparing.NAME, "torch.optim.lbfgs.LBFGS"].words == "new parameter `maximize`"
    assert found[comparing.NAME, "torch.gone.f"].change == comparing.GONE


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("(Tensor grad)", "(Tensor grad_output)", "`grad` is called `grad_output`"),
        ("(Tensor a, int b=0)", "(Tensor a, int b=1)", "the default of `b` is 1, was 0"),
        ("(Tensor a, int b)", "(Tensor a, int? b)", "`b` is `int?`, was `int`"),
        ("(Tensor a, int b)", "(Tensor a, *, int b)", "`b` is given by keyword"),
        ("(Tensor a, int b)", "(Tensor a)", "argument `b` is gone"),
        ("(Tensor a) -> Tensor", "(Tensor a) -> Tensor(a)", "aliases or results"),
    ],
)
def test_a_changed_schema_in_words(old, new, words):
    assert comparing.difference(old, new) == words


def test_the_command_on_wheels(wheels, tmp_path, capsys):
    old, new = map(str, wheels)
    assert cli.main(["upstream", old, old]) == 0
    capsys.readouterr()
    assert cli.main(["upstream", old, new, "--json", str(tmp_path / "a.json")]) == 1
    out = capsys.readouterr().out
    assert "7.0.0   where(self >= min, grad, at::scalar_tensor(0., grad.options()))" in out
    assert out.rstrip().endswith("public names: 0 new, 1 gone, 1 changed")
    written = json.loads((tmp_path / "a.json").read_text())
    assert {c["meaning"] for c in written["changes"] if "meaning" in c} == {
        comparing.UNMEASURED,
        comparing.DERIVATIVE,
        comparing.EQUAL,
    }
    assert cli.main(["upstream", old, new, "--op", "fold", "--json", "-"]) == 1
    assert {c["name"] for c in json.loads(capsys.readouterr().out)["changes"]} == {"fold"}


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda folder: "2.x",
            "`2.x` is no release of PyTorch: name a wheel, an environment, `installed`, or a version",
        ),
        (lambda folder: str(folder / "torch-1-a.whl"), "there is no such file"),
        (lambda folder: str(folder), "is no environment with PyTorch"),
        (lambda folder: _file(folder / "numpy-1.0-a.whl", b""), "is not named like a wheel of PyTorch"),
        (lambda folder: _file(folder / "torch-1.0-a.whl", b"no zip"), "is not a wheel"),
        (lambda folder: _zip(folder / "torch-1.0-b.whl", "a", "b"), f"is not PyTorch: it has no {FUNCTIONS}"),
        (lambda folder: _zip(folder / "torch-1.0-c.whl", FUNCTIONS, "{"), "is not YAML"),
        (lambda folder: _zip(folder / "torch-1.0-d.whl", FUNCTIONS, "a: 1"), "is not a list of entries"),
        (lambda folder: _zip(folder / "torch-1.0-e.whl", FUNCTIONS, "- a: 1"), "has an entry without a schema"),
    ],
)
def test_what_is_no_release_is_refused(make, message, tmp_path, capsys):
    assert cli.main(["upstream", "2.15", make(tmp_path)]) == 2
    out, answer = capsys.readouterr()
    assert out == "" and message in answer


def _file(path, content):
    path.write_bytes(content)
    return str(path)


def _zip(path, name, text):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, text)
    return str(path)


def test_a_release_that_pip_does_not_find_is_refused(monkeypatch):
    commands = []

    def run(command, **options):
        commands.append(command)
        return type("Done", (), {"stderr": "ERROR: No matching distribution found"})

    monkeypatch.setattr(finding.subprocess, "run", run)
    with pytest.raises(UsageError, match="no wheel of PyTorch 99.1.*No matching distribution.*1.13.0 to "):
        finding.find("99.1", lambda line: None)
    assert [c[-1] for c in commands] == ["torch==99.1"] * 3


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    assert cli.main(["upstream", "2.14", "2.15", "--page", str(tmp_path / "none" / "a.md")]) == 2
    out, answer = capsys.readouterr()
    assert out == "" and "there is no such folder" in answer


def test_a_misspelt_operator_is_refused(capsys):
    assert cli.main(["upstream", "2.14", "2.15", "--op", "clampp"]) == 2
    assert "neither release has an operator or a public name `clampp`" in capsys.readouterr().err


# --- running ----------------------------------------------------------------------------------------------------------


class Planted(libraries.Gradloom):
    """gradloom with a gradient of `clamp_min` that is 7 at the bound, and none for `exp`."""

    name = "planted"

    def answer(self, request):
        found = super().answer(request)
        if request["op"][0] == "clamp_min" and "reverse" in found:
            given, bound = request["args"][0]["tensor"][2], request["args"][1]
            found["reverse"] = [[7.0 if x == bound else g for x, g in zip(given, found["reverse"][0], strict=True)]]
        if request["op"][0] == "exp":
            found["reverse"] = [{"error": "RuntimeError: not differentiable"}]
        return found


class Wrong(libraries.Gradloom):
    """gradloom with a wrong gradient of `sin`, a step down just below 1 of `floor`, and no negative `expm1`."""

    name = "wrong"

    def answer(self, request):
        found = super().answer(request)
        name, values = request["op"][0], request["args"][0]["tensor"][2] if request["args"] else []
        if name == "sin" and "reverse" in found:
            found["reverse"] = [[g * 2 for g in found["reverse"][0]]]
        if name == "floor":
            found["value"] = [[v - 1 if x == 1 else v for x, v in zip(values, found["value"][0], strict=True)]]
        if name == "expm1" and min(values, default=0) < 0:
            found = {"value": {"error": "RuntimeError: no"}}
        return found


@pytest.mark.parametrize("name, excuse", [("sin", "PyTorch is wrong"), ("floor", "rounding"), ("expm1", "refuses")])
def test_differences_in_which_gradloom_is_right_are_excused(name, excuse):
    seen = measuring.measure(measuring.operators()[name], Wrong(), libraries.Gradloom())
    assert seen.meaning not in (comparing.EQUAL, comparing.UNMEASURED) and excuse in seen.excused
    swapped = measuring.measure(measuring.operators()[name], libraries.Gradloom(), Wrong())
    assert name == "floor" or not swapped.excused, "only the second library may be right"


@pytest.mark.parametrize("name", ["clamp_min", "exp", "atan2"])
def test_running_shows_what_differs(name):
    operator = measuring.operators()[name]
    seen = measuring.measure(operator, Planted(), libraries.Gradloom())
    if name == "clamp_min":
        assert seen.meaning == comparing.VALUE
        assert seen.shown.startswith("clamp_min(self=0.7, min=0.7): the gradient of self is 7 in planted, ")
    elif name == "exp":
        assert seen.meaning == comparing.DERIVATIVE and "is refused in planted" in seen.shown
    else:
        assert seen.meaning == comparing.EQUAL and seen.shown.startswith("equal at ")
        assert seen.nodes == ("Atan2Backward0",) * 2 and seen.saved[0] == ("other", "self")


def test_rounding_is_no_difference():
    assert measuring._compared([1.0, 0.0], [1.0 + 1e-9, 1e-17]) is None
    assert measuring._compared([1.0, 0.0], [1.0, 1e-3]) == (comparing.VALUE, 1)
    assert measuring._compared([1.0], [float("nan")]) == (comparing.DOMAIN, 0)
    assert measuring._compared([float("nan")], [float("nan")]) is None
    assert measuring._compared(None, [0.0]) is None
    assert measuring._compared({"error": "index out of range"}, [1.0]) == (comparing.DOMAIN, None)


PROCESS = """import json, os, sys
print(json.dumps({"version": "7.0+cpu"}), flush=True)
for line in sys.stdin:
    if json.loads(line)["op"] == "crash":
        os._exit(3)
    print(json.dumps({"value": [json.loads(line)["op"]]}), flush=True)
"""


def test_a_call_that_ends_the_process_is_answered_and_the_next_one_made():
    library = libraries.Torch(Path(), [sys.executable, "-c", PROCESS])
    try:
        assert library.name == "7.0"
        assert "ended the process" in library.answer({"op": "crash"})["value"]["error"]
        assert library.answer({"op": 5}) == {"value": [5]}
    finally:
        library.close()


def test_an_interpreter_without_pytorch_is_refused():
    library = libraries.Torch(Path(), [sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(UsageError, match="cannot import PyTorch"):
        _ = library.name


# --- gradloom ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def against():
    release = finding.find(releases.versions()[-1], lambda line: None)
    release.python = None  # no matter where this runs
    return move(release, release, Options(against=True), lambda line: None)


def test_reasons_follow_from_rules(against):
    found = {gap.name: gap.reason for gap in against.gaps if gap.what == ours.FORMULAS}
    assert found["matmul"] == "a composite here, and differentiable as such"
    assert found["acosh_"] == "the entry of the functional operator serves it"
    assert found["_cudnn_rnn"].startswith("a device's library")
    assert found["mkldnn_max_pool2d"].startswith("mkldnn")
    assert found["_nested_from_padded"].startswith("nested")
    assert found["_to_sparse_csr"].startswith("compressed sparse")
    assert found["_slow_conv2d_forward"] == "a step of `conv2d`, which is here"


def test_what_is_missing_has_no_reason(facts):
    release = finding.Release(facts[1])
    gaps = {gap.name: gap for gap in ours.gaps(release.facts)}
    assert gaps["polar_only"].reason.startswith("compressed sparse layouts")
    facts[1].kernels.clear()
    missing = [gap for gap in ours.gaps(facts[1]) if not gap.reason]
    assert {gap.name for gap in missing} == {"polar_only"}
    assert report.summary(Move(release, release, [], missing)).endswith("; 2 missing or different in gradloom")


def test_public_names_and_parameters_that_gradloom_lacks():
    def change(name, kind, old, new):
        words = comparing.parameters(old, new) if kind == comparing.CHANGED else ""
        return comparing.Change(comparing.NAME, kind, name, old, new, words=words)

    changes = [
        change("torch.nn.functional.relu", comparing.NEW, None, "input"),
        change("torch.nn.functional.relu7", comparing.NEW, None, "input"),
        change("torch.cuda.relu7", comparing.NEW, None, ""),
        change("torch.optim.sgd.SGD", comparing.CHANGED, "params, lr=", "params, lr=, momentum=, shoes="),
        change("torch.relu7", comparing.CHANGED, "a", "a, b"),
    ]
    found = {gap.name: bool(gap.reason) for gap in ours.missing_names(changes)}
    assert found == {"torch.nn.functional.relu7": False, "torch.cuda.relu7": True, "torch.optim.sgd.SGD(shoes)": False}


def test_the_page_is_that_of_the_known_releases(against):
    text = (ROOT / "docs" / "upstream.md").read_text("utf-8")
    known = [releases.kept(version) for version in releases.versions()]
    changes = {b.version: comparing.compare(a, b) for a, b in zip(known, known[1:], strict=False)}
    for line in page._table(known, changes):
        assert line in text
    absent = text.partition("## Entries that gradloom does not have")[2]
    for gap in against.gaps:
        assert gap.what != ours.FORMULAS or gap.ours or f"`{gap.name}`" in absent, gap.name
