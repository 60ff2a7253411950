"""The overloads behind one public function; see the package's docstring."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from keyword import iskeyword
from types import FunctionType
from typing import TypeVar

from ..interception import has_operand, intercept
from .plans import Bound, bind, in_turn, make_plan, no_plan, tail_of
from .registry import MISSING, Fallback, Mismatch, Overridden, is_self, learn_plain, types
from .signature import REQUIRED, Signature, in_order_of_trial
from .types import keep

PLANS = 256
_Function = TypeVar("_Function", bound=Callable)


class Overloads:
    """The signatures of one function, and the plans for the calls seen so far.

    Calling it raises PyTorch's TypeError if no signature accepts the arguments.

    Args:
        name: the name in errors.
        entries: (parameters, wrapper) or (parameters, wrapper, wrapper for out=), in the order of trial.
        method: the first value is `self`, which errors and positions leave out. Every signature must have a `self`; as
            in PyTorch, a method has no parameter `out`.
        exact: signatures follow the schemas exactly; see `Signature`.

    Attributes:
        public: the plain function that users call.
        inspectable: public functions have a signature; False makes `inspect.signature` raise ValueError, as it does
            for PyTorch's, which are C functions.
    """

    inspectable = True

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
        """Return the error for arguments that no signature accepts."""
        from .errors import explain

        return explain(self, args, kwargs)

    def learn(self, key, args, kwargs):
        """Return the plan for calls like this one. It is remembered under `key`, unless no signature accepts them."""
        args = [value for value in args if value is not MISSING]
        if self.method and not (args and is_self(args[0])):
            return no_plan
        classes = tuple([types.stand_ins.get(c, c) for c in map(type, (*args, *kwargs.values()))])
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

    def call_with_sizes(self):
        """Return `call(tensor, sizes)` for calls with separate ints; None unless one signature takes them."""
        found = []
        for count in (1, 2):
            classes = (types.Tensor, *(int,) * count)
            bounds = [bound for s in self.signatures if (bound := bind(s, count + 1, (), classes)) is not None]
            found += [bound.signature for bound in bounds]
            if len(bounds) != 1 or bounds[0].signature.varargs is None or bounds[0].moves[-1][0] != 1:
                return None
        signature, other = found
        if signature is not other:
            return None
        wrapper = signature.wrapper
        tail = tail_of(wrapper, signature.template, 2)
        return (lambda tensor, sizes: wrapper(tensor, sizes, *tail)) if tail else wrapper

    @property
    def __signature__(self):
        """The signature for `inspect.signature` of the public function, whose `__wrapped__` this object is."""
        if not Overloads.inspectable and self.name not in (
            "unflatten",
            "stft",
            "istft",
        ):  # Python functions in PyTorch, too
            raise ValueError(f"no signature found for builtin {self.public!r}")
        return self.signature()

    def signature(self):
        """Return the signature of the public function, whether or not programs see it."""
        from inspect import Parameter as P, Signature as S

        own = [P("self", P.POSITIONAL_ONLY)] if self.method else []
        if len(self.signatures) > 1:
            return S([*own, P("args", P.VAR_POSITIONAL), P("kwargs", P.VAR_KEYWORD)])
        shown = self.signatures[0].shown
        only = max([0, *[i for i, p in enumerate(shown, 1) if iskeyword(p.name)]])  # uniform_ has `from`
        kinds = [P.KEYWORD_ONLY if p.keyword_only else P.POSITIONAL_OR_KEYWORD for p in shown]
        kinds[:only] = [P.POSITIONAL_ONLY] * only
        names = [f"{p.name}_" if iskeyword(p.name) else p.name for p in shown]
        defaults = [P.empty if p.default is REQUIRED else p.default for p in shown]
        return S(own + [P(name, k, default=d) for name, k, d in zip(names, kinds, defaults, strict=True)])

    def __repr__(self):
        return f"<overloads of {self.name}: {', '.join(map(str, self.signatures))}>"


class GuardedOverload(Overloads):
    """Argument parser of a wrapper that is itself the public function; the wrapper calls it when its guard fails.

    Calling it raises PyTorch's TypeError if the signature does not accept the arguments.

    Args:
        name: the name in errors.
        entries: one (parameters, wrapper). The wrapper has the signature of the public function: keyword-only
            parameters are passed by their names, and out only if it is not None.
        composite: the function that implements a composite operator, for interception.
        old_order: the names of all parameters, in a deprecated order by position.
    """

    __slots__ = ("composite", "old_order")

    def __init__(self, name: str, entries, composite=None, old_order: str = ""):
        super().__init__(name, entries)
        self.public, self.composite, self.old_order = entries[0][1], composite, tuple(old_order.split())
        self.public.__wrapped__ = self  # type: ignore[attr-defined]

    @property
    def __wrapped__(self):
        """The code of the public function, for `inspect.getsource`."""
        public = self.public
        return FunctionType(public.__code__, public.__globals__, public.__name__, public.__defaults__)

    def __call__(self, /, *args, **kwargs):
        if any(value is MISSING for value in args):
            args, kwargs = self._by_name(args, kwargs)
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

    def _by_name(self, args, kwargs):
        """Return the arguments with those after the first missing one by name, without defaults."""
        count = next(i for i, value in enumerate(args) if value is MISSING)
        parameters = self.signatures[0].positional[count:]
        later = {
            p.name: value
            for p, value in zip(parameters, args[count:], strict=True)
            if value is not MISSING and value is not p.default
        }
        return args[:count], {**later, **kwargs}

    def in_old_order(self, args, kwargs):
        """Call the wrapper with positional arguments in the deprecated order, and warn. Raises TypeError if it has none
        of these forms: the order itself, its last number left out, and, for methods, `self` first."""
        (signature,) = self.signatures
        named = {p.name: p.default for p in signature.shown}
        kwargs = {name: value for name, value in kwargs.items() if value is not named[name]}
        classes = tuple(map(type, (*args, *kwargs.values())))
        for order, old in self._old_signatures():
            bound = bind(old, len(args), tuple(kwargs), classes)
            if bound is None or bound.overridden:
                continue
            try:
                values, out = bound.normalise((*args, *kwargs.values()))
            except Mismatch:
                continue
            types.warn_once(
                "deprecated order",
                f"This overload of {self.name} is deprecated:\n\t{self.name}{old}\n"
                f"Consider using one of the following signatures instead:\n\t{self.name}{signature}",
            )
            found = dict(zip(order, values, strict=True))
            positional = [found.pop(name) for name, *_ in takewhile(lambda p: p != "*", self.entries[0][0])]
            return self.public(*positional, **found, **({} if out is None else {"out": out}))
        from .errors import explain

        raise explain(self, args, kwargs)

    def _old_signatures(self):
        """Return (names, signature) for each form of the deprecated order."""
        parameters = {p[0]: p for p in self.entries[0][0] if p != "*"}
        tail = ("*", parameters["out"]) if "out" in parameters else ()
        numbers = [name for name in self.old_order if not parameters[name][1].startswith("Tensor")]
        forms = [self.old_order]
        if len(numbers) > 1:
            forms.append(tuple([name for name in self.old_order if name != numbers[-1]]))
        forms += [("self", *[name for name in form if name != "self"]) for form in forms if form[0] != "self"]
        return [(form, Signature([*[parameters[name][:2] for name in form], *tail], self.public)) for form in forms]

    def _bind(self, key, args, kwargs) -> Bound | None:
        """Bind the signature to a call and remember the result; return None if it does not accept the call."""
        passed = [value for value in args if value is not MISSING]
        named = {name: value for name, value in kwargs.items() if value is not MISSING}
        classes = tuple(map(type, (*passed, *named.values())))
        (signature,) = self.signatures
        bound = bind(signature, len(passed), tuple(named), classes)
        if bound is not None:
            # aliases are MISSING in every call; any other missing value gets its default
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
    """Return whether the class of a value, or of an element of it, was changed."""
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
    """Return whether a tensor has a class that was not known to be plain."""
    return sum(learn_plain(type(value)) for value in values if isinstance(value, types.Tensor)) > 0


def overloaded_function(name: str, entries, doc: str | None = None, module: str = "gradloom"):
    """Return a plain function over the entries, for a namespace. Its `__wrapped__` is the `Overloads`."""
    return _public(Overloads(name, entries), name, doc, module)


def overloaded_method(name: str, entries, doc: str | None = None, module: str = "gradloom"):
    """Return a plain function over the entries, for an attribute of Tensor, with `self` first."""
    overloads = Overloads(name, entries, method=True)
    function = _public(overloads, f"Tensor.{name}", doc, module)
    return _taking_sizes(overloads, function) if takes_sizes(entries) else function


def parsed(*parameters, method: bool = False) -> Callable[[_Function], _Function]:
    """Return a decorator for a Python function that is an operator in PyTorch: its arguments are parsed as those are.

    Args:
        parameters: in the form of entries: `("self", "Tensor"), ("dim", "int", 0)`.
        method: the function is a method, with `self` first.
    """

    def decorate(function):
        make = overloaded_method if method else overloaded_function
        return make(function.__name__, ((parameters, function),), function.__doc__)

    return decorate


def takes_sizes(entries) -> bool:
    """Return whether `x.view(2, 3)` calls an overload of a method whose only positional parameter is a list of ints,
    and no overload takes an int instead."""
    positional = [[*takewhile(lambda p: p != "*", parameters)] for parameters, *_ in entries]
    alone = [names[1][1] for names in positional if len(names) == 2]
    return "int" not in alone and any(kind.startswith("int[]") for kind in alone)


def _taking_sizes(overloads, parsed):
    """Return a function that calls the wrapper itself for a plain tensor and ints or a tuple of them, else `parsed`."""
    Tensor = types.Tensor
    call = find = object()  # until the overloads are complete; None if only the parser can tell which is called

    def function(a=MISSING, /, *rest, **kwargs):
        nonlocal call
        if rest and a.__class__ is Tensor and not kwargs and call is not None:
            if call is find:
                call = overloads.call_with_sizes()
                return function(a, *rest)
            for value in rest:
                if value.__class__ is not int:
                    break
            else:
                return call(a, rest)
            if value.__class__ is tuple and len(rest) == 1:
                for n in value:
                    if n.__class__ is not int:
                        break
                else:
                    return call(a, value)
        return parsed(a, *rest, **kwargs)

    return _described(function, overloads, parsed.__qualname__, parsed.__doc__, parsed.__module__)


def _public(overloads, qualified_name, doc, module):
    call, find, learn = overloads.__call__, overloads.plans.get, overloads.learn

    # The common forms of a call have short keys of their own. All other calls, and those whose plan raises Fallback, go
    # to Overloads.__call__. Trying a plan twice is harmless: it converts before it calls.
    def function(a=MISSING, b=MISSING, c=MISSING, /, *rest, **kwargs):
        if not kwargs:
            try:
                if b is MISSING:
                    key = type(a)
                    return (find(key) or learn(key, (a,), kwargs))(a)
                if c is MISSING:
                    key = type(a), type(b)
                    return (find(key) or learn(key, (a, b), kwargs))(a, b)
                if not rest:
                    key = type(a), type(b), type(c)
                    return (find(key) or learn(key, (a, b, c), kwargs))(a, b, c)
                values = (a, b, c, *rest)
                key = tuple(map(type, values))
                return (find(key) or learn(key, values, kwargs))(*values)
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

    doc = doc or "\n".join([entry[1].__doc__ or "" for entry in overloads.entries])
    return _described(function, overloads, qualified_name, doc, module)


def _described(function, overloads, qualified_name, doc, module):
    function.__name__ = overloads.name
    function.__qualname__ = qualified_name
    function.__module__ = module
    function.__doc__ = doc
    function.__wrapped__ = overloads
    overloads.public = function
    return function
