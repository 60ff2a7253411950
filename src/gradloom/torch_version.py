"""Versions that compare by their numbers: `TorchVersion("2.10.0") > "2.9"`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version as text that compares with versions, texts and tuples of numbers by the numbers before a suffix.

    A suffix such as `a0`, `rc1` or `.dev1` counts as before the version without one; what follows a `+` does not count.
    Texts that are no versions compare as texts.
    """

    __slots__ = ()

    def _against(self, other: Any) -> tuple[Any, Any]:
        text = ".".join(map(str, other)) if isinstance(other, Iterable) and not isinstance(other, str) else other
        own, others = _key(str(self)), _key(text)
        if own is None or others is None:
            return str(self), str(text)
        width = max(len(own[0]), len(others[0]))
        return tuple(((*numbers, *[0] * (width - len(numbers))), suffix) for numbers, suffix in (own, others))  # type: ignore[return-value]

    def __lt__(self, other: Any) -> bool:
        own, others = self._against(other)
        return bool(own < others)

    def __le__(self, other: Any) -> bool:
        own, others = self._against(other)
        return bool(own <= others)

    def __gt__(self, other: Any) -> bool:
        own, others = self._against(other)
        return bool(own > others)

    def __ge__(self, other: Any) -> bool:
        own, others = self._against(other)
        return bool(own >= others)

    def __eq__(self, other: object) -> bool:
        own, others = self._against(other)
        return bool(own == others)

    def __hash__(self) -> int:
        return str.__hash__(self)


def _key(text: Any) -> tuple[tuple[int, ...], tuple[int, str, int]] | None:
    """Return a version's numbers, and its suffix in the order of releases; None for what is no version."""
    found = re.fullmatch(
        r"v?(\d+(?:\.\d+)*)(?:[-_.]?(dev|a|alpha|b|beta|rc|c)[-_.]?(\d*))?(?:\.post(\d+))?(?:\+.*)?", str(text)
    )
    if found is None:
        return None
    numbers, word, number, post = found.groups()
    order = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, "c": 3, None: 4}[word]
    if post is not None:
        order, number = 5, post
    return tuple(map(int, numbers.split("."))), (order, "", int(number or 0))
