"""The structure of trees: containers, how each is flattened and rebuilt, and specs.

Note [Trees]
A tree is a value built of registered containers: tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque, Size,
the named results of operators, and what `register_pytree_node` adds. Everything else is a leaf: tensors, numbers, None,
and instances of subclasses of those containers, which could not be rebuilt. The table `CONTAINERS` has a `Container`
for each kind; a `TreeSpec` is a tree without its leaves.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class SequenceKey(NamedTuple):
    """A key of a path: item `idx` of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return that item of `sequence`."""
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """A key of a path: the value of `key` in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return that value of `mapping`."""
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """A key of a path: the attribute `name`."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, owner: Any) -> Any:
        """Return that attribute of `owner`."""
        return getattr(owner, self.name)


class Container(NamedTuple):
    """The way to flatten and rebuild one kind of container.

    Attributes:
        flatten_fn: container -> (children, context); the context is all else that `unflatten_fn` needs.
        unflatten_fn: (children, context) -> container.
        keys: (children, context) -> the children's keys; None if they have none.
        label: name in a printed spec.
    """

    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    keys: Callable[[Any, Any], Any] | None
    label: str


def _numbered(children, context):
    return map(SequenceKey, range(len(children)))


def _under_keys(children, context):
    return map(MappingKey, context)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], keys: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


_MAPPINGS = (dict, OrderedDict, defaultdict)
CONTAINERS: dict[Any, Container] = {
    tuple: Container(lambda t: (t, None), lambda values, _: tuple(values), _numbered, "tuple"),
    list: Container(lambda t: (t, None), lambda values, _: list(values), _numbered, "list"),
    dict: Container(_dict_flatten, _dict_unflatten, _under_keys, "dict"),
    namedtuple: Container(
        lambda t: (tuple(t), type(t)),
        lambda values, cls: cls(*values),
        lambda values, cls: map(GetAttrKey, cls._fields),
        "namedtuple",
    ),
    OrderedDict: Container(
        _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values, strict=True)), _under_keys, "OrderedDict"
    ),
    defaultdict: Container(
        lambda t: (list(t.values()), [t.default_factory, list(t)]),
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
        lambda values, context: map(MappingKey, context[1]),
        "defaultdict",
    ),
    deque: Container(lambda t: (list(t), t.maxlen), lambda values, length: deque(values, length), _numbered, "deque"),
}

