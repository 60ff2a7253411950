"""The array API standard through array-api-compat: gradloom conforms wherever PyTorch does, call by call.

`array_api_calls.py` draws calls of every function, operator and member that array_api_strict has, and runs them in a
process for each library. A call conforms if its values, shape and dtype are those of array_api_strict. Calls that
array_api_strict refuses are outside of the standard and are left out. `GRADLOOM_ARRAY_API=n` draws n calls for each
name from a fresh seed, in place of a few from a fixed one.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("array_api_strict")
pytest.importorskip("array_api_compat")

CALLS = os.environ.get("GRADLOOM_ARRAY_API", "")
# Unique only up to signs or phases of vectors: absolute values are compared.
UP_TO_PHASES = ("linalg.eig", "linalg.eigh", "linalg.qr", "linalg.svd")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("array_api")
    seed = str(time.time_ns()) if CALLS else "0"
    found = {}
    for library in ("strict", "PyTorch", "gradloom"):
        file = folder / library
        command = [sys.executable, "-W", "ignore", "-m", "tests.conformance.array_api_calls"]
        subprocess.run([*command, library, CALLS or "12", seed, str(file)], check=True, timeout=1200)
        found[library] = pickle.loads(file.read_bytes())
    print(f"seed {seed}")
    return found


def same(name: str, found, wanted) -> bool:
    """Compare two results. Sums and products round differently: the tolerance is that of the dtype and the size."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and found == wanted
    if isinstance(wanted, list):
        pairs = zip(found, wanted, strict=True) if isinstance(found, list) and len(found) == len(wanted) else None
        return pairs is not None and all(same(name, one, other) for one, other in pairs)
    if not isinstance(wanted, np.ndarray):
        return type(found) is type(wanted) and (found == wanted or found != found and wanted != wanted)
    if not isinstance(found, np.ndarray) or found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind not in "fc":
        return np.array_equal(found, wanted)
    if name in UP_TO_PHASES:
        found, wanted = abs(found), abs(wanted)
    finite = wanted[np.isfinite(wanted)]
    bound = np.sqrt(np.finfo(wanted.dtype).eps)
    scale = float(abs(finite).max()) if "." in name and finite.size else 0.0
    parts = [(found, wanted)] if wanted.dtype.kind == "f" else [(found.real, wanted.real), (found.imag, wanted.imag)]
    with np.errstate(all="ignore"):
        return all(np.allclose(a, b, rtol=bound, atol=bound * scale + 1e-37, equal_nan=True) for a, b in parts)


def conforming(runs, library: str) -> dict[str, list[bool]]:
    """Return for each name which of its calls conform, those of the standard only."""
    wanted, outcomes = runs["strict"][0], runs[library][0]
    return {
        name: [
            kind == "value" and same(name, value, expected)
            for (_, kind, value), (_, status, expected) in zip(outcomes[name], wanted[name], strict=True)
            if status == "value"
        ]
        for name in wanted
    }


def test_calls_conform_where_pytorchs_do(runs):
    ours, theirs = conforming(runs, "gradloom"), conforming(runs, "PyTorch")
    total, good, reference = (sum(map(len, theirs.values())), *(sum(map(sum, d.values())) for d in (ours, theirs)))
    print(f"{total} calls of {len(theirs)} names: {good} conform with gradloom, {reference} with PyTorch")
    assert total > 1500 and reference > 0.85 * total
    worse = []
    for name in theirs:
        inside = [i for i, (_, status, _) in enumerate(runs["strict"][0][name]) if status == "value"]
        for i, mine, yours in zip(inside, ours[name], theirs[name], strict=True):
            if yours and not mine:
                call, _, value = runs["gradloom"][0][name][i]
                worse.append(f"{name}{call}: {value!r}, not {runs['PyTorch'][0][name][i][2]!r}")
    assert not worse, f"{len(worse)} calls:\n" + "\n".join(worse[:40])


def acceptable(parameters, standard) -> bool:
    """Tell whether parameters allow the calls that the standard's allow; names count where calls may use them."""
    if parameters is None:  # a C function: calls show it
        return True
    kinds = dict(parameters)
    for (name, kind), mine in zip(standard, [*parameters, *[None] * len(standard)], strict=False):
        if kind == "KEYWORD_ONLY":
            if kinds.get(name) not in ("KEYWORD_ONLY", "POSITIONAL_OR_KEYWORD"):
                return False
        elif mine is None or (kind == "POSITIONAL_OR_KEYWORD" and mine != (name, kind)):
            return False
    return True


def test_signatures_conform_where_pytorchs_do(runs):
    standard = runs["strict"][1]
    good = {
        library: {name for name in standard if acceptable(runs[library][1][name], standard[name])}
        for library in ("PyTorch", "gradloom")
    }
    assert len(good["PyTorch"]) > 150
    assert not good["PyTorch"] - good["gradloom"]
