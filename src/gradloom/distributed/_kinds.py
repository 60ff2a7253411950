"""The values that calls of torch.distributed take besides tensors: reductions, options, backends, debug levels."""

from __future__ import annotations

import os
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum, IntEnum
from typing import Any, ClassVar

import gradloom as gl

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BackendConfig",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DebugLevel",
    "GatherOptions",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "get_debug_level",
    "reduce_op",
    "set_debug_level",
    "set_debug_level_from_env",
    "supports_complex",
]


class _RedOpType(Enum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __eq__(self, other: object) -> bool:
        return self is (other._kind if isinstance(other, ReduceOp) else other)

    __hash__ = Enum.__hash__


class BuiltinCommHookType(Enum):
    """Ways in which DistributedDataParallel reduces gradients: as they are, or as float16."""

    ALLREDUCE, FP16_COMPRESS = 1, 2


class ReduceOp:
    """The ways to reduce tensors over ranks, as constants: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR.

    `PREMUL_SUM`, the sum of each rank's tensor times its own factor, comes from `_make_nccl_premul_sum(factor)`.

    Args:
        kind: one of the constants.
    """

    RedOpType = _RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = _RedOpType

    def __init__(self, kind: _RedOpType | ReduceOp, _factor: Any = None) -> None:
        self._kind: _RedOpType
        self._factor: Any
        if isinstance(kind, ReduceOp):
            self._kind, self._factor = kind._kind, kind._factor
        elif isinstance(kind, _RedOpType):
            self._kind, self._factor = kind, _factor
        else:
            raise TypeError(f"ReduceOp(): expected a ReduceOp.RedOpType, not {kind!r}")

    @property
    def op(self) -> _RedOpType:
        """One of the constants."""
        return self._kind

    @property
    def factor(self) -> Any:
        """Factor of PREMUL_SUM: a number or a tensor of one element; None for the others."""
        return self._factor

    def __eq__(self, other: object) -> bool:
        return self._kind is (other._kind if isinstance(other, ReduceOp) else other)

    def __hash__(self) -> int:
        return hash(self._kind)

    def __str__(self) -> str:
        return str(self._kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return ReduceOp, (self._kind, self._factor)


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """Return the reduction PREMUL_SUM with a factor: a number, or a tensor of one element."""
    return ReduceOp(ReduceOp.PREMUL_SUM, factor)


class _OldReduceOp:
    """The constants under the name that they had before PyTorch 1.0."""

    def __getattr__(self, name: str) -> Any:
        if name != "__members__" and name not in _RedOpType.__members__:
            raise AttributeError(name)
        warnings.warn(
            "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead",
            FutureWarning,
            stacklevel=2,
        )
        return _RedOpType.__members__ if name == "__members__" else _RedOpType[name]


reduce_op = _OldReduceOp()
_NOT_COMPLEX = {ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}


def supports_complex(reduceOp: ReduceOp | _RedOpType) -> bool:
    """Return whether complex tensors can be reduced in a way."""
    return reduceOp not in _NOT_COMPLEX


def engine_op(op: Any) -> Any:
    """Return what engines call a reduction.

    Raises:
        TypeError: if it is none.
        RuntimeError: for PREMUL_SUM without a factor.
    """
    kind = op._kind if isinstance(op, ReduceOp) else op
    if not isinstance(kind, _RedOpType):
        raise TypeError(f"expected a ReduceOp, such as ReduceOp.SUM, not {op!r}")
    if kind is not ReduceOp.PREMUL_SUM:
        return kind.name.lower()
    factor = op._factor if isinstance(op, ReduceOp) else None
    if factor is None:
        raise RuntimeError("ReduceOp.PREMUL_SUM has no factor: make it with _make_nccl_premul_sum(factor)")
    return "premul_sum", factor._array if isinstance(factor, gl.Tensor) else factor


# -- options of the methods of ProcessGroup

UNSET = timedelta(milliseconds=-1)  # stands for the group's own timeout


class _Options:
    timeout: timedelta = UNSET
    asyncOp: bool = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "timeout" and not isinstance(value, timedelta):
            raise TypeError(f"{type(self).__name__}.timeout: expected a timedelta, not {value!r}")
        if name == "reduceOp":
            engine_op(value)
        object.__setattr__(self, name, value)


class AllreduceOptions(_Options):
    """Options of `ProcessGroup.allreduce`."""

    reduceOp: Any = ReduceOp.SUM
    sparseIndices: Any = None


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `ProcessGroup.allreduce_coalesced`."""


class BroadcastOptions(_Options):
    """Options of `ProcessGroup.broadcast`."""

    rootRank: int = 0
    rootTensor: int = 0


class ReduceOptions(BroadcastOptions):
    """Options of `ProcessGroup.reduce`."""

    reduceOp: Any = ReduceOp.SUM


class AllgatherOptions(_Options):
    """Options of `ProcessGroup.allgather`."""


class GatherOptions(_Options):
    """Options of `ProcessGroup.gather`."""

    rootRank: int = 0


class ScatterOptions(GatherOptions):
    """Options of `ProcessGroup.scatter`."""


class ReduceScatterOptions(_Options):
    """Options of `ProcessGroup.reduce_scatter`."""

    reduceOp: Any = ReduceOp.SUM


class AllToAllOptions(_Options):
    """Options of `ProcessGroup.alltoall`."""


class BarrierOptions(_Options):
    """Options of `ProcessGroup.barrier`."""

    device_ids: Sequence[int] = ()
    device: Any = None


# -- debug level


class DebugLevel(IntEnum):
    """How much torch.distributed checks: `DETAIL` compares what the ranks call before each collective."""

    OFF, INFO, DETAIL = range(3)

    def __str__(self) -> str:
        return f"DebugLevel.{self.name}"


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return the debug level: what `set_debug_level` set, else what TORCH_DISTRIBUTED_DEBUG said when first needed."""
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set the debug level of groups that are made from now on.

    Args:
        level: the level.
    """
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Set the debug level to that of the environment variable TORCH_DISTRIBUTED_DEBUG, OFF if it is not set.

    Raises:
        RuntimeError: if it is none of OFF, INFO and DETAIL.
    """
    given = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() or "OFF"
    if given not in DebugLevel.__members__:
        raise RuntimeError(
            "The value of TORCH_DISTRIBUTED_DEBUG must either be `OFF`, `INFO`, or `DETAIL`, but it is "
            f"{os.environ['TORCH_DISTRIBUTED_DEBUG']!r}."
        )
    set_debug_level(DebugLevel[given])


# -- backends


class Backend(str):
    """The name of a backend, in lower case.

    `shm` moves data through memory that the processes of one machine share, `mpi` through MPI, `sockets` through TCP.
    `gloo`, and no name, choose: `shm` if all ranks are on one machine, else `mpi` if MPI started them, else `sockets`.

    Args:
        name: a name in any case.

    Raises:
        ValueError: if it is no string.
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    SHM = "shm"
    SOCKETS = "sockets"

    _BackendPlugin = namedtuple("_BackendPlugin", ["creator_fn", "extended_api"])
    _plugins: ClassVar[dict[str, Any]] = {}
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, SHM, SOCKETS]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        name: ["cpu"] for name in (GLOO, MPI, SHM, SOCKETS, UNDEFINED)
    }

    def __new__(cls, name: str) -> Any:  # a plain str, as in PyTorch
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(Backend, name.upper(), Backend.UNDEFINED)
        return name.lower() if value == Backend.UNDEFINED else value

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: str | Sequence[str] | None = None
    ) -> None:
        """Register a backend, whose groups a function makes.

        Args:
            name: its name.
            func: called with store, rank, size and timeout, or, if `extended_api`, with an object that has these and
                the options of `init_process_group`. It returns a ProcessGroup.
            extended_api: which of the two.
            devices: types of devices whose tensors it takes; "cpu" if None.
        """
        lower = name.lower()
        if not hasattr(Backend, name.upper()):
            setattr(Backend, name.upper(), lower)
        if lower not in Backend.backend_list:
            Backend.backend_list.append(lower)
        capability = ["cpu"] if devices is None else [devices] if isinstance(devices, str) else list(devices)
        Backend.backend_capability[lower] = capability
        for device in () if devices is None else capability:
            Backend.default_device_backend_map.setdefault(device, lower)
        Backend._plugins[name.upper()] = Backend._BackendPlugin(func, extended_api)


class BackendConfig:
    """Backends by type of device, from a backend's name or a text such as "cpu:gloo,cuda:nccl".

    Raises:
        ValueError: if the text is neither.
    """

    def __init__(self, backend: str) -> None:
        text = str(backend).lower()
        self.device_backend_map: dict[str, str] = {}
        if text == Backend.UNDEFINED:
            self.device_backend_map["cpu"] = Backend.default_device_backend_map["cpu"]
        elif ":" in text:
            self._read_pairs(text)
        elif text in Backend.backend_list:
            self.device_backend_map = dict.fromkeys(Backend.backend_capability.get(text, ["cpu"]), Backend(text))
        else:
            self.device_backend_map = {"cpu": Backend(text)}

    def _read_pairs(self, text: str) -> None:
        hint = (
            f"The custom backend string argument is invalid: {text}. It must be in the format "
            '"<device_type1>:<backend1>,<device_type2>:<backend2>...", e.g. "cpu:gloo,cuda:nccl"'
        )
        for pair in text.split(","):
            parts = [part.strip() for part in pair.split(":")]
            if len(parts) != 2:
                raise ValueError(f"Invalid device:backend pairing: {pair}. {hint}")
            device, backend = parts
            if device in self.device_backend_map:
                raise ValueError(f"Duplicate device type {device} in backend string: {text}. {hint}")
            self.device_backend_map[device] = Backend(backend)

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, str]:
        """Return the backends by type of device."""
        return self.device_backend_map
