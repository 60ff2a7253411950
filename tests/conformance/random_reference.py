"""PyTorch's side of the calls of tests/core/random_calls.py, and the program that writes their golden values.

    python -m tests.conformance.random_reference

writes tests/core/random_streams.json anew. A stream is a seed and a sequence of calls that share its state.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from tests.core import random_calls

GOLDEN = Path(__file__).parents[1] / "core" / "random_streams.json"
SIZES = (0, 1, 2, 15, 16, 17, 31, 32, 33, 100)
FLOATING = ("float32", "float64", "float16", "bfloat16")


def to_array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(random_calls.numpy_dtype("bfloat16"))
    return tensor.numpy()


def to_tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def run(call: dict) -> np.ndarray:
    """What PyTorch's default generator gives for the call."""
    name, dtype = call["call"], getattr(torch, call["dtype"])
    arguments = {
        key: to_tensor(value) if isinstance(value, np.ndarray) else value
        for key, value in random_calls.array_arguments(call).items()
    }
    if name.endswith("_"):
        shape = call["shape"]
        axes = call.get("axes", list(range(len(shape))))
        out = torch.zeros([shape[axis] for axis in axes], dtype=dtype).permute(np.argsort(axes).tolist())
        return to_array(_fill(out, name, arguments))
    return to_array(_make(name, call, dtype, arguments))


def _fill(out, name, arguments):
    if name == "uniform_":
        return out.uniform_(arguments.get("low", 0), arguments.get("high", 1))
    if name == "random_":
        if "low" not in arguments:
            return out.random_()
        return out.random_(arguments["low"], arguments.get("high"))
    return getattr(out, name)(**arguments)


def _make(name, call, dtype, arguments):
    match name:
        case "uniform":
            return torch.rand(call["shape"], dtype=dtype)
        case "normal":
            return torch.randn(call["shape"], dtype=dtype)
        case "normal_each":
            return torch.normal(arguments["mean"], arguments["std"])
        case "randint":
            return torch.randint(arguments["low"], arguments["high"], call["shape"], dtype=dtype)
        case "randperm":
            return torch.randperm(arguments["n"], dtype=dtype)
        case "multinomial":
            return torch.multinomial(arguments["weights"], arguments["count"], arguments.get("replacement", False))
        case "bernoulli":
            return torch.bernoulli(arguments["p"])
        case "poisson":
            return torch.poisson(arguments["rates"])
        case "dropout_noise":
            return torch.dropout(torch.ones_like(arguments["like"]), arguments["p"], True)
        case "native_dropout":
            return torch.native_dropout(arguments["array"], arguments["p"], True)[0]
        case "rrelu_noise":
            noise = torch.zeros_like(arguments["array"])
            torch.ops.aten.rrelu_with_noise(arguments["array"], noise, arguments["lower"], arguments["upper"], True)
            return noise
    raise KeyError(name)


def call(name: str, dtype: str = "float32", shape=None, axes=None, **arguments) -> dict:
    parts = {"call": name, "dtype": dtype, "shape": shape, "axes": axes, "arguments": arguments}
    return {key: value for key, value in parts.items() if value is not None and value != {}}


