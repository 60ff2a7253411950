"""make_fx: the graph of the operators that a program runs, below autograd.

The program is run once with real tensors, in a dispatch mode that records each operator. A tensor is known by its place
in memory, since autograd wraps results anew: by address, sizes, strides and dtype. All tensors of a trace are kept
until its end, so that no address is used twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any

import gradloom as gl

from ...core.tensor import Tensor
from ...nn import Module, Parameter
from ...utils import _pytree as pytree
from ...utils._python_dispatch import TorchDispatchMode
from .._codegen import _PyTreeCodeGen, _PyTreeInfo
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..proxy import Proxy

__all__ = ["ProxyTorchDispatchMode", "PythonKeyTracer", "get_proxy_mode", "make_fx"]


class PythonKeyTracer(Tracer):
    """The tracer of `make_fx`: tensors that are no inputs become constants of the root.

    Attributes:
        root: a module that holds the constants.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Module()
        self.graph = Graph(tracer_cls=type(self))
        self._places: dict[Any, Node] = {}
        self._kept: list[Any] = []

    def track(self, tensor: Tensor, node: Node) -> None:
        """Note that a tensor is the value of a node."""
        self._kept.append(tensor)
        self._places[id(tensor)] = self._places[_place(tensor)] = node
        node.meta.setdefault("val", _without_data(tensor))

    def node_of(self, tensor: Tensor) -> Node | None:
        """Return the node whose value a tensor is; None if it is not from the trace."""
        found = self._places.get(_place(tensor))
        return self._places.get(id(tensor)) if found is None else found

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True

    def create_arg(self, a: Any) -> Any:
        if not isinstance(a, Tensor):
            return super().create_arg(a)
        node = self.node_of(a)
        if node is None:
            name = self.get_fresh_qualname("_param_constant" if isinstance(a, Parameter) else "_tensor_constant")
            setattr(self.root, name, a)
            node = self.create_node("get_attr", name, (), {})
            self.track(a, node)
        return node


def _place(tensor: Tensor) -> Any:
    """Return what tells a tensor from others: its place in memory and its layout there."""
    if tensor.layout is not gl.strided or not tensor.numel() or tensor.is_meta:
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg()


def _without_data(tensor: Tensor) -> Any:
    """Return a meta tensor like a tensor; the tensor itself if it is sparse."""
    if tensor.layout is not gl.strided:
        return tensor
    return gl.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Records the operators called within it as nodes of a tracer's graph.

    Args:
        tracer: the tracer.
        decomposition_table: operator -> a function of its arguments that computes it by others, which are recorded.
    """

    def __init__(
        self, tracer: PythonKeyTracer, decomposition_table: Mapping[Any, Callable[..., Any]] | None = None
    ) -> None:
        super().__init__()
        self.tracer = tracer
        self.decomposition_table = decomposition_table or {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        decomposition = self.decomposition_table.get(func)
        if decomposition is not None:
            with self:
                found = decomposition(*args, **kwargs)
            if found is not NotImplemented:
                return found
        name = func.overloadpacket.__name__
        target = func
        if name == "lift_fresh":  # of a constant, which must not change when the graph writes to its copy
            target, name = gl.ops.aten.clone.default, "lift_fresh_copy"
        if name in ("_local_scalar_dense", "item"):
            return self._scalar(func, args, kwargs)
        tracer = self.tracer
        given = tracer.create_arg(args), tracer.create_arg(kwargs)
        node = tracer.create_node("call_function", target, *given, name=tracer.graph._target_to_str(name))
        found = func(*args, **kwargs)
        self._track(found, node)
        return found

    def _track(self, found: Any, node: Node) -> None:
        if isinstance(found, Tensor):
            self.tracer.track(found, node)
        elif isinstance(found, (tuple, list)):
            proxy = Proxy(node, self.tracer)
            for number, value in enumerate(found):
                if isinstance(value, Tensor):
                    self._track(value, proxy[number].node)

    def _scalar(self, func: Any, args: Any, kwargs: Any) -> Any:
        if any(isinstance(value, Tensor) and self.tracer.node_of(value) is not None for value in args):
            raise RuntimeError(
                f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! It's "
                "likely that this is caused by data-dependent control flow or similar."
            )
        return func(*args, **kwargs)


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """Return the mode of the trace that is running in this thread; None if there is none."""
    modes = import_module("gradloom.utils._python_dispatch")._get_current_dispatch_mode_stack()
    return next((mode for mode in reversed(modes) if isinstance(mode, ProxyTorchDispatchMode)), None)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    record_stack_traces: bool = False,
    **options: Any,
) -> Callable[..., GraphModule]:
    """Return a function that runs `f` and returns the operators it called, as a GraphModule.

    The graph has the operators below autograd, those of backward passes included, for the shapes of the arguments.
    Python control flow, numbers and sizes are constants of the graph, and so are tensors that are no arguments.

    Args:
        f: a function or Module of nested containers of tensors.
        decomposition_table: operator -> a function of its arguments that computes it by others, which are recorded.
        tracing_mode: "real"; "fake" is the same here. Symbolic shapes are not supported.
        record_stack_traces: keep the Python stack of each call as `Node.stack_trace`.
        pre_dispatch, record_module_stack, options: accepted without effect if false.

    Raises:
        NotImplementedError: for tracing_mode "symbolic" and for pre_dispatch.
        ValueError: for another tracing_mode.
        RuntimeError: from the returned function, if `f` takes a number out of a traced tensor.

    Example:
        >>> print(make_fx(lambda x: torch.autograd.grad(x.sin().sum(), x))(torch.ones(3, requires_grad=True)).code)
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"Unexpected tracing type: {tracing_mode}")
    if tracing_mode == "symbolic" or pre_dispatch:
        what = "pre_dispatch=True" if pre_dispatch else 'tracing_mode="symbolic"'
        raise NotImplementedError(f"make_fx: {what} is not supported: graphs hold for the shapes of the arguments")

    @wraps(f, assigned=())
    def trace(*args: Any) -> GraphModule:
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = record_stack_traces
        leaves, spec = pytree.tree_flatten(args)
        for name, value in zip(_input_names(f, args), leaves, strict=True):
            node = tracer.create_node("placeholder", name, (), {})
            if isinstance(value, Tensor):
                tracer.track(value, node)
        with ProxyTorchDispatchMode(tracer, decomposition_table):
            result = f(*args)
        nested = any(not child.is_leaf() for child in spec.children())
        if nested:
            result, result_spec = pytree.tree_flatten(result)
            parameters = _parameters(f, len(args))
            tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(parameters, spec, result_spec))
        tracer.create_node("output", "output", (tracer.create_arg(result),), {})
        return GraphModule(tracer.root, tracer.graph, getattr(f, "__name__", type(f).__name__))

    return trace


def _input_names(f: Any, args: tuple[Any, ...]) -> list[str]:
    """Return the names of the leaves of the arguments: x_1 for the parameter x, arg0_1 for that of a module."""
    return [
        f"{name}_{number}"
        for name, value in zip(_parameters(f, len(args)), args, strict=True)
        for number in range(1, len(pytree.tree_leaves(value)) + 1)
    ]


def _parameters(f: Any, count: int) -> list[str]:
    """Return the names of a function's first parameters; arg0, arg1, ... where they have none."""
    names: list[str] = []
    if inspect.isfunction(f):
        found = inspect.signature(f).parameters.values()
        names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names, *(f"arg{number}" for number in range(len(names), count))][:count]
