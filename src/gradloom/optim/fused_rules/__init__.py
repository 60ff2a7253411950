"""Steps of optimizers as operators on lists: `_fused_adam_` and the like. Note [Operators on lists] in ops/lists.

The steps are counted before the call. With `grad_scale`, gradients are divided by it in place first; with a `found_inf`
of 1, nothing changes. A functional overload changes copies of its lists and returns those that the in-place one writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradloom.autograd import no_grad
from gradloom.dispatch.records import Record
from gradloom.optim._arrays import number
from gradloom.optim._fused import unscale
from gradloom.optim.fused_rules import general


def step(record: Record) -> Callable[..., Any]:
    """Return the function of an overload: it returns the lists that its schema names, or the parameters for `out`."""
    rule = getattr(general, str(record.fused[0]))
    count = sum(a.tensors == "Tensor[]" and a.name != "out" for a in record.arguments)
    returned = record.schema.rpartition(" -> ")[2].count("[]")

    def call(*values):
        lists = values[:count]
        if not record.is_inplace:
            lists = tuple([tensor.detach().clone() for tensor in tensors] for tensors in lists)
        *options, grad_scale, found_inf = values[count:]
        lengths = {len(tensors) for tensors in lists if tensors}
        if len(lengths) > 1:
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {sorted(lengths)}")
        if not unscale(lists[1], grad_scale, found_inf):
            with no_grad():
                rule(lists, tuple(map(number, options)))
        return lists[0] if record.is_out else lists[:returned]

    return call
