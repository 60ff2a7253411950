"""torch.distributed.tensor.experimental: run functions of ordinary tensors on the parts of distributed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from ....utils._pytree import tree_flatten, tree_unflatten
from ....utils._refused import declare
from ...device_mesh import DeviceMesh
from .._dispatch import implicit_replication as implicit_replication
from .._dtensor import DTensor

__all__ = ["implicit_replication", "local_map"]

__getattr__ = declare(
    __name__,
    {"": "context_parallel register_sharding", "_attention": "context_parallel set_rotate_method"},
    "gradloom has nothing of this kind yet; docs/distributed.md lists what there is",
)


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: tuple[Any, ...] | None = None,
    in_grad_placements: tuple[Any, ...] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Return a function that calls `func` on the parts of distributed tensors, and makes such tensors of the results.

    Args:
        func: takes and returns ordinary tensors; None to get a decorator.
        out_placements: how the result is distributed, or a tuple with that of each result; None for one that is not.
        in_placements: how each argument must be distributed, None for one that may be anyhow; None to take all as is.
        in_grad_placements: how the gradient of each argument is distributed; as the argument if None.
        device_mesh: the processes; those of the arguments if None.
        redistribute_inputs: distribute arguments as they must be, rather than raise.

    Raises:
        ValueError: on a call, if an argument is not distributed as it must be.
    """
    if func is None:
        return partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, structure = tree_flatten(args)
        mesh = device_mesh
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!"
            )
        for number, value in enumerate(flat):
            wanted = None if in_placements is None else in_placements[number]
            if not isinstance(value, DTensor):
                if wanted is not None:
                    raise AssertionError(f"Non-DTensor input should have None placements but got {wanted}!")
                continue
            mesh = value.device_mesh if mesh is None else mesh
            if wanted is not None and value.placements != tuple(wanted):
                if not redistribute_inputs:
                    raise ValueError(
                        f"arg {value} in local_map has a mismatched placements: arg placements is {value.placements} "
                        f"but the input placements is {tuple(wanted)}! If redistribute_inputs is wanted, set "
                        "redistribute_inputs=True to local_map."
                    )
                value = value.redistribute(mesh, wanted)
            grads = None if in_grad_placements is None else in_grad_placements[number]
            flat[number] = value.to_local(grad_placements=grads)
        return _distributed(func(*tree_unflatten(flat, structure), **kwargs), mesh, out_placements)

    return mapped


def _distributed(result: Any, mesh: DeviceMesh | None, placements: Any) -> Any:
    """Make distributed tensors of results."""
    if mesh is None:
        return result
    flat, structure = tree_flatten(result)
    each = placements if isinstance(placements, tuple) else (placements,)
    if len(each) != len(flat):
        raise AssertionError(
            f"local_map requires one PlacementType be provided for each output value, received {len(each)} "
            f"out_placements but {len(flat)} is expected!"
        )
    made = [_one(value, mesh, one) for value, one in zip(flat, each, strict=True)]
    return tree_unflatten(made, structure)


def _one(value: Any, mesh: DeviceMesh, placements: Sequence[Any] | None) -> Any:
    return value if placements is None else DTensor.from_local(value, mesh, placements, run_check=False)
