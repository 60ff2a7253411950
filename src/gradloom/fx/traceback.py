"""Origin of nodes: metadata that passes carry from the nodes of one graph to those of another."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from .node import Node

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
    "set_stack_trace",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])
# What new nodes take over from the current node.
_COPIED = ("nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "from_node", "quantization_tag", "custom")
_current: ContextVar[dict[str, Any] | None] = ContextVar("current_meta", default=None)
_preserves: ContextVar[bool] = ContextVar("preserves_node_meta", default=False)


def has_preserved_node_meta() -> bool:
    """Return whether new nodes take over metadata: within `preserve_node_meta`."""
    return _preserves.get()


def get_current_meta() -> dict[str, Any]:
    """Return the metadata that new nodes take over."""
    return _current.get() or {}


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Let nodes made within the `with` block take over the metadata of `set_current_meta` and `annotate`."""
    preserves, current = _preserves.set(enable), _current.set(dict(get_current_meta()))
    try:
        yield
    finally:
        _preserves.reset(preserves)
        _current.reset(current)


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Within the `with` block, let new nodes take over the metadata of a node, if `preserve_node_meta` is entered.

    Args:
        node: the node that a pass is working on.
        pass_name: name of the pass; kept with the node's name in `meta["from_node"]`.
    """
    if not (_preserves.get() and node.meta):
        yield
        return
    meta = dict(node.meta)
    meta["from_node"] = [*meta.get("from_node", ()), (node.name, pass_name)]
    before = _current.set(meta)
    try:
        yield
    finally:
        _current.reset(before)


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Add entries to `meta["custom"]` of the nodes made within the `with` block, if `preserve_node_meta` is entered."""
    meta = dict(get_current_meta())
    meta["custom"] = {**meta.get("custom", {}), **annotation_dict}
    before = _current.set(meta)
    try:
        yield
    finally:
        _current.reset(before)


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[_Function], _Function]:
    """Return a decorator that runs a function within `annotate`."""

    def decorator(function):
        @wraps(function)
        def annotated(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorator


def set_stack_trace(stack: list[str]) -> None:
    """Set the stack that new nodes take over, if `preserve_node_meta` is entered."""
    if _preserves.get() and stack:
        _current.set({**get_current_meta(), "stack_trace": "".join(stack)})


def format_stack() -> list[str]:
    """Return the stack of the current node if there is one, or else this call's."""
    if _preserves.get():
        return [get_current_meta().get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


def copy_meta(node: Node) -> None:
    """Let a new node take over the current metadata."""
    meta = get_current_meta()
    if meta.get("stack_trace"):
        node.stack_trace = meta["stack_trace"]
    for key in _COPIED:
        if key in meta:
            node.meta[key] = copy.copy(meta[key])
