"""Bind a signature to the classes of a call: choose converters, and make the closure that calls the wrapper."""

from __future__ import annotations

from types import FunctionType

from ..function_code import own_code
from .registry import Mismatch, Overridden, overrides, types
from .signature import Misfit, Signature
from .types import accept_varargs, alone, is_wrap, keep


class Bound:
    """A signature with the source and the converter of each argument that was passed.

    Attributes:
        sources: {parameter: index or slice of its values}.
        moves: (slot or None for out, index or slice, converter).
        total: whether the classes alone prove that the call fits.
        overridden: whether an argument has an override.
        rearranged: whether values were passed elsewhere or left out; see `guard`.
    """

    __slots__ = ("signature", "sources", "moves", "total", "overridden", "rearranged")

    def __init__(self, signature: Signature, sources: dict):
        self.signature, self.sources = signature, sources
        self.moves: list[tuple] = []
        self.total = True
        self.overridden = self.rearranged = False

    def normalise(self, values) -> tuple[list, object]:
        """Return the wrapper's arguments in schema order, and out or None."""
        arguments, out = self.signature.template.copy(), None
        for slot, source, convert in self.moves:
            value = convert(values[source])
            if slot is None:
                out = value
            else:
                arguments[slot] = value
        return arguments, out


def bind(signature: Signature, count: int, names, classes) -> Bound | None:
    """Bind `count` positional values, then those of `names`, of these classes; None if they do not fit."""
    sources = signature.assign(count, names, classes)
    if isinstance(sources, Misfit):
        return None
    bound = Bound(signature, sources)
    for parameter in signature.parameters:
        source = sources.get(parameter)
        if source is None:
            continue
        accepted = accept(parameter, source, classes)
        if accepted is None:
            return None
        convert, total = accepted
        bound.moves.append((parameter.slot, source, convert))
        bound.total &= total
    wraps = [is_wrap(convert) for _, _, convert in bound.moves]
    if sum(wraps) > 1 and sum(wraps) == sum(p.type.base == "Tensor|number" for p in sources):
        bound.moves = [
            (slot, source, types.lone_number if wrap else convert)  # numbers only: no tensor determines the dtype
            for (slot, source, convert), wrap in zip(bound.moves, wraps, strict=True)
        ]
    bound.overridden = any(cls is not types.Tensor and overrides(cls) for cls in classes)
    return bound


def accept(parameter, source, classes):
    """Return the converter for the parameter's value, or None; see `types`."""
    if type(source) is slice:
        return accept_varargs(classes[source])
    if classes[source] is _NONE and parameter.takes_none:
        return _no_elements, True
    return parameter.type.accept(classes[source])


_NONE = type(None)


def _no_elements(_):
    return ()


# A plan takes the values of a call as positional arguments. The fastest plan is the wrapper itself.


def make_plan(bound: Bound):
    """Return the fastest closure for this call."""
    if bound.overridden:
        return _overridden
    wrapper, template = bound.signature.wrapper, bound.signature.template
    moves = bound.moves
    count = len(moves)
    if any(slot is None for slot, _, _ in moves):
        return _plan_with_out(bound)
    if moves and type(moves[-1][1]) is slice:
        return _varargs_plan(wrapper, moves, template)
    if not moves or any(slot != place or source != place for place, (slot, source, _) in enumerate(moves)):
        return _general_plan(wrapper, moves, template)
    converters = [None if convert is keep else convert for _, _, convert in moves]
    return _plan_in_order(wrapper, converters, tail_of(wrapper, template, count))


def tail_of(wrapper, template, count: int) -> tuple:
    """Return the defaults to pass after `count` arguments: none if the wrapper's own defaults are the same."""
    tail = tuple(template[count:])
    if tail and type(wrapper) is FunctionType and own_code(wrapper).co_argcount == len(template):
        own = (wrapper.__defaults__ or ())[-len(tail) :]
        if [*map(type, own)] == [*map(type, tail)] and own == tail:
            return ()
    return tail


def _overridden(*_):
    raise Overridden


def _plan_in_order(wrapper, converters, tail):
    """Return a plan for values in the wrapper's order, followed by `tail`."""
    converted = [(place, convert) for place, convert in enumerate(converters) if convert]
    if not converted:
        return (lambda *values: wrapper(*values, *tail)) if tail else wrapper
    if not tail and len(converters) <= 3:
        return (_plan_of_1, _plan_of_2, _plan_of_3)[len(converters) - 1](wrapper, *converters)
    if len(converted) == 1 and converted[0][0] == 1:  # such as normalized_shape
        ((_, second),) = converted
        return lambda a, b, *rest: wrapper(a, second(b), *rest, *tail)

    def plan(*values):
        arguments = [*values, *tail]
        for place, convert in converted:
            arguments[place] = convert(arguments[place])
        return wrapper(*arguments)

    return plan


def _plan_of_1(wrapper, convert):
    return lambda a: wrapper(convert(a))


def _plan_of_2(wrapper, first, second):
    if first is None:
        if second is alone:
            return lambda a, b: wrapper(a, (b,))
        return lambda a, b: wrapper(a, second(b))
    if second is None:
        return lambda a, b: wrapper(first(a), b)
    return lambda a, b: wrapper(first(a), second(b))


def _plan_of_3(wrapper, first, second, third):
    if first is None:
        if third is None:
            return lambda a, b, c: wrapper(a, second(b), c)
        if second is None:
            return lambda a, b, c: wrapper(a, b, third(c))
        return lambda a, b, c: wrapper(a, second(b), third(c))
    first, second, third = first or keep, second or keep, third or keep
    return lambda a, b, c: wrapper(first(a), second(b), third(c))


def _varargs_plan(wrapper, moves, template):
    """Return a plan for x.view(2, 3) or zeros(2, 3): after at most a self, all values form one list."""
    slot, source, convert = moves[-1]
    if convert is keep and len(moves) == slot + 1 == source.start + 1 and not tail_of(wrapper, template, slot + 1):
        if slot == 0:
            return (lambda a, b: wrapper((a, b))) if source.stop == 2 else (lambda *sizes: wrapper(sizes))
        if slot == 1:
            return lambda a, *sizes: wrapper(a, sizes)
    return _general_plan(wrapper, moves, template)


def _general_plan(wrapper, moves, template):
    """Return a plan for values in any order, with defaults between them."""
    kept = [(slot, source) for slot, source, convert in moves if convert is keep]
    converted = [move for move in moves if move[2] is not keep]

    def plan(*values):
        arguments = template.copy()
        for slot, source in kept:
            arguments[slot] = values[source]
        for slot, source, convert in converted:
            arguments[slot] = convert(values[source])
        return wrapper(*arguments)

    return plan


def _plan_with_out(bound):
    signature = bound.signature

    def plan(*values):
        arguments, out = bound.normalise(values)
        if out is None:
            return signature.wrapper(*arguments)
        return signature.out_wrapper(*arguments, out=out)

    return plan


def in_turn(plans):
    """Return a plan that tries several plans until the values fit one."""
    first, *others = plans

    def plan(*values):
        try:
            return first(*values)
        except Mismatch:
            pass
        for other in others:
            try:
                return other(*values)
            except Mismatch:
                continue
        raise Mismatch

    return plan


def no_plan(*_):
    raise Mismatch
