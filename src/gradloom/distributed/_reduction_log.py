"""What DistributedDataParallel reports of itself: settings, buckets, and the times of some of its passes."""

from __future__ import annotations

import operator
import os
from time import time_ns
from typing import Any

from ..kernels._common.errors import CPP_TYPES
from . import distributed_c10d as dist

__all__ = ["PassTimes", "ReductionLog", "describe", "dump_environment"]

_ALWAYS, _RATE = 10, 100  # passes that are all measured at first; then one of so many

# The environment variables that say how ranks meet and communicate, here and in PyTorch, by what reads them.
_LAUNCHER = "RANK LOCAL_RANK WORLD_SIZE MASTER_PORT MASTER_ADDR CUDA_VISIBLE_DEVICES"
_OURS = "GRADLOOM_LISTEN_ADDRESS OMP_NUM_THREADS TORCH_DISTRIBUTED_DEBUG"  # GRADLOOM_JOB_KEY is a secret
_GLOO = "GLOO_DEVICE_TRANSPORT GLOO_SOCKET_IFNAME"
_TORCH_NCCL = "TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_BLOCKING_WAIT"
_NCCL = """
    ALGO BUFFSIZE CHECKS_DISABLE CHECK_POINTERS COLLNET_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS IB_AR_THRESHOLD
    IB_CUDA_SUPPORT IB_DISABLE IB_GID_INDEX IB_HCA IB_RETRY_CNT IB_SL IB_TC IB_TIMEOUT IGNORE_CPU_AFFINITY LAUNCH_MODE
    LL_THRESHOLD MAX_NCHANNELS MIN_NCHANNELS NET_GDR_LEVEL NET_GDR_READ NSOCKS_PERTHREAD NTHREADS P2P_DISABLE P2P_LEVEL
    PROTO RINGS SHM_DISABLE SINGLE_RING_THRESHOLD SOCKET_IFNAME SOCKET_NTHREADS TOPO_DUMP_FILE TOPO_FILE TREE_THRESHOLD
    """


def dump_environment() -> None:
    """Print the environment variables that say how ranks meet and communicate, `env:NAME=value` on a line for each."""
    names = [*f"{_LAUNCHER} {_OURS} {_GLOO} {_TORCH_NCCL}".split(), *(f"NCCL_{name}" for name in _NCCL.split())]
    print("\n".join(f"env:{name}={_variable(name)}" for name in names))


def _variable(name: str) -> str:
    return os.environ.get(name, "N/A")


class PassTimes:
    """The moments of one forward and backward pass, in nanoseconds since the epoch.

    Attributes:
        forward, backward: when each begins.
        computed: when all gradients of this rank are there.
        reducing: when the reduction of the first bucket starts.
        reduced: when all buckets are reduced.
    """

    __slots__ = ("backward", "computed", "forward", "reduced", "reducing")

    def __init__(self) -> None:
        self.forward = time_ns()
        self.backward = self.computed = self.reducing = self.reduced = 0

    def starts_backward(self) -> None:
        self.backward = time_ns()

    def starts_reducing(self) -> None:
        self.reducing = self.reducing or time_ns()

    def has_gradients(self) -> None:
        self.computed = time_ns()

    def durations(self) -> dict[str, int]:
        """Return the nanoseconds of the parts of the pass."""
        return {
            "forward_compute_time": self.backward - self.forward,
            "backward_compute_time": self.computed - self.backward,
            "backward_comm_time": self.reduced - self.reducing,
            "backward_compute_comm_overlap_time": max(0, self.computed - self.reducing),
        }


