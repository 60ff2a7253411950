"""Operators on rows as stages: nodes that each make one content, by the definitions of native_functions.yaml.

Note [Stages]
An operator with `over:` (softmax, a mean, layer norm) becomes one node for each result, and one for each value of
`where:` that is constant along a row, such as a row's maximum. They read each other like operators of the program, so
that the fuser puts them into one loop, together with the pointwise operators around them; the backward pass keeps the
values of rows, which are small, and computes from them what is as large as the input. The wrapper of such a node is a
`Stage`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..dispatch.records import Rows
from ._graph import CONSTANT, RESULT, Content, Graph, Node, Value, contiguous_strides, dtype_name, size_of, values_in
from ._loops import HALVES, VALUE_DTYPES, widened
from ._scalar import (
    COMBINE,
    CannotFuseError,
    Evaluator,
    Exprs,
    Stage,
    class_dimension,
    loads,
    lower,
    names_in,
    parsed,
    record_of_node,
    tables_in,
)


def decomposed(graph: Graph) -> Graph:
    """Return the graph with operators on rows as their stages, where these can be loops."""
    return expanded(graph, _stages)


def expanded(graph: Graph, function: Callable[[Node], list[Node]]) -> Graph:
    """Return the graph with several nodes in the place of each."""
    nodes: list[Node] = []
    forward = 0
    for i, node in enumerate(graph.nodes):
        nodes += function(node)
        if i < graph.forward:
            forward = len(nodes)
    return replace(graph, nodes=[replace(node, number=i) for i, node in enumerate(nodes)], forward=forward)


def _stages(node: Node) -> list[Node]:
    record = record_of_node(node)
    rows = None if record is None else record.rows
    if record is None or rows is None or node.is_random or bool(node.writes) > bool(rows.written):
        return [node]
    try:
        return _Decomposition(node, [a.name for a in record.arguments], rows).stages()
    except CannotFuseError:
        return [node]


class _Decomposition:
    """The stages of one node. Raises CannotFuseError if some can be no loop."""

    def __init__(self, node: Node, names: list[str], rows: Rows) -> None:
        self.node, self.over = node, rows.over
        self.arguments = dict(zip(names, node.args, strict=False))
        self.places = {v.content: name for name, v in self.arguments.items() if v.__class__ is Value}
        self.definitions = [self._chosen(r) if r else "" for r in rows.results]
        self.named = {name: self._chosen(source) for name, source in rows.named}
        self.written = {name: self._chosen(source) for name, source in rows.written}
        self.results = [node.result] if node.result.__class__ is Value else list(node.result)
        self.made: dict[str, Value] = {}  # values of `where:` that are nodes
        self.nodes: list[Node] = []
        self._leave_out_empty()
        read, tables = self._names_read()
        whole = self._beside(tables)
        self._in_groups()
        tensors = [v for name, v in self.arguments.items() if v.__class__ is Value and name in read - tables]
        if any(v.__class__ in (tuple, list) and any(True for _ in values_in(v)) for v in self.arguments.values()):
            raise CannotFuseError("a list of tensors")
        if not tensors or any(r.__class__ is not Value for r in self.results if r is not None):
            raise CannotFuseError("no tensors")
        self.space = np.broadcast_shapes(*(v.shape for v in tensors), *whole)
        present = [r for r in self.results if r is not None]
        looked_up = [v for name, v in self.arguments.items() if v.__class__ is Value and name in tables]
        for value in (*tensors, *looked_up, *present):
            if (
                not size_of(value.shape)
                or dtype_name(value.dtype) not in VALUE_DTYPES | HALVES
                or value.dtype.kind == "c"
            ):
                raise CannotFuseError("no elements, or complex numbers")
            if any(s % value.dtype.itemsize for s in value.strides) or value.offset % value.dtype.itemsize:
                raise CannotFuseError("a tensor is not aligned to its elements")
        kind = present[0].dtype
        self.dtype = str(tensors[0].dtype if kind.kind == "b" or self._finds_places() else kind)

    def _chosen(self, source: str) -> str:
        """Return a definition with the branches that the call's arguments choose, for any of its values."""
        tree: Any = _Choose(self.arguments).visit(ast.parse(source, mode="eval").body)
        return ast.unparse(tree)

    def _leave_out_empty(self) -> None:
        """Make results that are defined as None constants without elements."""
        for i, (definition, result) in enumerate(zip(self.definitions, self.results, strict=True)):
            if definition == "None" and result is not None:
                if result.size or result.content not in self.node.made:
                    raise CannotFuseError("a result without definition")
                result.content.kind, result.content.array = CONSTANT, np.empty(result.content.shape, result.dtype)
                self.node.made = tuple([c for c in self.node.made if c is not result.content])
                self.results[i] = None

    def _finds_places(self) -> bool:
        """Return whether a definition has the number of an element of a row."""
        return any(names_in(d) & {"argmax", "argmin"} for d in self.definitions if d)

    def _names_read(self) -> tuple[set[str], set[str]]:
        """Return the names in the definitions of results that there are, and of what these use; and those of tables."""
        sources = [d for d, r in zip(self.definitions, self.results, strict=True) if r is not None]
        found: set[str] = set()
        tables: set[str] = set()
        while sources:
            source = sources.pop()
            tables |= tables_in(source)
            names = names_in(source) - found
            found |= names
            sources += [self.named[n] for n in names if n in self.named]
        return found, tables

    def _beside(self, tables: set[str]) -> list[tuple[int, ...]]:
        """Lay tensors of other dimensions beside that of `channels()` or `classes()`; return its shape."""
        word, _, name = self.over[0].rstrip(")").rpartition("(")
        if word not in ("channels", "classes"):
            return []
        shape = self.arguments[name].shape
        count, along = len(shape), class_dimension(len(shape))
        without = shape[:along] + shape[along + 1 :]
        for key, v in self.arguments.items():
            if v.__class__ is not Value or key == name or key in tables:
                continue
            if word == "channels" and len(v.shape) == 1 and count > 2:
                ones = (1,) * (count - 2)
                self.arguments[key] = v._replace(shape=v.shape + ones, strides=v.strides + (0,) * (count - 2))
            elif word == "classes" and v.shape == without and without:
                strides = v.strides[:along] + (0,) + v.strides[along:]
                self.arguments[key] = v._replace(shape=shape[:along] + (1,) + shape[along + 1 :], strides=strides)
        return [shape]

    def _in_groups(self) -> None:
        """Split dimension 1, or the only one, into groups and their channels for `groups()` and `positions()`."""
        word, _, name = self.over[0].rstrip(")").rpartition("(")
        if word not in ("groups", "positions"):
            return
        count = self.arguments[name]
        values = [v for v in (*self.arguments.values(), *self.results) if v.__class__ is Value]
        whole = max((v.shape for v in values), key=len, default=())
        dims = len(whole)
        if dims < 2 or any(v.shape[:1] != (whole[:1] if len(v.shape) > 1 else whole[1:2]) for v in values):
            raise CannotFuseError("no channels")
        if any(v.shape[len(v.shape) > 1] % count for v in values):
            raise CannotFuseError("no groups of channels")

        def split(v: Any) -> Any:
            if v.__class__ is not Value:
                return v
            if len(v.shape) == 1:
                v = v._replace(shape=(1, *v.shape), strides=(0, *v.strides))
            (first, n, *rest), (step, s, *steps) = v.shape, v.strides
            ones = dims - len(v.shape)
            shape = (first, count, n // count, *rest, *[1] * ones)
            return v._replace(shape=shape, strides=(step, s * (n // count), s, *steps, *[0] * ones))

        self.arguments = {key: split(v) for key, v in self.arguments.items()}
        self.results = [split(v) for v in self.results]

    def stages(self) -> list[Node]:
        writes = self.node.writes
        if len(self.node.made) - len(writes) != sum(r is not None for r in self.results):
            raise CannotFuseError("results that share memory")
        for definition, value, over in zip(self.definitions, self.results, self.over, strict=True):
            if value is None:
                continue
            if not definition:
                raise CannotFuseError("a result without definition")
            if not any(value is made for made in self.made.values()):
                self._result(value, definition, self._axes(over))
        for content in writes:
            self._write(content)
        return self.nodes

    def _write(self, content: Content) -> None:
        """Add the node that writes to an argument with one element for each row, computed from values of rows."""
        name = self.places.get(content.before)  # type: ignore[arg-type]
        axes = self._axes(self.over[0])
        shape = tuple([n for d, n in enumerate(self.space) if d not in axes])
        if name is None or name not in self.written or content.shape != shape:
            raise CannotFuseError("it writes to a part of a tensor")
        source, needed = self._inlined(self.written[name], axes)
        if _combines(source):
            raise CannotFuseError("it writes what is no value of rows")
        known = {**self.arguments, **self.made}
        flat = {}
        for n in needed:
            value = known.get(n)
            if value.__class__ is Value:
                strides = [s for m, s in zip(value.shape, value.strides, strict=True) if m != 1] or [0]
                if value.size != size_of(shape):
                    raise CannotFuseError("it writes what is no value of rows")
                value = value._replace(shape=shape, strides=tuple(strides))
            flat[n] = value
        count = size_of(tuple([self.space[d] for d in axes]))
        source = ast.unparse(_Inline({"count": str(count)}, lambda _: False).visit(ast.parse(source, mode="eval").body))
        names = tuple([n for n in needed if n != "count"])
        stage = Stage(source, names, shape, (), dtype_name(content.dtype), False)
        value = Value(content, shape, content.strides, content.dtype)
        args = tuple([flat[n] for n in names])
        node = replace(
            self.node, name=f"{self.node.name} {name}", wrapper=stage, args=args, result=value, made=(content,)
        )
        content.node = node
        exprs = Exprs()
        lower(node, exprs, loads(exprs), dtype_name(content.dtype))  # raises
        self.nodes.append(node)

    def _axes(self, over: str) -> tuple[int, ...]:
        count = len(self.space)
        word, _, name = over.rstrip(")").rpartition("(")
        if over == "all":
            axes: tuple[int, ...] = tuple(range(count))
        elif word == "channels":
            axes = tuple([d for d in range(count) if d != 1])
        elif word == "classes":
            axes = (class_dimension(count),)
        elif word == "groups":
            axes = tuple(range(2, count))
        elif word == "positions":
            axes = (0, *range(3, count))
        elif word:
            trailing = len(self.arguments[name])
            axes = tuple(range(count - trailing, count) if word == "last" else range(count - trailing))
        else:
            dims = self.arguments.get(name)
            dims = [dims] if isinstance(dims, int) else dims
            axes = tuple(sorted({d % count for d in dims})) if dims and count else tuple(range(count))
        if not axes:
            raise CannotFuseError("rows of nothing")
        if len(axes) > 1 and self._finds_places():
            raise CannotFuseError("numbers of elements in several dimensions")
        return axes

    def _result(self, value: Value, definition: str, axes: tuple[int, ...]) -> None:
        if not value.covers or value.content not in self.node.made:
            raise CannotFuseError("a result that is a view")
        source, needed = self._inlined(definition, axes)
        if not any(value is made for made in self.made.values()):  # else the value of a name, which is made by now
            self._add(source, needed, axes, value.content, value, dtype_name(value.dtype), "")

    def _inlined(self, source: str, axes: tuple[int, ...]) -> tuple[str, list[str]]:
        """Return a definition in which names that are no stages have their definitions' place, and what it reads."""
        tree: Any = _Inline(self.named, lambda name: self._stage(name, axes)).visit(ast.parse(source, mode="eval").body)
        return ast.unparse(tree), sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)})

    def _stage(self, name: str, axes: tuple[int, ...]) -> bool:
        """Make the stage of a name of `where:`, if it is constant along rows, or an element of a table; return whether
        it is one."""
        key = f"{name} {axes}"
        if key in self.made:
            self.made[name] = self.made[key]
            return True
        source, needed = self._inlined(self.named[name], axes)
        if isinstance(parsed(source), ast.Subscript):
            value = self._element(name, source, needed)
        elif _combines(source):
            value = self._value(name, axes)
        else:
            return False
        self._add(source, needed, axes, value.content, value, dtype_name(value.dtype), name)
        self.made[key] = self.made[name] = value
        return True

    def _value(self, name: str, axes: tuple[int, ...]) -> Value:
        """Return the value of a stage: a result of the operator that is just that, or a new one."""
        shape = tuple([1 if d in axes else n for d, n in enumerate(self.space)])
        dtype = np.dtype(widened(self.dtype))
        for definition, result, over in zip(self.definitions, self.results, self.over, strict=True):
            if definition != name or result is None or result.dtype != dtype:
                continue
            if result.shape == shape or not result.shape and size_of(shape) == 1:
                if result.covers and self._axes(over) == axes and result.content in self.node.made:
                    return result
        return self._new(name, shape, dtype)

    def _element(self, name: str, source: str, needed: list[str]) -> Value:
        """Return the value of a stage that reads elements of a table, at the indices that a tensor gives."""
        (table,) = tables_in(source)
        known = {**self.arguments, **self.made}
        shapes = [known[n].shape for n in needed if n != table and known.get(n).__class__ is Value]
        return self._new(name, np.broadcast_shapes(*shapes), np.dtype(widened(dtype_name(known[table].dtype))))

    def _new(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
        first = self.node.made[0]
        content = Content(f"{first.number}.{name}", RESULT, shape, contiguous_strides(shape, dtype.itemsize), dtype)
        return Value(content, shape, content.strides, dtype)

    def _add(
        self, source: str, needed: list[str], axes: Any, content: Content, value: Value, dtype: str, name: str
    ) -> None:
        known = {**self.arguments, **self.made}
        names = tuple([n for n in needed if n in known])
        stage = Stage(source, names, self.space, axes, self.dtype, _combines(source))
        title = f"{self.node.name} {name}".strip()
        args = tuple([known[n] for n in names])
        node = replace(self.node, name=title, wrapper=stage, args=args, result=value, made=(content,))
        content.node = node
        exprs = Exprs()
        lower(node, exprs, loads(exprs), dtype)  # raises
        if value.shape not in (stage.space, stage.kept, stage.dropped):
            raise CannotFuseError("a result of another shape")
        self.nodes.append(node)


class _Choose(ast.NodeTransformer):
    """Puts the branch that arguments choose in the place of a conditional expression."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        chosen = Evaluator(Exprs(), self.arguments, "float64").value(node.test)
        return self.visit(node.body if chosen else node.orelse)


class _Inline(ast.NodeTransformer):
    """Puts the definitions of names in their place, but for names that `is_stage`."""

    def __init__(self, named: dict[str, str], is_stage: Any) -> None:
        self.named, self.is_stage = named, is_stage

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in self.named or self.is_stage(node.id):
            return node
        return self.visit(ast.parse(self.named[node.id], mode="eval").body)


def _combines(source: str) -> bool:
    return any(isinstance(n, ast.Call) and n.func.id in COMBINE for n in ast.walk(parsed(source)))  # type: ignore[attr-defined]
