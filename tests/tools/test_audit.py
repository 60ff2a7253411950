"""`gradloom audit`: planted faults are found, shown by programs that run, and what is right is not."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from itertools import islice

import numpy as np
import pytest

import gradloom
from gradloom.tools import cli
from gradloom.tools.audit import auditing, libraries
from gradloom.tools.audit.auditing import audit_operator
from gradloom.tools.audit.findings import Finding
from gradloom.tools.audit.processes import Audit, audit
from gradloom.tools.audit.quotients import mixed, slope
from gradloom.tools.audit.rechecking import rechecked
from gradloom.tools.audit.report import as_lines, merged, page, read, summary, text
from gradloom.tools.verify import own_operators

SECOND = {"reverse over reverse", "forward over reverse", "reverse over forward", "forward over forward"}
ONLY_PROGRAM = """import sys, json, os, time
print('{"ready": "1"}', flush=True)
for line in sys.stdin:
    name = json.loads(line)["operator"]
    print('{"at": [%d, "zeros"]}' % json.loads(line)["skipped"], flush=True)
    if name == "cos" and not json.loads(line)["skipped"]:
        os._exit(3)
    if name == "tan":
        time.sleep(3600)
    if name == "sin":
        print('{"finding": {"operator": "sin", "mode": "reverse", "kind": "wrong", "causes": []}}')
    print('{"counts": {"right": 2}}')
    print('{"done": "%s"}' % name, flush=True)
"""
COMMAND = [sys.executable, "-c", ONLY_PROGRAM]


# --- a library with planted faults: gradloom with half the slope of `sin`, with an `exp` whose backward takes the saved
# result as constant, and an `abs` whose tangent at the kink is not that of its gradient


def half_sin(x):
    return gradloom.sin(x / 2) + (gradloom.sin(x) - gradloom.sin(x / 2)).detach()


class _Exp(gradloom.autograd.Function):
    @staticmethod
    def forward(x):
        return gradloom.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result.detach().conj()

    @staticmethod
    def jvp(ctx, tangent):
        (result,) = ctx.saved_tensors
        return tangent * result


class _Abs(gradloom.autograd.Function):
    @staticmethod
    def forward(x):
        return gradloom.abs(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sgn()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return gradloom.where(x == 0, tangent, tangent * x.sgn())


def frozen_exp(x):
    return _Exp.apply(x)


def uneven_abs(x):
    return gradloom.abs(x) if x.is_complex() else _Abs.apply(x)


class Audited(types.ModuleType):
    sin, exp, abs = staticmethod(half_sin), staticmethod(frozen_exp), staticmethod(uneven_abs)

    def __getattr__(self, name):
        return getattr(gradloom, name)


class Library(libraries.Library):
    def function(self, operator):
        return vars(Audited)[operator.name] if operator.name in vars(Audited) else operator.call


@pytest.fixture(autouse=True)
def audited(monkeypatch):
    monkeypatch.setitem(sys.modules, "audited", Audited("audited"))


@pytest.fixture(scope="module")
def found():
    """The findings in a library with planted faults, by operator and mode."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "audited", Audited("audited"))
        operators = {o.name: o for o in own_operators()}
        library = Library("audited")
        made = [
            f
            for name in ("sin", "exp", "abs", "neg")
            for f in audit_operator(operators[name], library, libraries.load("gradloom"))
        ]
    return {(f.operator, f.mode): f for f in made if isinstance(f, Finding)}


def test_wrong_derivatives_are_found_and_right_ones_are_not(found):
    modes = {name: {mode for other, mode in found if other == name} for name in ("sin", "exp", "abs", "neg")}
    assert modes["sin"] == {"reverse", "forward"} | SECOND and not modes["neg"]
    assert {"reverse over reverse", "forward over reverse"} <= modes["exp"] <= SECOND
    assert modes["abs"] == {"forward"} and found["abs", "forward"].kind == "modes disagree"


def test_programs_print_what_the_findings_say(found):
    for one in found.values():
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(one.program, {})
        np.testing.assert_allclose(_numbers(out.getvalue()), _numbers(one.found), 1e-2, 1e-4)
        assert not np.allclose(_numbers(one.right), _numbers(one.found), 1e-2, 1e-4)


def _numbers(text):
    return [
        float(word) for word in text.partition("dtype")[0].translate(str.maketrans("[](),ensotr", " " * 11)).split()
    ]


def test_findings_say_how_and_why(found):
    one = found["sin", "reverse"]
    assert "difference quotients" in one.how and "gradloom's formula" in one.how
    assert one.entry.startswith("derivatives.yaml:")
    assert one.right in text(one, "audited") and "import audited as torch" in text(one, "audited")
    assert any("dropped" in cause for cause in found["exp", "forward over reverse"].causes)
    assert "own other mode" in found["abs", "forward"].how


