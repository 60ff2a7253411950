"""Tensor: an array with a place in the autograd graph.

Note [Tensor layout]
Wrappers make a result with `object.__new__(Tensor)` and three stores. So every tensor has three slots; all other
attributes are class attributes with a default until they are set:

    _array   the ndarray; its base chain is the storage, its dtype the dtype. Never a NumPy scalar
    _edge    where its gradient goes; see Note [Edges]
    _vc      None, or the version counter shared with its views and saved variables: a list of one int

Operators become methods when `gradloom.binding.operators` runs. `TensorBase` in tensor_base.py has the methods that
need only the array (sizes, strides, memory, values). This file has the rest: autograd, and what calls operators.
"""

from __future__ import annotations

import builtins
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np
from numpy import ndarray

from ..dispatch import _operators
from ..dispatch.overloads.types import check_whole
from ..dispatch.state import INFERENCE, disabled_torch_dispatch, disabled_torch_function, state
from ..types import Number
from ..types.absent import AbsentMember
from ..types.device import CPU, device as _device, layout as _layout, strided
from ..types.dtype import TYPE_OF, legacy_type_name
from ..types.public import found_in
from ..types.silence import silence, warn_user
from . import late
from .attributes import COLD, OwnAttributes, copy_fields, fields, keep_cold_apart
from .edge import gradient_edge
from .node import NO_EDGE, as_pair, bump_version
from .tensor_base import TensorBase

if TYPE_CHECKING:
    from ..types import DType
    from ..types.dtype import dtype as _dtype
    from .node import Node, RemovableHandle

    _Subclass = TypeVar("_Subclass", bound="Tensor")

new = object.__new__


