"""Predict data-parallel training on clusters: a cost model of collectives, and a simulation of a training step.

    python benchmarks/cluster_model.py                      the tables of docs/cluster.md
    python benchmarks/cluster_model.py --fit numbers.json   fit the constants to what cluster.py measured
    python benchmarks/cluster_model.py --plot picture.svg   draw the prediction

The model (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005): a
message of n bytes takes alpha + n beta, adding n bytes takes n gamma. An all-reduce of n bytes on p ranks takes

    ring                    2 (p - 1) alpha + 2 (p - 1)/p n beta + (p - 1)/p n gamma
    tree (doubling)         log2(p) (alpha + n beta + n gamma)
    reduce-scatter          2 log2(p) alpha + 2 (p - 1)/p n beta + (p - 1)/p n gamma     (halving, then doubling)

Shared memory on one machine has its own form: a step of the engine takes `sync`, each byte `byte` on each rank. If p
ranks have fewer processors, they take turns.

The simulation follows a step: the forward pass, then the backward pass, in which buckets become full one after the
other; each bucket's all-reduce starts when it is full and the one before it is done; then the optimizer. The step ends
when the last bucket is reduced and the optimizer is done.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CONSTANTS = Path(__file__).with_name("cluster_constants.json")
CHUNK = 1 << 20  # bytes of a step of the engine (gradloom.distributed._engines._segment)
FIRST, BUCKET = 1 << 20, 25 << 20  # bytes of the first bucket and of the others
MODELS = {"2.7 MB": 2_738_440, "23 MB": 22_993_640, "497 MB": 497_759_232}  # the last is GPT-2 with 124M parameters
NETWORKS = {"10 Gb/s": (30e-6, 8 / 10e9), "100 Gb/s": (3e-6, 8 / 100e9)}  # alpha, beta: TCP, and RDMA
NODES = (8, 16, 64, 256, 1024)


@dataclass(frozen=True)
class Constants:
    """What was measured on one machine, in seconds.

    Attributes:
        sync: of a step of the engine: publish a chunk and wait for the others.
        byte: per byte of the array, for two ranks of which each has a processor.
        gamma: per byte, to add two arrays.
        compute: per model, of a step without communication, of one rank that has a processor.
        optimizer: part of `compute` that comes after the last gradient.
        forward: part of `compute` that comes before the first gradient.
        cores: processors of the machine.
        sharing: by how much computing slows down when all processors compute, as memory is shared.
    """

    sync: float
    byte: float
    gamma: float
    compute: dict[str, float]
    optimizer: float
    forward: float
    cores: int
    sharing: float


# --- collectives ---------------------------------------------------------------------------------------------------


def ring(n: float, p: int, alpha: float, beta: float, gamma: float) -> float:
    """Return the seconds of a ring all-reduce of n bytes on p ranks."""
    return 2 * (p - 1) * alpha + (p - 1) / p * n * (2 * beta + gamma)


def tree(n: float, p: int, alpha: float, beta: float, gamma: float) -> float:
    """Return the seconds of an all-reduce by recursive doubling."""
    return math.ceil(math.log2(p)) * (alpha + n * (beta + gamma))


def reduce_scatter(n: float, p: int, alpha: float, beta: float, gamma: float) -> float:
    """Return the seconds of an all-reduce by recursive halving and doubling."""
    return 2 * math.ceil(math.log2(p)) * alpha + (p - 1) / p * n * (2 * beta + gamma)


ALGORITHMS: dict[str, Callable[..., float]] = {"ring": ring, "tree": tree, "reduce-scatter": reduce_scatter}


def shared_memory(n: float, p: int, k: Constants) -> float:
    """Return the seconds of the engine's all-reduce. Ranks that have no processor of their own wait for one."""
    if p == 1:
        return 0.0
    turns = max(1.0, p / k.cores)
    steps = 1 if n * p <= 1 << 18 else math.ceil(n / CHUNK) + 1
    # A rank copies n (p - 1)/p bytes in and out, and adds n/p bytes of each of p ranks: in all about 3 n, as for p = 2.
    volume = (2 * (p - 1) / p + 1) / 2
    return turns * (steps * k.sync + volume * n * k.byte)


