"""Modules that keep their arguments: each argument is written once, as a field, and the constructor follows.

Note [Fields of modules]
Most modules keep what their constructor takes, print it, and call one function of nn.functional:

    @fields(F.softplus)
    class Softplus(Module):
        beta: float = 1.0
        threshold: float = 20.0

        def forward(self, input: Tensor) -> Tensor:
            return F.softplus(input, self.beta, self.threshold)

As in a dataclass, annotations are attributes and the parameters of `__init__`, for type checkers, too. An argument that
the constructor of the base class takes is passed on to it. Unlike with dataclasses, subclasses are ordinary classes,
and defaults are no attributes of the class. `forward` is written out: debuggers step into it, and it calls what stands
in nn.functional at that moment, which programs that count operations replace.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from gradloom.nn.modules.module import Module
from gradloom.utils._documentation import like, parameters

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(eq_default=False)
def fields(
    function: Callable[..., Any] | None = None, *, kw_only: bool = False, **arguments: str
) -> Callable[[_Class], _Class]:
    """Return a decorator that makes the annotations of a module's class its constructor, constants and printed text.

    `_check_fields`, if the class has it, is called last in the constructor. A field of type `InitVar` is an argument of
    the base class's constructor only. Defaults are literals.

    Args:
        function: documents the module, as `like` does; None if the class has a docstring.
        kw_only: arguments are passed by name.
        arguments: further entries of the docstring's `Args:`.
    """

    def decorate(cls):
        annotations = {name: text for name, text in cls.__annotations__.items() if not text.startswith("ClassVar")}
        defaults = {name: cls.__dict__[name] for name in annotations if name in cls.__dict__}
        for name in defaults:
            delattr(cls, name)
        passed_on = _taken(cls) & annotations.keys()
        if "__constants__" not in cls.__dict__:
            own = [name for name in annotations if name not in passed_on]
            cls.__constants__ = [*getattr(cls, "__constants__", ()), *own]
        if cls.extra_repr is Module.extra_repr:
            cls.extra_repr = _printing(tuple(annotations))
        cls.__init__ = _Constructor(cls, annotations, defaults, passed_on, kw_only)
        return cls if function is None else like(function, **arguments)(cls)

    return decorate


def _taken(cls):
    """Return the names of the parameters of the constructor that a class has or inherits."""
    found = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
    return found.annotations.keys() if isinstance(found, _Constructor) else parameters(found)


def _printing(names):
    def extra_repr(self) -> str:
        values = [(name, getattr(self, name)) for name in names]
        shown = [f"{n}={v!r}" if isinstance(v, str) else f"{n}={v}" for n, v in values if n != "inplace" or v]
        return ", ".join(shown)

    return extra_repr


class _Constructor:
    """Stands for the constructor of a class of fields until that is first looked up, and then puts it in its place."""

    def __init__(self, cls, annotations, defaults, passed_on, kw_only):
        self.cls, self.annotations, self.defaults = cls, annotations, defaults
        self.passed_on, self.kw_only = passed_on, kw_only

    def __get__(self, instance, owner=None):
        self.cls.__init__ = made = self._compiled()
        return made.__get__(instance, owner)

    def _compiled(self):
        source, module = self._source(), sys.modules[self.cls.__module__]
        file = f"{module.__file__}:{self.cls.__name__}"
        linecache.cache[file] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            file,
        )  # for tracebacks and inspect
        scope: dict[str, Any] = {}
        exec(compile(source, file, "exec"), vars(module), scope)
        return vars(scope[self.cls.__name__])["__init__"]

    def _source(self):
        name, taken = self.cls.__name__, ["*"] if self.kw_only else []
        for argument, text in self.annotations.items():
            given = f"{argument}: {text[8:-1] if text.startswith('InitVar[') else text}"
            taken.append(f"{given} = {self.defaults[argument]!r}" if argument in self.defaults else given)
        passed = ", ".join(f"{argument}={argument}" for argument in self.annotations if argument in self.passed_on)
        lines = [f"class {name}:", f"    def __init__(self, {', '.join(taken)}) -> None:"]
        lines.append(f"        super({name}, self).__init__({passed})")
        lines += [f"        self.{a} = {a}" for a in self.annotations if a not in self.passed_on]
        if hasattr(self.cls, "_check_fields"):
            lines.append("        self._check_fields()")
        return "\n".join(lines) + "\n"
