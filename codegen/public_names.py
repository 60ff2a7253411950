"""The names under which people reach operators: each with the wrappers that a call of it chooses from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .wrappers import Wrapper

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PublicName:
    """A name that people call, with the wrappers that it chooses from."""

    name: str
    wrappers: tuple[Wrapper, ...]

    @property
    def direct(self) -> Wrapper | None:
        """The wrapper that is itself the public function."""
        return self.wrappers[0] if len(self.wrappers) == 1 and self.wrappers[0].guard else None

    @property
    def is_function(self) -> bool:
        return any("function" in w.variants for w in self.wrappers)

    @property
    def method_entries(self) -> tuple[int, ...]:
        """The positions of the overloads that are methods, as all in-place variants are."""
        return tuple(
            i
            for i, w in enumerate(self.wrappers)
            if "method" in w.variants
            or (w.of_methods and w.kind == "inplace" and w.parameters[0].argument.name == "self")
        )

    @property
    def top_level(self) -> bool:
        return any(w.native.top_level for w in self.wrappers)

    @property
    def is_method(self) -> bool:
        return bool(self.method_entries)

    @property
    def module(self) -> str | None:
        return self.wrappers[0].native.python_module

    @property
    def short(self) -> str:
        """The name within its module: `inv` for `linalg_inv`."""
        module = self.module
        return self.name.removeprefix(f"{module}_") if module in ("linalg", "fft", "special") else self.name


def chosen_from(overloads: Sequence[T], variants: Callable[[T], Collection[str]]) -> Sequence[T]:
    """Those overloads of one name that a call by it chooses from: not the internal ones, unless all are internal."""
    return [o for o in overloads if "internal" not in variants(o)] or overloads


def public_names(wrappers: Iterable[Wrapper]) -> list[PublicName]:
    names: dict[str, list[Wrapper]] = {}
    for w in wrappers:
        names.setdefault(w.python_name, []).append(w)
    return [PublicName(name, tuple(chosen_from(group, lambda w: w.variants))) for name, group in sorted(names.items())]
