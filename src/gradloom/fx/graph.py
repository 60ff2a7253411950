"""Graph: a program as a list of nodes, and the operations that build and change it."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from ..functional import typename
from ._codegen import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _PyTreeCodeGen as _PyTreeCodeGen,
    _PyTreeInfo as _PyTreeInfo,
    inplace_methods as inplace_methods,
    magic_methods as magic_methods,
)
from ._names import snake_case
from ._namespace import Namespace
from .node import OPCODES, Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_empty: Any = inspect.Signature.empty


class _NodeList:
    """The nodes of a graph in their order. Nodes may be added and erased during an iteration."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph._len

    def __iter__(self) -> Iterator[Node]:
        return self._walk("_next")

    def __reversed__(self) -> Iterator[Node]:
        return self._walk("_prev")

    def _walk(self, direction: str) -> Iterator[Node]:
        root = self._graph._root
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)


class _InsertPoint(AbstractContextManager[None]):
    """Puts nodes where they were put before, when its block ends."""

    def __init__(self, graph: Graph, before: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, before

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A program as nodes in the order of execution: placeholders first, an output last.

    Args:
        owning_module: the GraphModule whose code the graph is.
        tracer_cls: the class of the tracer that made it.
        tracer_extras: arguments of its `trace`, for graphs that are loaded.

    Example:
        >>> graph = fx.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(torch.relu, (x,))
        >>> graph.output(y)
        >>> module = fx.GraphModule(nn.Module(), graph)
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._positions: dict[Node, int] | None = None
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def nodes(self) -> _NodeList:
        """The nodes in their order; `reversed(graph.nodes)` goes backwards."""
        return _NodeList(self)

    def _order_changed(self) -> None:
        self._positions = None

    def _position(self, node: Node) -> int:
        if self._positions is None:
            self._positions = {found: number for number, found in enumerate(self.nodes)}
        return self._positions[node]

    # --- look-up ---

    def output_node(self) -> Node:
        """Return the output node, which is the last."""
        last = self._root.prev
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes with an `op` and a target in the graph's order.

        Args:
            op: the nodes' `op`.
            target: their target; None for any, except for "call_function".
            sort: accepted without effect: the nodes are found in order.
        """
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # --- new nodes ---

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: Mapping[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node at the end, or where `inserting_before` or `inserting_after` says.

        Args:
            op, target, args, kwargs: see Node.
            name: proposal for the name, made unique; by default derived from the target.
            type_expr: annotation of the result.

        Raises:
            ValueError: if the target is not callable for "call_function", or not a string otherwise.
            AssertionError: for an unknown `op`, and if `args` or `kwargs` has another type.
        """
        if args is not None and not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if kwargs is not None and not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        self._order_changed()
        return node

    @staticmethod
    def _target_to_str(target: Any) -> str:
        name = target.__name__ if callable(target) else target
        if not callable(target) and name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return snake_case(name)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _empty) -> Node:
        """Add an input, a parameter of the generated function."""
        args = () if default_value is _empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a look-up of a parameter, buffer or module of the owning module; warns if it has none of the name."""
        if self.owning_module is not None and not _has_member(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: Mapping[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of a submodule of the owning module, by its path."""
        if self.owning_module is not None and self.owning_module.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: Mapping[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of the method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: Mapping[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the output: the value that the generated function returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # --- copies ---

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node) -> Node:
        """Add a copy of a node of any graph.

        Args:
            node: the node.
            arg_transform: takes a node of its arguments, and returns what replaces it.
        """
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Argument:
        """Add copies of all nodes of another graph but its output.

        Args:
            g: the other graph.
            val_map: node -> its replacement; nodes in it are not copied, and copies are added to it.
            return_output_node: also return the output node of `g`.

        Returns:
            The value that the copy would output; None if `g` has no output.
        """
        new = [node for node in g.nodes if node not in val_map]
        ends = [node for node in new if node.op == "output"][:1]
        for node in new[: new.index(ends[0])] if ends else new:
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        if not ends:
            return None
        value = map_arg(ends[0].args[0], val_map.__getitem__)
        return (value, ends[0]) if return_output_node else value

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        found = copied.graph_copy(self, memo if memo else {}, return_output_node=True)
        copied._codegen = copy.deepcopy(self._codegen)
        if found is not None:
            value, old = found
            copied.output(value, type_expr=old.type).meta = copy.copy(old.meta)
        return copied

    # --- changes ---

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that has no users.

        Raises:
            RuntimeError: if it has users or belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments(*map_arg((to_erase.args, to_erase.kwargs), lambda node: None))

    def _inserting(self, insert: Callable[[Node], None]) -> AbstractContextManager[None]:
        before, self._insert = self._insert, insert
        return _InsertPoint(self, before)

    def inserting_before(self, n: Node | None = None) -> AbstractContextManager[None]:
        """Add nodes before `n`, from this call to the end of the `with` block; None stands for the beginning of the
        graph."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return self._inserting(n.prepend)

    def inserting_after(self, n: Node | None = None) -> AbstractContextManager[None]:
        """Add nodes directly after `n`, so in reverse order, from this call to the end of the `with` block; None stands
        for the end of the graph."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return self._inserting(n.append)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase nodes without users, unless they have side effects (`Node.is_impure`); return whether any was erased.

        Args:
            is_impure_node: takes a node without users, and returns whether it is kept.

        Raises:
            RuntimeError: if the graph is not well formed (`lint`).
        """
        self.lint()
        kept = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not kept(node):
                self.erase_node(node)
                changed = True
        if self.owning_module is not None:
            used = {node.target for node in self.find_nodes(op="get_attr")}
            for name, child in self.owning_module.named_children():
                if name in used and isinstance(getattr(child, "graph", None), Graph):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    def lint(self) -> None:
        """Check that names are unique, that arguments come before their uses, and that the module has all targets.

        Raises:
            RuntimeError: for the first violation.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in OPCODES[:-1]:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for argument in node._input_nodes:
                self._check_argument(argument, node, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module:
            for node in self.nodes:
                _check_target(self.owning_module, node)

    def _check_argument(self, argument: Node, node: Node, seen: set[Node]) -> None:
        if argument.graph is not self:
            raise RuntimeError(
                f"Argument '{argument}' of Node '{node}' does not belong to this Graph, but was used as an argument! "
                f"If you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to "
                f"remap values\n{self}"
            )
        if argument not in seen:
            raise RuntimeError(
                f"Argument '{argument}' of Node '{node}' was used before it has been defined! Please check that Nodes "
                f"in the graph are topologically ordered\n{self}"
            )

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # --- code and text ---

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the graph as the source of a function.

        Args:
            root_module: the expression for the owning module: "self".
            verbose: comment the origin of nodes, and annotate dtypes and shapes that passes stored.
            include_stride, include_device: annotate these, too.
            colored: use the colors of terminals.
            expanded_def: write each parameter on a line of its own.
            additional_meta: keys of `Node.meta` to show in comments.
        """
        namespace = Namespace()
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = lambda node: namespace.create_name(node.name, node)
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                additional_meta=tuple(additional_meta or ()),
            )
        finally:
            for node, function in zip(nodes, before, strict=True):
                node._repr_fn = function

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let an object write the graph's code."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> AbstractContextManager[None]:
        """Register a function that changes the lines of the generated body.

        Args:
            make_transformer: takes the function registered before, or None, and returns one that takes a list of lines
                and returns another.

        Returns:
            A context manager; its exit restores the function registered before.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def restoring() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restoring()

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of a call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the result of a call for the output node's value."""
        return self._codegen.process_outputs(out)

    def __str__(self) -> str:
        names: list[str] = []
        returned = [""]
        lines = [node.format_node(names) for node in self.nodes]
        return "".join([f"graph({', '.join(names)}){returned[0]}:", *(f"\n    {line}" for line in lines if line)])

    def print_tabular(self) -> None:
        """Print the nodes as a table: opcode, name, target, args and kwargs. Needs the package tabulate."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip "
                "install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))


def _has_member(module: Any, path: str) -> bool:
    """Return whether a module has a parameter, buffer or submodule of the path."""
    parent, _, name = path.rpartition(".")
    try:
        owner = module.get_submodule(parent)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {parent}!", stacklevel=3)
        return False
    return name in owner._parameters or name in owner._buffers or name in owner._modules


def _check_target(root: Any, node: Node) -> None:
    expected = "Callable" if node.op == "call_function" else "str"
    target: Any = node.target
    if not (callable(target) if node.op == "call_function" else isinstance(target, str)):
        raise ValueError(f"Node {node} target {target} has type {typename(target)} but a {expected} is expected")
    if node.op not in ("get_attr", "call_module"):
        return
    parts = target.split(".")
    owner = root
    for number, part in enumerate(parts):
        found = getattr(owner, part, None)
        above = ".".join(parts[:number])
        if found is None:
            raise RuntimeError(f"Node {node} target {target} references nonexistent attribute {part} of {above}")
        if node.op == "call_module" and not hasattr(found, "_modules"):
            raise RuntimeError(f"Node {node} target {target} {part} of {above} does not reference an nn.Module")
        owner = found
