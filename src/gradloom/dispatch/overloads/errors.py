"""The TypeError for arguments that no signature accepts, in PyTorch's words."""

from __future__ import annotations

from .plans import accept
from .registry import Mismatch, is_self, type_name
from .signature import REQUIRED, Misfit, Signature


class _Call:
    """The arguments of a failed call, with positions and types as errors show them."""

    def __init__(self, overloads, args, kwargs):
        self.function, self.count, self.names = overloads.name, len(args), tuple(kwargs)
        self.values = (*args, *kwargs.values())
        self.classes = tuple(map(type, self.values))
        self.own = int(overloads.method)  # the method's self is not shown
        self.given = len(self.values) - self.own

    def assign(self, signature):
        return signature.assign(self.count, self.names, self.classes)

    def problem(self, parameter, source) -> Mismatch | None:
        """Return why the parameter does not accept its value, or None if it does."""
        accepted = accept(parameter, source, self.classes)
        if accepted is None:
            return Mismatch()
        try:
            accepted[0](self.values[source])
        except Mismatch as mismatch:
            return mismatch
        return None

    def describe(self, signature: Signature, parameter, source, mismatch: Mismatch) -> str:
        if mismatch.text:
            words = {
                "{function}": self.function,
                "{argument}": parameter.name,
                "{index}": str(signature.shown.index(parameter)),
            }
            text = mismatch.text
            for placeholder, word in words.items():
                text = text.replace(placeholder, word)
            return text
        place = source.start if type(source) is slice else source
        position = f" (position {place - self.own + 1})" if place < self.count else ""
        value = self.values[place]
        if parameter.type.display in ("tuple of ints", "tuple of floats") and type(value) in (tuple, list) and value:
            found = f"but found element of type {type_name(type(value[0]))} at pos 0"
        else:
            found = f"not {type_name(self.classes[place])}"
        return f"{self.function}(): argument '{parameter.name}'{position} must be {parameter.type.display}, {found}"

    def shown_types(self, bad=None) -> str:
        """Return `(Tensor, dim=str)`; if `bad`, wrong values are marked and lists spelled out."""
        words = []
        for place in range(self.own, len(self.values)):
            value = self.values[place]
            text = type_name(type(value)) if bad is None else _spelled_out(value)
            if place >= self.count:
                text = f"{self.names[place - self.count]}={text}"
            words.append(f"!{text}!" if bad and place in bad else text)
        return f"({', '.join(words)})"


def _spelled_out(value) -> str:
    names = [type_name(type(v)) for v in value] if type(value) in (tuple, list) else None
    if names is None:
        return type_name(type(value))
    if type(value) is list:
        return f"list of [{', '.join(names)}]"
    return f"tuple of ({', '.join(names)}{',' * (len(names) == 1)})"


def explain(overloads, args, kwargs) -> TypeError:
    """Return the error to raise. It lists several signatures, unless only one accepts so many arguments."""
    if overloads.method and not args:
        return TypeError(f"unbound method TensorBase.{overloads.name}() needs an argument")
    if overloads.method and not is_self(args[0]):
        kind = type_name(type(args[0]))
        described = f"descriptor '{overloads.name}' for 'torch._C.TensorBase' objects"
        return TypeError(f"{described} doesn't apply to a '{kind}' object")
    call = _Call(overloads, args, kwargs)
    signatures = overloads.signatures
    for signature in signatures:
        text = _bad_element(call, signature)
        if text:
            return TypeError(text)
    plausible = [s for s in signatures if s.minimum <= call.given <= len(s.shown)]
    if len(signatures) == 1:
        plausible = signatures
    text = _specific(call, plausible[0]) if len(plausible) == 1 else None
    if text is None:
        lines = [
            f"{call.function}() received an invalid combination of arguments - got "
            f"{call.shown_types()}, but expected one of:"
        ]
        for signature in signatures:
            lines += [f" * {signature}", f"      didn't match because {_reason(call, signature)}"]
        text = "\n".join(lines) + "\n"
    return TypeError(text)


def _bad_element(call: _Call, signature: Signature) -> str | None:
    """Return the message about one element of a list, if nothing else is wrong with the call."""
    sources = call.assign(signature)
    if isinstance(sources, Misfit):
        return None
    found = [(p, source, m) for p, source in sources.items() if (m := call.problem(p, source)) is not None]
    if not found or not all(mismatch.text for _, _, mismatch in found):
        return None
    return call.describe(signature, *found[0])


def _specific(call: _Call, signature: Signature) -> str | None:
    """Return what is wrong with the call of a single signature, parameter by parameter."""
    assigned = call.assign(signature)
    misfit = assigned if isinstance(assigned, Misfit) else None
    sources = misfit.sources if misfit else assigned
    for parameter in signature.shown if sources else ():
        source = sources.get(parameter)
        if source is None:
            if parameter.default is REQUIRED:
                break
            continue
        mismatch = call.problem(parameter, source)
        if mismatch is not None:
            return call.describe(signature, parameter, source, mismatch)
    return call.function + "()" + misfit.text if misfit else None


def _reason(call: _Call, signature: Signature) -> str:
    assigned = call.assign(signature)
    if not isinstance(assigned, Misfit):
        bad: set[int] = set()
        for parameter, source in assigned.items():
            if call.problem(parameter, source) is not None:
                bad.update(range(source.start, source.stop) if type(source) is slice else [source])
        return f"some of the arguments have invalid types: {call.shown_types(bad)}"
    if assigned.keywords:
        return f"some of the keywords were incorrect: {', '.join(assigned.keywords)}"
    if assigned.missing:
        return f"some of the arguments are missing: {', '.join(assigned.missing)}"
    return f"it{assigned.text}"
