"""The overloads behind one public function; see the package's docstring."""

from __future__ import annotations

from .plans import bind, in_turn, make_plan, no_plan
from .registry import MISSING, Fallback, Mismatch, Overridden, types
from .signature import REQUIRED, Signature, in_order_of_trial

PLANS = 256


class Overloads:
    """The signatures of one function, and the plans for the calls seen so far.

    Calling it raises PyTorch's TypeError if no signature takes the arguments.

    Args:
        name: the name in errors.
        entries: (parameters, wrapper) or (parameters, wrapper, wrapper for out=), in the order of trial.
        method: the first value is `self`, which errors and positions leave out. Every signature must have a `self`;
            `out` is no parameter of a method, as in PyTorch.
        exact: signatures are schemas to the letter; see `Signature`.

    Attributes:
        public: the plain function that users call.
    """

    __slots__ = ("name", "entries", "method", "exact", "public", "plans", "_signatures")

    def __init__(self, name: str, entries, *, method: bool = False, exact: bool = False):
        self.name, self.entries, self.method, self.exact = name, entries, method, exact
        self.public = self
        self.plans: dict = {}
        self._signatures: list[Signature] | None = None

    @property
    def signatures(self) -> list[Signature]:
        if self._signatures is None:
            self._signatures = in_order_of_trial(
                [Signature(*entry, method=self.method, exact=self.exact) for entry in self.entries]
            )
        return self._signatures

    def __call__(self, /, *args, **kwargs):
        values = (*args, *kwargs.values())
        key = (*map(type, values), *kwargs)
        plan = self.plans.get(key) or self.learn(key, args, kwargs)
        try:
            return plan(*values)
        except Overridden:
            overridden = True
        except Mismatch:
            overridden = False
        if overridden:
            return types.handle_torch_function(self, args, kwargs)
        raise self.complaint(args, kwargs)

    def complaint(self, args, kwargs) -> Exception:
        """Return the error for arguments that no signature takes."""
        from .errors import explain

        return explain(self, args, kwargs)

    def learn(self, key, args, kwargs):
        """Return the plan for calls like this one, remembered under `key` unless no signature takes them."""
        args = [value for value in args if value is not MISSING]
        classes = tuple(map(type, (*args, *kwargs.values())))
        plans = []
        for signature in self.signatures:
            bound = bind(signature, len(args), tuple(kwargs), classes)
            if bound is not None:
                plans.append(make_plan(bound))
                if bound.total:
                    break
        if not plans:
            return no_plan
        if len(self.plans) >= PLANS:
            self.plans.clear()
        plan = self.plans[key] = plans[0] if len(plans) == 1 else in_turn(plans)
        return plan

    @property
    def __signature__(self):
        """For `inspect.signature` of the public function, whose `__wrapped__` this is."""
        from inspect import Parameter as P, Signature as S

        own = [P("self", P.POSITIONAL_ONLY)] if self.method else []
        if len(self.signatures) > 1:
            return S([*own, P("args", P.VAR_POSITIONAL), P("kwargs", P.VAR_KEYWORD)])
        return S(
            own
            + [
                P(
                    p.name,
                    P.KEYWORD_ONLY if p.keyword_only else P.POSITIONAL_OR_KEYWORD,
                    default=P.empty if p.default is REQUIRED else p.default,
                )
                for p in self.signatures[0].shown
            ]
        )

    def __repr__(self):
        return f"<overloads of {self.name}: {', '.join(map(str, self.signatures))}>"


# --- the public functions -----------------------------------------------------------------------------------


def overloaded_function(name: str, entries, doc: str | None = None, module: str = "gradloom"):
    """Return a plain function over the entries, for a namespace. Its `__wrapped__` is the `Overloads`."""
    return _public(Overloads(name, entries), name, doc, module)


def overloaded_method(name: str, entries, doc: str | None = None, module: str = "gradloom"):
    """Return a plain function over the entries, for an attribute of Tensor; `self` comes first."""
    return _public(Overloads(name, entries, method=True), f"Tensor.{name}", doc, module)


def _public(overloads, qualified_name, doc, module):
    call, find, learn = overloads.__call__, overloads.plans.get, overloads.learn

    # The usual shapes of a call have keys of their own, as short as possible. All other calls, and those whose plan
    # raises Fallback, go to Overloads.__call__. Trying a plan twice is harmless: it converts before it calls.
    def function(a=MISSING, b=MISSING, c=MISSING, /, *rest, **kwargs):
        if not kwargs:
            if not rest:
                key = (type(a), type(b), type(c))
                plan = find(key) or learn(key, (a, b, c), kwargs)
                try:
                    return plan(a, b, c)
                except Fallback:
                    pass
            else:
                values = (a, b, c, *rest)
                key = tuple(map(type, values))
                plan = find(key) or learn(key, values, kwargs)
                try:
                    return plan(*values)
                except Fallback:
                    pass
        elif a is not MISSING and c is MISSING:
            if len(kwargs) == 1:
                ((name, value),) = kwargs.items()
                key = (type(a), type(b), name, type(value))
                plan = find(key) or learn(key, (a, b), kwargs)
                try:
                    return plan(a, value) if b is MISSING else plan(a, b, value)
                except Fallback:
                    pass
            elif b is MISSING and len(kwargs) == 2:
                (name, value), (name2, value2) = kwargs.items()
                key = (type(a), name, type(value), name2, type(value2))
                plan = find(key) or learn(key, (a,), kwargs)
                try:
                    return plan(a, value, value2)
                except Fallback:
                    pass
        return call(*[value for value in (a, b, c) if value is not MISSING], *rest, **kwargs)

    function.__name__ = overloads.name
    function.__qualname__ = qualified_name
    function.__module__ = module
    function.__doc__ = doc or "\n".join([entry[1].__doc__ or "" for entry in overloads.entries])
    function.__wrapped__ = overloads
    overloads.public = function
    return function
