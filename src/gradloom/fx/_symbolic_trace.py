"""Symbolic tracing: a module or function is run on proxies, and its calls become a graph.

While a program is traced, `nn.Module.__call__` and `__getattr__` are replaced by functions that ask the tracer, and
so are the global functions that `wrap` names. As in PyTorch, one thread may trace at a time.
"""

from __future__ import annotations

import builtins
import inspect
import math
import typing
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

from ..core.tensor import Tensor
from ..nn import Module, Parameter, Sequential
from ..utils import _pytree as pytree
from ..utils._tree_spec import TreeSpec, is_namedtuple
from ._codegen import _PyTreeCodeGen, _PyTreeInfo
from ._names import is_from_torch, public_module
from ._namespace import _wrapped_fns_to_patch, wrap
from .graph import Graph
from .graph_module import GraphModule, provide_tracer
from .node import Argument, map_aggregate
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase, _assert, base_types

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_proxyable_classes: set[type] = set()


class _Tracing:
    """Whether a program is being traced."""

    is_on = False


def is_fx_tracing() -> bool:
    """Return whether a program is being traced."""
    return _Tracing.is_on


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction from proxies is recorded as a call.

    Example:
        >>> class Pair(metaclass=fx.ProxyableClassMeta):
        ...     def __init__(self, left, right):
        ...         self.left, self.right = left, right
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.add(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Marks a place in `concrete_args` that stays an input of the graph."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A place in `concrete_args` whose attributes are copied to its node.

    Args:
        ph_key: kept as the attribute `ph_key`.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


class Tracer(TracerBase):
    """Traces a module or function into a Graph.

    Args:
        autowrap_modules: modules whose functions are recorded as calls when they get a Proxy.
        autowrap_functions: functions that are recorded as calls when they get a Proxy.
        param_shapes_constant: let control flow depend on shapes of parameters.

    Override `is_leaf_module` to choose the modules that are recorded as one call, and `create_arg`, `proxy`, `to_bool`,
    `iter` and others to change what is recorded.
    """

    _qualname_counter: dict[str, int] = defaultdict(int)

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs: dict[Any, str] = {}

    # --- what is recorded ---

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module is recorded as one call: those of torch.nn, but for Sequential.

        Args:
            m: the module.
            module_qualified_name: its path from the root.
        """
        return public_module(m.__module__).startswith("torch.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a module from the root. Raises NameError if it is not in it."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, found in self.root.named_modules() if found is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a module: as one node if it is a leaf, or else the calls of its forward.

        Args:
            m: the module.
            forward: runs the module.
            args, kwargs: arguments of the call.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            self.num_calls[path] = calls + 1
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            del self.module_stack[key]
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return what a traced program gets as a parameter, buffer or submodule: a Proxy for a parameter of the root.

        Args:
            attr: name of the attribute.
            attr_val: its value.
            parameter_proxy_cache: path -> Proxy.
        """
        if isinstance(attr_val, Parameter):
            members: Iterable[tuple[str, Any]] = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        path = next((name for name, value in members if value is attr_val), None)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            options: dict[str, Any] = {}
            if self.param_shapes_constant:
                options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, path, attr_val)
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {}, **options)
        return parameter_proxy_cache[path]

    def create_arg(self, a: Any) -> Argument:
        """Return a value as an argument of a node: members of the root and constant tensors become "get_attr" nodes.

        Raises:
            NameError: for a parameter that is not in the root.
        """
        if isinstance(a, (Tensor, Module)) and (path := self._path_of_member(a)) is not None:
            return self.create_node("get_attr", path, (), {})
        if is_namedtuple(a):
            return self.create_node("call_function", type(a), tuple(self.create_arg(value) for value in a), {})
        if isinstance(a, (Tensor, TreeSpec)):
            path = self.tensor_attrs.get(a)
            if path is None:
                prefix = "_tensor_constant" if isinstance(a, Tensor) else "_tree_spec_constant"
                path = self.tensor_attrs[a] = self.get_fresh_qualname(prefix)
                setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        if type(a) in _proxyable_classes:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def _path_of_member(self, value: Any) -> str | None:
        members: Iterable[tuple[str, Any]]
        if isinstance(value, Parameter):
            members = self.root.named_parameters()
        elif isinstance(value, Tensor):
            members = self.root.named_buffers()
        else:
            members = self.root.named_modules()
        path = next((name for name, found in members if found is value), None)
        if path is None and isinstance(value, Parameter):
            raise NameError("parameter is not a member of this module")
        return path

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return the name of an attribute that the root does not have: `prefix` and a number."""
        number = self._qualname_counter[prefix] if hasattr(self.root, f"{prefix}0") else 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number
        return f"{prefix}{number}"

    # --- inputs ---

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return a function and the proxies to call it with, after adding placeholders for them.

        Args:
            root_fn: the function, or the class's method of a module.
            is_module: whether its first parameter is the root module.
            concrete_args: parameter -> a value to specialize it to. Containers of PH keep their structure, and their
                leaves are inputs. A tuple has one for each parameter.

        Raises:
            RuntimeError: for a tuple of another length, and for a method without `self`.
        """
        function = inspect.unwrap(root_fn)
        code = function.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
        variadic = code.co_flags & _VARIADIC
        if isinstance(concrete_args, tuple) and concrete_args and variadic and total == 1:
            return root_fn, args + [self._numbered_input(*item) for item in enumerate(concrete_args)]
        parameters = names[len(args) : total]
        if isinstance(concrete_args, tuple):
            if len(parameters) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(parameters)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(parameters, concrete_args, strict=True))
        found = inspect.signature(function).parameters
        args += [self._input(name, concrete_args, found, function) for name in parameters]
        if code.co_kwonlyargcount or variadic:
            rest = iter(names[total:])
            for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
                if code.co_flags & flag:
                    args.append(self._input(stars + next(rest), concrete_args, found, function))
            root_fn = _with_plain_parameters(root_fn, len(args))
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        return self._flat(root_fn, names[:total], spec), leaves

    def _flat(self, root_fn: Callable[..., Any], names: list[str], spec: TreeSpec) -> Callable[..., Any]:
        """Return a function of the leaves of the arguments, which returns the leaves of the result."""
        codegen = self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def flat(*leaves: Any) -> list[Any]:
            result, result_spec = pytree.tree_flatten(root_fn(*pytree.tree_unflatten(list(leaves), spec)))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=result_spec)
            return result

        return flat

    def _numbered_input(self, number: int, concrete: Any) -> Proxy:
        proxy = self.create_proxy("placeholder", f"input_{number}", (), {})
        _copy_marks(concrete, proxy)
        return proxy

    def _input(self, name: str, concrete_args: Any, parameters: Any, function: Any) -> Any:
        """Add a placeholder for a parameter, or one for each leaf of its concrete value."""
        parameter = parameters.get(name)
        has_default = parameter is not None and parameter.default is not inspect.Parameter.empty
        default: tuple[Any, ...] = (parameter.default,) if has_default else ()
        if concrete_args is None or name not in concrete_args:
            annotation = _annotation(function, name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = 0

        def leaf(value: Any) -> Any:
            nonlocal count
            count += 1
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                _copy_marks(value, proxy)
                return proxy
            self._specialize(name, proxy, value)
            return value

        return pytree.tree_map(leaf, concrete_args[name])

    def _specialize(self, name: str, proxy: Proxy, value: Any) -> None:
        """Record a check that an input has the value it was specialized to."""
        message = f"{name} has been specialized to have value {value} but got another value"
        if isinstance(value, base_types) and not isinstance(value, Tensor):
            self.create_proxy("call_function", _assert, (proxy == value, message), {})
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to "
                "the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )

    # --- tracing ---

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> Graph:
        """Run a module's forward or a function on proxies, and return the graph of its calls.

        Args:
            root: the module or function.
            concrete_args: values to specialize parameters to; see `create_args_for_root`.

        Raises:
            TraceError: for control flow that depends on inputs.
        """
        before, _Tracing.is_on = _Tracing.is_on, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _Tracing.is_on = before

    def _trace(self, root: Any, concrete_args: Any) -> Graph:
        function: Any = root
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
        self.graph = Graph(tracer_cls=type(self))
        if hasattr(function, "__code__"):
            code = function.__code__
            self.graph._co_fields = {key: getattr(code, key) for key in ("co_name", "co_filename", "co_firstlineno")}
        self.tensor_attrs = {
            value: f"{path}.{name}" if path else name
            for path, module in self.root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, (Tensor, TreeSpec))
        }
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        annotation = _annotation(inspect.unwrap(function), "return")
        flat, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        if flat is not function and isinstance(self.graph._codegen, _PyTreeCodeGen):
            annotation = None  # the graph returns leaves
        with _Patches() as patches:
            self._patch(patches, function)
            result = flat(*args)
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=annotation)
        self.submodule_paths = None
        return self.graph

    def _patch(self, patches: _Patches, function: Any) -> None:
        """Let modules and wrapped functions ask this tracer."""
        call: Any = Module.__call__
        get = Module.__getattr__
        proxies: dict[str, Any] = {}

        @wraps(get)
        def module_getattr(module: Any, attr: str) -> Any:
            return self.getattr(attr, get(module, attr), proxies)

        @wraps(call)
        def module_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            own = getattr(getattr(module, "forward", module), "__globals__", {})
            patches.wrap_functions(own, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        patches.set_attribute(Module, "__getattr__", module_getattr)
        patches.set_attribute(Module, "__call__", module_call)
        for (_, name), space in list(_wrapped_fns_to_patch.items()):
            patches.wrap_function(space, name)
        for space in (function.__globals__, *map(vars, self._autowrap_search)):
            patches.wrap_functions(space, self._autowrap_function_ids)


class _Patches:
    """Changes of globals and classes that are undone at the end of a `with` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._seen: set[int] = set()

    def __enter__(self) -> _Patches:
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()

    def set_attribute(self, cls: type, name: str, value: Any) -> None:
        if name in vars(cls):
            before = vars(cls)[name]
            self._undo.append(lambda: setattr(cls, name, before))
        else:
            self._undo.append(lambda: delattr(cls, name))
        setattr(cls, name, value)

    def wrap_function(self, space: dict[str, Any], name: str) -> None:
        """Let a global or builtin function record calls with a Proxy."""
        if name in space:
            function = space[name]
            if getattr(function, "_records_proxies", False):
                return
            self._undo.append(lambda: space.__setitem__(name, function))
        else:
            function = getattr(builtins, name)
            self._undo.append(lambda: space.__delitem__(name))
        space[name] = _recording(function)

    def wrap_functions(self, space: dict[str, Any], ids: set[int]) -> None:
        """Let those global functions of a module record calls whose ids are given; once for each module."""
        if id(space) not in self._seen:
            self._seen.add(id(space))
            for name, value in list(space.items()):
                if not name.startswith("_") and callable(value) and id(value) in ids:
                    self.wrap_function(space, name)


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def recording(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    recording._records_proxies = True  # type: ignore[attr-defined]
    return recording


def _find_proxy(*values: Any) -> Proxy | None:
    """Return the last Proxy in nested arguments."""
    found: list[Proxy] = []
    map_aggregate(values, lambda value: found.append(value) if isinstance(value, Proxy) else None)
    return found[-1] if found else None


def _with_plain_parameters(function: Any, count: int) -> FunctionType:
    """Return a function that takes its keyword-only and variadic parameters as `count` positional ones."""
    code = function.__code__
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_VARIADIC
    )
    return FunctionType(plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def _annotation(function: Any, name: str) -> Any:
    """Return the annotation of a parameter or of "return"; None if there is none.

    Annotations of gradloom's own modules are strings, some of which only a type checker can resolve; they are shown
    where PyTorch's module has one.
    """
    annotation = function.__annotations__.get(name)
    if isinstance(annotation, str) and is_from_torch(function):
        try:
            annotation = eval(annotation, {**vars(typing), **function.__globals__, "Tensor": Tensor})
        except NameError:
            return None
        return None if annotation is Any else annotation
    return annotation


def _copy_marks(mark: Any, proxy: Proxy) -> None:
    """Copy the attributes of a PHWithMeta to the node of its placeholder."""
    if isinstance(mark, PHBase) and mark is not PH:
        for name, value in vars(mark).items():
            if not callable(value) and not name.startswith("__") and not hasattr(proxy.node, name):
                setattr(proxy.node, name, value)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """Return a GraphModule that computes what a module or function does: the calls that it makes for any input.

    Args:
        root: the module, whose submodules of torch.nn stay calls of modules, or the function.
        concrete_args: parameter -> a value to specialize it to; see `Tracer.create_args_for_root`.

    Raises:
        TraceError: for control flow that depends on inputs.

    Example:
        >>> module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> print(module.code)
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


@wrap
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


provide_tracer(Tracer)
