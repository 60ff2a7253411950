"""Proxy: a value of a traced program, which records what is done with it as nodes of a graph."""

from __future__ import annotations

import copy
import dis
import enum
import operator
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, NoReturn

from ..core.tensor import Tensor
from ..nn.parameter import Parameter
from ..ops._objects import OpOverload, OpOverloadPacket
from ..overrides import handle_torch_function, has_torch_function, is_tensor_method_or_property
from ..python_dispatch.torch_function.checks import check_for
from ..types.device import device, layout, memory_format
from ..types.dtype import dtype
from ..types.silence import module_name
from ..utils._pytree import tree_map_
from ..utils._tree_spec import is_namedtuple
from . import traceback as fx_traceback
from ._arguments import as_in_pytorch
from ._codegen import magic_methods, reflectable_magic_methods
from .graph import Graph
from .node import Argument, Node, Target, has_side_effect, map_arg

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

base_types = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout, OpOverload)
_PACKAGE = __name__.partition(".")[0]


class TraceError(ValueError):
    """Raised where a program cannot be traced: control flow on a Proxy, or its iteration."""


class Scope:
    """The module whose forward is being traced.

    Attributes:
        module_path: path from the root.
        module_type: class.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Set a Scope to another one within a `with` block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = scope.module_path, scope.module_type
        self._scope = scope
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


class TracerBase:
    """Makes nodes and proxies; `Tracer` traces whole programs.

    Attributes:
        graph: the graph being made.
        record_stack_traces: keep the Python stack of each call as `Node.stack_trace`.
        check_mutable_operations: refuse operators that write to their arguments.
        trace_asserts: record `assert` of a Proxy as a call.
        proxy_buffer_attributes: make proxies of buffers that modules read, as of parameters.
        traced_func_name: the method of a module that is traced.
    """

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node to the graph, with what is known of its origin; see `Graph.create_node`."""
        if kind == "call_function" and self.check_mutable_operations:
            _refuse_mutation(target)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            fx_traceback.copy_meta(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = _user_frames()
            if frames:
                node.stack_trace = "".join(traceback.StackSummary.from_list(frames).format()).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return the Proxy of a node; override it for a class of your own."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a node whose arguments may hold proxies, and return its Proxy.

        Args:
            kind, target, args, kwargs, name, type_expr: see `Graph.create_node`.
            proxy_factory_fn: makes the Proxy; None calls `proxy`.
        """
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """Return a value as an argument of a node: proxies become nodes, also in containers.

        Raises:
            NotImplementedError: for a value that generated code cannot hold.
            RuntimeError: for a dictionary with a node in a key.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            values = [self.create_arg(value) for value in a]
            return type(a)(*values) if is_namedtuple(a) else tuple(values)
        if isinstance(a, list):
            return [self.create_arg(value) for value in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if a is None or a is ... or isinstance(a, (*base_types, OpOverloadPacket, enum.Enum)):
            return a
        if is_dataclass(a):
            kwargs = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", a.__class__, (), kwargs)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        key = self.create_arg(key)
        map_arg(key, _refuse_key)
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """Return the truth of a Proxy; override it to allow control flow. Raises TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return an iterator over a Proxy, other than that of an assignment to several names. Raises TraceError."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a Proxy, which `**proxy` asks for: a call of its method."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer that adds nodes to an existing graph.

    Example:
        >>> proxy = fx.Proxy(node)      # its tracer adds to node.graph
        >>> new = (proxy + 1).node
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """A stand-in for a value while a program is traced: operators, methods, attributes and functions become nodes.

    It has no data, so conditions and loops on it raise TraceError.

    Args:
        node: the node whose result it stands for.
        tracer: makes the nodes; by default a GraphAppendingTracer of the node's graph.
    """

    __getitem__: Callable[..., Any]  # and the other operators of Python: _add_operators

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        check_for(self.tracer)  # public functions look for overrides as long as there are proxies

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        copied = Proxy(copy.deepcopy(self.node, memo), self.tracer)
        memo[id(self)] = copied
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        instruction = _instructions(sys._getframe(1))[0]
        if instruction.opname == "UNPACK_SEQUENCE":
            return (self[index] for index in range(instruction.argval))
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_asserted(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def find(value: Any) -> None:
            if isinstance(value, cls):
                tracers[value.tracer] = None

        tree_map_(find, (args, kwargs))
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        name = orig_method.__name__
        if is_tensor_method_or_property(orig_method) and _is_method_call(name, args):
            return tracer.create_proxy("call_method", "eq" if name == "__eq__" else name, args, kwargs)
        call = as_in_pytorch(orig_method, args, kwargs)
        name = tracer.graph._target_to_str(call.name)
        return tracer.create_proxy(call.kind, call.target, call.args, call.kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a Proxy: a node of its own only if it is used other than as a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The Proxy of a parameter, whose shape is known: control flow may depend on it."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return self.param.shape

    @property
    def ndim(self) -> int:  # type: ignore[override]
        return self.param.ndim

    def size(self) -> Any:
        return self.param.size()

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


def assert_fn(x: object) -> None:
    """Raise AssertionError if a value is false; what an `assert` in a traced program becomes."""
    if not x:
        raise AssertionError("Assertion failed")


def _assert(condition: Any, message: object) -> Any:
    """Raise AssertionError with a message if a condition is false; a traced one is recorded as a call."""
    if type(condition) is not Tensor and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


_assert.__module__ = _PACKAGE  # it is torch._assert
has_side_effect(_assert)


def _refuse_key(node: Node) -> NoReturn:
    raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")


def _refuse_mutation(target: Any) -> None:
    """Raise RuntimeError for an operator that writes to an argument."""
    name = getattr(target, "__name__", "")
    schema = getattr(target, "_schema", None)
    functions = import_module(f"{_PACKAGE}.generated.namespaces").FUNCTIONS
    inplace = name in functions and name.endswith("_") and not name.endswith("__")
    if inplace or (schema is not None and schema.is_mutable):
        raise RuntimeError(f"Tried to trace mutable operation {target}. FX only supports functional code")


def _add_operators() -> None:
    def forward(function: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Proxy, *args: Any) -> Proxy:
            return self.tracer.create_proxy("call_function", function, (self, *args), {})

        return method

    def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Proxy, other: Any) -> Proxy:
            return self.tracer.create_proxy("call_function", function, (other, self), {})

        return method

    for names, make, prefix in ((magic_methods, forward, ""), (reflectable_magic_methods, reflected, "r")):
        for name in names:
            method = make(getattr(operator, name))
            method.__name__ = method.__qualname__ = f"__{prefix}{name.strip('_')}__"
            setattr(Proxy, method.__name__, method)


_add_operators()


# --- the code that calls a proxy ---


def _instructions(frame: FrameType) -> list[dis.Instruction]:
    """Return the instructions of a frame from the one that it executes on."""
    return [found for found in dis.get_instructions(frame.f_code) if found.offset >= frame.f_lasti]


def _is_asserted(frame: FrameType) -> bool:
    """Return whether a frame tests the condition of an assert statement."""
    following = _instructions(frame)[:3]
    jumps = [index for index, found in enumerate(following) if "JUMP_IF_TRUE" in found.opname]
    return bool(jumps) and following[jumps[0] + 1].opname == "LOAD_ASSERTION_ERROR"


def _is_method_call(name: str, args: tuple[Any, ...]) -> bool:
    """Return whether a function that is a method, too, was called as a method of a tensor.

    One function is both `torch.add` and `Tensor.add`. Methods of a Proxy never get here, so the question only arises if
    the first argument is a tensor: `tensor + proxy`, `tensor.add(proxy)` and `torch.add(tensor, proxy)`.
    """
    if name.startswith("__"):
        return True
    if not args or not isinstance(args[0], Tensor):
        return False
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_internal(frame):
        frame = frame.f_back
    if frame is None:
        return False
    before = [found for found in dis.get_instructions(frame.f_code) if found.offset <= frame.f_lasti]
    if not before[-1].opname.startswith("CALL"):
        return True  # an operator of Python
    for loaded, holder in zip(before[::-1], before[-2::-1], strict=False):
        if loaded.argval == name and loaded.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            value = {**frame.f_globals, **frame.f_locals}.get(holder.argval) if "LOAD" in holder.opname else None
            return not isinstance(value, ModuleType)
    return False


def _is_internal(frame: FrameType) -> bool:
    name = module_name(frame.f_globals)
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


def _user_frames() -> list[traceback.FrameSummary]:
    """Return the stack from the outermost `forward` on, without the library's frames."""
    frames = [
        traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_stack(sys._getframe(1))
        if not _is_internal(frame)
    ][::-1]
    start = next((index for index, frame in enumerate(frames) if frame.name == "forward"), len(frames))
    return frames[start:]
