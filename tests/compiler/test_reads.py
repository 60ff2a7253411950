"""Everything that a compiled function can read, changed between calls: it gives what it gives as Python.

Guards do not depend on what runs behind them: each backend compiles from another change on, unless
GRADLOOM_ALL_SAMPLES=1 asks for all.
"""

from __future__ import annotations

from typing import Any

import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of
from tests.compiler import reads, reads_of_containers, reads_of_objects, reads_of_state  # noqa: F401
from tests.samples import ALL

FROM = [(0, True, "numpy"), (1, False, "llvm"), *[(0, True, "llvm"), (1, False, "numpy")] * ALL]


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if hasattr(value, "__dataclass_fields__"):
        value = list(vars(value).values())
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


def outcome(function: Any, args: tuple[Any, ...], gradients: bool) -> Any:
    """Return what a call gives, with gradients of the arguments."""
    torch.manual_seed(0)
    for generator in args:
        if isinstance(generator, torch.Generator):
            generator.manual_seed(0)
    inputs = [t for t in tensors_in(args) if (t.is_floating_point() or t.is_complex()) and t.is_leaf]
    for t in inputs if gradients else ():
        t.requires_grad_()
    try:
        result = function(*args)
    except Exception as error:  # an error is an outcome, too
        return [], (type(error), str(error))
    outputs = tensors_in(result)
    roots = [t.abs().sum() for t in outputs if t.requires_grad]
    found = torch.autograd.grad(roots, inputs, allow_unused=True) if roots and gradients and inputs else ()
    facts = [(type(t), t.requires_grad, t.dtype, t.shape, t.stride(), t.device, t.is_leaf) for t in outputs]
    has_gradient = [g is not None for g in found]
    return [t.detach() for t in (*outputs, *found) if t is not None and not t.is_meta], (facts or result, has_gradient)


@pytest.mark.parametrize(("first", "gradients", "each_backend"), FROM, indirect=["each_backend"])
@pytest.mark.parametrize("name", reads.PROGRAMS)
def test_what_is_read_may_change(name, first, gradients, each_backend):
    compiled: dict[int, Any] = {}
    for number, (function, *args) in enumerate(reads.PROGRAMS[name]()):
        if number < first:
            continue
        if id(function) not in compiled:
            compiled[id(function)] = function, torch.compile(function)
        f = compiled[id(function)][1]
        for _ in range(2):
            expected = outcome(function, tuple(args), gradients)
            found = outcome(f, tuple(args), gradients)
            torch.testing.assert_close(found[0], expected[0], msg=lambda text, at=number: f"change {at}: {text}")
            assert found[1] == expected[1], f"change {number}"
    for _, f in compiled.values():
        optimized = optimized_of(f)
        if name not in reads.RUNS_AS_PYTHON:
            assert optimized.calls[0] >= (number - first) // 2 and not optimized.breaks, optimized.breaks
