"""Custom operators: Python functions that are operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..ops._schema import FunctionSchema, parse_schema
from . import registry
from .autograd import Formula
from .infer_schema import infer_schema
from .operator import LibraryOperator

OPDEFS: dict[str, CustomOpDef] = {}


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Make an operator of a function: opaque for autograd, transforms and modes, which do not look inside.

        @gradloom.library.custom_op("mylib::numpy_sin", mutates_args=())
        def numpy_sin(x: Tensor) -> Tensor:
            return gradloom.from_numpy(np.sin(x.numpy(force=True)))

    Args:
        name: `namespace::name`; it is gradloom.ops.<namespace>.<name> then. One of that name is replaced.
        fn: the function; without it, what is returned takes it, as a decorator. It must not return an argument, nor
            anything that shares memory with one.
        mutates_args: the names of the arguments that it writes to; "unknown" for any.
        device_types: for which devices it is the kernel, "cpu"; for all by default.
        schema: `(Tensor x, *, int n=2) -> Tensor`; by default it is read from the annotations (`infer_schema`).
        tags: members of gradloom.Tag.

    Returns:
        A CustomOpDef, which is called as the function is.

    Raises:
        ValueError: for a name or annotations that are not of that form, or a schema that differs from mutates_args.
        NotImplementedError: for keyword-only tensors, which could have no gradients.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        namespace, short = registry.parse_qualname(name)
        if schema is None:
            text = infer_schema(function, mutates_args=mutates_args, op_name=short)
        else:
            text = short + schema.strip()
            _check_mutates(schema, text, mutates_args)
        return CustomOpDef(namespace, short, text, function, tags or (), device_types)

    return make if fn is None else make(fn)


def _check_mutates(schema: str, text: str, mutates_args: str | Iterable[str]) -> None:
    if mutates_args == "unknown":
        return
    if not schema.strip().startswith("("):
        raise ValueError(
            f'custom_op(..., schema=...): expected schema to look like e.g. "(Tensor x) -> Tensor", '
            f'without the name, but got "{schema}"'
        )
    written = {a.name for a in parse_schema(text).arguments if a.is_write}
    if written != set(mutates_args):
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}`. "
            f"The schema suggests that the op mutates {written or 'nothing'}, which is different from "
            "what was provided to us in `mutates_args`. Please make these consistent."
        )


class CustomOpDef:
    """An operator that `custom_op` made; call it as the function that it was made of."""

    def __init__(
        self,
        namespace: str,
        name: str,
        schema: str,
        fn: Callable[..., Any],
        tags: Iterable[Any] = (),
        device_types: str | Sequence[str] | None = None,
    ) -> None:
        parsed = parse_schema(schema)
        for argument in parsed.arguments:
            if argument.kwarg_only and argument.is_tensor_like:
                raise NotImplementedError(
                    f"custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {schema}"
                )
        self._namespace, self._name, self._qualname = namespace, name, f"{namespace}::{name}"
        self._init_fn = fn
        self._backend_fns: dict[str | None, Callable[..., Any]] = {}
        self._backward_fn: Callable[..., Any] | None = None
        self._setup_context_fn: Callable[..., Any] | None = None
        self._disabled: set[str] = set()
        before = OPDEFS.pop(self._qualname, None)
        self._operator: LibraryOperator = registry.define(namespace, schema, tags, replace=before is not None)
        self._opoverload = self._operator.overload
        self._operator.is_custom = True
        self._operator.__doc__ = fn.__doc__
        self._operator.formula = Formula(self._operator, self._opoverload, None, None)
        self.__doc__, self.__name__, self.__wrapped__ = fn.__doc__, getattr(fn, "__name__", name), fn
        self.register_kernel(device_types)(fn)
        OPDEFS[self._qualname] = self

    @property
    def _schema(self) -> FunctionSchema:
        return self._operator.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """Give the operator another kernel for some devices; a decorator without `fn`.

        Args:
            device_types: "cpu", or several; None for all that have none of their own. Kernels for devices that are not
                here are kept and never called.
            fn: the function; it takes and returns what the first one does.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for device in (device_types,) if device_types is None or isinstance(device_types, str) else device_types:
                self._backend_fns[device] = function
            self._choose_kernel()
            return function

        return register if fn is None else register(fn)

    def _choose_kernel(self) -> None:
        kernels = self._operator.kernels
        kernels.pop("CPU", None)
        for device, key in ((None, "CompositeExplicitAutograd"), ("cpu", "CPU")):
            if device in self._backend_fns and not (device == "cpu" and "cpu" in self._disabled):
                kernels[key] = self._backend_fns[device]
        if "cpu" in self._disabled and not kernels:
            kernels["CPU"] = self._init_fn

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within this context the kernel that was registered for a device is on, or off: then the first one is called.

        Args:
            device_type: "cpu".
            enabled: on or off.
        """
        before = set(self._disabled)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        self._choose_kernel()
        try:
            yield
        finally:
            self._disabled = before
            self._choose_kernel()

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Give the operator a derivative.

        Args:
            backward: `backward(ctx, *grads)` takes a gradient for each result and returns one for each argument, None
                where there is none; for a list of tensors, a list. It should be made of operators, to be
                differentiable itself.
            setup_context: `setup_context(ctx, inputs, output)` keeps on `ctx` what backward needs. Where there are
                keyword-only arguments it is `setup_context(ctx, inputs, keyword_only_inputs, output)`.

        Raises:
            RuntimeError: for an operator that writes to its arguments.
        """
        if self._schema.is_mutable or self._schema._is_view_op():
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._schema}. Please create a functional operator and register an autograd formula "
                "for that."
            )
        self._backward_fn, self._setup_context_fn = backward, setup_context
        self._operator.formula = Formula(self._operator, self._opoverload, backward, setup_context)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Say how shape and dtype of the results follow from the arguments.

        Args:
            fn: takes the operator's arguments and returns tensors of the right shape and dtype, whatever is in them.
                `opcheck` compares it with the kernel.
        """
        self._operator.fake = fn
        return fn

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Say what the operator makes of batches, for vmap; a decorator without `func`.

        Args:
            func: `func(info, in_dims, *args)` returns the results and their batch dimensions (None where there is
                none); `info.batch_size` and `info.randomness` are the size of the batch and vmap's randomness.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.vmap_rule = function
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Let autocast convert the operator's floating tensors (but float64) before it is called.

        Args:
            device_type: "cpu"; another one has no effect.
            cast_inputs: the dtype.

        Raises:
            ValueError: for what is no device.
        """
        if device_type not in ("cpu", "cuda"):
            raise ValueError(f"Unknown device type: {device_type}: autocast knows cpu and cuda")
        if device_type == "cpu":
            self._operator.autocast_dtype = cast_inputs

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /) -> Any:
        """Say what becomes of calls that a subclass or a mode sees; a decorator without `fn`.

        Args:
            torch_dispatch_class: a Tensor subclass with `__torch_dispatch__`, or a TorchDispatchMode.
            fn: `fn(mode, func, types, args, kwargs)` for a mode, `fn(func, types, args, kwargs)` for a subclass.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.dispatch_rules[torch_dispatch_class] = function
            return function

        return register if fn is None else register(fn)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"
