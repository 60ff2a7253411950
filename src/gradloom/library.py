"""Custom operators from Python functions: opaque for autograd, vmap and modes, with a schema and a derivative.

    @gradloom.library.custom_op("mylib::numpy_sin", mutates_args=())
    def numpy_sin(x: Tensor) -> Tensor:
        return gradloom.from_numpy(np.sin(x.numpy(force=True)))

    numpy_sin.register_autograd(backward, setup_context=setup_context)
    gradloom.ops.mylib.numpy_sin(x)

A function made of differentiable operators needs none of this, and an operator that YAML can express gets more from
`gradloom.ops.define`: forward mode, second derivatives, in-place and out variants.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ._library import registry
from ._library.custom_ops import OPDEFS, CustomOpDef, custom_op
from ._library.infer_schema import infer_schema
from ._library.opcheck import OpCheckError, get_ctx, opcheck
from ._library.operator import LibraryOperator
from .types.public import found_in as _found_in

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]

_defining: set[str] = set()  # namespaces with a Library of kind DEF


class Library:
    """A set of operators and kernels, registered until it is garbage-collected or `_destroy()` is called.

    Args:
        ns: the namespace: gradloom.ops.<ns>.
        kind: "DEF" to define the namespace, "FRAGMENT" to extend it, "IMPL" to register kernels of operators that are
            defined elsewhere.
        dispatch_key: the default of `impl`.

    Raises:
        ValueError: for another kind, and for the namespace `prim`.
        RuntimeError: if the namespace has another Library of kind DEF.
    """

    ns: str
    dispatch_key: str

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}. Write DEF, FRAGMENT or IMPL")
        if ns == "prim":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF":
            if ns in _defining or ns == "aten":
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}: there is "
                    'a Library of kind DEF for it already. Use Library(ns, "FRAGMENT") to define more '
                    'operators in it, or Library(ns, "IMPL") to register kernels'
                )
            _defining.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo: list[Callable[[], None]] = [lambda: _defining.discard(ns)] if kind == "DEF" else []
        self._finalizer = weakref.finalize(self, _take_back, self._undo)

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, without a kernel.

        Args:
            schema: `foo.overload(Tensor x, int n=2) -> Tensor`.
            alias_analysis: "" or "CONSERVATIVE"; it has no effect.
            tags: members of gradloom.Tag.

        Returns:
            The operator's name, without the namespace.

        Raises:
            RuntimeError: if the text is not a schema, the operator exists, or the Library is of kind IMPL.
        """
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{schema.partition("(")[0]}"): Cannot define an operator inside of a '
                "TORCH_LIBRARY_IMPL block: this Library is of kind IMPL. Make one of kind FRAGMENT"
            )
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        operator = registry.define(self.ns, schema, tags)
        self._undo.append(lambda: registry.remove(operator))
        return operator.name.partition("::")[2]

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a kernel; its operator may be defined later.

        Args:
            op_name: the operator's name with the overload (`foo.bar`), or its object.
            fn: the kernel; it takes the operator's arguments, without those equal to their defaults.
            dispatch_key: 'CPU', 'CompositeExplicitAutograd' (for all devices), 'CompositeImplicitAutograd' (made of
                differentiable operators; the default), 'Autograd' (records history), 'Meta' (shapes).
            with_keyset: only False: there are no sets of dispatch keys.
            allow_override: has no effect: an existing kernel is replaced with a warning.

        Raises:
            RuntimeError: for another dispatch key.
            TypeError: if `fn` is not callable.
            NotImplementedError: for built-in operators, and for with_keyset.
        """
        if with_keyset:
            raise NotImplementedError("gradloom has no sets of dispatch keys: register a kernel without with_keyset")
        name = op_name.name() if hasattr(op_name, "name") and callable(op_name.name) else op_name
        name = name if "::" in name else f"{self.ns}::{name}"
        if name.partition("::")[0] != self.ns:
            raise ValueError(f"this Library has the namespace {self.ns}, to which {name} does not belong")
        key = getattr(dispatch_key, "name", dispatch_key) or self.dispatch_key or "CompositeImplicitAutograd"
        self._undo.append(registry.set_kernel(name, key, fn))

    def _register_fake(self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1) -> None:
        register_fake(f"{self.ns}::{op_name}", fn)

    def _destroy(self) -> None:
        """Undo the definitions and registrations of this library. Idempotent."""
        self._finalizer()

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"


def _take_back(undo: list[Callable[[], None]]) -> None:
    while undo:
        undo.pop()()


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Yield a Library that is destroyed at the end of the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


_kept: list[Library] = []  # libraries of the functions below; they last as long as the process


def _library(lib: Library | None, namespace: str, kind: str = "FRAGMENT") -> Library:
    if lib is None:
        lib = Library(namespace, kind)
        _kept.append(lib)
    return lib


def define(qualname: Any, schema: Any, *, lib: Library | None = None, tags: Any = (), alias_analysis: str = "") -> Any:
    """Define an operator, without a kernel.

    Args:
        qualname: `mylib::foo`; with a Library instead, return a decorator for the operator's kernel.
        schema: `(Tensor x, int n=2) -> Tensor`.
        lib: the Library that owns the operator; without one it stays registered.
        tags: members of gradloom.Tag.
        alias_analysis: as for `Library.define`; only with a Library.

    Raises:
        ValueError: for a name without a namespace, or a schema with a name.
        RuntimeError: if the operator exists.
    """
    if isinstance(qualname, Library):

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(qualname.define(schema, alias_analysis, tags=tags), function)
            return function

        return wrap
    namespace, name = registry.parse_qualname(qualname)
    if not re.match(r"\s*\(.*\)\s*->", schema, re.DOTALL):
        raise ValueError(
            'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but '
            f'got "{schema}"'
        )
    _library(lib, namespace).define(name + schema.strip(), tags=tags)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Register a kernel; a decorator without `func`.

    Args:
        qualname: `mylib::foo`; or a Library, with the operator's name as `types` and a dispatch key as `func`.
        types: "cpu", "default" for all devices, a dispatch key, or several of them.
        func: the kernel; see `Library.impl`.
        lib: the Library that owns the kernel; without one it stays registered.

    Raises:
        RuntimeError: for an unknown device type.
        TypeError: if `func` is not callable.
    """
    if isinstance(qualname, Library):

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(types, function, func or "")
            return function

        return wrap
    namespace, _ = registry.parse_qualname(qualname)
    keys = {registry.key_of_device(t) for t in ((types,) if isinstance(types, str) else types)}

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in sorted(keys):
            _library(lib, namespace, "IMPL").impl(qualname, function, key)
        return function

    if func is None:
        return register
    register(func)
    return None


