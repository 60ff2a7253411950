"""Plan the call of an operator on distributed tensors: what to redistribute, and how the results are distributed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import gradloom as gl

from ...utils._pytree import tree_leaves, tree_map
from ._call import REPLICATE, Call, Leaf, Option
from ._redistribute import cost
from ._spec import DTensorSpec, TensorMeta
from .placement_types import Placement, Shard
from .rules import rule_of

__all__ = ["Plan", "Plans", "plan_of"]


@dataclass(frozen=True)
class Plan:
    """How to compute a call.

    Attributes:
        inputs: placements of each distributed argument.
        outputs: of each tensor that the operator returns; None if they are replicated and of unknown shapes.
        local: computes the result instead of the operator, if it is given; see `Option`.
    """

    inputs: tuple[tuple[Placement, ...], ...]
    outputs: tuple[DTensorSpec, ...] | None
    local: Callable[..., Any] | None = None


class Plans:
    """Plans of the last calls, by operator, specs and other arguments; not more than `limit`."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit, self._lock = limit, threading.Lock()
        self._known: OrderedDict[Hashable, Plan] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Plan]) -> Plan:
        """Return the plan of a key, and make it if there is none."""
        try:
            with self._lock:
                found = self._known.get(key)
                if found is not None:
                    self._known.move_to_end(key)
                    return found
        except TypeError:  # an argument cannot be hashed
            return make()
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > self._limit:
                self._known.popitem(last=False)
        return made


def plan_of(func: Any, specs: Sequence[DTensorSpec], given: Any, written: frozenset[int]) -> Plan:
    """Return how to compute a call.

    Args:
        func: the operator.
        specs: of the distributed arguments.
        given: its arguments and keyword arguments, with a `Leaf` for each distributed tensor.
        written: numbers of the distributed arguments that the operator changes in place.
    """
    (args, kwargs), ndim = given, specs[0].mesh.ndim
    replicated = Plan(((REPLICATE,) * ndim,) * len(specs), None)
    rule = rule_of(func)
    if rule is None:
        return replicated
    outs = _metas_of_results(func, args, kwargs)
    if outs is None:
        return replicated
    names = [argument.name for argument in func._schema.arguments]
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    targets = _targets(func, values, outs)
    if targets is None:
        return replicated
    is_given = {leaf.index for leaf, _ in targets}
    leaves = [Leaf(number, spec) for number, spec in enumerate(specs) if number not in is_given]
    call = Call(func, values, leaves, outs, written=written, targets=targets)
    chosen = [_best(rule, call, mesh_dim) for mesh_dim in range(ndim)]
    if any(option is None for option in chosen):
        return replicated
    options = [option for option in chosen if option is not None]
    outputs = []
    for number, meta in enumerate(outs):
        placements = tuple([_of_result(option, number) for option in options])
        outputs.append(DTensorSpec(specs[0].mesh, placements, meta))
    chosen_of = {leaf.index: tuple([o.inputs[at] for o in options]) for at, leaf in enumerate(leaves)}
    chosen_of |= {leaf.index: outputs[number].placements for leaf, number in targets}
    inputs = tuple([chosen_of[number] for number in range(len(specs))])
    local = next((option.local for option in options if option.local is not None), call.local)
    return Plan(inputs, tuple(outputs), local)


def _targets(func: Any, values: dict[str, Any], outs: Sequence[TensorMeta]) -> list[tuple[Leaf, int]] | None:
    """Take tensors given as `out` from the arguments, with the numbers of the results that are written to them; None if
    they must be resized."""
    if "out" not in func._row.tags.split():
        return []
    found = []
    for number, argument in enumerate(a for a in func._schema.arguments if a.kwarg_only and a.alias_info is not None):
        leaf = values.pop(argument.name, None)
        if not isinstance(leaf, Leaf) or leaf.shape != outs[number].shape:
            return None
        found.append((leaf, number))
    return found


def _best(rule: Any, call: Call, mesh_dim: int) -> Option | None:
    """Return the cheapest option for a dimension of the mesh, if there is one that leaves written arguments alone."""
    call.mesh_dim = mesh_dim
    currents = [call.current(leaf) for leaf in call.leaves]
    none_moves = Option((REPLICATE,) * len(currents), REPLICATE)
    best, least = None, float("inf")
    for option in [none_moves, *rule(call)]:
        if not _is_offered(option, call, currents) or not (option.takes_empty or _has_elements(option, call)):
            continue
        price = sum(
            cost(current, wanted, _elements(leaf))
            for current, wanted, leaf in zip(currents, option.inputs, call.leaves, strict=True)
        )
        if price < least:
            best, least = option, price
    return best


def _is_offered(option: Option, call: Call, currents: Sequence[Placement]) -> bool:
    """Return whether an option leaves written arguments alone, and shards only if an argument is sharded already."""
    for number, leaf in enumerate(call.leaves):
        if leaf.index in call.written and not option.inputs[number] == currents[number] == _of_result(option, 0):
            return False
    if any(_of_result(option, number) != call.current(leaf) for leaf, number in call.targets):
        return False
    sharded = [wanted == current for wanted, current in zip(option.inputs, currents, strict=True) if wanted.is_shard()]
    return not sharded or any(sharded)


def _of_result(option: Option, number: int) -> Placement:
    return option.outputs if isinstance(option.outputs, Placement) else option.outputs[number]


def _has_elements(option: Option, call: Call) -> bool:
    """Return whether every process has elements of all arguments."""
    return all(
        not isinstance(wanted, Shard) or call.is_on_all(leaf, wanted.dim)
        for wanted, leaf in zip(option.inputs, call.leaves, strict=True)
    )


def _elements(leaf: Leaf) -> int:
    count = 1
    for size in leaf.shape:
        count *= size
    return count


def _metas_of_results(func: Any, args: Any, kwargs: Any) -> list[TensorMeta] | None:
    """Return what the operator gives for whole tensors, by computing it on the device "meta"; None if it cannot."""

    def whole(value: Any) -> Any:
        if isinstance(value, Leaf):
            meta = value.spec.tensor_meta
            return gl.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
        return value.to("meta") if isinstance(value, gl.Tensor) else value

    args, kwargs = tree_map(whole, (args, kwargs))
    if "device" in kwargs:
        kwargs = {**kwargs, "device": gl.device("meta")}
    try:
        found = func(*args, **kwargs)
    except Exception:  # the operator itself, on the gathered arguments, will raise what there is to raise
        return None
    return [TensorMeta.of(one) for one in tree_leaves(found) if isinstance(one, gl.Tensor)]
