"""What the examples that train something share: command line, progress, files, and the comparison with PyTorch.

Such an example is a module that imports gradloom as torch and has

    STEPS, QUICK                            numbers of steps of a whole run and of --quick
    add_arguments(parser)                   options of its own, if it has any
    train(args, step) -> result             trains for `args.steps` steps and calls step(loss) after each
    finish(args, losses, result, out)       prints what came out; returns the files that it wrote into the folder `out`

and ends with `sys.exit(training.main(sys.modules[__name__]))`. With --compare its
`train` runs once with gradloom and, in a process of its own, once with PyTorch in gradloom's place:
`python training.py EXAMPLE ARGUMENTS` prints the losses there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import output

PACKAGES = ("tqdm", "PIL")  # from the extra `demo`


class Stopped(Exception):
    """Training cannot begin or go on; the message is one line for the user. `code` is the exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def main(program: ModuleType, argv: list[str] | None = None) -> int:
    """Run an example with the arguments `argv`, by default the command line's; return its exit code.

    0; 1 when training diverges; 2 when something that it needs is missing or --out cannot be written; 130 after Ctrl-C.
    """
    argv = sys.argv[1:] if argv is None else argv
    args = arguments(program, argv)
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        compare(program, args, argv) if args.compare else run(program, args)
    except (Stopped, output.OutputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "code", 2)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in PACKAGES:
            raise
        print(f"error: {error.name} is missing; get it with: pip install 'gradloom[demo]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def load(path: Path) -> ModuleType:
    """Import an example by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def arguments(program: ModuleType, argv: list[str]) -> argparse.Namespace:
    """Parse the command line: the options that all examples have, and the program's own."""
    about = (program.__doc__ or "").partition("\n\n")
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about[0], epilog=about[2], formatter_class=form)
    parser.add_argument("--steps", type=_at_least_1, help=f"training steps (default: {program.STEPS})")
    parser.add_argument("--quick", action="store_true", help=f"only {program.QUICK} steps, to see that it runs")
    parser.add_argument("--compare", action="store_true", help="print the losses beside PyTorch's; write no files")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--out", metavar="DIR", default="demo-output", help="default: %(default)s")
    if hasattr(program, "add_arguments"):
        program.add_arguments(parser)
    args = parser.parse_args(argv)
    args.steps = args.steps or (program.QUICK if args.quick else program.STEPS)
    return args


def _at_least_1(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def run(program: ModuleType, args: argparse.Namespace) -> None:
    """Train, and let the program report."""
    import PIL  # noqa: F401, before the work, not after it

    out = output.make_folder(Path(args.out))
    began = time.perf_counter()
    losses, result = train(program, args)
    seconds = time.perf_counter() - began
    print(f"loss {losses[0]:.4g} -> {losses[-1]:.4g} in {len(losses):,} steps, {seconds:.0f} s")
    for path in program.finish(args, losses, result, out):
        print(f"wrote {path}")


def train(program: ModuleType, args: argparse.Namespace, label: str = "training"):
    """Run the program's `train` below a progress bar; return the loss of each step, and its result."""
    losses: list[float] = []
    with _progress(args.steps, label, needed=not args.compare) as bar:

        def step(loss) -> None:
            losses.append(float(loss))
            if not math.isfinite(losses[-1]):
                raise Stopped(f"the loss is {losses[-1]} at step {len(losses)}", code=1)
            if bar is not None:
                bar.set_postfix(loss=f"{losses[-1]:.4g}", refresh=False)
                bar.update()

        result = program.train(args, step)
    return losses, result


def _progress(steps: int, label: str, needed: bool):
    try:
        from tqdm import tqdm
    except ImportError:
        if needed:
            raise
        return contextlib.nullcontext()
    return tqdm(total=steps, unit="step", desc=label, dynamic_ncols=True)


# -- PyTorch beside it -------------------------------------------------------------------------------------


def compare(program: ModuleType, args: argparse.Namespace, argv: list[str]) -> None:
    """Print the losses of gradloom and of PyTorch side by side, and the largest difference."""
    if importlib.util.find_spec("torch") is None:
        raise Stopped("--compare needs PyTorch, which is not installed; get it with: pip install torch==2.13.0")
    assert program.__file__ is not None
    command = [sys.executable, __file__, program.__file__, *argv]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Stopped(f"the run with PyTorch ended with exit code {done.returncode}", code=1)
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours, _ = train(program, args, "gradloom")
    print(f"{'step':>6} {'gradloom':>14} {'PyTorch':>14} {'difference':>11}")
    differences = [abs(a - b) / max(abs(b), 1e-12) for a, b in zip(ours, theirs, strict=True)]
    shown = sorted({round(i * (len(ours) - 1) / 10) for i in range(11)})
    for i in shown:
        print(f"{i + 1:6} {ours[i]:14.8g} {theirs[i]:14.8g} {differences[i]:11.1e}")
    print(f"largest relative difference of {len(ours)} losses: {max(differences):.1e}")


def _print_pytorchs_losses(example: str, argv: list[str]) -> None:
    """Train an example with PyTorch in gradloom's place, and print the losses as JSON."""
    import torch

    sys.modules["gradloom"] = torch
    sys.modules["gradloom.as_torch"] = ModuleType("gradloom.as_torch")  # an example may import it; it has nothing to do
    program = load(Path(example))
    args = arguments(program, argv)
    torch.set_num_threads(min(2, os.cpu_count() or 1))  # more of them only cost time on networks of this size
    losses, _ = train(program, args, "PyTorch ")
    print(json.dumps(losses))


if __name__ == "__main__":
    _print_pytorchs_losses(sys.argv[1], sys.argv[2:])
