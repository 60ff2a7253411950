"""Count in which calls the kernels that set_kernels("llvm") replaces compute something themselves."""

from collections import Counter
from functools import cache

import numpy as np

from gradloom.compiler import _eager, _eager_gradients, _eager_large, _eager_pointwise
from gradloom.core import engine
from gradloom.generated.variable_type import elementwise


def counted_replacements(monkeypatch) -> Counter:
    """Count, by place, the calls of replaced kernels that are not passed on to the original, from the next
    `set_kernels` on."""
    counts: Counter = Counter()
    monkeypatch.setattr(_eager, "_made", {})
    for module, replacements in _eager.replaced().items():
        for name, make in replacements.items():
            monkeypatch.setitem(replacements, name, _counted(f"{module}.{name}", make, counts))
    monkeypatch.setattr(_eager, "_gated_numpy", cache(_eager._gated_numpy.__wrapped__))
    binary = _eager_large.binary

    def counted_binary(name, kept, compiled, original=None):
        make = _counted(f"numpy.{name}", lambda noted: binary(name, kept, compiled, noted), counts)
        return make(original or getattr(np, name))

    monkeypatch.setattr(_eager_large, "binary", counted_binary)
    return counts


def take_as_large(count: int, monkeypatch) -> None:
    """Let kernels for large arrays take those of `count` elements, from the next `set_kernels` on."""
    set_large(count, monkeypatch.setattr)


def set_large(count: int, set_attribute) -> None:
    """Set what `take_as_large` does by a function of an object, a name and a value."""
    for module in (_eager, _eager_gradients, _eager_large, _eager_pointwise, elementwise, engine):
        set_attribute(module, "LARGE", count)
    set_attribute(_eager, "_made", {})
    set_attribute(_eager, "_gated_numpy", cache(_eager._gated_numpy.__wrapped__))


def places() -> list[str]:
    return [f"{module}.{name}" for module, replacements in _eager.replaced().items() for name in replacements]


def _counted(place, make, counts):
    def make_counted(original):
        passed_on = []

        def noted(*args, **kwargs):
            passed_on.append(original(*args, **kwargs))
            return passed_on[-1]

        kernel = make(noted)

        def replaced(*args, **kwargs):
            passed_on.clear()
            result = kernel(*args, **kwargs)
            counts[place] += not passed_on or all(result is not one for one in passed_on)
            return result

        return replaced

    return make_counted
