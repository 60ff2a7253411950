"""Compare the parameters of the ranks of a DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from ..nn.modules.module import Module
from ..nn.parameter import UninitializedParameter
from . import distributed_c10d as dist

__all__ = ["check_same_parameters"]


class _Parameter(NamedTuple):
    """A parameter of one rank; ranks may call it by different names."""

    name: str
    sizes: list[int] | None  # None if it is uninitialized
    dtype: str
    requires_grad: bool

    def __str__(self) -> str:
        sizes = "uninitialized" if self.sizes is None else f"shape {tuple(self.sizes)}"
        return f"{self.name} ({sizes}, {self.dtype}{'' if self.requires_grad else ', requires no gradient'})"


def check_same_parameters(module: Module, ignored: Collection[str], group: Any) -> None:
    """Compare number, shapes, dtypes and `requires_grad` of the parameters of all ranks.

    Args:
        module: this rank's.
        ignored: names of parameters that are not compared.
        group: the process group, all of whose ranks call this.

    Raises:
        RuntimeError: on all ranks, if they differ.
    """
    own = [
        _Parameter(
            name,
            None if isinstance(parameter, UninitializedParameter) else list(parameter.shape),
            str(parameter.dtype).rpartition(".")[2],
            parameter.requires_grad,
        )
        for name, parameter in module.named_parameters()
        if name not in ignored
    ]
    models: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(models, own, group=group)
    if any([one[1:] for one in model] != [one[1:] for one in models[0]] for model in models):
        raise RuntimeError(f"{_difference(dist.get_rank(group), models)}\n{_first_that_differs(models)}")


def _difference(rank: int, models: list[list[_Parameter]]) -> str:
    """Return how a rank's parameters differ from those of another rank."""
    trained = [[one for one in model if one.requires_grad] for model in models]
    for kind, found in (("params", models), ("params that require a gradient", trained)):
        own = len(found[rank])
        other = next((r for r, model in enumerate(found) if len(model) != own), None)
        if other is not None:
            return (
                f"DDP expects same model across all ranks, but Rank {rank} has {own} {kind}, while rank {other} has "
                f"inconsistent {len(found[other])} {kind}."
            )
    number = _place(models)
    mine = models[rank][number]
    other = next(r for r, model in enumerate(models) if model[number][1:] != mine[1:])
    field = next(field for field in ("sizes", "dtype", "requires_grad")
                 if getattr(mine, field) != getattr(models[other][number], field))  # fmt: skip
    return (
        f"[{rank}]: params[{number}] in this process with {field} {getattr(mine, field)} appears not to match {field} "
        f"of the same param in process {other}."
    )


def _place(models: list[list[_Parameter]]) -> int:
    """Return the number of the first parameter that differs, or that some ranks do not have."""
    shortest = min(map(len, models))
    differs = (n for n in range(shortest) if any(model[n][1:] != models[0][n][1:] for model in models))
    return next(differs, shortest)


def _first_that_differs(models: list[list[_Parameter]]) -> str:
    number = _place(models)
    ranks: dict[str, list[str]] = {}
    for rank, model in enumerate(models):
        ranks.setdefault(str(model[number]) if number < len(model) else "none", []).append(str(rank))
    found = (f"{one} on rank{'s' if len(of) > 1 else ''} {', '.join(of)}" for one, of in ranks.items())
    return f"The first parameter that differs: {'; '.join(found)}."