def streams() -> list[dict]:
    """All golden streams, without values."""
    weights = [0.1, 0.0, 2.5, 0.3, 1.0, 0.7]
    inputs = [-1.5, 0.0, 2.0, -0.25, 3.0, -1.0, 0.5, -2.0]
    found = []
    for dtype in (*FLOATING, "complex64", "complex128"):
        found.append((f"uniform {dtype}", 1, [call("uniform", dtype, [n]) for n in SIZES]))
        found.append((f"normal {dtype}", 2, [call("normal", dtype, [n]) for n in SIZES]))
        found.append(
            (f"normal, mean and std {dtype}", 3, [call("normal_", dtype, [n], mean=1.75, std=0.3) for n in (1, 17, 40)])
        )
    for dtype in FLOATING:
        found.append(
            (
                f"other continuous {dtype}",
                4,
                [
                    call("uniform_", dtype, [20], low=-1.3, high=2.1),
                    call("exponential_", dtype, [5], lambd=0.7),
                    call("log_normal_", dtype, [5], mean=0.5, std=0.25),
                    call("cauchy_", dtype, [5], median=1.0, sigma=0.3),
                    call("geometric_", dtype, [8], p=0.3),
                    call("normal_", dtype, [3]),
                ],
            )
        )
        found.append(
            (
                f"weights {dtype}",
                5,
                [
                    call("multinomial", dtype, weights=weights, count=4),
                    call("multinomial", dtype, weights=weights, count=1),
                    call("multinomial", dtype, weights=weights, count=12, replacement=True),
                    call("bernoulli", dtype, p=[0.0, 0.25, 0.5, 0.75, 1.0] * 4),
                    call("poisson", dtype, rates=[0.0, 0.5, 3.0, 9.5, 12.0, 40.0, 200.0]),
                    call("normal_each", dtype, mean=inputs, std=[0.5] * 8),
                    call("normal_each", dtype, mean=inputs * 2, std=1.5),
                    call("normal_each", dtype, mean=0.5, std=[0.25, 0.5, 1.0]),
                ],
            )
        )
        found.append(
            (
                f"dropout {dtype}",
                6,
                [
                    call("dropout_noise", dtype, like=inputs * 2, p=0.3),
                    call("native_dropout", dtype, array=inputs * 2, p=0.3),
                ],
            )
        )
    for dtype in ("float32", "float64"):
        found.append((f"rrelu {dtype}", 7, [call("rrelu_noise", dtype, array=inputs, lower=0.1, upper=0.3)]))
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATING):
        found.append(
            (
                f"integers {dtype}",
                8,
                [
                    call("random_", dtype, [8]),
                    call("random_", dtype, [8], low=0, high=2),
                    call("random_", dtype, [8], low=1),
                    call("bernoulli_", dtype, [16], p=0.37),
                    call("bernoulli_", dtype, [4], **{"p": [0.1, 0.9, 0.5, 0.5], "p dtype": "float32"}),
                    call("bernoulli_", dtype, [4], **{"p": [0.1, 0.9, 0.5, 0.5], "p dtype": "float64"}),
                ],
            )
        )
    found.append(
        (
            "ranges",
            9,
            [
                call("randint", "int64", [6], low=low, high=high)
                for low, high in (
                    (0, 10),
                    (-5, 5),
                    (0, 2**28 - 1),
                    (0, 2**28),
                    (0, 2**32),
                    (-(2**40), 2**41),
                    (-(2**63), 2**63 - 1),
                )
            ]
            + [call("random_", "int64", [4], low=-(2**63))],
        )
    )
    found.append(
        (
            "permutations",
            10,
            [call("randperm", "int64", n=n) for n in (0, 1, 2, 5, 33, 200, 201, 300)]
            + [call("randperm", dtype, n=20) for dtype in ("int32", "uint8", "float16", "float64")],
        )
    )
    found.append(
        (
            "memory order",
            11,
            [
                call(name, dtype, shape, axes)
                for name in ("uniform_", "normal_", "bernoulli_", "random_")
                for dtype in ("float32", "float64")
                for shape, axes in (([5, 4], [1, 0]), ([2, 3, 2, 2], [0, 2, 3, 1]))
            ],
        )
    )
    found.append(
        (
            "shared cached normal",
            2**40 + 12,
            [
                call("normal", "float32", [3]),
                call("uniform", "float64", [2]),
                call("normal", "float64", [2]),
                call("normal", "float32", [20]),
                call("log_normal_", "float16", [1]),
                call("normal", "bfloat16", [1]),
                call("normal_", "complex64", [1]),
                call("randperm", "int64", n=4),
                call("normal", "float64", [1]),
            ],
        )
    )
    return [{"name": name, "seed": seed, "calls": calls} for name, seed, calls in found]


def write() -> None:
    """Write the golden file: every call on a line of its own."""
    lines = []
    for stream in streams():
        torch.manual_seed(stream["seed"])
        calls = [json.dumps({**call, "values": random_calls.numbers(run(call))}) for call in stream["calls"]]
        following = torch.empty(1, dtype=torch.int64).random_(0, 2**28 - 1).item()
        lines.append(
            f' {{"name": {json.dumps(stream["name"])}, "seed": {stream["seed"]}, "following": {following}, '
            '"calls": [\n  ' + ",\n  ".join(calls) + "]}"
        )
    GOLDEN.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    write()
