"""Kill a rank of a training at a random moment, many times: `python tests/distributed/faults.py --runs 100`.

Each run trains on three ranks with a checkpoint after every few steps, and kills one of them (SIGKILL) in the forward
pass, the backward pass, an all-reduce, or while a checkpoint is written. Then

- the others must end by themselves, soon, with an error that names the rank;
- the last checkpoint must load, and its values must belong together;
- nothing may be left: no process, no name in /dev/shm.

The moment is a random number of microseconds after the victim says that it is in that part of a step. With
`--launcher torchrun` or `--launcher mpiexec`, these start the ranks, and must end in time, too.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PARTS = ("forward", "backward", "all_reduce", "checkpoint")
LAUNCHERS = {  # and what they or the other ranks say of a rank that was killed
    "torchrun": (
        ["-m", "gradloom.distributed.run", "--standalone", "--nproc-per-node=3"],
        r"Root cause.*\n +rank {} .*SIGKILL",
    ),
    "mpiexec": (["-n", "3", sys.executable], r"rank \d was lost|KILLED BY SIGNAL: 9|signal 9"),
}
RANKS, SOON = 3, 60  # seconds in which the others must notice, on a busy machine


def train(rank: int, victim: int, part: str, delay: float, folder: Path) -> None:
    """Be one rank: train until the victim is killed."""
    import threading

    import gradloom as torch
    import gradloom.distributed as dist
    from gradloom.distributed import checkpoint

    nn = torch.nn
    if rank < 0:  # a launcher knows which this is
        dist.init_process_group("mpi" if "PMI_RANK" in os.environ else "gloo")
        rank = dist.get_rank()
    else:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    # 3 MB: several chunks of shared memory, more than one bucket.
    module = nn.Sequential(nn.Linear(32, 800), nn.Tanh(), nn.Linear(800, 800), nn.Tanh(), nn.Linear(800, 1))
    model = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def enter(name: str, step: int) -> None:
        if rank == victim and name == part and step == 6:
            (folder / "armed").touch()
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()

    for step in range(100_000):
        enter("forward", step)
        loss = model(torch.randn(16, 32)).square().mean()
        enter("backward", step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        enter("all_reduce", step)
        flat = torch.ones(500_000)
        dist.all_reduce(flat)
        if step % 3 == 0:
            enter("checkpoint", step)
            state = {"step": step, "model": module.state_dict(), "mark": torch.full((1000,), float(step))}
            checkpoint.save(state, checkpoint_id=folder / "checkpoint")


def run(number: int, seed: int) -> list[str]:
    """Train, kill, and return what was wrong."""
    rng = random.Random(seed * 1_000_003 + number)
    part, victim, delay = PARTS[number % len(PARTS)], rng.randrange(RANKS), rng.random() ** 2 * 0.03
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = [folder / f"log_{rank}" for rank in range(RANKS)]
        ranks = []
        for rank, log in enumerate(logs):
            given = ["--train", str(rank), str(victim), part, str(delay), name]
            with open(log, "wb") as file:
                environment = os.environ | {"OMP_NUM_THREADS": "1"}
                command = [sys.executable, __file__, *given]
                ranks.append(subprocess.Popen(command, stdout=file, stderr=file, env=environment))
        try:
            return [f"run {number} ({part}, rank {victim}): {line}" for line in _watch(ranks, victim, logs, folder)]
        finally:
            for process in ranks:
                process.kill()
                process.wait()


def run_launched(launcher: str, number: int, seed: int) -> list[str]:
    """Train under a launcher, kill, and return what was wrong."""
    rng = random.Random(seed * 1_000_003 + number)
    part, victim, delay = PARTS[number % len(PARTS)], rng.randrange(RANKS), rng.random() ** 2 * 0.03
    options, said = LAUNCHERS[launcher]
    program = (
        shutil.which("mpiexec", path=str(Path(sys.executable).parent)) if launcher == "mpiexec" else sys.executable
    )
    before, wrong = _names(), []
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "log")
        command = [str(program), *options, __file__, "--train", "-1", str(victim), part, str(delay), name]
        with open(log, "wb") as file:
            started = subprocess.Popen(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
        try:
            code = started.wait(5 * SOON)
            took = time.time() - (folder / "armed").stat().st_mtime if (folder / "armed").exists() else 0.0
            if code == 0 or not re.search(said.format(victim), log.read_text()):
                wrong.append(f"the launcher ended with {code}: {log.read_text()[-1500:]}")
            if took > SOON:
                wrong.append(f"the launcher ended {took:.0f} s after the victim")
        except subprocess.TimeoutExpired:
            wrong.append(f"the launcher did not end: {log.read_text()[-600:]}")
            started.kill()
            started.wait()
        end = time.monotonic() + 10
        while (left := _processes(name)) and time.monotonic() < end:
            time.sleep(0.02)
        wrong += [f"process {pid} is left" for pid in left]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        wrong += _checkpoint_is_sound(folder / "checkpoint")
    wrong += [f"/dev/shm/{one} is left" for one in _names() - before]
    return [f"run {number} under {launcher} ({part}, rank {victim}): {line}" for line in wrong]


def _processes(folder: str) -> list[int]:
    """Return the processes whose command names a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if folder.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def _names() -> set[str]:
    """Return the names of shared memory that gradloom's and MPI's processes make."""
    if not os.path.isdir("/dev/shm"):
        return set()
    return {name for name in os.listdir("/dev/shm") if "gradloom" in name or "mpich" in name}


