"""Register the generated operators of packages and definitions, and remove them; all or nothing.

A registration covers the modules that the generator makes for a package (`myops.generated`): `namespaces` lists the
operators and their names, `records` their facts, `operators` is the empty module through which they call one another,
and `overrides`, if there is one, has new derivatives for built-in operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import gradloom

from ..binding.operators import has_attribute, of_packages
from ..core.tensor import Tensor
from ..dispatch.records import package_of, record_of
from ..dispatch.state import DEBUG
from ..python_dispatch.torch_function.checks import refresh
from . import _overrides
from ._objects import namespace_of, packet

_registrations: dict[str, Registration] = {}  # by the name of the generated package
OWN = "gradloom.generated"  # which needs no registration
RESERVED = frozenset(("define", "register", "aten", "prim", "gradloom"))


class Registration:
    """The operators of one generated package, registered.

    Attributes:
        namespace: its name under gradloom.ops.
        operators: their names.
        is_package: whether they come from an imported package rather than from `define`.
    """

    generated: str
    namespace: str
    is_package: bool

    def __init__(self, generated: str, namespace: str, is_package: bool = False) -> None:
        self.generated, self.namespace, self.is_package = generated, namespace, is_package
        self.operators: tuple[str, ...] = ()
        self._undo: list[Callable[[], None]] = []

    def remove(self) -> None:
        """Remove the operators and restore the derivatives of built-in operators. Idempotent."""
        while self._undo:
            self._undo.pop()()
        if _registrations.get(self.generated) is self:
            del _registrations[self.generated]
            refresh()

    def _put(self, holder: Any, name: str, value: object) -> None:
        """Set a new attribute; `remove` deletes it unless it has been replaced."""
        setattr(holder, name, value)
        of_packages.add((holder, name))

        def undo() -> None:
            if vars(holder).get(name) is value:
                delattr(holder, name)
                of_packages.discard((holder, name))

        self._undo.append(undo)

    def _insert(self, table: dict[str, Any], name: str, value: object) -> None:
        table[name] = value

        def undo() -> None:
            if table.get(name) is value:
                del table[name]

        self._undo.append(undo)


def register(generated: str) -> Registration:
    """Register the operators of a package that `gradloom generate` has written.

    Args:
        generated: the package's generated part: `__name__ + ".generated"` in its `__init__.py`.

    Returns:
        The registration; the same one if the package is registered already.

    Raises:
        RuntimeError: if the code was generated for another version of gradloom, or a name is taken: the namespace by
            another package, or a method of Tensor. Nothing is registered then.
    """
    known = _registrations.get(generated)
    if known is not None:
        return known
    try:
        root = import_module(generated)
    except ModuleNotFoundError as error:
        if error.name != generated:
            raise
        raise RuntimeError(f"there is no {generated}: run `gradloom generate` in the project of the package") from None
    _check_version(generated, root.GRADLOOM)
    if DEBUG:
        from ..diagnostics.debug_checks import add_folder

        add_folder(root.__path__)
    parts = {name: import_module(f"{generated}.{name}") for name in ("namespaces", "operators", "records")}
    overrides = import_module(f"{generated}.overrides") if _has(root, "overrides") else None
    other = next((r for r in _registrations.values() if r.namespace == root.NAMESPACE), None)
    if other is not None or root.NAMESPACE in RESERVED:
        owner = f"{other.generated} has it already" if other is not None else "it is gradloom's own"
        raise RuntimeError(
            f"{generated} cannot register the namespace gradloom.ops.{root.NAMESPACE}: {owner}. Choose "
            "another with `namespace = ...` below [tool.gradloom] in its pyproject.toml, and generate"
        )
    return bind(
        Registration(generated, root.NAMESPACE, True),
        parts["namespaces"],
        parts["operators"],
        parts["records"],
        overrides,
    )


def _has(root: ModuleType, name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(f"{root.__name__}.{name}") is not None


def _check_version(generated: str, version: str) -> None:
    """Raise unless the versions differ in the last number only: generated code calls private functions."""
    ours = gradloom.__version__
    if version.split(".")[:2] != ours.split(".")[:2]:
        raise RuntimeError(
            f"{generated} was generated for gradloom {version}, and this is gradloom {ours}: run "
            "`gradloom generate` in its project, or install a version of it that was made for this one"
        )


def bind(
    registration: Registration,
    generated: Any,
    operators: ModuleType,
    records: Any,
    overrides: Any = None,
    replaced: tuple[Registration, ...] = (),
) -> Registration:
    """Bind the operators that a `namespaces` module lists; everything is checked before the first name is bound.

    Args:
        registration: records how to undo it.
        generated: the `namespaces` module.
        operators: the module through which the package's operators call one another.
        records: the `records` module.
        overrides: the `overrides` module, if derivatives of built-in operators are replaced.
        replaced: registrations to remove first; their names count as free.

    Raises:
        RuntimeError: if a name is taken.
    """
    name = registration.namespace
    gone = {key for r in replaced for key in r.operators}
    taken = [f"Tensor.{m}" for m in generated.METHODS if m not in gone and has_attribute(Tensor, m)]
    taken += [f"gradloom.{f}" for f in generated.FUNCTIONS if f not in gone and has_attribute(gradloom, f)]
    if taken:
        raise RuntimeError(f"gradloom.ops.{name} cannot be registered: there is {taken[0]} already")
    for old in replaced:
        old.remove()
    for key, function in {**generated.OVERLOADS, **generated.OPERATORS}.items():
        registration._insert(vars(operators), key, function)
    registration.operators = tuple(generated.OPERATORS)
    table = vars(namespace_of(name))["_operators"]
    for operator, function in generated.OPERATORS.items():
        registration._insert(table, operator, packet(name, operator, records.RECORDS, function))
    for method, function in generated.METHODS.items():
        registration._put(Tensor, method, function)
    for function_name in generated.FUNCTIONS:
        registration._put(gradloom, function_name, generated.OPERATORS[function_name])
    if overrides is not None:
        registration._undo.append(_overrides.apply(overrides, registration.generated))
    _registrations[registration.generated] = registration
    refresh()
    return registration


def overload_of(wrapper: Any, out: bool = False) -> Any:
    """Return the operator object of a wrapper.

    Args:
        wrapper: a generated function, or a LibraryOperator.
        out: whether to return the overload that writes to `out`.

    Raises:
        LookupError: if it is not the wrapper of a registered operator.
    """
    own = getattr(wrapper, "overload", None)
    if own is not None:
        return own
    namespace, operator, overload = _place_of(wrapper, out)
    return getattr(getattr(namespace_of(namespace), operator), overload)


@lru_cache(8192)  # twice the number of wrappers
def _place_of(wrapper: Any, out: bool) -> tuple[str, str, str]:
    """Return the namespace, the operator and the overload of a wrapper. Raises LookupError."""
    record, package = record_of(wrapper), package_of(wrapper)
    registration = _registrations.get(package)
    if record is not None and (package == OWN or registration is not None):
        found = import_module(f"{package}.records").RECORDS.out_of(record) if out else record
        if found is not None:
            return "aten" if registration is None else registration.namespace, found.operator, found.overload
    raise LookupError(f"{wrapper} is not the wrapper of an operator in gradloom.ops")


def owner_of(namespace: str) -> Registration | None:
    """Return the imported package that owns a namespace; None for namespaces of `define` and free ones."""
    return next((r for r in _registrations.values() if r.namespace == namespace and r.is_package), None)


def registered() -> Mapping[str, Registration]:
    """Return the registrations by the name of the generated package."""
    return dict(_registrations)
