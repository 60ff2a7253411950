"""The benchmark runs every program and says the truth about the numbers. Time itself is never asserted."""

from __future__ import annotations

import argparse
import json

import bench
import pytest
import rows
import rows_compile
import rows_statements
import sweeps
import tables
from contender import Contender, find_program

import gradloom

PARTS: dict[str, set[str]] = {}
for _row in rows.ROWS:
    PARTS.setdefault(_row.program, set()).add(_row.part)


@pytest.mark.parametrize("program", sorted(PARTS.keys() - {"imports", "generator"}))
def test_every_program_runs_on_gradloom_and_gives_the_parts_of_its_rows(program):
    times = find_program("gradloom", program)(gradloom)()
    assert times.keys() == PARTS[program]
    assert all(seconds > 0 for seconds in times.values())


@pytest.mark.parametrize("statement", rows_statements.STATEMENTS)
def test_every_statement_runs_on_gradloom(statement, monkeypatch):
    monkeypatch.setattr(rows_statements, "CALLS", 1)
    times = find_program("gradloom", statement)(gradloom)()
    assert times.keys() <= {"forward", "backward"} and all(seconds > 0 for seconds in times.values())


def test_a_statement_runs_with_machine_code():
    pytest.importorskip("llvmlite")
    with gradloom.set_kernels("numpy"):  # which a program leaves as it set them
        times = find_program("gradloom", rows_statements.LLVM + "F.softmax(x, 1)")(gradloom)()
        assert gradloom.get_kernels() == "llvm"
    assert gradloom.get_kernels() == "numpy"
    assert times.keys() == {"forward", "backward"}
    assert find_program("torch", rows_statements.LLVM + "F.softmax(x, 1)") is None


@pytest.mark.parametrize("program", [p for p in rows_compile.PROGRAMS if p is not rows_compile.elementwise])
@pytest.mark.parametrize("backend", ["eager", "numpy"])
def test_every_compiled_program_runs(program, backend):
    times = find_program("gradloom", rows_compile.name_of(program, backend))(gradloom)()
    assert times.keys() == {"step", "compile"} and times["step"] > 0


def test_a_backend_that_is_not_there_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr(rows_compile.shutil, "which", lambda name: None)
    assert find_program("torch", rows_compile.name_of(rows_compile.mlp, "inductor")) is None
    assert find_program("torch", rows_compile.name_of(rows_compile.mlp, "numpy")) is None
    table = tables.render_compile({("gradloom-1", rows_compile.name_of(rows_compile.mlp, "numpy"), "step"): [0.002]})
    assert "inductor needs a C++ compiler, and there is none." in table


def test_the_table_of_compiled_programs_has_ratios_of_the_better_backend():
    mlp = rows_compile.mlp
    times = {
        ("gradloom-2", rows_compile.name_of(mlp, "numpy"), "step"): [0.004],
        ("gradloom-2", rows_compile.name_of(mlp, "llvm"), "step"): [0.002],
        ("gradloom-2", rows_compile.name_of(mlp, "llvm"), "compile"): [0.03],
        ("torch-2", rows_compile.name_of(mlp, "eager"), "step"): [0.008],
    }
    line = tables.render_compile(times).splitlines()[2]
    assert [cell.strip() for cell in line.split("|")][2:-1] == ["2", "", "4", "2", "8", "", "", "30", "", "0.25", ""]


def test_a_sweep_runs_and_is_drawn(tmp_path):
    for name in ("size 10", "depth 3", "width 8"):
        assert find_program("gradloom", name)(gradloom)()["both"] > 0
    pytest.importorskip("matplotlib")
    files = sweeps.plot(
        {("gradloom-1", "size 10", "both"): [1e-5], ("gradloom-1", "size 100", "both"): [2e-5]}, tmp_path
    )
    assert files == [tmp_path / "speed-size.svg"] and "gradloom-1" in files[0].read_text()


def test_a_library_that_is_missing_is_left_out():
    contender = Contender("no_such_library")
    contender.close()
    assert contender.unavailable == "ModuleNotFoundError: No module named 'no_such_library'"


def test_a_program_that_fails_is_told_and_the_process_goes_on():
    contender = Contender("math")  # imports, and has no tensors
    try:
        assert contender.unavailable is None
        assert contender.visit("matmul", 0.0)["error"].startswith("AttributeError: ")
        assert contender.visit("no_such_program", 0.0) == {"times": {}}
    finally:
        contender.close()


ROW = rows.Row("p", "a", "title", "ms", 1e-3, limit=1.1)


