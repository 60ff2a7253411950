"""Runs of the harness: worker processes, the verdict against the known misses, the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

torch = pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

from . import __main__ as cli, session  # noqa: E402
from .known import judge, load_known  # noqa: E402
from .pool import Task, run_tasks  # noqa: E402
from .results import OpResult  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_nothing_ends_the_run():
    def task(name, run):
        return Task(name, "operators", "other", run)

    def hang(progress):
        progress("backward", "float64 sample 3")
        time.sleep(60)

    def fine(progress):
        return OpResult("fine")

    tasks = [
        task("hang", hang),
        task("crash", lambda progress: os.kill(os.getpid(), signal.SIGSEGV)),
        task("exit", lambda progress: exit(3)),
        task("broken", lambda progress: json.loads("?")),
        *(task("fine", fine) for _ in range(4)),
    ]
    results = sorted(run_tasks(tasks, jobs=2, limit=10.0), key=lambda result: result.name)
    assert [result.name for result in results] == ["broken", "crash", "exit", *["fine"] * 4, "hang"]
    found = {result.name: result.stages for result in results}
    assert found["hang"]["backward"].misses == [{"where": "float64 sample 3", "reason": "no answer within 10 s"}]
    assert found["crash"]["forward"].misses[0]["reason"] == "the process died (SIGSEGV)"
    assert "raises SystemExit: 3" in found["exit"]["forward"].misses[0]["reason"]
    broken = found["broken"]["forward"].misses[0]["reason"]
    assert broken.startswith("raises JSONDecodeError: Expecting value: line 1 column 1 (char 0) (decoder.py:")


def result_with(name, **misses):
    result = OpResult(name)
    for stage, reason in misses.items():
        result.count(stage, "float64 sample 0", reason)
    return result


def test_the_verdict_wants_every_miss_listed_and_every_listed_miss_to_miss():
    results = [result_with("a", forward="off", backward=None), result_with("b", forward=None)]
    known = {"operators": {"a": {"forward": "why"}}, "modules": {}, "optimizers": {}}
    stages = ["forward", "backward"]
    assert judge(results, known, stages, whole=True).passed
    assert judge(results, load_known(None), stages, whole=True).new == [("a", "forward", "off")]
    known["operators"]["a"]["backward"] = "why"
    assert judge(results, known, stages, True).gone == ["a: backward passes now; remove it from the known misses"]
    assert judge(results, known, ["forward"], True).passed  # backward was not run
    known["operators"] = {"a": {"forward": "why"}, "c": {"forward": "why"}}
    assert judge(results, known, stages, whole=False).passed
    assert len(judge(results, known, stages, whole=True).gone) == 1


def test_a_known_miss_needs_a_reason(tmp_path):
    path = tmp_path / "known.yaml"
    path.write_text("operators:\n  add:\n    forward:\n")
    with pytest.raises(ValueError, match="operators: add"):
        load_known(path)
    path.write_text("with --whole:\n  operators:\n    add:\n      forward: why\n")
    assert load_known(path)["operators"] == {}
    assert load_known(path, True)["operators"] == {"add": {"forward": "why"}}
    path.write_text("with --whole:\n  operators:\n    add:\n      forward:\n")
    with pytest.raises(ValueError, match="operators: add"):
        load_known(path)


def test_a_known_miss_can_be_one_of_some_releases(tmp_path):
    path = tmp_path / "known.yaml"
    for title, counts in {"before 99.0": True, "since 99.0": False, "before 1.9": False, "since 1.9": True}.items():
        path.write_text(f"{title}:\n  operators:\n    add:\n      forward: why\n")
        assert load_known(path)["operators"] == ({"add": {"forward": "why"}} if counts else {})
    path.write_text("after 1.9:\n  operators: {}\n")
    with pytest.raises(ValueError, match="before 2.15"):
        load_known(path)


def test_the_command_prints_a_table_and_writes_it(tmp_path, capsys):
    arguments = [
        "--candidate",
        "torch",
        "--ops",
        "add",
        "nn.Linear",
        "optim.SGD",
        "--samples",
        "1",
        "--out",
        str(tmp_path),
    ]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "elementwise" in printed and "nn.Linear" not in printed
    data = json.loads((tmp_path / "conformance.json").read_text())
    assert data["passed"] and [result["name"] for result in data["results"]] == ["add", "nn.Linear", "optim.SGD"]
    assert "| elementwise |" in (tmp_path / "conformance.md").read_text()


NEW_MISS = """
import sys
from tests.conformance import __main__ as cli, report, session
from tests.conformance.planted import Altered, sine
from tests.conformance.proxy import candidate_library

session.load_candidate = lambda name: candidate_library(Altered({"sin": sine(gradient=2.0)}))
code = cli.main(["--ops", "sin", "--only", "forward,backward", "--out", sys.argv[1]])
print("draft:", report.draft(session.run(session.load_candidate(""), session.Selection(("sin",)))))
sys.exit(code)
"""


def test_a_new_miss_fails_the_command(tmp_path):
    """In a process of its own: after deeply nested backward passes PyTorch refuses them in forked processes."""
    command = [sys.executable, "-c", NEW_MISS, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    printed, _, draft = done.stdout.partition("draft:")
    assert "new miss: sin: backward: gradient 0:" in printed
    assert yaml.safe_load(draft)


def test_a_wrong_stage_or_name_is_refused(capsys):
    for arguments in (["--only", "forwards"], ["--ops", "no_such_operator", "--candidate", "torch"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 2


def test_whole_runs_name_what_is_done_and_give_it_time(monkeypatch, tmp_path, capsys):
    limits = []

    def run(candidate, selection, *, time_per_op, told, **options):
        limits.append(time_per_op)
        told(OpResult("sin", seconds=2.0))
        return session.Run("torch", selection)

    monkeypatch.setattr(session, "run", run)
    arguments = ["--candidate", "torch", "--ops", "sin", "--out", str(tmp_path)]
    assert [cli.main([*arguments, *further]) for further in ([], ["--whole"], ["--time-per-op", "5"])] == [0, 0, 0]
    assert limits == [60.0, 1800.0, 5.0]
    assert capsys.readouterr().err == "1/1 sin: 2 s\n"