# Class -> its name in written specs, and the two functions of its context. No longer than the registrations.
SERIALIZED: dict[Any, tuple[str, Any, Any]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Register a class whose instances are nodes of trees, rather than leaves.

    Args:
        cls: the class; its subclasses stay leaves.
        flatten_fn: takes an instance; returns its children and a context, which must compare equal for containers of
            one structure.
        unflatten_fn: takes children and context; returns an instance.
        flatten_with_keys_fn: takes an instance; returns a list of pairs (key, child) and the context, for paths.
        serialized_type_name: the name of the class in specs written by `treespec_dumps`.
        to_dumpable_context, from_dumpable_context: functions that make a context JSON, and the reverse.

    Raises:
        ValueError: if the class is registered already.
    """
    if cls in CONTAINERS:
        raise ValueError(f"{cls!r} is already registered as pytree node.")
    keys = None
    if flatten_with_keys_fn is not None:

        def keys(children, context):
            rebuilt = unflatten_fn(children, context)
            return [step for step, _ in flatten_with_keys_fn(rebuilt)[0]]

    CONTAINERS[cls] = Container(flatten_fn, unflatten_fn, keys, getattr(cls, "__name__", repr(cls)))
    if serialized_type_name is not None:
        SERIALIZED[cls] = (serialized_type_name, to_dumpable_context, from_dumpable_context)


def kind_of(value) -> Any:
    """Return the key of a value's kind in `CONTAINERS`; None for a leaf."""
    cls = value.__class__
    if cls in CONTAINERS:
        return cls
    if isinstance(value, tuple):
        if is_namedtuple(value):
            return namedtuple
        _register_library_types()
        from ..return_types import NamedResult

        if issubclass(cls, NamedResult):
            CONTAINERS[cls] = Container(
                lambda t: (tuple(t), None),
                lambda values, _: cls(tuple(values)),
                lambda values, _: map(GetAttrKey, cls._fields),
                cls.__name__,
            )
        return cls if cls in CONTAINERS else None
    return None


def _register_library_types() -> None:
    """Register the library's own tuples on first use."""
    from ..types.size import Size

    if Size not in CONTAINERS:
        CONTAINERS[Size] = Container(lambda t: (tuple(t), None), lambda values, _: tuple(values), _numbered, "Size")


def is_namedtuple(value: Any) -> bool:
    """Return whether a value is an instance of a `namedtuple` (or typing.NamedTuple) class, or such a class."""
    cls = value if isinstance(value, type) else value.__class__
    fields = getattr(cls, "_fields", None)
    return (
        issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(f, str) for f in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


class TreeSpec:
    """The structure of a tree: its containers, with a place for each leaf.

    Attributes:
        type: kind of the container, a class (`collections.namedtuple` for all of those); None for a leaf.
        context: what the container needs besides its children.
        num_leaves, num_nodes, num_children: numbers of leaves, of leaves and containers, and of children.
    """

    __slots__ = ("type", "context", "_children", "num_leaves", "num_nodes", "num_children")
    num_leaves: int
    num_nodes: int

    def __init__(self, type: Any, context: Any, children: Iterable[TreeSpec] = ()) -> None:
        self.type, self.context = type, context
        self._children = list(children)
        self.num_children = len(self._children)
        self.num_leaves = sum([c.num_leaves for c in self._children]) if type is not None else 1
        self.num_nodes = 1 + sum([c.num_nodes for c in self._children])

    def is_leaf(self) -> bool:
        """Return whether the tree is one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Return the specs of the container's children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one child."""
        return self._children[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of another tree at the places of this one's leaves.

        Raises:
            ValueError: if the other tree has other containers above them.
        """
        found: list[Any] = []
        self._collect(tree, found)
        return found

    def _collect(self, tree, found: list) -> None:
        if self.type is None:
            found.append(tree)
            return
        for spec, child in zip(self._children, self._children_of(tree), strict=True):
            spec._collect(child, found)

    def _children_of(self, tree):
        """Return the children of a container of this kind; a mapping's in the order of the keys here."""
        kind = kind_of(tree)
        mapping = self.type in _MAPPINGS and kind in _MAPPINGS
        if kind is not self.type and not mapping:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = CONTAINERS[kind].flatten_fn(tree)
        children = list(children)
        if len(children) != self.num_children and not mapping:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if mapping:
            expected = _keys_of(self.type, self.context)
            if set(expected) != set(tree):
                raise ValueError(
                    f"Node keys mismatch; missing key(s): {set(expected) - set(tree)}; extra key(s): "
                    f"{set(tree) - set(expected)}."
                )
            return [tree[key] for key in expected]
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for custom node type {self.type!r}: expected {self.context!r}, "
                f"but got {context!r}."
            )
        return children

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build the tree of this structure from leaves.

        Raises:
            ValueError: for another number of leaves than places.
        """
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers to a "
                f"pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(given))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        return CONTAINERS[self.type].unflatten_fn([c._build(leaves) for c in self._children], self.context)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self.context == other.context and self._children == other._children

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_nodes))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        parts = []
        for number, child in enumerate(self._children):
            inner = child.__repr__(indent + 2)
            parts.append(("," + "\n" + " " * (indent + 2) if number else "") + inner)
        return f"TreeSpec({CONTAINERS[self.type].label}, {self.context}, [{''.join(parts)}])"

    __str__ = __repr__


PyTreeSpec = TreeSpec
LEAF = TreeSpec(None, None)


def LeafSpec() -> TreeSpec:
    """Return the spec of a tree that is one leaf."""
    return LEAF


def _keys_of(kind, context):
    return context[1] if kind is defaultdict else context


def flatten(tree, leaves: list, is_leaf) -> TreeSpec:
    """Return the structure of a tree; append its leaves to a list."""
    kind = kind_of(tree) if is_leaf is None or not is_leaf(tree) else None
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, context = CONTAINERS[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [flatten(child, leaves, is_leaf) for child in children])
