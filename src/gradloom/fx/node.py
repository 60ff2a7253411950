"""Nodes of a graph: one call, input, attribute or output each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.tensor import Tensor
from ..functional import typename
from ..utils._tree_spec import is_namedtuple
from ._names import target_name, type_name
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPCODES = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
Argument = Any
Target = Any  # a function for "call_function", a string otherwise
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Functions that nodes call for what they do, not for their result: `eliminate_dead_code` keeps these nodes. Extended by
# `has_side_effect`, so bounded by the program's functions.
_side_effectful_functions: set[Any] = {operator.setitem}
# Python functions that draw random numbers; operators say so by a tag.
_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial".split()
)


def has_side_effect(fn: _Function) -> _Function:
    """Let dead code elimination keep calls of a function; return the function, so that this is a decorator, too."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """Return a copy of nested tuples, lists, dictionaries and slices with `fn` applied to everything else in them.

    Lists and dictionaries become immutable ones.
    """
    if isinstance(a, tuple):
        values = [map_aggregate(element, fn) for element in a]
        return type(a)(*values) if is_namedtuple(a) else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(element, fn) for element in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(value, fn)) for key, value in a.items()])
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Any]) -> Argument:
    """Return a copy of an argument with `fn` applied to the nodes in it; see `map_aggregate`."""
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def _text(value: Any) -> str:
    """Return an argument as a printed graph shows it: nodes as %name."""
    if isinstance(value, Node):
        return f"%{value}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def _shape_text(sizes: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


class Node:
    """One operation of a Graph, and its place in the graph's order.

    Attributes:
        graph: the Graph that it belongs to.
        name: unique name in the graph; the variable of generated code.
        op: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
        target: the function called; the name of the method, submodule, attribute or parameter otherwise.
        args, kwargs: arguments; nested tuples, lists, dictionaries and slices may hold nodes. They cannot be changed in
            place: assign new ones.
        users: the nodes that use this one, as the keys of a dictionary in order of their first use.
        type: type annotation of the result; None if there is none.
        meta: dictionary for passes; copied with the node.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: Mapping[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in OPCODES:
            raise AssertionError(f"op '{op}' is not one of {', '.join(OPCODES[:-1])}")
        expected = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {typename(target)} but a "
                f"{expected} is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: Mapping[str, Argument] = immutable_dict()
        self._set_arguments(args, kwargs)

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: Mapping[str, Argument]) -> None:
        """Take new arguments, and keep `users` of the nodes in the old and the new ones."""
        for node in self._input_nodes:
            node.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def use(node: Node) -> Node:
            inputs.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(args, use), map_arg(kwargs, use)
        self._input_nodes = inputs

    # --- the graph's order ---

    @property
    def next(self) -> Node:
        """The node after this one; the graph's root after the last."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one; the graph's root before the first."""
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self.graph._order_changed()

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a node of the same graph after this one."""
        self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        """Return whether this node comes before another one of its graph."""
        return self.graph._position(self) < self.graph._position(other)

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return not other < self

    def __ge__(self, other: Node) -> bool:
        return not self < other

    # --- arguments ---

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments."""
        return self._args

    @args.setter
    def args(self, value: tuple[Argument, ...]) -> None:
        self._set_arguments(value, self._kwargs)

    @property
    def kwargs(self) -> Mapping[str, Argument]:
        """Keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: Mapping[str, Argument]) -> None:
        self._set_arguments(self._args, value)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes in `args` and `kwargs`, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace a positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before position `idx`, at most the number of arguments."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set or replace a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever the arguments have `old_input`."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
            hook(old=old_input, new=new_input.name, user=self)
        self._replace_input(old_input, new_input)

    def _replace_input(self, old: Node, new: Any) -> None:
        args, kwargs = map_arg((self._args, self._kwargs), lambda node: new if node is old else node)
        self._set_arguments(args, kwargs)

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Use another node wherever this one is an argument.

        Args:
            replace_with: the other node.
            delete_user_cb: takes a user; only those for which it returns True are changed.
            propagate_meta: also copy `meta`; the other node's must be empty.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False
    ) -> Any:
        """Return (args, kwargs) with defaults filled in and arguments by name where possible; None if not known.

        Args:
            root: the module that holds the submodules of "call_module" nodes.
            arg_types, kwarg_types: types of the arguments, which choose between overloads of a function.
            normalize_to_only_use_kwargs: pass all arguments by name.
        """
        from .operator_schemas import normalize_function, normalize_module

        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(self.target, self._args, self._kwargs, arg_types, kwarg_types, only)
        if self.op == "call_module":
            return normalize_module(root, self.target, self._args, self._kwargs, only)
        return None

    # --- facts ---

    @property
    def stack_trace(self) -> str | None:
        """The Python stack of the call that was traced, if the tracer recorded it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node must be kept even if nothing uses its result.

        Args:
            impure_random: count operators that draw random numbers as such.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(module.get_submodule(self.target), "_is_impure", False)
        return self.op == "call_function" and _function_is_impure(self.target, impure_random)

    def _rename(self, candidate: str) -> None:
        """Give the node another name, made unique."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.rename(self, self.name)

    # --- text ---

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        return target_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return a line that describes the node.

        Args:
            placeholder_names: if not empty, the text of a placeholder is appended to it, and None returned.
            maybe_return_typename: a list of one element, which becomes the annotation of an output.
            include_tensor_metadata: show dtype, shape, strides and device, if a pass stored the value in `meta`.
        """
        annotation = "" if self.type is None else f"{type_name(self.type)} "
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(f"{self.target}: {type_name(self.type)}" if self.type else str(self.target))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return (
                f"%{self.name} : {annotation}[num_users={len(self.users)}] = {self.op}[target={self.target}]{default}"
            )
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_name(self.type)}"
            return f"return {self.args[0]}"
        head = f"[num_users={len(self.users)}] = {self.op}[target={target_name(self.target)}]"
        if self.op == "get_attr":
            return f"%{self.name} : {annotation}{head}"
        value = self.value()
        if include_tensor_metadata and isinstance(value, Tensor):
            annotation = (
                f'Tensor "{dtype_abbreviation(value.dtype)}{_shape_text(value.shape)}{_shape_text(value.stride())}'
                f'{value.device}"'
            )
        return f"%{self.name} : {annotation}{head}(args = {_text(self.args)}, kwargs = {_text(self.kwargs)})"

    def value(self) -> Any:
        """Return what passes stored about the result in `meta`: "val", "tensor_meta" or "example_value"."""
        for key in ("val", "tensor_meta", "example_value"):
            if key in self.meta:
                return self.meta[key]
        return None


def _function_is_impure(function: Any, impure_random: bool) -> bool:
    if function in _side_effectful_functions:
        return True
    schema = getattr(getattr(function, "default", function), "_schema", None)
    if schema is not None and schema.is_mutable:
        return True
    if impure_random and any(str(tag).endswith("nondeterministic_seeded") for tag in getattr(function, "tags", ())):
        return True
    return getattr(function, "__name__", "") in _RANDOM and function is getattr(
        import_module("gradloom"), function.__name__, None
    )


_ABBREVIATIONS = {"bool": "b8", "bfloat16": "bf16", "complex": "c", "float": "f", "uint": "u", "int": "i"}


def dtype_abbreviation(dtype: Any) -> str:
    """Return the short name of a dtype: "f32" for torch.float32."""
    name = str(dtype).rpartition(".")[2]
    kind = next(kind for kind in _ABBREVIATIONS if name.startswith(kind))
    return _ABBREVIATIONS[kind] + name.removeprefix(kind)
