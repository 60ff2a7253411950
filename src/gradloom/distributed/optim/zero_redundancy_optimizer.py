"""ZeroRedundancyOptimizer: each rank keeps the optimizer's state of a part of the parameters.

Stage 1 of Rajbhandari, Rasley, Ruwase and He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import gradloom as gl

from ...core.tensor import wrap
from ...optim.optimizer import Optimizer
from .. import distributed_c10d as dist
from ..algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Share the state and the work of an optimizer among ranks.

    Every rank updates a part of the parameters, whole ones, about as many elements as the others, and then sends them
    to the others. The gradients must be the same on all ranks, as DistributedDataParallel makes them.

    Args:
        params: parameters, or dictionaries of parameter groups; the same on all ranks.
        optimizer_class: class of the optimizer that updates a rank's part.
        process_group: the ranks; the default group by default.
        parameters_as_bucket_view: accepted; parameters keep their memory.
        overlap_with_ddp: step at the end of `backward`; needs the hook that `hook_with_zero_step` returns, and makes
            `step` do nothing.
        defaults: options of `optimizer_class`.

    Attributes:
        optim: the optimizer of this rank's part.
        rank, world_size: of this process in the group.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        self.process_group = dist._get_default_group() if process_group is None else process_group
        self.world_size, self.rank = self.process_group.size(), dist.get_rank(self.process_group)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._optim_class, self._optim_defaults = optimizer_class, defaults
        self._overlap_with_ddp = overlap_with_ddp
        self.optim: Any = None
        self._all_state_dicts: list[dict[str, Any]] = []
        params = list(params) if isinstance(params, Iterable) and not isinstance(params, gl.Tensor) else params
        self._check_parameters(params)
        super().__init__(params, defaults)
        Joinable.__init__(self)
        self._make_local_optimizer()

    @staticmethod
    def _check_parameters(params: Any) -> None:
        if not isinstance(params, list):
            raise TypeError(f"`params` argument should be an iterable of Tensors, but got {type(params).__name__}")
        if not params:
            raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
        listed = [p for one in params for p in (one["params"] if isinstance(one, dict) else [one])]
        kinds = {type(one) for one in listed if not isinstance(one, gl.Tensor)}
        if kinds:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeError(
                f"params should be an iterable of Tensors or dicts, but got an iterable that contains {names}"
            )

    # --- parts ----------------------------------------------------------------------------------------------------

    def _partition_parameters(self) -> list[list[dict[str, Any]]]:
        """Return the parameter groups of each rank: large parameters first, each to the rank that has least."""
        parts: list[list[dict[str, Any]]] = [[] for _ in range(self.world_size)]
        loads = [0] * self.world_size
        for group in self.param_groups:
            mine: list[list[Any]] = [[] for _ in range(self.world_size)]
            for parameter in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                rank = loads.index(min(loads))
                mine[rank].append(parameter)
                loads[rank] += parameter.numel() if parameter.requires_grad else 0
            for rank in range(self.world_size):
                parts[rank].append({**group, "params": mine[rank]})
        return parts

    def _make_local_optimizer(self) -> None:
        self._parts = self._partition_parameters()
        self._owner = {id(p): rank for rank, groups in enumerate(self._parts) for g in groups for p in g["params"]}
        self._index = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [dict(group) for group in self._parts[self.rank]]
        self.optim = self._optim_class(groups, **self._optim_defaults)
        # What the optimizer's own defaults add belongs to the groups that users see, too.
        for group, local in zip(self.param_groups, self.optim.param_groups, strict=True):
            for name, value in local.items():
                if name != "params":
                    group.setdefault(name, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, the same on all ranks. States of parameters that stay with this rank are kept."""
        super().add_param_group(param_group)
        if self.optim is None:  # in the constructor
            return
        former = self.optim.state
        self._make_local_optimizer()
        mine = {id(p) for group in self.optim.param_groups for p in group["params"]}
        for parameter, state in former.items():
            if id(parameter) not in mine:
                raise RuntimeError(
                    "a parameter with state changed its rank: add parameter groups before the first step"
                )
            self.optim.state[parameter] = state

    def _copy_options(self, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for given, taken in zip(source, target, strict=True):
            for name, value in given.items():
                if name != "params":
                    taken[name] = value

    # --- steps ----------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], float] | None = None, **kwargs: Any) -> float | None:
        """Update this rank's part, and exchange the parameters.

        Args:
            closure: reevaluates the model and returns the loss.
            kwargs: passed to the local optimizer's `step`.

        Returns:
            what the local optimizer's `step` returns; None with `overlap_with_ddp`, where nothing is left to do.
        """
        Join.notify_join_context(self)
        if self._overlap_with_ddp:
            return None
        return self._step(closure, **kwargs)

    def _step(self, closure: Any = None, **kwargs: Any) -> Any:
        self._copy_options(self.param_groups, self.optim.param_groups)
        arguments = {**kwargs} if closure is None else {**kwargs, "closure": closure}
        loss = self.optim.step(**arguments)
        self._copy_options(self.optim.param_groups, self.param_groups)
        self._sync_params()
        return loss

    def _sync_params(self) -> None:
        """Send the parameters of each part to all ranks: one call for each dtype."""
        owned: list[dict[Any, list[np.ndarray]]] = [{} for _ in range(self.world_size)]
        for rank, groups in enumerate(self._parts):
            for group in groups:
                for parameter in group["params"]:
                    if parameter.requires_grad:
                        owned[rank].setdefault(parameter._array.dtype, []).append(parameter)
        dtypes = dict.fromkeys(dtype for part in owned for dtype in part)
        for dtype in sorted(dtypes, key=str):
            self._exchange([part.get(dtype, []) for part in owned], dtype)

    def _exchange(self, parts: list[list[Any]], dtype: np.dtype) -> None:
        length = max(sum(p.numel() for p in part) for part in parts)
        own = np.zeros(length, dtype)
        mine = parts[self.rank]
        if mine:
            flat = np.concatenate([p._array.reshape(-1) for p in mine])
            own[: flat.size] = flat
        found = np.empty(self.world_size * length, dtype)
        dist.all_gather_into_tensor(wrap(found), wrap(own), group=self.process_group)
        with gl.no_grad():
            for rank, part in enumerate(parts):
                start = rank * length
                for parameter in part if rank != self.rank else ():
                    end = start + parameter.numel()
                    parameter.copy_(wrap(found[start:end].reshape(tuple(parameter.shape))))
                    start = end

    # --- state ----------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the states of all parts on one rank, for `state_dict` there. All ranks call this.

        Args:
            to: the rank, in the group.
        """
        self._copy_options(self.param_groups, self.optim.param_groups)
        found: list[Any] | None = [None] * self.world_size if self.rank == to else None
        dist.gather_object(self.optim.state_dict(), found, group=self.process_group, group_dst=to)
        self._all_state_dicts = found or []

    def state_dict(self) -> dict[str, Any]:
        """Return the whole optimizer's state, as an optimizer of all parameters would.

        Raises:
            RuntimeError: if `consolidate_state_dict` did not collect it on this rank before.
        """
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        groups, number = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**group, "params": list(range(number, number + count))})
            number += count
        state: dict[int, Any] = {}
        for part, saved in zip(self._parts, self._all_state_dicts, strict=True):
            listed = [p for group in part for p in group["params"]]
            for local, parameter in enumerate(listed):
                if local in saved["state"]:
                    state[self._index[id(parameter)]] = saved["state"][local]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of a whole optimizer; this rank keeps its part.

        Args:
            state_dict: as `state_dict` returns it, of any number of ranks.
        """
        self._copy_options(state_dict["param_groups"], self.param_groups)
        local: dict[int, Any] = {}
        groups, number = [], 0
        for group in self._parts[self.rank]:
            for place, parameter in enumerate(group["params"]):
                index = self._index[id(parameter)]
                if index in state_dict["state"]:
                    local[number + place] = state_dict["state"][index]
            count = len(group["params"])
            groups.append({"params": list(range(number, number + count))})
            number += count
        self._copy_options(state_dict["param_groups"], groups)
        self.optim.load_state_dict({"state": local, "param_groups": groups})

    # --- uneven inputs --------------------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what takes part in the others' steps when this rank has no more inputs."""
        return _Stepping(self)

    @property
    def join_device(self) -> Any:
        """Return the device of the parameters."""
        return gl.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """Return the process group."""
        return self.process_group


class _Stepping(JoinHook):
    """What a rank without inputs does: it updates its part with the gradients of the last pass."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer._step()
