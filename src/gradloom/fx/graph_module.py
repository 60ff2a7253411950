"""GraphModule: a module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import gradloom as gl

from ..core.tensor import Tensor
from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Linear, Module, Parameter
from ._codegen import PythonCode, _PyTreeCodeGen
from ._names import is_from_torch
from ._namespace import CUSTOM_BUILTINS
from .graph import Graph
from .node import Node

__all__ = ["GraphModule", "reduce_graph_module"]

_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")
_count = itertools.count()
_default_tracer: Any = None


def provide_tracer(tracer: type) -> None:
    """Register the class of tracers for graph modules without one of their own; tracers make graph modules."""
    global _default_tracer
    _default_tracer = tracer


def _function_of(source: str, globals: dict[str, Any], fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Run generated code, and return its `forward`."""
    key = f"<eval_with_key>.{next(_count)}"
    if fields:
        key += f" from {fields['co_filename']}:{fields['co_firstlineno']} in {fields['co_name']}"
    space = dict(globals)
    linecache.cache[key] = (len(source), None, source.splitlines(keepends=True), key)  # for tracebacks and inspect
    exec(compile(source, key, "exec", dont_inherit=True), space)
    function: Callable[..., Any] = space.pop("forward")
    return function


def _import_block(globals: dict[str, Any]) -> str:
    """Return the import statements that bind the globals of generated code.

    Raises:
        RuntimeError: for a global that cannot be imported, such as a function defined within another.
    """
    statements = set()
    for name, obj in globals.items():
        if name in CUSTOM_BUILTINS:
            statements.add(CUSTOM_BUILTINS[name].import_str)
        elif is_from_torch(obj):
            statements.add(CUSTOM_BUILTINS["torch"].import_str)
        else:
            module, attribute = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
            if attribute is None or "<" in attribute or getattr(import_module(str(module)), attribute, None) is not obj:
                raise RuntimeError(f"the code uses {obj}, which cannot be imported by name, so it cannot be saved")
            statements.add(f"from {module} import {attribute} as {name}")
    return "\n".join(sorted(statements))


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Return a GraphModule from its pickled parts.

    Args:
        body: its attributes, among them the code.
        import_block: the import statements that the code needs.
    """
    code_only = _CodeOnlyModule(body)
    type(code_only).forward = _function_of(import_block + body["_code"], {})  # type: ignore[assignment]

    class KeepModules(body.get("_tracer_cls") or _default_tracer):  # type: ignore[misc]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    graph = KeepModules().trace(code_only, **body.get("_tracer_extras", {}))
    graph._tracer_cls = body.get("_tracer_cls") or _default_tracer
    made = GraphModule(code_only, graph)
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


class _CodeOnlyModule(Module):
    """A module with the attributes of another one; each has a class of its own, for its forward."""

    def __new__(cls, body: dict[str, Any]) -> _CodeOnlyModule:
        return super().__new__(type(cls.__name__, (cls,), {}))

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _put(module: Module, path: str, value: Any) -> None:
    """Set an attribute of a module by its path, and make the modules on the way; a plain tensor becomes a buffer."""
    *parents, name = path.split(".")
    for parent in parents:
        inner = getattr(module, parent, None)
        if inner is None:
            inner = Module()
            setattr(module, parent, inner)
        module = inner
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _copy_member(source: Module, target: Module, path: str) -> None:
    """Copy an attribute by its path, unless a module on the way is the same in both."""
    *parents, _ = path.split(".")
    value: Any = source
    owner: Any = target
    for parent in parents:
        value, owner = getattr(value, parent), getattr(owner, parent, None)
        if value is owner:
            return
    for part in path.split("."):
        source = getattr(source, part)
    _put(target, path, source)


class GraphModule(Module):
    """A module whose forward is generated from a graph.

    Args:
        root: a module that has the parameters, buffers and submodules that the graph names, or a dictionary of them by
            path; those that the graph uses are copied by reference.
        graph: the graph, which the module owns from now on.
        class_name: name of the module's class.

    Raises:
        RuntimeError: if `root` is something else, or a dictionary that lacks a target.

    Attributes:
        graph: assign a graph to generate code anew.
        code: the source of the forward.
        meta: dictionary for passes.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each instance has its own class, since forward belongs to a class.
        base = next(found for found in cls.__mro__ if found.__qualname__.rpartition(".")[2] != "GraphModuleImpl")

        class GraphModuleImpl(base):  # type: ignore[valid-type, misc]
            pass

        made: GraphModule = super().__new__(GraphModuleImpl)
        return made

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self._copy_from(root, graph)
        elif isinstance(root, dict):
            self._take_from(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer_cls = graph._tracer_cls
        self._tracer_cls = tracer_cls if tracer_cls and "<locals>" not in tracer_cls.__qualname__ else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        for name in _HOOKS:
            setattr(self, name, [])

    def _copy_from(self, root: Module, graph: Graph) -> None:
        self.training = getattr(root, "training", True)
        if isinstance(root, _CodeOnlyModule):
            for name, _ in (*root.named_children(), *root.named_buffers(), *root.named_parameters()):
                _copy_member(root, self, name)
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_member(root, self, str(node.target))

    def _take_from(self, root: dict[str, Any], graph: Graph) -> None:
        paths = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
                paths.append(str(node.target))
        for path in sorted(paths, key=lambda path: path.count(".")):
            _put(self, path, root[path])

    # --- graph and code ---

    @property
    def graph(self) -> Graph:
        """The graph; assigning one calls `recompile`."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        object.__setattr__(self, "_graph", g)
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of the forward."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated: call recompile()")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate the forward from the graph, which was changed; return the code."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        code = self._graph.python_code(root_module="self")
        self._code, self._lineno_map, self._prologue_start = code.src, code._lineno_map, code._prologue_start
        type(self).forward = _function_of(code.src, code.globals, self._graph._co_fields)  # type: ignore[method-assign]
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if "eval_with_key" in frames[-1].filename:
                print(_place_in_code(frames[-1]), file=sys.stderr)
                raise error.with_traceback(None) from None
            raise

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Print and return the code of this module and its GraphModules, with what passes stored about values.

        Args:
            print_output: whether to print it.
            include_stride, include_device, colored, expanded_def, additional_meta: see `Graph.python_code`.
            fast_sympy_print: accepted without effect: there are no symbolic shapes.
        """
        options: dict[str, Any] = dict(
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            additional_meta=additional_meta,
        )
        text = _readable(self, self._get_name(), {**options, "expanded_def": expanded_def}, options)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    # --- submodules ---

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a submodule by its path, and empty modules on the way; return False if something else is in the way."""
        *parents, name = target.split(".")
        owner: Module = self
        for parent in parents:
            inner = getattr(owner, parent, None)
            if inner is None:
                inner = Module()
                setattr(owner, parent, inner)
            if not isinstance(inner, Module):
                return False
            owner = inner
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete a submodule by its path; return False if there is none."""
        *parents, name = target.split(".")
        owner: Any = self
        for parent in parents:
            owner = getattr(owner, parent, None)
            if not isinstance(owner, Module):
                return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the submodules that no node names, nor contains in a module that it calls."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            path = str(node.target)
            used.update(itertools.accumulate(path.split("."), lambda above, name: f"{above}.{name}"))
            if node.op == "call_module":
                try:
                    inner = self.get_submodule(path)
                except AttributeError:  # the module is gone, or never was
                    continue
                used.update(f"{path}.{name}" for name, _ in inner.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # --- copies and files ---

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Write the module as a Python package: module.py with its code, and files of its state.

        Args:
            folder: the package's folder; made if its parent exists.
            module_name: name of the class in module.py.

        Warns of submodules that are pickled, because their repr does not make them.
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        gl.save(self.state_dict(), folder / "state_dict.pt")
        lines = []
        pickled = []
        for name, module in self.named_children():
            if type(module) in (Linear, Conv1d, Conv2d, Conv3d, BatchNorm1d, BatchNorm2d, BatchNorm3d):
                lines.append(f"setattr(self, '{name}', {module!r})")
                continue
            gl.save(module, folder / f"{name}.pt")
            pickled.append(name)
            text = repr(module).replace("\r", " ").replace("\n", " ")
            lines.append(
                f"setattr(self, '{name}', torch.load(r'{folder / f'{name}.pt'}', weights_only=False)) # {text}"
            )
        for name, buffer in self._buffers.items():
            if buffer is not None:
                made = f"torch.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                lines.append(f"self.register_buffer('{name}', {made})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                made = f"torch.empty({list(parameter.shape)}, dtype={parameter.dtype})"
                lines.append(f"setattr(self, '{name}', torch.nn.Parameter({made}))")
        lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
        imports = [custom.import_str for custom in CUSTOM_BUILTINS.values()]
        head = f"class {module_name}(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        body = "".join(f"        {line}\n" for line in lines)
        source = "\n".join([*imports, "", f"from {gl.__name__}.nn import *", "", "", head + body]) + _indented(
            self.code
        )
        (folder / "module.py").write_text(f"{source}\n")
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled files instead: "
                f"{pickled}",
                stacklevel=2,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        members = dict(self.__dict__)
        block = _import_block(self.recompile().globals)
        del members["_graph"]
        return reduce_graph_module, (members, block)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        source = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        GraphModule.__init__(made, source, source.__dict__["_graph"])
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", *_HOOKS):
            if name in self.__dict__:
                setattr(made, name, copy.deepcopy(self.__dict__[name], memo))
        made.meta = copy.deepcopy(self.meta, memo)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = self.meta
        return made

    # --- hooks of passes ---

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        """Within the `with` block, call `f(old=node, new=name, user=node)` before an argument is replaced."""
        if not callable(f):
            raise AssertionError("Replace hook must be a callable.")
        self._replace_hooks.append(f)
        try:
            yield
        finally:
            self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], object]) -> None:
        """Call `f(node)` for each new node."""
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        """Call `f(node)` before a node is erased."""
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.remove(f)


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"    {line}" for line in rest)])


def _readable(module: GraphModule, name: str, options: dict[str, Any], inner: dict[str, Any]) -> str:
    code = module.graph.python_code(root_module="self", verbose=True, **options).src.lstrip("\n")
    text = _indented(f"class {name}(torch.nn.Module):\n{code}")
    parts = [
        _readable(child, path, inner, inner)
        for path, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    return text + _indented("\n".join(["", *parts]))


def _place_in_code(frame: traceback.FrameSummary) -> str:
    """Return the traceback of an error raised by a line of generated code, and the lines around it."""
    lines = linecache.getlines(frame.filename)
    number, line = frame.lineno or 0, frame.line or ""
    return "\n".join(
        [
            traceback.format_exc(),
            f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:",
            "".join(lines[number - 2 : number]),
            "~" * len(line) + "~~~ <--- HERE",
            "\n".join(lines[number : number + 2]),
        ]
    )