def crossover(p: int, alpha: float, beta: float, gamma: float) -> float:
    """Return the number of bytes above which reduce-scatter is faster than the tree."""
    low, high = 1.0, 1e12
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        is_faster = reduce_scatter(middle, p, alpha, beta, gamma) < tree(middle, p, alpha, beta, gamma)
        low, high = (low, middle) if is_faster else (middle, high)
    return high


# --- a training step -----------------------------------------------------------------------------------------------


def buckets(nbytes: int) -> list[int]:
    """Return the sizes of the buckets of a model, in the order in which they become full."""
    if nbytes <= FIRST:
        return [nbytes]
    rest = nbytes - FIRST
    return [FIRST, *[BUCKET] * (rest // BUCKET), *([rest % BUCKET] if rest % BUCKET else [])]


@dataclass(frozen=True)
class Step:
    """A simulated step, in seconds.

    Attributes:
        total: from its begin to its end.
        exposed: of it, waiting for communication.
        busy: time in which the network was used.
    """

    total: float
    exposed: float
    busy: float


def simulate(nbytes: int, forward: float, backward: float, optimizer: float, allreduce: Callable[[int], float],
             overlap: bool = True) -> Step:  # fmt: skip
    """Simulate a step.

    Args:
        nbytes: of the gradients.
        forward, backward, optimizer: seconds of computing.
        allreduce: returns the seconds for a number of bytes.
        overlap: whether a bucket is reduced while the backward pass goes on.
    """
    now, free, busy, sent = forward, 0.0, 0.0, 0
    for size in buckets(nbytes):
        sent += size
        full = forward + backward * sent / nbytes  # gradients come evenly
        started = max(full if overlap else forward + backward, free)
        seconds = allreduce(size)
        free, busy = started + seconds, busy + seconds
    now = forward + backward
    exposed = max(0.0, free - now)
    return Step(now + exposed + optimizer, exposed, busy)


def on_this_machine(name: str, p: int, k: Constants) -> float:
    """Return the predicted seconds of a step on p ranks of one machine.

    Copying through shared memory takes processors, which compute otherwise: nothing is hidden when all are busy.
    """
    turns = max(1.0, p / k.cores)
    slower = turns * (1 + (k.sharing - 1) * (min(p, k.cores) - 1) / max(1, k.cores - 1))
    compute = k.compute[name] * slower
    forward, optimizer = compute * k.forward, compute * k.optimizer
    step = simulate(
        MODELS[name], forward, compute - forward - optimizer, optimizer, lambda n: shared_memory(n, p, k),
        overlap=p < k.cores,
    )  # fmt: skip
    return step.total


def on_cluster(name: str, p: int, network: str, k: Constants, algorithm: str | None = None) -> Step:
    """Return a predicted step on p nodes with one rank each; MPI chooses the algorithm unless one is given."""
    alpha, beta = NETWORKS[network]
    compute = k.compute.get(name) or k.compute["23 MB"] * MODELS[name] / MODELS["23 MB"]
    forward, optimizer = compute * k.forward, compute * k.optimizer
    chosen = [ALGORITHMS[algorithm]] if algorithm else list(ALGORITHMS.values())

    def allreduce(n: int) -> float:
        return min(cost(n, p, alpha, beta, k.gamma) for cost in chosen)

    return simulate(MODELS[name], forward, compute - forward - optimizer, optimizer, allreduce)


# --- fitting -------------------------------------------------------------------------------------------------------


def fit(found: dict[str, Any]) -> Constants:
    """Fit the constants to what cluster.py measured on 1 and 2 ranks. What it measured on 4 is left for a check."""
    import numpy as np

    sizes = sorted(int(n) for n in found["allreduce"])
    times = np.array([found["allreduce"][str(n)]["gradloom"] for n in sizes])
    steps = np.array([1 if 2 * n <= 1 << 18 else math.ceil(n / CHUNK) + 1 for n in sizes], float)
    design = np.stack([steps, np.array(sizes, float)], 1) / times[:, None]  # relative errors count
    (sync, byte), *_ = np.linalg.lstsq(design, np.ones(len(sizes)), rcond=None)
    alone = {name: by["1"]["gradloom"] for name, by in found["steps"].items()}
    both = {name: by["2"]["gradloom"] for name, by in found["steps"].items()}
    partial = Constants(max(sync, 1e-6), byte, byte / 3, alone, 0.15, 0.25, found["cores"], 1.0)
    # What two ranks take beyond computing alone and communicating is memory that both use.
    extra = [
        (both[name] - sum(shared_memory(n, 2, partial) for n in buckets(MODELS[name]))) / alone[name] for name in alone
    ]
    return Constants(**{**asdict(partial), "sharing": max(1.0, sum(extra) / len(extra))})


# --- output --------------------------------------------------------------------------------------------------------


def tables(k: Constants, measured: dict[str, Any]) -> str:
    """Return the tables of the documentation."""
    lines = [
        "This machine: a step in ms, predicted and measured",
        f"{'model':>8}{'ranks':>7}{'predicted':>11}{'measured':>10}",
    ]
    for name, by_size in measured.items():
        for p, seconds in sorted(by_size.items()):
            lines.append(f"{name:>8}{p:>7}{on_this_machine(name, int(p), k) * 1e3:11.1f}{seconds * 1e3:10.1f}")
    lines += ["", "Clusters: efficiency of a step (computing alone / step), one rank on each node"]
    lines.append(f"{'model':>8}{'network':>10}" + "".join(f"{p:>8}" for p in NODES) + "   nodes")
    for name in MODELS:
        for network in NETWORKS:
            cells = [on_cluster(name, p, network, k) for p in NODES]
            lines.append(
                f"{name:>8}{network:>10}" + "".join(f"{(one.total - one.exposed) / one.total:8.0%}" for one in cells)
            )
    lines += ["", "All-reduce in ms, by algorithm"]
    lines.append(f"{'bytes':>12}{'network':>10}{'nodes':>7}" + "".join(f"{name:>16}" for name in ALGORITHMS))
    for n in (1 << 10, 1 << 20, 25 << 20):
        for network, (alpha, beta) in NETWORKS.items():
            for p in (8, 1024):
                costs = [cost(n, p, alpha, beta, k.gamma) for cost in ALGORITHMS.values()]
                lines.append(f"{n:12,}{network:>10}{p:7}" + "".join(f"{cost * 1e3:16.3f}" for cost in costs))
    lines += ["", "Bytes from which reduce-scatter is faster than the tree"]
    for network, (alpha, beta) in NETWORKS.items():
        cells = "".join(f"{crossover(p, alpha, beta, k.gamma) / 1024:9.1f} KB on {p}" for p in (8, 64, 1024))
        lines.append(f"{network:>9}{cells}")
    return "\n".join(lines)


def plot(k: Constants, path: Path) -> None:
    """Draw the efficiency of a step against the number of nodes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "cluster"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    nodes = [1 << i for i in range(1, 11)]
    for name in MODELS:
        for network, style in zip(NETWORKS, ("--", "-"), strict=True):
            steps = [on_cluster(name, p, network, k) for p in nodes]
            axes.semilogx(nodes, [(s.total - s.exposed) / s.total for s in steps], style, label=f"{name}, {network}")
    axes.set_xlabel("nodes")
    axes.set_ylabel("computing / step")
    axes.set_ylim(0, 1.05)
    axes.set_title("Predicted efficiency of a data-parallel step")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main(argv: list[str]) -> int:
    """Print the tables, or fit; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--fit", type=Path, metavar="JSON", help="what cluster.py --json wrote")
    parser.add_argument("--plot", type=Path, help="draw the prediction into this file")
    args = parser.parse_args(argv)
    if args.fit:
        found = json.loads(args.fit.read_text())
        measured = {n: {p: row["gradloom"] for p, row in by.items()} for n, by in found["steps"].items()}
        CONSTANTS.write_text(json.dumps({"constants": asdict(fit(found)), "measured": measured}, indent=1) + "\n")
    saved = json.loads(CONSTANTS.read_text())
    k = Constants(**saved["constants"])
    print(tables(k, saved["measured"]))
    if args.plot:
        plot(k, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
