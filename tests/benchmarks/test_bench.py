"""The benchmark runs every program and says the truth about the numbers. Time itself is never asserted."""

from __future__ import annotations

import argparse
import json

import bench
import pytest
import rows
import rows_torch
from contender import Contender

import gradloom

PARTS: dict[str, set[str]] = {}
for _row in rows.ROWS:
    PARTS.setdefault(_row.program, set()).add(_row.part)


@pytest.mark.parametrize("program", sorted(PARTS.keys() - {"imports"}))
def test_every_program_runs_on_gradloom_and_gives_the_parts_of_its_rows(program):
    times = getattr(rows_torch, program)(gradloom)()
    assert times.keys() == PARTS[program]
    assert all(seconds > 0 for seconds in times.values())


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


def rows_of(**medians) -> tuple[rows.Row, dict[str, float]]:
    return rows.Row("p", "a", "title", "ms", 1e-3, limit=1.1), medians


@pytest.mark.parametrize(
    "medians, ratio, verdict",
    [
        ({"gradloom": 3.0, "torch-1": 6.0, "torch-2": 2.5}, 1.2, "1.1 EXCEEDED"),
        ({"gradloom": 3.0, "torch-1": 3.0, "autograd": 1.0}, 1.0, "1.1 kept"),
        ({"torch-1": 6.0, "torch-2": 2.5}, None, "1.1"),
        ({"gradloom": 3.0, "autograd": 1.0}, None, "1.1"),
    ],
)
def test_the_ratio_is_to_the_faster_pytorch(medians, ratio, verdict):
    assert bench.compared(*rows_of(**medians)) == (pytest.approx(ratio) if ratio else None, verdict)


def test_the_import_row_is_a_difference():
    row = next(row for row in rows.ROWS if row.difference)
    assert bench.compared(row, {"gradloom": 61.0, "torch-1": 900.0}) == (None, "60 ms EXCEEDED")
    assert bench.compared(row, {"gradloom": 59.0, "autograd": 30.0}) == (None, "60 ms kept")


def test_the_table_shows_medians_in_the_unit_of_the_row():
    row = next(row for row in rows.ROWS if row.unit == "us/op")
    table = bench.medians({("gradloom", row.program, row.part): [1e-6, 9e-6, 2e-6]})
    assert table.pop(row.title) == {"gradloom": pytest.approx(2.0)} and not any(table.values())


def test_importing_is_compared_with_numpy_in_the_same_turn():
    times = bench.measure_imports([argparse.Namespace(name="json"), argparse.Namespace(name="math-2")], 2)
    assert {name: len(seconds) for (name, _, _), seconds in times.items()} == {"json": 2, "math-2": 2}


def test_the_table_goes_between_the_markers_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n{}\nold\n{}\nafter\n".format(*bench.MARKERS))
    bench.write_readme(page, "| new |")
    assert page.read_text() == "before\n{}\n| new |\n{}\nafter\n".format(*bench.MARKERS)
    page.write_text("no markers")
    with pytest.raises(ValueError, match="page.md has no lines"):
        bench.write_readme(page, "| new |")


def test_a_run_prints_a_table_and_writes_the_numbers(tmp_path, capsys):
    path = tmp_path / "bench.json"
    args = argparse.Namespace(
        json=str(path), readme=None, rounds=1, budget=0.0, only=["matmul"], contenders=["gradloom"]
    )
    assert bench.run(args) == 0
    printed = capsys.readouterr().out
    assert "| 256x256 float32 matmul: forward" in printed and "ratio" in printed
    written = {row["row"]: row for row in json.loads(path.read_text())["rows"]}
    assert written["256x256 float32 matmul: backward"]["median"]["gradloom"] > 0
