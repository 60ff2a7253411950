"""parallelize_module: distribute the modules of a model by a plan."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import Any

from ...device_mesh import DeviceMesh
from .._dtensor import _mesh_or_current
from ._styles import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Distribute the parameters of a module over processes, in place, and return the module.

    Args:
        module: the same on all processes.
        device_mesh: the processes, a mesh of one dimension; the mesh entered by `with` if None.
        parallelize_plan: a style for the module, or a dictionary from names of modules inside to their styles. A name
            is a path of `named_modules`, in which `*`, `?` and `[...]` match as in file names.
        src_data_rank: number of the process whose parameters are distributed; None if each takes its part of its own.

    Raises:
        ValueError: for a mesh of several dimensions.
        TypeError: if the plan is neither a style nor a dictionary.
    """
    mesh = _mesh_or_current(device_mesh)
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module takes a DeviceMesh of 1 dimension, not {mesh.ndim}: select one, such as mesh['tp']"
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
            "parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        for one in _matching(module, path):
            parallelize_module(one, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: Any, path: str) -> list[Any]:
    """Return the modules that a path of patterns names; warn if a part of it names none."""
    found = [module]
    for token in path.split(".") if path else []:
        inside = [child for one in found for name, child in one.named_children() if fnmatch(name, token)]
        if not inside:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{token}' in module "
                f"{found[0] if len(found) == 1 else module}, skipping this plan entry.",
                stacklevel=3,
            )
            return []
        found = inside
    return found
