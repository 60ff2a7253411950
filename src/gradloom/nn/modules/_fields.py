"""Modules that keep their arguments and call one function: each argument is written once, as a field.

Note [Fields of modules]
Most modules keep what their constructor takes, print it, and call a function of nn.functional:

    @fields(F.softplus)
    class Softplus(_Activation):
        beta: float = 1.0
        threshold: float = 20.0

As in a dataclass, annotations are attributes and the parameters of `__init__`, for type checkers, too. An argument that
the constructor of the base class takes is passed on to it. Unlike with dataclasses, subclasses are ordinary classes,
and defaults are no attributes of the class.

`forward` has the parameters that a base class declares, and is written as one would by hand:

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

It calls what stands in nn.functional at that moment, which programs that count operations replace. Both methods are
late (`LateMethod`): compiled when they are first looked up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from gradloom.dispatch.overloads import Overloads
from gradloom.nn import functional as F
from gradloom.nn.modules.module import Module
from gradloom.utils._documentation import like, parameters
from gradloom.utils._late_methods import LateMethod

_Class = TypeVar("_Class", bound=type)
_FLAGS = ("size_average", "reduce")  # deprecated arguments of losses, which `reduction` replaces


@dataclass_transform(eq_default=False)
def fields(function: Callable[..., Any] | None = None, *, kw_only: bool = False) -> Callable[[_Class], _Class]:
    """Return a decorator that makes the annotations of a module's class its constructor, constants and printed text.

    `_check_fields`, if the class has it, is called last in the constructor. A field of type `InitVar` is an argument of
    the base class's constructor only. Defaults are literals.

    Args:
        function: function that the module calls; None for none.
        kw_only: arguments are passed by name.
    """

    def decorate(cls):
        annotations = {name: text for name, text in cls.__annotations__.items() if not text.startswith("ClassVar")}
        defaults = {name: cls.__dict__[name] for name in annotations if name in cls.__dict__}
        for name in defaults:
            delattr(cls, name)
        passed_on = parameters(cls, "__init__") & annotations.keys()
        if "__constants__" not in cls.__dict__:
            own = [name for name in annotations if name not in passed_on]
            cls.__constants__ = [*getattr(cls, "__constants__", ()), *own]
        if cls.extra_repr is Module.extra_repr:
            cls.extra_repr = _printing(tuple(annotations))
        cls.__init__ = _Constructor(cls, "__init__", annotations, defaults, passed_on, kw_only)
        return cls if function is None else calls(function)(cls)

    return decorate


def calls(function: Callable[..., Any] | str) -> Callable[[_Class], _Class]:
    """Return a decorator that gives a module its `forward`, a call of a function of nn.functional, and its docstring.

    Args:
        function: gets the arguments of `forward`, the attributes with the names of its parameters, and `training`. The
            name of an operator that is imported on first use only; then the class has a docstring of its own.
    """

    def decorate(cls):
        if "forward" not in cls.__dict__:
            cls.forward = _Forward(cls, "forward", function)
        return cls if isinstance(function, str) or cls.__dict__["__doc__"] else like(function)(cls)

    return decorate


def _printing(names):
    def extra_repr(self) -> str:
        values = [(name, getattr(self, name)) for name in names]
        shown = [f"{n}={v!r}" if isinstance(v, str) else f"{n}={v}" for n, v in values if n != "inplace" or v]
        return ", ".join(shown)

    return extra_repr


class _Constructor(LateMethod):
    def __init__(self, cls, name, annotations, defaults, passed_on, kw_only):
        super().__init__(cls, name, annotations.keys())
        self.annotations, self.defaults = annotations, defaults
        self.passed_on, self.kw_only = passed_on, kw_only

    def lines(self):
        taken = ["self", *["*"] * self.kw_only]
        for name, text in self.annotations.items():
            given = f"{name}: {text[8:-1] if text.startswith('InitVar[') else text}"
            taken.append(f"{given} = {self.defaults[name]!r}" if name in self.defaults else given)
        passed = ", ".join(f"{name}={name}" for name in self.annotations if name in self.passed_on)
        yield f"def __init__({', '.join(taken)}) -> None:"
        yield f"    super({self.cls.__name__}, self).__init__({passed})"
        yield from (f"    self.{name} = {name}" for name in self.annotations if name not in self.passed_on)
        if hasattr(self.cls, "_check_fields"):
            yield "    self._check_fields()"


class _Forward(LateMethod):
    def __init__(self, cls, name, function):
        super().__init__(cls, name, parameters(cls, name))
        self.function = function

    def lines(self):
        declared = inspect.signature(super(self.cls, self.cls).forward)
        taken = {n: f"{n}: {p.annotation}" if n != "self" else n for n, p in declared.parameters.items()}
        for name, p in declared.parameters.items():
            taken[name] += "" if p.default is p.empty else f" = {p.default!r}"
        own, given, by_name = {"training", *parameters(self.cls, "__init__")}.difference(_FLAGS), [], False
        function = getattr(F, self.function) if isinstance(self.function, str) else self.function
        wrapped = getattr(function, "__wrapped__", None)
        called = wrapped.signature() if isinstance(wrapped, Overloads) else inspect.signature(function)
        for name, p in called.parameters.items():
            if name in taken or name in own:
                value = name if name in taken else f"self.{name}"
                given.append(f"{name}={value}" if by_name or p.kind is p.KEYWORD_ONLY else value)
            else:
                by_name = True
        yield f"def forward({', '.join(taken.values())}) -> {declared.return_annotation}:"
        yield f"    return F.{function.__name__}({', '.join(given)})"
