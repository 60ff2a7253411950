"""The rarer names of `torch.utils._pytree`: functions of each kind of container, specs as JSON, dataclasses, constants.

`_pytree` finds them here when a program asks for one.
"""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..types.public import found_in
from . import _tree_spec as specs
from ._tree_spec import CONTAINERS, LEAF, GetAttrKey, TreeSpec, is_namedtuple, register_pytree_node

Context: TypeAlias = Any
DumpableContext: TypeAlias = Any
KeyPath: TypeAlias = "tuple[KeyEntry, ...]"
_LEAF_SPEC = LEAF
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
BUILTIN_TYPES: frozenset[Any] = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES: frozenset[Any] = frozenset({dict, OrderedDict, defaultdict})


class KeyEntry(Protocol):
    """A step of a path: hashable, comparable, and printed as Python's notation of the access."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any:
        """Return the child of `parent` at this step."""
        ...


# Functions of each kind of container.


def _flatten_of(kind: Any) -> Callable[[Any], tuple[list[Any], Any]]:
    def flatten(tree: Any) -> tuple[list[Any], Any]:
        children, context = CONTAINERS[kind].flatten_fn(tree)
        return list(children), context

    return flatten


def _flatten_with_keys_of(kind: Any) -> Callable[[Any], tuple[list[tuple[Any, Any]], Any]]:
    def flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = CONTAINERS[kind].flatten_fn(tree)
        keys = CONTAINERS[kind].keys
        assert keys is not None
        return list(zip(keys(list(children), context), children, strict=True)), context

    return flatten_with_keys


_list_flatten, _list_flatten_with_keys = _flatten_of(list), _flatten_with_keys_of(list)
_tuple_flatten, _tuple_flatten_with_keys = _flatten_of(tuple), _flatten_with_keys_of(tuple)
_deque_flatten, _deque_flatten_with_keys = _flatten_of(deque), _flatten_with_keys_of(deque)
_namedtuple_flatten, _namedtuple_flatten_with_keys = _flatten_of(namedtuple), _flatten_with_keys_of(namedtuple)
_ordereddict_flatten, _ordereddict_flatten_with_keys = _flatten_of(OrderedDict), _flatten_with_keys_of(OrderedDict)
_defaultdict_flatten, _defaultdict_flatten_with_keys = _flatten_of(defaultdict), _flatten_with_keys_of(defaultdict)
_odict_flatten = _ordereddict_flatten
_list_unflatten, _tuple_unflatten = CONTAINERS[list].unflatten_fn, CONTAINERS[tuple].unflatten_fn
_deque_unflatten, _namedtuple_unflatten = CONTAINERS[deque].unflatten_fn, CONTAINERS[namedtuple].unflatten_fn
_ordereddict_unflatten = _odict_unflatten = CONTAINERS[OrderedDict].unflatten_fn
_defaultdict_unflatten = CONTAINERS[defaultdict].unflatten_fn


# Registration.


def _register_pytree_node(
    cls: type, flatten_fn: Any, unflatten_fn: Any, to_str_fn: Any = None, maybe_from_str_fn: Any = None, **options: Any
) -> None:
    """Register a class as `register_pytree_node` does, with two old arguments that have no effect."""
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
            "`from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


_private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    """Make instances of a registered class leaves again. Raises KeyError if it is not registered."""
    del CONTAINERS[cls]
    specs.SERIALIZED.pop(cls, None)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Register a dataclass whose fields are the children of its instances; fields that are None are left out.

    Args:
        cls: a dataclass, or with `field_names` any class with those attributes and arguments.
        field_names: the children; by default the fields that `__init__` takes.
        drop_field_names: fields that are not kept. They must have a default.
        serialized_type_name: the name in specs written by `treespec_dumps`.

    Raises:
        ValueError: if the class is neither, or the names do not fit its fields.
    """
    if not is_dataclass(cls) and field_names is None:
        raise ValueError("field_names must list all fields that initialize the class, as it is not a dataclass.")
    taken = {f.name: f for f in fields(cls) if f.init} if is_dataclass(cls) else dict.fromkeys(field_names or ())
    names = [n for n in taken if n not in (drop_field_names or ())] if field_names is None else field_names
    if is_dataclass(cls):
        _check_fields(taken, names, drop_field_names or [])

    def flatten_fn(instance: Any) -> tuple[list[Any], Any]:
        values = {name: getattr(instance, name) for name in names}
        present = [name for name, value in values.items() if value is not None]
        return [values[name] for name in present], [present, [name for name in names if name not in present]]

    def unflatten_fn(values: Iterable[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    def flatten_with_keys_fn(instance: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, context = flatten_fn(instance)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values, strict=True)], context

    register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _check_fields(taken: Mapping[str, Any], names: list[str], dropped: list[str]) -> None:
    required = {name for name, field in taken.items() if field.default is MISSING is field.default_factory}
    if wrong := sorted(set(dropped) & required):
        raise ValueError(f"Dropped fields need a default value, and these have none: {', '.join(wrong)}.")
    if missing := sorted(required.difference(names)):
        raise ValueError(f"Missing fields: {', '.join(missing)}: fields without a default value must be named.")
    if unknown := sorted(set(names).difference(taken)):
        raise ValueError(f"Unknown fields: {', '.join(unknown)}.")


@dataclass(frozen=True)
class ConstantNode:
    """The context of an instance of a class that `register_constant` was called for."""

    value: Any


def register_constant(cls: type) -> None:
    """Register a class whose instances belong to the structure of trees and have no leaves.

    Args:
        cls: a class with an `__eq__` and a `__hash__` of its own.

    Raises:
        TypeError: if it inherits one of them from object.
    """
    for name in ("__eq__", "__hash__"):
        if getattr(cls, name) in (getattr(object, name), None):
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{name}` implementation.")
    register_pytree_node(
        cls,
        lambda instance: ([], ConstantNode(instance)),
        lambda values, context: context.value,
        flatten_with_keys_fn=lambda instance: ([], ConstantNode(instance)),
    )
    _constants.add(cls)


_constants: set[type] = set()


def is_constant_class(cls: type) -> bool:
    """Return whether `register_constant` was called for a class."""
    return isinstance(cls, type) and cls in _constants


def _is_constant_holder(spec: TreeSpec) -> bool:
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    return spec.unflatten([])


# Values and classes.


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether a value is a class made by `namedtuple` or typing.NamedTuple."""
    return isinstance(cls, type) and is_namedtuple(cls)


def is_namedtuple_instance(value: Any) -> bool:
    """Return whether a value is an instance of such a class."""
    return not isinstance(value, type) and is_namedtuple(value)


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls: Any) -> bool:
    """Return whether a value is a class of named results, such as `torch.return_types.max` or `time.struct_time`."""
    from ..return_types import NamedResult

    if not isinstance(cls, type) or not issubclass(cls, tuple):
        return False
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return issubclass(cls, NamedResult) or all(isinstance(getattr(cls, count, None), int) for count in counts)


def is_structseq_instance(value: Any) -> bool:
    """Return whether a value is an instance of such a class."""
    return is_structseq_class(type(value))


def is_structseq(value: Any) -> bool:
    """Return whether a value is such a class or an instance of one."""
    return is_structseq_class(value) or is_structseq_instance(value)


def _is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or specs.kind_of(tree) is None


def key_get(obj: Any, kp: Any) -> Any:
    """Return what a path leads to in a tree."""
    for step in kp:
        obj = step.get(obj)
    return obj


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of all arguments."""
    leaves: list[Any] = []
    for value in (*args, *kwargs.values()):
        specs.flatten(value, leaves, None)
    return leaves


def map_only(chosen: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator that applies a function to values of some classes, or of a predicate, only."""
    picks = chosen if callable(chosen) and not isinstance(chosen, type) else lambda value: isinstance(value, chosen)
    return lambda function: lambda value: function(value) if picks(value) else value


# Specs.


def treespec_leaf() -> TreeSpec:
    """Return the spec of one leaf."""
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the spec of a tuple of trees."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """Return the spec of a dict of trees."""
    found = dict(mapping, **kwargs)
    return TreeSpec(dict, list(found), found.values())


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a spec as the tree that it describes, with `*` for each leaf."""

    class Star:
        def __repr__(self) -> str:
            return "*"

    return repr(treespec.unflatten([Star() for _ in range(treespec.num_leaves)]))


class _Written(NamedTuple):
    """The two ways of a context between memory and JSON."""

    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]


def _write_factory(context: Any) -> Any:
    factory, keys = context
    return {
        "default_factory_module": getattr(factory, "__module__", None),
        "default_factory_name": getattr(factory, "__qualname__", None),
        "dict_context": keys,
    }


def _read_factory(written: Any) -> Any:
    name = written["default_factory_name"]
    factory = getattr(import_module(written["default_factory_module"]), name) if name else None
    return [factory, written["dict_context"]]


def _write_class(cls: Any) -> str:
    name = specs.SERIALIZED.get(cls, (None,))[0]
    if name is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return name


def _read_class(name: str) -> Any:
    for cls, (known, *_) in specs.SERIALIZED.items():
        if known == name:
            return cls
    raise NotImplementedError(f"Can't deserialize TreeSpec of namedtuple class {name}: register it first.")


_CONTEXTS = {defaultdict: _Written(_write_factory, _read_factory), namedtuple: _Written(_write_class, _read_class)}
_NAMES: dict[Any, str] = {kind: f"{kind.__module__}.{kind.__name__}" for kind in BUILTIN_TYPES}


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Name a class of namedtuples in specs written by `treespec_dumps`."""
    specs.SERIALIZED[cls] = (serialized_type_name, None, None)


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a spec as JSON, in PyTorch's format.

    Raises:
        TypeError: if it is no spec.
        ValueError: for another protocol than 1.
        NotImplementedError: if a class in it was registered without `serialized_type_name`.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    number = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(number)
    return json.dumps((number, _written(treespec)))


def _check_protocol(number: Any) -> None:
    if number != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {number}. Available protocols: [{DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL}]")


def _written(spec: TreeSpec) -> dict[str, Any]:
    kind: Any = spec.type
    if kind is None:
        return {"type": None, "context": None, "children_spec": []}
    registered = specs.SERIALIZED.get(kind)
    name = _NAMES.get(kind) or (registered and registered[0]) or _library_name(kind)
    if name is None:
        raise NotImplementedError(
            f"No registered serialization name for {kind} found. Please update your _register_pytree_node call with a "
            "`serialized_type_name` kwarg."
        )
    if kind in _CONTEXTS:
        context = _CONTEXTS[kind].to_json(spec.context)
    elif registered and registered[1] is not None:
        context = registered[1](spec.context)
    else:
        context = json.dumps(spec.context)
    return {"type": name, "context": context, "children_spec": [_written(child) for child in spec.children()]}


def _library_name(kind: Any) -> str | None:
    return "torch.Size" if kind.__name__ == "Size" else None


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the spec that `treespec_dumps` wrote, here or in PyTorch.

    Raises:
        ValueError: for an unknown protocol.
        NotImplementedError: for a class that is not registered.
    """
    number, written = json.loads(serialized)
    _check_protocol(number)
    return _read(written)


def _read(written: dict[str, Any]) -> TreeSpec:
    name = written["type"]
    if name is None:
        return LEAF
    specs._register_library_types()
    kinds: dict[Any, Any] = {known: kind for kind, known in _NAMES.items()}
    kinds.update({known: kind for kind, (known, *_) in specs.SERIALIZED.items() if known})
    kinds["torch.Size"] = next(kind for kind in CONTAINERS if kind.__name__ == "Size")
    if name not in kinds:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind, context = kinds[name], written["context"]
    registered = specs.SERIALIZED.get(kind)
    if kind in _CONTEXTS:
        context = _CONTEXTS[kind].from_json(context)
    elif registered and registered[2] is not None:
        context = registered[2](context)
    else:
        context = json.loads(context)
    return TreeSpec(kind, context, [_read(child) for child in written["children_spec"]])


def pytree_to_str(treespec: TreeSpec) -> str:
    """Return `treespec_dumps(treespec)`. Deprecated."""
    warnings.warn("`pytree_to_str` is deprecated. Please use `treespec_dumps` instead.", FutureWarning, stacklevel=2)
    return treespec_dumps(treespec)


def str_to_pytree(json: str) -> TreeSpec:
    """Return `treespec_loads(json)`. Deprecated."""
    warnings.warn("`str_to_pytree` is deprecated. Please use `treespec_loads` instead.", FutureWarning, stacklevel=2)
    return treespec_loads(json)


_PUBLIC = [
    v for v in list(globals().values()) if getattr(v, "__module__", None) == __name__ and hasattr(v, "__qualname__")
]
found_in("gradloom.utils._pytree", *_PUBLIC)