class Tensor(TensorBase):
    """A multi-dimensional array of one dtype that autograd can differentiate through, as in PyTorch."""

    # The cold fields: COLD in attributes.py has their names, too.
    _view: Any = None  # ViewMeta of a view
    _accumulator: Any = None  # weak reference to the leaf's AccumulateGrad
    _grad: Tensor | None = None
    _grad_dtype: Any = None  # a tuple: the NumPy dtype that `grad` must have, or None for any
    _tangent: Any = None  # forward-mode tangent
    _post_accumulate_grad_hooks: Any = None
    _wrapped_number: Number | None = None  # the Python number behind this tensor, which promotes weakly
    _retains_grad = False
    _detachments = 0  # how often detach_() removed its history
    _inference: Any = False  # 2 if it has a version nevertheless: see mark_detached_inference
    _name: str | None = None
    _backward_hooks: Any = None  # hooks on this tensor's gradient: those of its node, or, for a leaf, its own
    _operand = TensorBase._array  # the name under which wrappers read the array; see Note [Interception]
    __array_priority__: int = 1000  # makes NumPy defer binary operators to us
    device: _device = CPU
    layout: _layout = strided
    is_sparse: bool = False
    is_cuda: bool = False
    is_mps: bool = False
    is_meta: bool = False
    is_quantized: bool = False
    is_mkldnn: bool = False
    is_nested: bool = False
    is_xpu: bool = False
    is_vulkan: bool = False
    is_cpu: bool = True
    is_sparse_csr = is_ipu = is_maia = is_mtia = is_xla = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return late.legacy_tensor(cls, args, kwargs)

    __torch_dispatch__: Any = staticmethod(disabled_torch_dispatch)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_cold_apart(cls, Tensor)
        if cls.__dict__.get("__module__", "").startswith("gradloom.") and "__torch_function__" not in cls.__dict__:
            # Public functions treat gradloom's own subclasses as plain tensors.
            cls.__torch_function__ = disabled_torch_function  # type: ignore[method-assign, assignment]
        elif cls.__dict__.get("__torch_dispatch__", disabled_torch_dispatch) is not disabled_torch_dispatch and (
            getattr(cls.__torch_function__, "__func__", None) is Tensor.__torch_function__.__func__
        ):
            # As in PyTorch: what overrides operators decides about the classes of results there.
            cls.__torch_function__ = disabled_torch_function  # type: ignore[method-assign, assignment]
        elif cls.__torch_function__ is not disabled_torch_function:
            late.add_function_subclass(cls)
        if "__torch_dispatch__" in cls.__dict__:
            late.add_dispatch_subclass(cls)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[builtins.type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function and convert its result to this class: the default override of subclasses.

        Args:
            func: the public function that was called.
            types: the classes among its arguments that override functions.
            args, kwargs: its arguments.

        Returns:
            The result; NotImplemented if one of `types` is unrelated to this class.
        """
        return late.preserve_class(cls, func, types, args, kwargs or {})

    # --- tensors made of this one -----------------------------------------------------------------------------

    def new_tensor(self, data: Any, **options: Any) -> Tensor:
        """Return a new leaf with a copy of `data`, as `gradloom.tensor` does, by default of this tensor's dtype."""
        return late.new_tensor(self, data, **options)

    def new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return a new tensor of this dtype from sizes or data; PyTorch's old constructor."""
        return late.legacy_tensor(Tensor, args, kwargs, self.dtype)

    def conj(self) -> Tensor:
        """Return the complex conjugate, or a real tensor itself. Written by hand because most formulas call it."""
        return _operators._conj(self) if self._array.dtype.kind == "c" else self

    @overload
    def type(self, dtype: None = None, non_blocking: bool = False) -> str: ...

    @overload
    def type(self, dtype: DType | str, non_blocking: bool = False) -> Tensor: ...

    def type(self, dtype: DType | str | None = None, non_blocking: bool = False) -> str | Tensor:
        """Return the legacy type name, or a copy converted to `dtype` (a dtype or a legacy name).

        Args:
            non_blocking: has no effect: there is one device.
        """
        if dtype is None:
            return legacy_type_name(self.dtype)
        return _operators.to(self, late.parse_type(dtype))

    # --- autograd ---------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Return whether autograd records operations on this tensor. May be set on leaves of a floating or complex
        dtype.

        Raises:
            RuntimeError: when it is set on another tensor.
        """
        edge = self._edge
        if edge is None:
            view = self._view
            return view is None or view.requires_grad
        return edge is not NO_EDGE

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        edge, view = self._edge, self._view
        if value and edge is None and view is None and not self._inference:
            return
        if self._last_edge[0] is not None:
            hint = (
                ""
                if value
                else (
                    " If you want to use a computed variable in a subgraph that doesn't require "
                    "differentiation use var_no_grad = var.detach()."
                )
            )
            raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{hint}")
        if value and self._array.dtype.kind not in "fcV":
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if value and self._inference and not state.flags & INFERENCE:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if value and state.func_level is not None:
            state.func_level.made(self)
        if view is not None:
            view.is_own_leaf = value and view.edge is NO_EDGE
            accumulator = self._accumulator and self._accumulator()
            if accumulator:  # existing graphs end in it; it adds to `grad` only while the tensor requires grad
                accumulator.variable = self if value else self._detached_alias()
        else:
            self._edge = None if value else NO_EDGE

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set requires_grad of a leaf in place."""
        if not isinstance(requires_grad, bool):
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{type(requires_grad).__name__}"
            )
        if requires_grad and self._array.dtype.kind not in "fcV":
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        view = self._view
        if not (requires_grad and self.requires_grad) or self._inference:
            self.requires_grad = requires_grad
        elif view is not None and view.edge is NO_EDGE:  # required grad through its base; now does itself
            view.is_own_leaf = True
        return self

    @property
    def is_leaf(self) -> bool:
        """Return whether this tensor was not made by a recorded operation."""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made this tensor; None for leaves."""
        edge = self._edge
        if edge is None:
            if self._view is None:
                return None
            edge = self._view.history(self)
        return edge[0] if type(edge) is tuple else edge

    @property
    def output_nr(self) -> int:
        """The number of this tensor among the outputs of its node."""
        return self._last_edge[1]

    @property
    def _last_edge(self) -> Any:
        """The edge of the node that made this tensor, as a pair; a view's may be from before its base was written."""
        edge = self._edge
        if edge is None:
            edge = NO_EDGE if self._view is None else self._view.edge
        return as_pair(edge)

    @property
    def _grad_fn(self) -> Node | None:
        """`grad_fn`; may be set to None, which detaches the tensor."""
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError("_grad_fn can be only set to None")
        self.detach_()

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def volatile(self) -> bool:
        """False: removed from PyTorch, like its effect; `no_grad` replaces it."""
        warn_user("volatile was removed (Variable.volatile is always False)")
        return False

    @volatile.setter
    def volatile(self, value: object) -> None:
        warn_user("volatile was removed and now has no effect. Use `with gradloom.no_grad():` instead.")

    @property
    def _cdata(self) -> int:
        """A number that no other living tensor has."""
        return id(self)

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by backward, for a leaf or after `retain_grad()`; None before.

        May be set to a Tensor of this tensor's shape and dtype, or None.
        """
        if self._grad is None and not self._retains_grad and self._last_edge[0] is not None:
            warn_user(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
                "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
                "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if self.is_sparse and not value.is_sparse:
                raise RuntimeError("attempting to assign a gradient to a tensor that has data of a different type")
            wanted = self._array.dtype if self._grad_dtype is None else self._grad_dtype[0]
            if wanted is not None and value._array.dtype != wanted:
                from .gradient_checks import grad_dtype_message

                raise RuntimeError(grad_dtype_message(value._array.dtype, wanted))
            if value._array.shape != self._array.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value._array.shape)}' to a tensor "
                    f"of size '{list(self._array.shape)}'. Please ensure that the gradient and the "
                    "tensor are the same size"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def grad_dtype(self) -> _dtype | None:
        """The dtype of the gradient: that of the tensor unless another was set; None for any. It may be set on leaves.

        Raises:
            RuntimeError: when set on a tensor that is not a leaf, or to another dtype than the present gradient's.
        """
        if not self.is_leaf:
            node, nr = as_pair(gradient_edge(self))
            found = node.input_metadata[2 * nr + 1]
            return None if found is None else TYPE_OF[found]
        if self._grad_dtype is None:
            return self.dtype
        return TYPE_OF[self._grad_dtype[0]] if self._grad_dtype[0] is not None else None

    @grad_dtype.setter
    def grad_dtype(self, value: _dtype | None) -> None:
        from .gradient_checks import set_grad_dtype

        set_grad_dtype(self, value)

    @property
    def data(self) -> Tensor:
        """The same memory, without history and without a shared version counter."""
        if self._array.__class__ is not ndarray:
            return _operators.detach(self)
        out = wrap(self._array)
        if self._inference:
            from .variants import mark_detached_inference

            mark_detached_inference(out)
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if value.is_meta != self.is_meta:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                "type."
            )
        if value._array.dtype != self._array.dtype:
            if self.requires_grad and value._array.dtype.kind not in "fcV":
                raise RuntimeError(
                    "data set to a tensor that requires gradients must be floating point or complex dtype"
                )
            self._accumulator = None  # AccumulateGrad is made again for the new dtype
        self._array = value._array

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @property
    def _version(self) -> int:
        if self._inference is True:
            raise RuntimeError("Inference tensors do not track version counter.")
        counter = self._vc
        return 0 if counter is None else counter[0]

    @property
    def _base(self) -> Tensor | None:
        return self._view.base if self._view is not None else None

    def _is_view(self) -> bool:
        return self._view is not None

    def is_inference(self) -> bool:
        """Return whether this tensor was made in inference mode."""
        return bool(self._inference)

    @property
    def retains_grad(self) -> bool:
        """Return whether `retain_grad()` was called on this non-leaf."""
        return self._retains_grad

    @property
    def name(self) -> str | None:
        """None: tensors have no names."""
        return self._name

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Add to `.grad` of every leaf (or of `inputs`) the derivative of this tensor times `gradient`.

        Args:
            gradient: Tensor of this tensor's shape; optional for a tensor of one element.
            retain_graph: keep saved tensors (default: the value of create_graph).
            create_graph: record the backward pass, for higher derivatives.
            inputs: Tensors to accumulate into, instead of all leaves.

        Raises:
            RuntimeError: if this tensor does not require grad, the gradient's shape differs, or the graph was freed.
        """
        late.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad` when backward runs."""
        from .hooks import retain_grad

        retain_grad(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(grad)` when this tensor's gradient is computed; a returned Tensor replaces it.

        Returns:
            A handle whose `remove()` takes the hook away.
        """
        from .hooks import register_hook

        return register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call `hook(tensor)` after each addition to this leaf's `.grad`."""
        from .hooks import register_post_accumulate_grad_hook

        return register_post_accumulate_grad_hook(self, hook)

    # --- aliases without history --------------------------------------------------------------------------------

    def _detached_alias(self) -> Tensor:
        """Return an alias with the same memory and version counter, without history."""
        out = new(Tensor)
        out._array = self._array
        out._edge = NO_EDGE
        counter = self._vc
        if counter is None:
            counter = self._vc = [0]
        out._vc = counter
        return out

    def _leaf_reference(self) -> Any:
        """Return a weak reference to the AccumulateGrad of a leaf that requires grad, else None."""
        if self._edge is None and self._view is None:
            gradient_edge(self)
            return self._accumulator
        return None

    @staticmethod
    def _make_subclass(cls: builtins.type[_Subclass], data: Tensor, require_grad: bool = False) -> _Subclass:
        """Return a tensor of class `cls` on the memory of `data`; how Parameter is made."""
        out = new(late.class_for(cls, data) if data.is_meta or cls.is_meta is True else cls)
        out._array = data._array
        if data._vc is None:
            data._vc = [0]
        out._vc = data._vc
        out._edge = NO_EDGE
        if data._inference:
            out._inference = True
        if require_grad:
            out.requires_grad = True
        return out

    @staticmethod
    def _make_wrapper_subclass(
        cls: builtins.type[_Subclass],
        size: Sequence[int],
        strides: Sequence[int] | None = None,
        storage_offset: int | None = None,
        **options: Any,
    ) -> _Subclass:
        """Return a tensor of class `cls` with a shape and a dtype but no values; `cls.__torch_dispatch__` handles it.

        Args:
            size: the shape.
            strides: in elements; those of contiguous memory by default.
            storage_offset: has no effect.
            options: dtype (the default dtype by default), device and layout, requires_grad.

        Raises TypeError if the class has no `__torch_dispatch__`.
        """
        return late.make_wrapper_subclass(cls, size, strides, storage_offset, **options)

    def as_subclass(self, cls: builtins.type[_Subclass]) -> _Subclass:
        """Return the same data as an instance of the Tensor subclass `cls`, differentiably."""
        if not isinstance(cls, builtins.type):
            raise TypeError(f"cls must be a type (got {cls.__class__.__name__})")
        alias = _operators.alias(self)
        out = new(late.class_for(cls, self) if self.is_meta or cls.is_meta is True else cls)
        out._array, out._edge, out._vc = alias._array, alias._edge, alias._vc
        copy_fields(alias, out)
        return out

    if not TYPE_CHECKING:  # type checkers would take it for the class's, too

        @property
        def __dict__(self) -> dict[str, Any]:
            """The attributes that programs gave this tensor, without gradloom's own fields, also those set later."""
            return OwnAttributes(fields(self))

        @__dict__.setter
        def __dict__(self, attributes: dict[str, Any]) -> None:
            everything = fields(self)
            cold = {name: value for name, value in everything.items() if name in COLD}
            new = {**attributes, **cold}  # before the dictionary is cleared, which may be `attributes` itself
            everything.clear()
            everything.update(new)

    # --- Python's protocols ---------------------------------------------------------------------------------------

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
        """Convert the result of a NumPy function on tensors."""
        array = np.asarray(array)
        return wrap(array.view(np.uint8) if array.dtype.kind == "b" else array)

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        """Return the tensor with its first dimension in reverse."""
        return self.flip(0) if self._array.ndim else self

    def __contains__(self, element: Tensor | Number) -> bool:
        if isinstance(element, (Tensor, numbers.Number)):
            equal: Any = element == self
            return bool(equal._array.any())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return late.tensor_text(self, tensor_contents)

    def __format__(self, spec: str) -> str:
        return self.item().__format__(spec) if not self._array.ndim else object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return late.deepcopy_tensor(self, memo)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return late.reduce_tensor(self)

    def __dir__(self) -> list[str]:
        hidden = {"_array", "_vc", *(n for n, member in vars(TensorBase).items() if isinstance(member, AbsentMember))}
        return [n for n in super().__dir__() if n not in hidden]


