"""Custom operators, made of Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..ops._schema import FunctionSchema, Tag, parse_schema
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
    """Make an operator of a function; autograd, transforms and modes treat it as opaque.

        @gradloom.library.custom_op("mylib::numpy_sin", mutates_args=())
        def numpy_sin(x: Tensor) -> Tensor:
            return gradloom.from_numpy(np.sin(x.numpy(force=True)))

    Args:
        name: `namespace::name`; the operator becomes gradloom.ops.<namespace>.<name> and replaces one of that name.
        fn: the function; omit it to use a decorator. It must not return an argument, nor anything that shares memory
            with one.
        mutates_args: the names of the arguments that it writes to; "unknown" for any.
        device_types: the devices that it is the kernel for, such as "cpu"; all by default.
        schema: `(Tensor x, *, int n=2) -> Tensor`; by default inferred from the annotations (`infer_schema`).
        tags: members of gradloom.Tag.

    Returns:
        A CustomOpDef, which is called like the function.

    Raises:
        ValueError: if the name or annotations are not of that form, or the schema differs from mutates_args.
        NotImplementedError: if there are keyword-only tensors, which cannot have gradients.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        namespace, short = registry.parse_qualname(name)
        if schema is None:
            text = infer_schema(function, mutates_args=mutates_args, op_name=short)
        else:
            text = short + schema.strip()
            _check_mutates(schema, text, mutates_args)
        given = (tags,) if isinstance(tags, (Tag, str)) else tags or ()
        return CustomOpDef(namespace, short, text, function, (Tag.pt2_compliant_tag, *given), device_types)

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
    """An operator that `custom_op` made; call it like its function."""

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
        """Register another kernel for some devices; a decorator without `fn`.

        Args:
            device_types: "cpu", or several; None for all without a kernel of their own. Kernels for absent devices are
                stored and never called.
            fn: the function, with the signature of the first one.
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
        """Enable or disable a device's kernel within this context; while it is disabled, the first function is called.

        Args:
            device_type: "cpu".
            enabled: whether the kernel is called.
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
        """Register a derivative.

        Args:
            backward: `backward(ctx, *grads)` takes a gradient for each result and returns one for each argument, None
                where there is none, and a list for a list of tensors. It should be made of differentiable operators.
            setup_context: `setup_context(ctx, inputs, output)` saves on `ctx` what backward needs. With keyword-only
                arguments it is `setup_context(ctx, inputs, keyword_only_inputs, output)`.

        Raises RuntimeError if the operator writes to its arguments.
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
        """Register a function that computes shape and dtype of the results.

        Args:
            fn: takes the operator's arguments and returns tensors of the right shape and dtype, with any values.
                `opcheck` compares it with the kernel.
        """
        self._operator.fake = fn
        return fn

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register a batching rule for vmap; a decorator without `func`.

        Args:
            func: `func(info, in_dims, *args)` returns the results and their batch dimensions (None where there is
                none); `info.batch_size` and `info.randomness` are the batch size and vmap's randomness.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.vmap_rule = function
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Let autocast convert the operator's floating tensors, except float64, before the call.

        Args:
            device_type: "cpu"; "cuda" has no effect.
            cast_inputs: the dtype.

        Raises ValueError if it is not a device.
        """
        if device_type not in ("cpu", "cuda"):
            raise ValueError(f"Unknown device type: {device_type}: autocast knows cpu and cuda")
        if device_type == "cpu":
            self._operator.autocast_dtype = cast_inputs

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register a rule for calls that a subclass or a mode intercepts; a decorator without `fn`.

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
