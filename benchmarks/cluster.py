"""Time collectives and data-parallel training on several ranks, beside PyTorch's gloo and MPI. `make bench` runs this.

Each library has its ranks in processes of its own, and the libraries take turns. Printed are medians of

    all-reduce of 1 KB to 100 MB between 2 ranks: shared memory, gloo, MPI, and a copy within one process
    a step of DistributedDataParallel for a model of 2.7 MB and one of 23 MB, on 2 ranks
    the same step on 1, 2 and 4 ranks

With --json the numbers go into a file, which cluster_model.py fits; with --plot the all-reduce is drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

SIZES = [1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 100_000_000]
MODELS = {"2.7 MB": (800, 800, 10), "23 MB": (784, 1600, 1600, 1200, 10)}
BATCH = 64
LIMIT = 120  # seconds until a rank that does not answer counts as hanging


# --- the ranks -----------------------------------------------------------------------------------------------------


def serve(library: str, rank: int, size: int, rendezvous: str) -> None:
    """Be one rank: read commands from stdin, answer by lines of JSON."""
    import importlib

    torch = importlib.import_module(library)
    if library == "torch":
        torch.set_num_threads(1)
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    models: dict[str, Callable[[], None]] = {}
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for line in sys.stdin:
        kind, value = json.loads(line)
        if kind == "step" and value not in models:
            models[value] = _stepping(torch, value, rank)
        run = models[value] if kind == "step" else _reducing(torch, dist, value)
        run()
        seconds = []
        end = time.perf_counter() + 0.25
        go = True
        while go:
            dist.barrier()
            began = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - began)
            flag = torch.tensor([1 if time.perf_counter() < end and len(seconds) < 200 else 0])
            dist.broadcast(flag, 0)
            go = bool(flag.item())
        print(json.dumps(seconds), flush=True)
    dist.destroy_process_group()


def _reducing(torch: Any, dist: Any, nbytes: int) -> Callable[[], None]:
    tensor = torch.zeros(nbytes // 4)
    return lambda: dist.all_reduce(tensor)


def _stepping(torch: Any, name: str, rank: int) -> Callable[[], None]:
    """Return a function that runs a training step."""
    nn, sizes = torch.nn, MODELS[name]
    torch.manual_seed(0)
    layers: list[Any] = []
    for width, wider in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(width, wider), nn.ReLU()]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers[:-1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, labels = torch.randn(BATCH, sizes[0]), torch.randint(0, 10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()

    for _ in range(3):
        step()
    return step


def serve_mpi() -> None:
    """Time MPI's own all-reduce: what mpiexec starts."""
    import numpy as np
    from mpi4py import MPI

    found = {}
    for nbytes in SIZES:
        array, seconds = np.zeros(nbytes // 4, np.float32), []
        for _ in range(max(5, min(100, 20_000_000 // nbytes))):
            MPI.COMM_WORLD.Barrier()
            began = time.perf_counter()
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array)
            seconds.append(time.perf_counter() - began)
        found[nbytes] = seconds
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(found))


# --- the driver ----------------------------------------------------------------------------------------------------


class Party:
    """The ranks of one library."""

    def __init__(self, library: str, size: int, folder: Path) -> None:
        self.library, self.size = library, size
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        rendezvous = folder / f"{library}_{size}"
        self._ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--serve", library, str(rank), str(size), str(rendezvous)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
            for rank in range(size)
        ]
        for rank in self._ranks:
            self._answer(rank)

    def ask(self, kind: str, value: Any) -> list[float]:
        """Return the seconds of each run, as the slowest rank saw it."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(json.dumps([kind, value]) + "\n")
            rank.stdin.flush()
        return [max(one) for one in zip(*map(self._answer, self._ranks), strict=True)]

    def _answer(self, rank: subprocess.Popen[str]) -> Any:
        assert rank.stdout is not None
        line = rank.stdout.readline()
        if not line:
            raise RuntimeError(f"a rank of {self.library} ended with code {rank.wait(LIMIT)}")
        return json.loads(line)

    def close(self) -> None:
        """End the ranks."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self._ranks:
            try:
                rank.wait(LIMIT)
            except subprocess.TimeoutExpired:
                rank.kill()


def alternate(parties: list[Party], kind: str, value: Any, rounds: int) -> dict[str, float]:
    """Return the median seconds of each library, which take turns."""
    seconds: dict[str, list[float]] = {party.library: [] for party in parties}
    for _ in range(rounds):
        for party in parties:
            seconds[party.library] += party.ask(kind, value)
    return {library: median(values) for library, values in seconds.items()}


def copying(nbytes: int) -> float:
    """Return the median seconds of a copy within one process: it reads and writes `nbytes`."""
    import numpy as np

    source, target, seconds = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8), []
    for _ in range(max(7, min(200, 50_000_000 // nbytes))):
        began = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def mpi() -> dict[int, float]:
    """Return the median seconds of MPI's all-reduce between two ranks by size; nothing without MPI."""
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        return {}
    command = [mpiexec, "-n", "2", sys.executable, __file__, "--serve-mpi"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    if done.returncode:
        return {}
    return {int(size): median(seconds) for size, seconds in json.loads(done.stdout).items()}


def measure(libraries: list[str], rounds: int) -> dict[str, Any]:
    """Return all numbers, in seconds."""
    found: dict[str, Any] = {"allreduce": {}, "steps": {}}
    with tempfile.TemporaryDirectory() as folder:
        for size in (2, 1, 4):
            parties = [Party(library, size, Path(folder)) for library in libraries]
            if size == 2:
                for nbytes in SIZES:
                    found["allreduce"][nbytes] = alternate(parties, "allreduce", nbytes, rounds)
            for name in MODELS:
                found["steps"].setdefault(name, {})[size] = alternate(parties, "step", name, rounds)
            if size == 4:
                found["allreduce 4"] = {n: alternate(parties, "allreduce", n, rounds) for n in SIZES[::2]}
            for party in parties:
                party.close()
    of_mpi = mpi()
    for nbytes, row in found["allreduce"].items():
        row["copy"] = copying(nbytes)
        if nbytes in of_mpi:
            row["MPI"] = of_mpi[nbytes]
    found["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return found


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    columns = list(next(iter(found["allreduce"].values())))
    titles = {"gradloom": "shared memory", "torch": "gloo"}
    print("all-reduce between 2 ranks, microseconds")
    print(f"{'bytes':>12}" + "".join(f"{titles.get(name, name):>15}" for name in columns))
    for nbytes, row in found["allreduce"].items():
        cells = (f"{row[name] * 1e6:15,.0f}" if name in row else f"{'':15}" for name in columns)
        print(f"{int(nbytes):12,}" + "".join(cells))
    print("\na step of DistributedDataParallel, milliseconds; the ratio is to PyTorch with gloo")
    for name, by_size in found["steps"].items():
        for size, row in sorted(by_size.items(), key=lambda item: int(item[0])):
            ratio = f"{row['gradloom'] / row['torch']:8.2f}" if "torch" in row else ""
            cells = "".join(f"  {library} {seconds * 1e3:8.2f}" for library, seconds in row.items())
            print(f"{name:>8} model, {size} ranks on {found['cores']} cores:{cells}{ratio}")


def plot(found: dict[str, Any], path: Path) -> None:
    """Draw bytes per second of all-reduce against its size."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "cluster"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    titles = {"gradloom": "gradloom, shared memory", "torch": "PyTorch, gloo", "copy": "a copy in one process"}
    for name in next(iter(found["allreduce"].values())):
        points = [(int(n), int(n) / row[name] / 1e9) for n, row in found["allreduce"].items() if name in row]
        axes.loglog(*zip(*points, strict=True), "o-", label=titles.get(name, name))
    axes.set_xlabel("bytes")
    axes.set_ylabel("GB/s (bytes of the array / time)")
    axes.set_title("All-reduce between 2 ranks")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def plot_scaling(found: dict[str, Any], path: Path) -> None:
    """Draw how many times the examples per second of one rank several ranks train on."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "cluster"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    titles = {"gradloom": "gradloom, shared memory", "torch": "PyTorch, gloo"}
    for name, by_size in found["steps"].items():
        rows = sorted([(int(size), row) for size, row in by_size.items()])
        for library in rows[0][1]:
            points = [(size, size * rows[0][1][library] / row[library]) for size, row in rows]
            style = "o-" if library == "gradloom" else "s--"
            axes.plot(*zip(*points, strict=True), style, label=f"{titles.get(library, library)}, {name}")
    axes.axvline(found["cores"], color="gray", linewidth=0.8, label=f"{found['cores']} cores")
    axes.set_xticks([size for size, _ in rows])
    axes.set_xlabel("ranks")
    axes.set_ylabel("examples per second / those of one rank")
    axes.set_title("Steps of DistributedDataParallel, 64 examples for each rank")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main(argv: list[str]) -> int:
    """Run as the driver or as a rank; return the exit code."""
    if argv[:1] == ["--serve"]:
        serve(argv[1], int(argv[2]), int(argv[3]), argv[4])
        return 0
    if argv[:1] == ["--serve-mpi"]:
        serve_mpi()
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--plot", type=Path, help="draw the all-reduce into this file (.svg or .png)")
    parser.add_argument("--plot-scaling", type=Path, help="draw the steps on 1, 2 and 4 ranks into this file")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library (default: %(default)s)")
    args = parser.parse_args(argv)
    import importlib.util

    libraries = ["gradloom"] + (["torch"] if importlib.util.find_spec("torch") else [])
    found = measure(libraries, args.rounds)
    show(found)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    if args.plot:
        plot(found, args.plot)
    if args.plot_scaling:
        plot_scaling(found, args.plot_scaling)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