found_in("gradloom", Tensor)


def wrap(array: np.ndarray) -> Tensor:
    """Return a tensor without history on an ndarray (or NumPy scalar)."""
    out = new(Tensor)
    out._array = array if array.__class__ is ndarray else np.asarray(array)
    out._edge = NO_EDGE
    out._vc = None
    return out


_REAL = frozenset((int, float))
# Tensors of floats and ints beside floating tensors, by the other operand's dtype and the number: programs repeat their
# numbers, and the nodes that save one then share an object, which the cycle collector visits once. One in eight numbers
# that are not there is added, so that numbers which never come again cost little.
_FLOATS: dict[str, dict[float, Tensor]] = {char: {} for char in "fdFD"}
_INTS: dict[str, dict[int, Tensor]] = {char: {} for char in "fdFD"}
_MOST_KNOWN = 128  # of one class beside one dtype
_unknown = 0  # how many were not there


def wrapped_number(value, like=None) -> Tensor:
    """Return a 0-dim tensor for a Python number, which does not widen the other operand's dtype.

    Args:
        value: bool, int, float or complex.
        like: the other operand; if it is floating, its dtype is used, so that no promotion is needed.

    Returns:
        A tensor that must not be written to: the same number may get it again.

    Raises OverflowError for an int of more than 64 bits.
    """
    global _unknown
    kind = value.__class__
    array = known = None
    if like is not None:
        other = like._array.dtype
        char = other.char  # no half precision: operators must not round the number to it (Note [Type promotion])
        if type(value) is float:  # what stands for a number in the compiler says that it is one, but is not known
            known = _FLOATS.get(char)
        elif type(value) is int:
            known = _INTS.get(char)
        if known is not None:
            out = known.get(value)
            if out is not None:
                return out
            if kind is int:
                check_whole(value)
            array = np.array(value, other)
        elif char in "FD" and kind is not bool or char in "fd" and kind in _REAL:  # some operators refuse bool
            array = np.array(value, other)
    if array is None:
        if type(value) is int:
            check_whole(value)
        array = np.array(value, (np.int64 if value < 1 << 63 else np.uint64) if kind is int else None)
    out = new(Tensor)
    out._array = array
    out._edge = NO_EDGE
    out._vc = None
    out._wrapped_number = value
    if known is not None:
        _unknown += 1
        if not _unknown & 7 and (value or kind is int):  # 0.0 equals -0.0
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[value] = out
    return out


_operators.Tensor = Tensor
_operators.wrap = wrap
_operators.bump_version = bump_version
__all__ = ["Tensor", "wrap", "wrapped_number"]


silence(globals())
