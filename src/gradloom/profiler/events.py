"""Events as users see them: one call (`FunctionEvent`), or all calls of one name (`FunctionEventAvg`).

Times are in microseconds, memory is in bytes. An event's totals include its children; `self_cpu_time_total` and
`self_cpu_memory_usage` do not.
"""

from __future__ import annotations

import enum
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.public import found_in as _found_in

if TYPE_CHECKING:
    from .recorder import Record

# Scopes of events, with at::RecordScope's numbers.
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7


class DeviceType(enum.Enum):
    """The device of an event. All events are of the CPU; the other members exist for code that names them."""

    CPU = 0
    CUDA = 1
    XPU = 12
    MPS = 13
    Meta = 14
    MTIA = 19
    PrivateUse1 = 20


class Interval:
    """The `start` and `end` of an event, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length of the interval, in microseconds."""
        return self.end - self.start

    def contains(self, other: Interval) -> bool:
        """Return whether another interval lies in this one."""
        return self.start <= other.start < self.end and other.end <= self.end


class Kernel(NamedTuple):
    """A kernel that an event started on another device."""

    name: str
    device: int
    duration: float


def format_time(microseconds: float, unit: str | None = None) -> str:
    """Format a time: `12.000us`, `3.100ms`, `2.000s`; in `unit` if it is given."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'us': 1}[unit]:.3f}{unit}"


def _formatted(name):
    return property(lambda self: format_time(getattr(self, name)), doc=f"`{name}` with its unit.")


class FormattedTimesMixin:
    """The times of an event as text, and the mean time per call."""

    count: int
    cpu_time_total: float
    device_time_total: float

    cpu_time_str = _formatted("cpu_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    device_time_str = _formatted("device_time")
    device_time_total_str = _formatted("device_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds per call on another device."""
        return self.device_time_total / self.count if self.count else 0.0


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator or a node, or a block marked by `record_function`.

    Args:
        id: number of the event.
        name: `aten::mul`, `MulBackward0`, or the name given to record_function.
        thread: number of the thread that ran it.
        start_us, end_us: microseconds since the profile began.
        overload_name: the operator's overload, if the profile captures overloads.
        fwd_thread: for a node, the thread of the forward call that made it; else 0.
        input_shapes: shape of each argument; `[]` if it is not a tensor.
        stack: the calls of the user's code, innermost first.
        scope: 0 for operators, 1 for nodes, 7 for record_function.
        cpu_memory_usage: bytes allocated less bytes freed.
        sequence_nr: links an operator to the node that it made; -1 for none.
        trace_name: name in a trace, if different.
        flops: estimated number of floating-point operations.
        concrete_inputs: the value of each argument that is not a tensor; None for tensors.
        structured_input_shapes, structured_input_strides: per argument, a list of lists for a list of tensors.
        input_dtypes: the type of each argument.
        is_user_annotation: whether record_function made the event.

    The other arguments describe other devices and machines, and keep their defaults here.
    """

    id: int
    name: str
    overload_name: str | None
    trace_name: str | None
    thread: int
    fwd_thread: int | None
    node_id: int
    input_shapes: Any
    concrete_inputs: Any
    kwinputs: Any
    stack: list[str] | None
    scope: int
    sequence_nr: int
    flops: int | None
    cpu_memory_usage: int
    device_memory_usage: int
    use_device: str | None
    device_type: DeviceType
    device_index: int
    is_async: bool
    is_remote: bool
    is_legacy: bool
    is_user_annotation: bool
    is_python_function: bool

    self_cpu_percent: Any = -1
    total_cpu_percent: Any = -1
    total_device_percent: Any = -1

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = FUNCTION,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        typed_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.id, self.name, self.overload_name, self.trace_name = id, name, overload_name, trace_name
        self.thread, self.fwd_thread, self.node_id = thread, fwd_thread, node_id
        self.time_range: Interval = Interval(start_us, end_us)
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.kernels: list[Kernel] = []
        self.input_shapes, self.concrete_inputs, self.kwinputs = input_shapes, concrete_inputs, kwinputs
        self.structured_input_shapes = structured_input_shapes
        self.structured_input_strides = structured_input_strides
        self.input_dtypes = input_dtypes
        self.stack, self.scope, self.sequence_nr, self.flops = stack, scope, sequence_nr, flops
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.use_device, self.device_type, self.device_index = use_device, device_type, device_index
        self.device_resource_id: int = thread if device_resource_id is None else device_resource_id
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.is_user_annotation, self.is_python_function = is_user_annotation, is_python_function
        self.activity_type, self.metadata = activity_type, typed_metadata

    @property
    def event_metadata(self) -> None:
        """None: it was the metadata of a GPU's event. Deprecated, for `metadata`."""
        warnings.warn("`event_metadata` is deprecated. Use `metadata` instead.", FutureWarning, stacklevel=2)

    @property
    def key(self) -> str:
        """The name in averages and tables."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from its start to its end."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds not spent in its children."""
        return self._own("cpu_time_total")

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes not allocated in its children."""
        return self._own("cpu_memory_usage")  # type: ignore[return-value]

    device_time_total = self_device_time_total = self_device_memory_usage = 0  # type: ignore[assignment]

    def _own(self, total: str) -> float:
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0
        return getattr(self, total) - sum(getattr(child, total) for child in self.cpu_children)

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that ran directly inside this one as a child.

        Args:
            child: the event.
        """
        _check_event("a child", child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the event inside which this one ran.

        Args:
            parent: the event.
        """
        _check_event("a parent", parent)
        self.cpu_parent = parent

    def __repr__(self) -> str:
        shown = {
            "id": self.id,
            "name": self.name,
            "overload_name": self.overload_name,
            "cpu_time": self.cpu_time_str,
            "start_us": self.time_range.start,
            "end_us": self.time_range.end,
            "cpu_children": [child.id for child in self.cpu_children],
            "thread": self.thread,
            "input_shapes": self.input_shapes,
            "cpu_memory_usage": self.cpu_memory_usage,
            "seq_nr": self.sequence_nr,
        }
        return f"<FunctionEvent {' '.join(f'{name}={value}' for name, value in shown.items())}>"


def _check_event(what: str, event) -> None:
    if not isinstance(event, FunctionEvent):
        raise AssertionError(f"{what} of an event must be a FunctionEvent, but got {type(event).__name__}")


def makes_node(event: Record | FunctionEvent) -> bool:
    """Return whether an event is a forward call that may have made the node of its sequence number."""
    return event.sequence_nr >= 0 and event.scope == FUNCTION and not event.name.startswith("autograd::engine::")


class FunctionEventAvg(FormattedTimesMixin):
    """All calls of one name: their number, and the sums of their times and memory."""

    flops: int

    self_cpu_percent: Any = -1
    total_cpu_percent: Any = -1
    total_device_percent: Any = -1
    # Taken from the first event added; key_averages clears those that it does not group by.
    _COPIED = """
        key node_id is_async is_remote cpu_parent cpu_children overload_name input_shapes stack scope device_type
        is_legacy use_device is_user_annotation
        """.split()
    _SUMMED = """
        cpu_time_total self_cpu_time_total device_time_total self_device_time_total cpu_memory_usage
        self_cpu_memory_usage device_memory_usage self_device_memory_usage count
        """.split()

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.node_id = self.scope = self.flops = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total = self.self_cpu_time_total = 0
        self.device_time_total = self.self_device_time_total = 0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or an average, of the same name.

        Args:
            other: the event or average.

        Raises:
            AssertionError: if its name differs.
        """
        if self.key is None:
            for name in self._COPIED:
                setattr(self, name, getattr(other, name))
        if not isinstance(other, FunctionEvent | FunctionEventAvg):
            raise AssertionError("Expected other to be a FunctionEvent or FunctionEventAvg")
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in self._SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} count={self.count} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


_found_in("gradloom.autograd.profiler_util", FormattedTimesMixin, FunctionEvent, FunctionEventAvg, Interval, Kernel)
