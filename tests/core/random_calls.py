"""Calls of random kernels written as data: {"call": kernel, "dtype", "shape", "axes", "arguments"}.

`shape` is that of the array to fill, `axes` (optional) the order of its axes in memory, the outermost first.
List arguments are arrays of the call's dtype, or of the dtype named by "<argument> dtype".
"""

from __future__ import annotations

import numpy as np

from gradloom.kernels.random import distributions, integers, sampling
from gradloom.kernels.random.streams import Stream

KERNELS = {
    "uniform_": distributions.fill_uniform,
    "uniform": distributions.draw_uniform,
    "normal_": distributions.fill_normal,
    "normal": distributions.draw_normal,
    "normal_each": distributions.draw_normal_each,
    "bernoulli_": distributions.fill_bernoulli,
    "bernoulli": distributions.draw_bernoulli,
    "exponential_": distributions.fill_exponential,
    "cauchy_": distributions.fill_cauchy,
    "geometric_": distributions.fill_geometric,
    "log_normal_": distributions.fill_log_normal,
    "random_": integers.fill_integers,
    "randint": integers.draw_integers,
    "randperm": integers.draw_permutation,
    "multinomial": sampling.draw_multinomial,
    "poisson": sampling.draw_poisson,
    "native_dropout": distributions.draw_dropout,
    "dropout_noise": lambda stream, like, p: distributions.draw_dropout(stream, np.ones_like(like), p)[0],
    "rrelu_noise": distributions.rrelu_noise,
}


def numpy_dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def array_arguments(call: dict) -> dict:
    """The call's arguments with lists made arrays."""
    arguments = {k: v for k, v in call.get("arguments", {}).items() if not k.endswith(" dtype")}
    for key, value in arguments.items():
        if isinstance(value, list):
            name = call["arguments"].get(f"{key} dtype", call["dtype"])
            wide = np.array(value, np.float64)
            arguments[key] = wide if name == "float64" else wide.astype(np.float32).astype(numpy_dtype(name))
    return arguments


def in_memory_order(call: dict) -> np.ndarray:
    """An array of the call's shape whose axes lie in memory in the order of `axes`."""
    shape = call["shape"]
    axes = call.get("axes", range(len(shape)))
    return np.zeros([shape[axis] for axis in axes], numpy_dtype(call["dtype"])).transpose(np.argsort(axes))


def run(stream: Stream, call: dict) -> np.ndarray:
    """The result of the call, a tuple's first element."""
    name, arguments = call["call"], array_arguments(call)
    if name.endswith("_"):
        return KERNELS[name](stream, in_memory_order(call), **arguments)
    if name in ("uniform", "normal", "randint"):
        arguments.update(shape=tuple(call["shape"]), dtype=numpy_dtype(call["dtype"]))
    elif name == "randperm":
        arguments["dtype"] = numpy_dtype(call["dtype"])
    result = KERNELS[name](stream, **arguments)
    return result[0] if isinstance(result, tuple) else result


def numbers(result: np.ndarray) -> list:
    """The elements in C order as Python numbers, a complex one as its two parts; no bit is lost."""
    if result.dtype.kind == "c":
        result = np.ascontiguousarray(result).view(result.real.dtype)
    if result.dtype.kind not in "iub":
        result = result.astype(np.float64)
    return result.ravel().tolist()


def steps_apart(a: np.ndarray, b: np.ndarray) -> int:
    """How many representable numbers the most different elements of two arrays are apart.

    For integers and bool 0 if all are equal, else more than any tolerance.
    """
    if a.dtype.kind == "c":
        a, b = (np.ascontiguousarray(x).view(x.real.dtype) for x in (a, b))
    if a.size == 0:
        return 0
    if a.dtype.kind in "iub":
        return 0 if np.array_equal(a, b) else 1 << 62
    integer = np.dtype(f"i{a.dtype.itemsize}")

    def position(x):
        bits = np.ascontiguousarray(x).view(integer).astype(np.int64)
        return np.where(bits < 0, -(bits & np.iinfo(integer).max), bits)

    return int(np.abs(position(a) - position(b)).max())
