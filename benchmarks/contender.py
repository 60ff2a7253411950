"""One library in a process of its own, so that threads, allocators and the garbage collector of one cannot
touch the times of another. The collector stays on, as it is in a user's program.

The driver (`Contender`) and the process (`python contender.py LIBRARY THREADS`) exchange JSON lines: a
program's name and a time budget go in, {"times": {part: [seconds, ...]}} or {"error": text} comes out.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time

# Some machines pin an old kernel of OpenBLAS by these, which halves the speed of NumPy's products.
_PINNED = "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"


class Contender:
    """The driver's side. `unavailable` is the reason why the library cannot take part, or None."""

    def __init__(self, name: str) -> None:
        self.name = name
        library, _, threads = name.partition("-")
        environment = {key: value for key, value in os.environ.items() if key not in _PINNED}
        if threads:
            environment |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        self._process = subprocess.Popen(
            [sys.executable, __file__, library, threads or "0"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        hello = self._receive()
        self.unavailable: str | None = hello.get("error")
        self.version: str = hello.get("version", "")
        self.blas: str = hello.get("blas", "")

    def visit(self, program: str, budget: float) -> dict:
        """Run `program` again and again for `budget` seconds, at least once."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"program": program, "budget": budget}) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended with code {self._process.wait()}"}

    def close(self) -> None:
        """Close the process's input, which ends it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve(library: str, threads: int) -> None:
    """Answer requests until standard input closes; the process's side."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers

    def answer(content: dict) -> None:
        print(json.dumps(content), file=answers, flush=True)

    try:
        given, version = _load(library, threads)
    except Exception as error:
        return answer({"error": _describe(error)})
    answer({"version": version, "blas": _blas(library)})
    samples: dict = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["program"]
        try:
            if name not in samples:
                program = find_program(library, name)
                if program is None:
                    answer({"times": {}})
                    continue
                samples[name] = program(given)
                samples[name]()  # the first run pays for imports, allocations and caches
            answer({"times": _measure(samples[name], request["budget"])})
        except Exception as error:
            answer({"error": _describe(error)})


def _load(library: str, threads: int):
    if library == "autograd":
        from importlib.metadata import version

        return importlib.import_module("autograd.numpy"), version("autograd")
    module = importlib.import_module("gradloom" if library == "llvm" else library)
    if threads:
        module.set_num_threads(threads)
    if library == "llvm":
        module.set_kernels("llvm")
    if hasattr(module, "manual_seed"):
        module.manual_seed(0)
    return module, str(getattr(module, "__version__", ""))


def find_program(library: str, name: str):
    """Return the program of that name for the library, None where it has none."""
    if library == "autograd":
        return getattr(importlib.import_module("rows_autograd"), name, None)
    compiled = importlib.import_module("rows_compile")
    if name.startswith("compile "):
        return compiled.program(library, name)
    statements = importlib.import_module("rows_statements")
    if name.startswith(statements.LLVM):
        if compiled.missing(library, "llvm") is not None:
            return None
        return statements.program(name.removeprefix(statements.LLVM), "llvm")
    if name in statements.STATEMENTS:
        return statements.program(name)
    sweeps = importlib.import_module("sweeps")
    if name in sweeps.names():
        return sweeps.program(name)
    modules = map(importlib.import_module, ("rows_torch", "rows_training"))
    return next((getattr(module, name) for module in modules if hasattr(module, name)), None)


def _blas(library: str) -> str:
    """Return the kernel and the threads of the library's BLAS, such as "openblas SkylakeX x2"."""
    if library == "torch":
        torch = importlib.import_module("torch")
        name = "mkl" if torch.backends.mkl.is_available() else "BLAS"
        return f"{name} {torch.backends.cpu.get_cpu_capability()} x{torch.get_num_threads()}"
    from threadpoolctl import threadpool_info

    importlib.import_module("numpy.linalg")
    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return ", ".join(f"{p['internal_api']} {p.get('architecture', '')} x{p['num_threads']}" for p in found)


def _measure(sample, budget: float) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    deadline = time.perf_counter() + budget
    while True:
        for part, seconds in sample().items():
            times.setdefault(part, []).append(seconds)
        if time.perf_counter() > deadline:
            return times


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
