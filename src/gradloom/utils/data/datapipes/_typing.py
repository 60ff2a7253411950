"""The metaclasses of DataPipes, which hook their `__iter__` and `reset`."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from ._hook_iterator import hook_iterator, hook_reset


class _DataPipeMeta(ABCMeta):
    """Metaclass of all DataPipes."""


class _IterDataPipeMeta(_DataPipeMeta):
    """Metaclass of IterDataPipes."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        if "reset" in namespace:
            namespace["reset"] = hook_reset(namespace["reset"])
        if "__iter__" in namespace:
            hook_iterator(namespace)
        return super().__new__(cls, name, bases, namespace, **kwargs)