def test_programs_of_a_former_audit_are_run_with_the_installed_version(found, monkeypatch):
    former = Audit("audited", "0", list(found.values()))
    again = rechecked([former], Library("audited"))
    assert all(not np.allclose(_numbers(again.printed[f.program]), _numbers(f.right)) for f in found.values())
    monkeypatch.setitem(sys.modules, "audited", gradloom)
    assert set(rechecked([former], Library("audited")).printed.values()) == {"right"}
    refused = Finding("sin", "reverse", "wrong", program="import audited as torch\nprint(torch.none)")
    last = rechecked([former, Audit("audited", "0", [refused])], Library("audited"))
    assert last.printed[refused.program] == "refused (AttributeError)"
    rows = [line for line in page(merged([former, last])).splitlines() if line.startswith("| `")]
    assert len(rows) == len(found) and all("| right |" in row for row in rows)


def test_what_gradloom_gives_where_its_entry_says_nan_is_documented(monkeypatch):
    draws = auditing.draws
    monkeypatch.setattr(auditing, "draws", lambda *args: islice(draws(*args), 4))  # singular matrices
    operators = {o.name: o for o in own_operators()}
    *found, (_, counts) = audit_operator(operators["linalg_qr"], libraries.load("gradloom"), None)
    assert counts["documented"] and not [f for f in found if isinstance(f, Finding)]


def test_quotients_have_errors_and_see_kinks():
    point, one = np.array([0.0, 1.0]), np.ones(2)
    smooth = slope(lambda x: np.atleast_1d(np.sin(x[0]) * x[1] ** 3), point, one)
    assert abs(smooth.value[0] - 1) < 1e-9 and smooth.error[0] < 1e-9 and not smooth.kinked[0]
    twice = mixed(lambda x: np.atleast_1d(np.exp(x[0]) * x[1] ** 2), point, one, np.array([1.0, 0.0]))
    assert abs(twice.value[0] - 3) < 1e-7 and twice.error[0] < 1e-6 and not twice.kinked[0]
    for kinked in (lambda x: abs(x[:1]), lambda x: np.floor(x[:1])):
        assert slope(kinked, point, one).kinked[0]
    assert mixed(lambda x: x[:1] * abs(x[:1]), point, one, one).kinked[0]


def test_crashes_and_hangs_are_entries_without_numbers():
    found = audit("audited", ["sin", "cos", "tan", "neg"], command=COMMAND, limit=1.0, restarts=2)
    assert sorted(found.done) == ["cos", "neg", "sin", "tan"] and found.version == "1"
    kinds = {(f.operator, f.kind, f.program) for f in found.findings}
    assert kinds == {("sin", "wrong", ""), ("cos", "crash", ""), ("tan", "hang", "")}
    (crash,) = [f for f in found.findings if f.kind == "crash"]
    assert "exit code 3" in crash.found and "zeros" in text(crash, "audited")
    assert found.counts["right"] == 6 and found.first is not None and not found.stopped


def test_what_is_found_before_an_interrupt_is_kept():
    def stop(audit, operator):
        raise KeyboardInterrupt

    found = audit("audited", ["sin", "tan"], command=COMMAND, processes=1, progress=stop)
    assert found.stopped and found.done == ["sin"] and [f.operator for f in found.findings] == ["sin"]
    assert "stopped before 1 more" in summary(found)


def test_lines_of_json_and_the_page(found, tmp_path):
    first = Audit("audited", "1", list(found.values()), done=["sin", "exp", "abs", "neg"])
    path = tmp_path / "found.json"
    path.write_text("\n".join(as_lines(first)))
    again = read(path)
    assert again.findings == first.findings and again.done == sorted(first.done)
    other = Audit("audited", "2", [Finding("sin", "reverse", "wrong", found="7", right="1")], done=["sin", "exp"])
    rows = [line.split(" | ") for line in page([again, other]).splitlines() if line.startswith("| `")]
    assert len(rows) == len(found)
    (row,) = [r for r in rows if r[:2] == ["| `sin`", "reverse"]]
    assert "`7`" in row
    (row,) = [r for r in rows if r[:2] == ["| `exp`", "forward over reverse"]]
    assert "right" in row


def test_the_command(tmp_path, capsys):
    path = tmp_path / "found.json"
    assert cli.main(["audit", "gradloom", "--op", "neg", "--processes", "1", "--json", str(path)]) == 0
    head = json.loads(path.read_text())
    assert head["operators"] == ["neg"] and head["counts"]["right"] > 50
    assert "0 findings in 0 of 1 operators" in capsys.readouterr().out
    assert cli.main(["audit", "gradloom", "--op", "negg"]) == 2
    assert "did you mean `neg`" in capsys.readouterr().err
