"""Rules of operators whose results have sizes that none of the arguments has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import _operators as ops
from ..dispatch.interception import Call

NONZERO = (
    "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct data-independent "
    "implementation does not exist: the shape of its result depends on values, and a meta tensor has none."
)
_Run = Any  # rules._Run, which imports this module


def _index(run: _Run, values: dict[str, Any]) -> Any:
    """Replace masks of the CPU by the positions that they select. Masks without data select an unknown number."""
    found: list[Any] = []
    for index in values["indices"]:
        if index is None or index._array.dtype.kind not in "b" and str(index._array.dtype) != "uint8":
            found.append(index)
        elif index.is_meta and run.name in ("index.Tensor", "_unsafe_index.Tensor"):
            raise NotImplementedError(NONZERO)
        elif index.is_meta:
            return NotImplemented
        else:
            found.extend(ops.nonzero_numpy(index))
    if len(found) == len(values["indices"]):
        return NotImplemented
    own, _, *rest = run.call.args
    return run.of(Call(run.call.wrapper, (own, found, *rest))).result()


def _repeat_interleave(run: _Run, values: dict[str, Any]) -> Any:
    if values.get("output_size") is None:
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    return run.made((values["output_size"],))


def _one_hot(run: _Run, values: dict[str, Any]) -> Any:
    if values["num_classes"] < 0:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    shape = values["self"]._array.shape if "self" in values else values["input"]._array.shape
    return run.made((*shape, values["num_classes"]))


RULES: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "index_put": _index,
    "index_put_": _index,
    "_index_put_impl_": _index,
    "repeat_interleave.Tensor": _repeat_interleave,
    "one_hot": _one_hot,
}
