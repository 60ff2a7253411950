"""Sizes given as one number or one per dimension, and prefixes of names in a state_dict."""

from __future__ import annotations

from typing import Any


def _ntuple(n: int, name: str = "parse") -> Any:
    """Return a function that repeats a number `n` times and turns any iterable into a tuple.

    Args:
        n: length of the tuple for a number.
        name: name of the function.
    """

    def parse(value):
        if isinstance(value, (tuple, list)) or hasattr(value, "__iter__"):
            return tuple(value)
        return (value,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a `prefix`, such as "module.", from the names in `state_dict` and in its metadata, in place."""
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name.removeprefix(prefix)] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", None)
    for name in list(metadata or ()):
        if name and (name == prefix.rstrip(".") or name.startswith(prefix)):
            metadata[name[len(prefix) :]] = metadata.pop(name)


def _reverse_repeat_tuple(values, times):
    """Turn (a, b) into (b, b, a, a) for times=2: equal padding on both sides, as `pad` takes it."""
    return tuple(value for value in reversed(values) for _ in range(times))