def _watch(ranks: list[subprocess.Popen[bytes]], victim: int, logs: list[Path], folder: Path) -> list[str]:
    try:
        code = ranks[victim].wait(5 * SOON)
    except subprocess.TimeoutExpired:
        return ["the victim was never killed"]
    if code != -signal.SIGKILL:
        return [f"the victim ended with {code}: {logs[victim].read_text()[-600:]}"]
    wrong, began = [], time.monotonic()
    for rank, process in enumerate(ranks):
        if rank == victim:
            continue
        try:
            code = process.wait(max(0.1, SOON - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            wrong.append(f"rank {rank} did not end in {SOON} s")
            continue
        text = logs[rank].read_text()
        # A rank may notice the victim, or another rank that noticed first and closed its group.
        if code != 1 or not re.search(r"rank \d (was lost|\(process \d+\) has ended|closed its process group)", text):
            wrong.append(f"rank {rank} ended with {code}: {text[-600:]}")
    return wrong + _checkpoint_is_sound(folder / "checkpoint") + _left_over()


def _checkpoint_is_sound(path: Path) -> list[str]:
    import gradloom as torch
    from gradloom.distributed import checkpoint

    state = {"step": -1, "mark": torch.zeros(1000)}
    try:
        checkpoint.load(state, checkpoint_id=path)
    except Exception as error:
        return [f"the checkpoint does not load: {error}"]
    if state["step"] % 3 or not (state["mark"] == state["step"]).all():
        return [f"the checkpoint mixes steps: {state['step']}, {state['mark'].unique()}"]
    return []


def _left_over() -> list[str]:
    if not os.path.isdir("/dev/shm"):
        return []
    return [f"/dev/shm/{name} is left" for name in os.listdir("/dev/shm") if "gradloom-group" in name]


def main(argv: list[str]) -> int:
    """Run the ranks, or the experiment; return the exit code."""
    if argv[:1] == ["--train"]:
        train(int(argv[1]), int(argv[2]), argv[3], float(argv[4]), Path(argv[5]))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--launcher", choices=LAUNCHERS)
    args = parser.parse_args(argv)
    wrong: list[str] = []
    parts: Counter[str] = Counter()
    for number in range(args.runs):
        found = run_launched(args.launcher, number, args.seed) if args.launcher else run(number, args.seed)
        parts[PARTS[number % len(PARTS)]] += not found
        for line in found:
            print(line, flush=True)
        wrong += found
    print(f"{args.runs} runs; as they should be: " + ", ".join(f"{part} {count}" for part, count in parts.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
