"""Arguments meet a schema to the letter: what calls an overload, and what is said if none takes a call."""

from __future__ import annotations

from typing import Any

from ..dispatch.overloads import Overloads
from ..dispatch.overloads.plans import accept
from ..dispatch.overloads.registry import Mismatch
from ..dispatch.overloads.signature import REQUIRED, Signature


class SchemaCalls(Overloads):
    """Calls by schemas: an argument goes by the schema's own name for it, and lists are given as lists.

    Args:
        name: `aten::add`.
        entries: (schema, function of all its arguments by position) for each overload.
        schemas: the texts that errors show.
        packet: whether an overload was to be chosen.
    """

    __slots__ = ("schemas", "packet")

    def __init__(self, name: str, entries: Any, schemas: Any, public: Any, packet: bool = False) -> None:
        super().__init__(name, entries, exact=True)
        self.schemas, self.packet, self.public = schemas, packet, public

    def complaint(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError:
        """What is wrong with the call, by PyTorch's words for it."""
        found = [
            _complaint(self.name, Signature(text, function, exact=True), str(schema), args, kwargs)
            for (text, function), schema in zip(self.entries, self.schemas, strict=True)
        ]
        if not self.packet:
            return RuntimeError(found[0])
        return RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n\n".join(found) + "\n\n"
        )


def _complaint(name: str, signature: Signature, schema: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Why one schema does not take the arguments."""
    positional, parameters = signature.positional, signature.parameters
    if len(args) > len(parameters):
        return (
            f"{name}() expected at most {len(parameters)} argument(s) but received {len(args)} argument(s). "
            f"Declaration: {schema}"
        )
    if len(args) > len(positional):
        return (
            f"{name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.  "
            f"Declaration: {schema}"
        )
    given = dict(zip((p.name for p in positional), args, strict=False))
    for name_ in kwargs:
        if name_ in given:
            return f"Argument '{name_}' specified both as positional and keyword argument. Schema: {schema}"
    given |= kwargs
    for position, parameter in enumerate(parameters):
        if parameter.name not in given:
            if parameter.default is REQUIRED:
                return f"{name}() is missing value for argument '{parameter.name}'. Declaration: {schema}"
            continue
        value = given.pop(parameter.name)
        if not _fits(parameter, value):
            return (
                f"{name}() Expected a value of type '{_word(parameter.type)}' for argument '{parameter.name}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\n"
                f"Declaration: {schema}"
            )
    unknown = ", ".join(given)
    return f"Unknown keyword argument '{unknown}' for operator '{name}'. Schema: {schema}"


def _fits(parameter: Any, value: Any) -> bool:
    accepted = accept(parameter, 0, (type(value),))
    if accepted is None:
        return False
    try:
        accepted[0](value)
    except Mismatch:
        return False
    return True


def _word(type_: Any) -> str:
    word = {"Scalar": "number", "Tensor|number": "Tensor"}.get(type_.base, type_.base)
    if type_.size is not None:
        word = f"List[{word}]"
    return f"Optional[{word}]" if type_.optional else word
