"""The parser behind a wrapper that checks its own arguments; see Note [Guarded wrappers] in the package's docstring."""

from __future__ import annotations

from ..interception import has_operand, intercept
from .parser import PLANS, Overloads
from .plans import Bound, bind
from .registry import MISSING, Fallback, Mismatch, Overridden, learn_plain, types
from .types import keep


class GuardedOverload(Overloads):
    """Called by a wrapper that is itself the public function, when its guard fails.

    Calling it raises PyTorch's TypeError if the signature does not take the arguments.

    Args:
        name: the name in errors.
        entries: one (parameters, wrapper). The wrapper has the signature of the public function: keyword-only
            parameters are passed by their names, and out only if it is not None.
        composite: the function of a composite operator, for interception.
    """

    __slots__ = ("composite",)

    def __init__(self, name: str, entries, composite=None):
        super().__init__(name, entries)
        self.public, self.composite = entries[0][1], composite

    def __call__(self, /, *args, **kwargs):
        values = [value for value in (*args, *kwargs.values()) if value is not MISSING]
        key = (*map(type, args), *map(type, kwargs.values()), *kwargs)
        bound = self.plans.get(key) or self._bind(key, args, kwargs)
        failure = None
        try:
            if bound is None:
                raise Mismatch
            if bound.overridden:
                raise Overridden
            arguments, out = bound.normalise(values)
        except Fallback as raised:
            failure = type(raised)
        if failure:
            passed = tuple([value for value in args if value is not MISSING])
            named = {name: value for name, value in kwargs.items() if value is not MISSING}
            if failure is Overridden:
                return types.handle_torch_function(self, passed, named)
            from .errors import explain

            raise explain(self, passed, named)
        if any(isinstance(v, types.Tensor) and not has_operand(v) for v in arguments):
            return intercept(bound.signature.wrapper, tuple(arguments), out, self.composite)
        if not (bound.rearranged or _converts(bound, values, arguments) or _learns(values)):
            raise TypeError(f"{self.name}(): its guard refuses arguments that its signature accepts: {bound.signature}")
        names = bound.signature.keyword_names
        if not names and out is None:
            return bound.signature.wrapper(*arguments)
        split = len(arguments) - len(names)
        named = dict(zip(names, arguments[split:], strict=True))
        if out is not None:
            named["out"] = out
        return bound.signature.wrapper(*arguments[:split], **named)

    def _bind(self, key, args, kwargs) -> Bound | None:
        """Bind the signature to a call and remember the result; None if it does not take the call."""
        passed = [value for value in args if value is not MISSING]
        named = {name: value for name, value in kwargs.items() if value is not MISSING}
        classes = tuple(map(type, (*passed, *named.values())))
        (signature,) = self.signatures
        bound = bind(signature, len(passed), tuple(named), classes)
        if bound is not None:
            # aliases are MISSING in every call; anything else that is MISSING gets its default
            bound.rearranged = (
                len(passed) < len(args)
                or _renames(bound, len(passed), list(named))
                or any(p.name in kwargs and p.name not in named for p in signature.shown)
            )
            if len(self.plans) >= PLANS:
                self.plans.clear()
            self.plans[key] = bound
        return bound


def _renames(bound: Bound, count: int, names) -> bool:
    """Return whether a keyword was an alias, such as `axis`."""
    return any(
        parameter.name != names[source - count]
        for parameter, source in bound.sources.items()
        if type(source) is int and source >= count
    )


def _converts(bound: Bound, values, arguments) -> bool:
    """Return whether a value changed its class, or that of an element."""
    for slot, source, convert in bound.moves:
        if convert is keep or slot is None:
            continue
        given, normal = values[source], arguments[slot]
        if type(given) is not type(normal):
            return True
        if isinstance(normal, tuple) and [*map(type, given)] != [*map(type, normal)]:
            return True
    return False


def _learns(values) -> bool:
    """Return whether a tensor is of a class that was not known to be plain."""
    return sum(learn_plain(type(value)) for value in values if isinstance(value, types.Tensor)) > 0
