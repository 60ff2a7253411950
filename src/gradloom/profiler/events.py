"""Events as users see them: one call (`FunctionEvent`), and all calls of one name (`FunctionEventAvg`).

Times are in microseconds, memory is in bytes. An event's totals include what happened inside it; what the events inside
it do not account for is its own: `self_cpu_time_total`, `self_cpu_memory_usage`.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

# What kind of code an event was: at::RecordScope's numbers.
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7


class DeviceType(enum.Enum):
    """Where an event ran. Everything here runs on the CPU; the others are for code that names them."""

    CPU = 0
    CUDA = 1
    XPU = 12
    MPS = 13
    Meta = 14
    MTIA = 19
    PrivateUse1 = 20


class Interval:
    """When an event ran: `start` and `end`, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """The length of the interval, in microseconds."""
        return self.end - self.start

    def contains(self, other: Interval) -> bool:
        """Whether another interval lies in this one."""
        return self.start <= other.start < self.end and other.end <= self.end


class Kernel(NamedTuple):
    """What an event started on another device."""

    name: str
    device: int
    duration: float


def format_time(microseconds: float, unit: str | None = None) -> str:
    """A time for people: `12.000us`, `3.100ms`, `2.000s`; in the unit that was asked for, if one was."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'us': 1}[unit]:.3f}{unit}"


def _formatted(name):
    return property(lambda self: format_time(getattr(self, name)), doc=f"`{name}` with its unit.")


class FormattedTimesMixin:
    """The times of an event as text, and the mean time of a call."""

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
    """One call of an operator, of a node, or of what `record_function` marks.

    Args:
        id: number of the event.
        name: `aten::mul`, `MulBackward0`, or what record_function was given.
        thread: number of the thread that ran it.
        start_us, end_us: when, in microseconds since the profile began.
        overload_name: the operator's overload, if the profile captures those.
        fwd_thread: for a node, the thread of the forward call that made it; else 0.
        input_shapes: shape of each argument, `[]` for what is no tensor.
        stack: the user's calls, innermost first.
        scope: 0 for operators, 1 for nodes, 7 for record_function.
        cpu_memory_usage: bytes allocated in it, less those freed.
        sequence_nr: links an operator with the node that it made; -1 for none.
        trace_name: its name in a trace, if that differs.
        flops: estimate of its floating point operations.
        concrete_inputs: the arguments that are no tensors; None for those that are.
        structured_input_shapes, structured_input_strides: like input_shapes, with a list for a list of tensors.
        input_dtypes: the type of each argument.
        is_user_annotation: whether record_function made it.

    The other arguments say what belongs to other devices and machines, and keep their defaults here.
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
        self.activity_type = activity_type

    @property
    def key(self) -> str:
        """The name under which averages and tables show it."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from its start to its end."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that none of its children account for."""
        return self._own("cpu_time_total")

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that none of its children account for."""
        return self._own("cpu_memory_usage")  # type: ignore[return-value]

    device_time_total = self_device_time_total = self_device_memory_usage = 0  # type: ignore[assignment]

    def _own(self, total: str) -> float:
        if self.is_async or self.device_type is not DeviceType.CPU:
            return 0
        return getattr(self, total) - sum(getattr(child, total) for child in self.cpu_children)

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that ran directly inside this one.

        Args:
            child: the event.
        """
        _check_event("a child", child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Say in which event this one ran.

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


class FunctionEventAvg(FormattedTimesMixin):
    """The calls of one name together: how many, and the sums of their times and memory."""

    flops: int

    self_cpu_percent: Any = -1
    total_cpu_percent: Any = -1
    total_device_percent: Any = -1
    # Those of the first event that is added. What averages were asked to ignore is blanked afterwards.
    _COPIED = (
        "key",
        "node_id",
        "is_async",
        "is_remote",
        "cpu_parent",
        "cpu_children",
        "overload_name",
        "input_shapes",
        "stack",
        "scope",
        "device_type",
        "is_legacy",
        "use_device",
        "is_user_annotation",
    )
    _SUMMED = (
        "cpu_time_total",
        "self_cpu_time_total",
        "device_time_total",
        "self_device_time_total",
        "cpu_memory_usage",
        "self_cpu_memory_usage",
        "device_memory_usage",
        "self_device_memory_usage",
        "count",
    )

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
        """Add an event, or the sums of others of the same name.

        Args:
            other: what is added.

        Raises:
            AssertionError: if its name is another.
        """
        if self.key is None:
            for name in self._COPIED:
                setattr(self, name, getattr(other, name))
        if not isinstance(other, FunctionEvent | FunctionEventAvg):
            raise AssertionError(f"only events can be added to an average, not {type(other).__name__}")
        if other.key != self.key:
            raise AssertionError(f"an average of {self.key} cannot take in an event of {other.key}")
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
