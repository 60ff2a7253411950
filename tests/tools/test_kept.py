"""The file of results of the generator: used if it can be trusted, and never more than a shortcut."""

from __future__ import annotations

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from gradloom.codegen.derivatives import incremental as loading
from gradloom.codegen.outputs import render
from gradloom.codegen.target import Target
from gradloom.codegen.writing.folder import write
from gradloom.tools import cli, kept
from tests.codegen.cases import BASE


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A small checkout whose results are kept in a folder of its own."""
    monkeypatch.setenv("GRADLOOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "SMALLEST", 0)
    monkeypatch.setattr(loading, "BEGAN", 2**63)
    folder = tmp_path / "checkout"
    shutil.copytree(BASE, folder)
    return Target("gradloom", folder / "src" / "gradloom", folder, folder / "generated")


def kept_files(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != ".blocks"]


def test_a_second_run_takes_what_the_first_has_kept(target, tmp_path, monkeypatch):
    files = kept.generated_files(target)
    write(target.output, files)
    (file,) = kept_files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    before = file.stat().st_mtime_ns
    monkeypatch.delattr(render, "render_package")
    assert kept.generated_files(target) == files
    assert file.stat().st_mtime_ns == before


def damaged(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def linked(file):
    file.rename(file.with_suffix(".elsewhere"))
    file.symlink_to(file.with_suffix(".elsewhere"))


WRONG = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "empty": lambda file: file.write_bytes(b""),
    "damaged": damaged,
    "a link": linked,
    "others may write": lambda file: file.chmod(0o622),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_that_is_not_whole_or_not_ones_own_is_not_used(wrong, target, tmp_path, monkeypatch):
    files = kept.generated_files(target)
    (file,) = kept_files(tmp_path)
    WRONG[wrong](file)
    monkeypatch.setattr(kept, "unpack", lambda data: {} if not data else pytest.fail("the file was read"))
    assert kept.generated_files(target) == files


def test_the_folder_of_others_is_not_used(target, tmp_path):
    (tmp_path / "cache" / kept.ROOM).mkdir(parents=True)
    (tmp_path / "cache" / kept.ROOM).chmod(0o777)
    with pytest.warns(UserWarning, match="others may write to it"):
        assert kept.generated_files(target) == render.generated_files(target)
    assert kept_files(tmp_path) == []


@pytest.mark.parametrize("switch", ["variable", "option"])
def test_it_can_be_switched_off(switch, target, tmp_path, monkeypatch):
    if switch == "variable":
        monkeypatch.setenv("GRADLOOM_CACHE_DIR", "")
        assert kept.generated_files(target) == render.generated_files(target)
    else:
        assert cli.main(["generate", "--afresh", "--root", str(target.specification)]) == 0
    assert kept_files(tmp_path) == []


def test_runs_at_the_same_time_find_whole_files(target, tmp_path):
    files = render.generated_files(target)
    with ThreadPoolExecutor(4) as pool:
        assert all(found == files for found in pool.map(lambda _: kept.generated_files(target), range(12)))
    assert len(kept_files(tmp_path)) == 1
    assert [name for name in os.listdir(tmp_path / "cache" / kept.ROOM) if name.startswith(".new")] == []


def test_other_results_may_be_written_between(target, tmp_path):
    """A run that is slower than another one writes the file last: its results count, and are right as well."""
    path = target.path("derivatives.yaml")
    kept.generated_files(target)
    (file,) = kept_files(tmp_path)
    old = file.read_bytes()
    path.write_text(path.read_text().replace("self: grad * other", "self: other * grad"))
    kept.generated_files(target)
    file.write_bytes(old)
    assert kept.generated_files(target) == render.generated_files(target)
