"""What `gradloom.ops.<namespace>` is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from ._overload import OpOverloadPacket, Row

# Of what tensors do themselves elsewhere; they are made when somebody wants to see them.
_SEEN_BY_MODES = ("_local_scalar_dense", "lift_fresh")


class Namespace:
    """The operators of gradloom, of a package, of a library or of `gradloom.ops.define`, as attributes.

    Args:
        name: `aten`.
        names: the operators that are made when they are asked for.
        make: name -> operator, for those.
    """

    def __init__(
        self, name: str, names: Iterable[str] = (), make: Callable[[str], OpOverloadPacket] | None = None
    ) -> None:
        self.__dict__["_name"] = name
        self.__dict__["_operators"] = dict.fromkeys(names)
        self.__dict__["_make"] = make

    def __getattr__(self, name: str) -> OpOverloadPacket:
        operators: dict[str, Any] = self.__dict__["_operators"]
        try:
            found: OpOverloadPacket | None = operators[name]
        except KeyError:
            own = self.__dict__["_name"]
            if own == "aten" and name in _SEEN_BY_MODES:
                import_module("gradloom._library.dispatched")  # adds them
                return operators[name]  # type: ignore[no-any-return]
            known = ", ".join(sorted(operators)) if len(operators) <= 50 else f"{len(operators)} others"
            # with PyTorch's words, by which programs tell that an operator is missing
            raise AttributeError(
                f"'_OpNamespace' '{own}' object has no attribute '{name}': gradloom.ops.{own} has no "
                f"operator '{name}'; it has {known or 'none'}"
            ) from None
        if found is None:
            found = operators[name] = self.__dict__["_make"](name)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"gradloom.ops.{self.__dict__['_name']}: operators are defined in YAML or by gradloom.library, not assigned"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_operators"])

    def __len__(self) -> int:
        return len(self.__dict__["_operators"])

    def __dir__(self) -> list[str]:
        return list(self.__dict__["_operators"])

    def __repr__(self) -> str:
        names = list(self)
        shown = ", ".join(names) if len(names) <= 50 else f"{len(names)} operators"
        return f"<namespace gradloom.ops.{self.__dict__['_name']}: {shown}>"


def packet(
    namespace: str,
    name: str,
    table: Mapping[str, Any],
    wrappers: Mapping[str, Callable[..., Any]],
    function: Callable[..., Any] | None,
) -> OpOverloadPacket:
    """The object of a generated operator.

    Args:
        table: OVERLOADS of the generated module `overloads`.
        wrappers: OVERLOADS of `namespaces`.
        function: what users call.
    """
    rows = [Row(overload, wrappers[wrapper], *rest) for overload, wrapper, *rest in table[name]]
    return OpOverloadPacket(namespace, name, rows, function)


def own_namespace() -> Namespace:
    """`gradloom.ops.aten`: the operators of gradloom itself."""
    from ..generated import namespaces, overloads

    def make(name: str) -> OpOverloadPacket:
        return packet("aten", name, overloads.OVERLOADS, namespaces.OVERLOADS, namespaces.OPERATORS.get(name))

    return Namespace("aten", overloads.OVERLOADS, make)
