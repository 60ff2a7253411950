"""Lists and dictionaries that cannot be changed: the containers in the arguments of nodes."""

from __future__ import annotations

from typing import Any, NoReturn

from ..utils._tree_spec import CONTAINERS, register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]

_ADVICE = """If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args"""


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_ADVICE}")


class immutable_list(list):
    """A list whose mutating methods raise TypeError; hashable if its elements are."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dictionary whose mutating methods raise TypeError; hashable if its values are."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


register_pytree_node(immutable_list, CONTAINERS[list].flatten_fn, lambda children, context: immutable_list(children))
register_pytree_node(
    immutable_dict,
    CONTAINERS[dict].flatten_fn,
    lambda children, context: immutable_dict(zip(context, children, strict=True)),
)