class ReductionLog:
    """Times of sampled passes, and the last error.

    Attributes:
        rate: after the first ten passes, one of so many is measured.
        iteration: number of the last measured pass.
        error: text of the last error, or None.
    """

    def __init__(self) -> None:
        self.rate, self.iteration = _RATE, 0
        self.error: str | None = None
        self._passes, self._measured = 0, 0
        self._last: PassTimes | None = None
        self._sums: dict[str, int] = {}
        self.order: list[int] = []

    @property
    def has_begun(self) -> bool:
        """Whether there was a forward pass."""
        return self._passes > 0

    def set_rate(self, rate: int) -> None:
        """Set how many passes one is measured of.

        Raises:
            ValueError: if it is less than 1.
        """
        rate = operator.index(rate)
        if rate < 1:
            raise ValueError("DDP runtime logging sample rate should be equal or greater than 1")
        self.rate = rate

    def begin(self) -> PassTimes | None:
        """Return what takes the times of the pass that begins, or None if it is not measured."""
        number, self._passes = self._passes, self._passes + 1
        if number >= _ALWAYS and number % self.rate:
            return None
        self.iteration = number
        return PassTimes()

    def end(self, times: PassTimes, order: list[int]) -> None:
        """Take over a pass that ends now.

        Args:
            times: what `begin` returned.
            order: numbers of the parameters in the order of their gradients.
        """
        times.reduced = time_ns()
        self._last, self.order = times, list(order)
        self._measured += 1
        for name, time in times.durations().items():
            self._sums[name] = self._sums.get(name, 0) + time

    def failed(self, error: RuntimeError) -> RuntimeError:
        """Keep an error's text, and return the error."""
        self.error = str(error)
        return error

    def data(self) -> dict[str, Any]:
        """Return the times of the last measured pass, averages, and the error, by PyTorch's names."""
        found: dict[str, Any] = {"iteration": self.iteration}
        if self.error is not None:
            found.update(has_error=1, error=self.error)
        last = self._last
        if last is not None:
            found.update(last.durations())
            found.update({f"avg_{name}": total // self._measured for name, total in self._sums.items()})
            found.update(
                forward_compute_time_start=last.forward,
                backward_compute_time_start=last.backward,
                backward_compute_time_end=last.computed,
                backward_comm_time_start=last.reducing,
                backward_comm_time_end=last.reduced,
                prev_iteration_grad_ready_order_indices=", ".join(map(str, self.order)),
            )
        return found


def describe(parallel: Any) -> dict[str, Any]:
    """Return what a DistributedDataParallel is and has measured, by PyTorch's names; numbers are int.

    Times are nanoseconds. Some fields are there only after a pass, or only if something is so.
    """
    reducer, group = parallel.reducer, parallel.process_group
    sizes = ", ".join(str(bucket.array.nbytes) for bucket in reducer.buckets)
    names = {str(parameter.dtype).removeprefix("torch.") for parameter in reducer.parameters}
    found: dict[str, Any] = {
        "world_size": dist.get_world_size(group),
        "rank": dist.get_rank(group),
        "module_name": type(parallel.module).__name__,
        "device_ids": "",
        "output_device": -1,
        "is_multi_device_module": 0,
        "backend_name": dist.get_backend(group),
        "dtypes": ", ".join(sorted(CPP_TYPES.get(name, name) for name in names)),
        "num_parameter_tensors": len(reducer.parameters),
        "total_parameter_size_bytes": sum(bucket.array.nbytes for bucket in reducer.buckets),
        "bucket_cap_bytes": parallel.bucket_bytes_cap,
        "bucket_sizes": reducer.first_sizes,
        "find_unused_parameters": int(parallel.find_unused_parameters),
        "gradient_as_bucket_view": int(parallel.gradient_as_bucket_view),
        "broadcast_buffers": int(parallel.broadcast_buffers),
        "has_sync_bn": int(any(type(part).__name__ == "SyncBatchNorm" for part in parallel.module.modules())),
        "master_addr": _variable("MASTER_ADDR"),
        "master_port": _variable("MASTER_PORT"),
        "cuda_visible_devices": _variable("CUDA_VISIBLE_DEVICES"),
        "torch_distributed_debug": _variable("TORCH_DISTRIBUTED_DEBUG"),
        **reducer.log.data(),
    }
    if parallel.static_graph:
        found["static_graph"] = 1
    if found["backend_name"] == "gloo":  # two threads run collectives: the caller's, and that of asynchronous ones
        found.update({name.lower(): _variable(name) for name in _GLOO.split()}, gloo_num_threads=2)
    for hook, _ in parallel._comm_hooks:
        found["comm_hook"] = getattr(hook, "__qualname__", type(hook).__qualname__)
    if reducer.log.has_begun:
        sizes_unused = [reducer.parameters[n].numel() * reducer.parameters[n].itemsize for n in reducer.unused]
        found.update(unused_parameter_size=sum(sizes_unused), num_buckets_reduced=len(reducer.buckets))
    if reducer.rebuilt:
        numbers = (" ".join(map(str, bucket.numbers)) for bucket in reducer.buckets)
        found.update(
            has_rebuilt_buckets=1, rebuilt_bucket_sizes=sizes, rebuilt_per_bucket_param_indices=", ".join(numbers)
        )
    return found