@pytest.mark.parametrize(
    "cells, ratios, verdict",
    [
        ({"gradloom-1": 3.0, "gradloom-2": 4.0, "torch-1": 6.0, "torch-2": 2.5}, (0.5, 1.6, 1.2), "1.1 EXCEEDED"),
        ({"gradloom-1": 3.0, "torch-1": 3.0, "autograd": 1.0}, (1.0, None, 1.0), "1.1 kept"),
        ({"torch-1": 6.0, "torch-2": 2.5}, (None, None, None), "1.1"),
        ({"gradloom-2": 3.0, "autograd": 1.0}, (None, None, None), "1.1"),
    ],
)
def test_a_ratio_is_to_pytorch_on_as_many_threads_and_the_limit_to_the_better(cells, ratios, verdict):
    assert tuple(tables.ratio(cells, threads) for threads in ("1", "2", "")) == pytest.approx(ratios)
    assert tables.verdict(ROW, cells) == verdict


def test_the_import_row_is_a_difference():
    row = next(row for row in rows.ROWS if row.difference)
    assert tables.verdict(row, {"gradloom-1": 61.0, "torch-1": 900.0}) == "60 ms EXCEEDED"
    assert tables.verdict(row, {"gradloom-1": 59.0, "autograd": 30.0}) == "60 ms kept"


def test_the_table_shows_medians_in_the_unit_of_the_row():
    row = next(row for row in rows.ROWS if row.unit == "us/op")
    table = tables.medians({("gradloom-1", row.program, row.part): [1e-6, 9e-6, 2e-6]})
    assert table.pop(row.title) == {"gradloom-1": pytest.approx(2.0)} and not any(table.values())


def test_statements_have_geometric_means():
    first, second = rows_statements.STATEMENTS[:2]
    times = {
        ("gradloom-1", first, "forward"): [4e-6],
        ("torch-1", first, "forward"): [1e-6],
        ("gradloom-1", second, "forward"): [1e-6],
        ("torch-1", second, "forward"): [1e-6],
    }
    assert "ratios: forward 2.00 (1 of 2 above 2)." in tables.render_statements(times)
    times["gradloom-1", rows_statements.LLVM + first, "forward"] = [0.5e-6]
    assert '`set_kernels("llvm")`: forward 0.50 (0 of 1 above 2).' in tables.render_statements(times)


def test_statements_show_what_a_busy_machine_adds_to_no_sample():
    statement = rows_statements.STATEMENTS[0]
    times = {
        ("gradloom-1", statement, "forward"): [2e-6] * 3 + [9e-6] * 37,
        ("torch-1", statement, "forward"): [1e-6] + [1.1e-6] * 39,
    }
    assert "ratios: forward 1.82 (0 of 1 above 2)." in tables.render_statements(times)


def test_statements_are_visited_in_passes_by_processes_that_keep_their_kernels(monkeypatch):
    visits = []

    class Recorded:
        unavailable = None

        def __init__(self, name):
            self.name, self.kernels = name, set()

        def visit(self, program, budget):
            visits.append((self.name, program))
            self.kernels.add(program.startswith(rows_statements.LLVM))
            assert len(self.kernels) == 1
            return {"times": {"forward": [1e-6]}}

        def close(self):
            pass

    monkeypatch.setattr(bench, "Contender", Recorded)
    first, second = rows_statements.STATEMENTS[:2]
    monkeypatch.setattr(bench, "STATEMENTS", (first, second))
    times = bench.measure_statements(["gradloom-1", "gradloom-2", "torch-1"], 2, 0.0, {})
    assert [program.removeprefix(rows_statements.LLVM) for _, program in visits[::6]] == [first, second] * 2
    assert {len(seconds) for seconds in times.values()} == {4} and len(times) == 6


def test_importing_is_compared_with_numpy_in_the_same_turn():
    times = bench.measure_imports([argparse.Namespace(name="json"), argparse.Namespace(name="math-2")], 2)
    assert {name: len(seconds) for (name, _, _), seconds in times.items()} == {"json": 2, "math-2": 2}


def test_a_table_goes_between_the_markers_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    text = "before\n<!-- make bench: rows -->\n{}<!-- make bench: end rows -->\nafter\n"
    page.write_text(text.format("old\n"))
    tables.write_between(page, {"rows": "| new |", "statements": "elsewhere"})
    assert page.read_text() == text.format("| new |\n")
    page.write_text("no markers")
    with pytest.raises(ValueError, match="page.md has no lines"):
        tables.write_between(page, {"rows": "| new |"})
    page.write_text("<!-- make bench: rows -->\n")
    with pytest.raises(ValueError, match="page.md has no line <!-- make bench: end rows -->"):
        tables.write_between(page, {"rows": "| new |"})


def test_a_run_prints_a_table_and_writes_the_numbers(tmp_path, capsys):
    path = tmp_path / "bench.json"
    args = argparse.Namespace(
        json=str(path), pages=(), plots=None, rounds=1, budget=0.0, only=["matmul"], contenders=["gradloom-1"]
    )
    assert bench.run(args) == 0
    printed = capsys.readouterr().out
    assert "| 256x256 float32 matmul: forward" in printed and "ratio 1" in printed
    written = {row["title"]: row for row in json.loads(path.read_text())["rows"]}
    assert written["256x256 float32 matmul: backward"]["median"]["gradloom-1"] > 0
