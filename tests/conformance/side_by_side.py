"""Evaluates the same expression with PyTorch and with gradloom and describes what came out, down to strides and graph.

An expression is Python source in which `L` is the library and the inputs of `inputs(library)` are variables.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

import gradloom


def inputs(library: Any) -> dict[str, Any]:
    """Small tensors of several kinds; those with lower-case names require grad."""

    def leaf(*shape: int) -> Any:
        count = 1
        for n in shape:
            count *= n
        values = [((7 * i) % 11) / 4 - 1.25 for i in range(count)]
        return library.tensor(values, dtype=library.float64).reshape(shape).clone().requires_grad_()

    return {
        "L": library,
        "s": leaf(),
        "v": leaf(4),
        "x": leaf(3, 4),
        "q": leaf(3, 3),
        "c": leaf(2, 3, 4),
        "p": leaf(1, 4, 2, 2),
        "o": leaf(1, 3, 1),
        "e": library.zeros(0, 3, dtype=library.float64),
        "I": library.arange(12).reshape(3, 4),
        "B": library.tensor([True, False, True]),
        "F": library.arange(6, dtype=library.float32).reshape(2, 3),
        "Z": (library.arange(6, dtype=library.float64).reshape(2, 3) + library.tensor([0.5j])),
        "N": library.arange(24, dtype=library.float64).reshape(2, 3, 4).transpose(0, 2),
    }


def graph(node: Any) -> str:
    """A backward graph as text: names of nodes with what they lead to."""
    if node is None:
        return "-"
    name = node.name().replace("torch::autograd::", "")
    following = [graph(next_node) for next_node, _ in node.next_functions]
    return f"{name}({', '.join(following)})" if following else name


def describe(value: Any) -> Any:
    """What is observable of a result."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "numel"):
        return [type(value).__name__, *map(describe, value)]
    if not hasattr(value, "storage_offset"):
        return str(value)
    return {
        "values": value.detach().tolist(),
        "dtype": str(value.dtype),
        "shape": tuple(value.shape),
        "strides": tuple(value.stride()),
        "offset": value.storage_offset(),
        "requires_grad": value.requires_grad,
        "is_view": value._is_view(),
        "is_leaf": value.is_leaf,
        "graph": graph(value.grad_fn),
    }


def outcome(library: Any, expression: str) -> Any:
    """The description of what an expression gives, or the error that it raises."""
    variables = inputs(library)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return describe(eval(expression, variables))
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    """The message without what follows its first line (PyTorch may add a C++ trace), and without PyTorch's advice to
    users of its distributed training."""
    return (str(error).splitlines() or [""])[0].partition(" If you are using DistributedDataParallel")[0]


def assert_same(expression: str) -> None:
    """Fail where the two libraries differ."""
    expected, found = outcome(torch, expression), outcome(gradloom, expression)
    assert _close(found, expected), f"{expression}\n gradloom: {found}\n PyTorch:  {expected}"


def _close(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(_close(found[k], v) for k, v in expected.items())
    if isinstance(expected, (list, tuple)):
        return isinstance(found, (list, tuple)) and len(found) == len(expected) and all(map(_close, found, expected))
    if isinstance(expected, (float, complex)):
        return found == expected or abs(found - expected) <= 1e-6 * max(1, abs(expected)) or found != found
    return found == expected


def gradients(library: Any, expression: str) -> dict[str, Any]:
    """The gradients of all inputs after a backward pass through an expression, with a different weight everywhere."""
    variables = inputs(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = eval(expression, variables)
    for part in results if isinstance(results, (tuple, list)) else (results,):
        if part.requires_grad:
            weights = (library.arange(part.numel(), dtype=library.float64).reshape(part.shape) / 3 + 1).to(part.dtype)
            part.backward(weights, retain_graph=True)
    return {n: t.grad.tolist() for n, t in variables.items() if hasattr(t, "grad") and t.is_leaf and t.grad is not None}


def assert_same_gradients(expression: str) -> None:
    """Fail where the gradients differ."""
    expected, found = gradients(torch, expression), gradients(gradloom, expression)
    assert found.keys() == expected.keys(), expression
    for name, value in expected.items():
        assert _close(found[name], value), (
            f"{expression}: gradient of {name}\n gradloom: {found[name]}\n PyTorch:  {value}"
        )
