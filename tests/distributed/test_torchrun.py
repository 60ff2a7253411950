"""torchrun: workers on one machine or more, what they print, and how they end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.ranks import reserved_port
from tests.waiting import LIMIT, started

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are Unix's")
RUN = [sys.executable, "-m", "gradloom.distributed.run"]
PROGRAM = """
import os, sys, time
from datetime import timedelta

import {library} as torch
import {library}.distributed as dist

dist.init_process_group(timeout=timedelta(seconds=200))
rank, size, attempt = dist.get_rank(), dist.get_world_size(), os.environ["TORCHELASTIC_RESTART_COUNT"]
total = torch.ones(1) * rank
dist.all_reduce(total)
local = os.environ["LOCAL_RANK"]
text = f"rank {{rank}} of {{size}}, local {{local}}, attempt {{attempt}}, sum {{total.item():g}}, {{sys.argv[1:]}}\\n"
print(text, end="", flush=True)
what = sys.argv[1] if len(sys.argv) > 1 else ""
if rank == 1 and what == "raise":
    raise ValueError("a bad batch")
if rank == 1 and what == "once" and attempt == "0":
    sys.exit(3)
if rank == 1 and what == "kill":
    os.kill(os.getpid(), 9)
if rank == 1 and what == "hang":
    open(sys.argv[2], "w").write(str(os.getpid()))
    time.sleep(1000)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(library="gradloom"))
    return path


def torchrun(*arguments: object, command=RUN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL
    )


def ranks(text: str) -> list[str]:
    return sorted(re.findall(r"rank (\d+ of \d+, local \d+, attempt \d+, sum \d+)", text))


def test_workers_know_their_ranks_and_the_programs_arguments(program, tmp_path):
    logs = tmp_path / "logs"
    found = torchrun(
        "--standalone", "--nproc-per-node=2", "--log-dir", logs, "--tee=1", "--role=trainer", program, "a", "-b"
    )
    assert found.returncode == 0, found.stderr
    assert ranks(found.stdout) == ["0 of 2, local 0, attempt 0, sum 1", "1 of 2, local 1, attempt 0, sum 1"]
    assert "[trainer0]:rank 0 of 2" in found.stdout and "['a', '-b']" in found.stdout
    assert "rank 1 of 2" in next(logs.glob("*/attempt_0/1/stdout.log")).read_text()


def test_the_first_failure_is_told_with_its_traceback_and_ends_the_others(program):
    found = torchrun("--standalone", "--nproc-per-node=3", program, "raise")
    assert found.returncode == 1
    assert found.stderr.index("[rank1]: ValueError: a bad batch") < found.stderr.find("was lost") % len(found.stderr)
    summary = found.stderr.partition("Root cause")[2]
    assert re.search(r"rank 1 \(local rank 1, pid \d+\): exit code 1", summary) and "ValueError: a bad batch" in summary


def test_a_killed_worker_is_the_cause_though_others_report_it(program):
    found = torchrun("--standalone", "--nproc-per-node=2", program, "kill")
    assert found.returncode == 1 and "rank 1 was lost" in found.stderr
    assert re.search(r"Root cause, the first failure:\n  rank 1 .*: SIGKILL", found.stderr)


def test_workers_are_restarted(program):
    found = torchrun("--standalone", "--nproc-per-node=2", "--max-restarts=1", program, "once")
    assert found.returncode == 0, found.stderr
    assert ranks(found.stdout)[1::2] == ["0 of 2, local 0, attempt 1, sum 1", "1 of 2, local 1, attempt 1, sum 1"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_remains_when_the_launcher_is_interrupted_or_killed(program, tmp_path, number):
    if number == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux ends processes with their parent")
    note, before = tmp_path / "pid", set(os.listdir("/dev/shm"))
    command = [*RUN, "--standalone", "--nproc-per-node=2", program, "hang", note]
    with started(command, tmp_path / "log") as job:
        end = time.monotonic() + LIMIT
        while not (note.exists() and note.read_text()):
            assert time.monotonic() < end and job.process.poll() is None, job.log.read_text()
            time.sleep(0.05)
        assert job.end(number) == (130 if number == signal.SIGINT else -9)
    while Path(f"/proc/{note.read_text()}").exists():
        assert time.monotonic() < end, "a worker is still there"
        time.sleep(0.05)
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "gradloom" in name}


def test_several_nodes_meet_at_an_endpoint(program, tmp_path):
    options = ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=job", "--rdzv-endpoint"]
    with reserved_port() as port:
        options += [f"127.0.0.1:{port}", program]
        lines = _on_two_nodes(options, tmp_path / "log")
    assert [line.partition(",")[0] for line in lines] == ["0 of 3", "1 of 3", "2 of 3"]


def _on_two_nodes(options, log):
    with started([*RUN, "--nproc-per-node=1", *options], log) as other:
        found = torchrun("--nproc-per-node=2", *options)
        assert found.returncode == 0, found.stderr
        assert other.process.wait(LIMIT) == 0, other.log.read_text()
        return ranks(found.stdout + other.log.read_text())


def test_programs_that_import_torch_run_on_gradloom(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(library="torch"))
    command = [sys.executable, "-m", "gradloom", "torchrun"]
    found = torchrun("--standalone", "--nproc-per-node=2", path, command=command)
    assert found.returncode == 0, found.stderr
    assert len(ranks(found.stdout)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nnodes=0"], "not in the format"),
        (["--nproc-per-node=gpu"], "Unsupported nproc_per_node value"),
        (["--rdzv-backend=etcd"], "use static or c10d"),
        (["--node-rank=1"], "must be less than"),
        (["--tee=7"], "does not say which streams"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments, message):
    from gradloom.distributed import run

    options = run.parse_args([*arguments, "program.py"])
    with pytest.raises(ValueError, match=message):
        run.run(options)


def test_mpiexec_starts_the_program_as_it_is(tmp_path):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    path = tmp_path / "program.py"
    path.write_text(
        "import gradloom as torch, gradloom.distributed as dist\n"
        "dist.init_process_group()\n"
        "total = torch.ones(1) * dist.get_rank()\n"
        "dist.all_reduce(total)\n"
        "print(f'rank {dist.get_rank()} of {dist.get_world_size()}: {total.item():g}\\n', end='', flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    found = torchrun("-n", 2, sys.executable, path, command=[mpiexec])
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == ["rank 0 of 2: 1", "rank 1 of 2: 1"]


def test_torchs_module_is_the_launcher_too(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(library="torch"))
    command = [sys.executable, "-m", "gradloom", "run", "-m", "torch.distributed.run"]
    found = torchrun("--standalone", "--nproc-per-node=2", path, command=command)
    assert found.returncode == 0, found.stderr
    assert len(ranks(found.stdout)) == 2