def _custom(op: Any) -> CustomOpDef | None:
    name = registry.qualified(op)
    return op if isinstance(op, CustomOpDef) else OPDEFS.get(name)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Register the kernel of an operator for some devices; a decorator without `func`.

    Args:
        op: `mylib::foo`, the operator's object, or a CustomOpDef.
        device_types: "cpu", or several; None for all devices.
        func: the kernel.
        lib: the Library that owns the kernel.
    """
    custom = _custom(op)
    if custom is not None:
        return custom.register_kernel(device_types, *(() if func is None else (func,)))
    return impl(registry.qualified(op), "default" if device_types is None else device_types, func, lib=lib)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Let autocast convert an operator's floating tensors, except float64, before the call.

    Args:
        op: `mylib::foo`, the operator's object, or a CustomOpDef.
        device_type: "cpu"; "cuda" has no effect.
        cast_inputs: the dtype.
        lib: the Library that owns the registration.

    Raises:
        ValueError: for an unknown device type.
        RuntimeError: if there is no such operator.
    """
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}: autocast knows cpu and cuda")
    if device_type == "cpu":
        _set(registry.find(op), "autocast_dtype", cast_inputs, lib)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Register a derivative for an operator of a library; see `CustomOpDef.register_autograd`.

    Args:
        op: `mylib::foo`, the operator's object, or a CustomOpDef.
        backward: `backward(ctx, *grads)`, a gradient for each argument.
        setup_context: `setup_context(ctx, inputs, output)` saves on `ctx` what backward needs.
        lib: the Library that owns the derivative.

    Raises:
        RuntimeError: if there is no such operator, or it writes to its arguments.
        NotImplementedError: for built-in operators.
    """
    custom = _custom(op)
    if custom is not None:
        custom.register_autograd(backward, setup_context=setup_context)
        return
    from ._library.autograd import Formula

    operator = registry.find(op)
    if operator.schema.is_mutable or operator.schema._is_view_op():
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator.name} with schema "
            f"{operator.schema}. Please create a functional operator and register an autograd formula "
            "for that."
        )
    if any(a.is_tensor_like and a.kwarg_only for a in operator.schema.arguments):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args. In the original definition of the op,"
            f" please make your tensors not kwarg-only. Got: {operator.schema}"
        )
    _set(operator, "formula", Formula(operator, operator.overload, backward, setup_context), lib)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Register a function that computes shape and dtype of an operator's results; a decorator without `func`.

    Args:
        op: `mylib::foo`, the operator's object, or a CustomOpDef.
        func: takes the operator's arguments and returns tensors of the right shape and dtype; `opcheck` compares.
        lib: the Library that owns the registration.
        allow_override: has no effect: a later function replaces an earlier one.

    Raises:
        RuntimeError: if there is no such operator, unless a library in C++, which may have it, could not be loaded.
    """
    operator = None if registry.may_be_refused(op) else registry.find(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if operator is not None:
            _set(operator, "fake", function, lib)
        return function

    return register if func is None else register(func)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None) -> Any:
    """Register a batching rule for vmap; a decorator without `func`.

    Args:
        op: `mylib::foo`, the operator's object, or a CustomOpDef.
        func: `func(info, in_dims, *args)` returns the results and their batch dimensions.
        lib: the Library that owns the registration.

    Raises:
        RuntimeError: if there is no such operator.
    """
    operator = registry.find(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _set(operator, "vmap_rule", function, lib)
        return function

    return register if func is None else register(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: type, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """Register a rule for an operator's calls that a subclass or a mode intercepts; a decorator without `func`.

    Args:
        op: `mylib::foo`, the operator's object, or a CustomOpDef.
        torch_dispatch_class: a Tensor subclass with `__torch_dispatch__`, or a TorchDispatchMode.
        func: `func(mode, func, types, args, kwargs)` for a mode, `func(func, types, args, kwargs)` for a subclass.
        lib: the Library that owns the registration.

    Raises:
        RuntimeError: if there is no such operator.
    """
    operator = registry.find(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator.dispatch_rules[torch_dispatch_class] = function
        if lib is not None:
            lib._undo.append(lambda: operator.dispatch_rules.pop(torch_dispatch_class, None) and None)
        return function

    return register if func is None else register(func)


def _set(operator: LibraryOperator, name: str, value: Any, lib: Library | None) -> None:
    """Set an attribute of an operator; a Library undoes it when it is destroyed."""
    setattr(operator, name, value)
    if lib is not None:
        lib._undo.append(lambda: setattr(operator, name, None) if getattr(operator, name) is value else None)


_found_in(__name__, custom_op, infer_schema, get_ctx, opcheck)
