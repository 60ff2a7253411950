"""Legacy tensor classes: `FloatTensor([1, 2])`, `LongTensor(2, 3)`, `isinstance(x, DoubleTensor)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..tensors.construction import legacy_tensor
from ..types.dtype import ALL, WITH_CLASSES, dtype, legacy_type_name, set_default_dtype
from ..types.public import found_in as _found_in


class _TensorType(type):
    """Metaclass of the legacy classes: calling one makes a Tensor of its dtype, which is then an instance of it."""

    dtype: dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy_tensor(Tensor, args, kwargs, cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and not instance.is_sparse

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


if TYPE_CHECKING:  # for annotations; `tensor_type` makes them on first use

    class FloatTensor(Tensor): ...

    class DoubleTensor(Tensor): ...

    class HalfTensor(Tensor): ...

    class BFloat16Tensor(Tensor): ...

    class ByteTensor(Tensor): ...

    class CharTensor(Tensor): ...

    class ShortTensor(Tensor): ...

    class IntTensor(Tensor): ...

    class LongTensor(Tensor): ...

    class BoolTensor(Tensor): ...


def set_default_tensor_type(t: type | str) -> None:
    """Make the dtype of a class such as FloatTensor, or of its name "torch.FloatTensor", the default dtype. Prefer
    set_default_dtype.

    Raises TypeError if it is not a floating-point class.
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    wanted = next((d for d in ALL if legacy_type_name(d).rpartition(".")[2] == name.rpartition(".")[2]), None)
    if wanted is None:
        raise TypeError(f"invalid type object: {t!r} is not a tensor type such as torch.FloatTensor")
    set_default_dtype(wanted)


def tensor_type(name: str) -> Any:
    """Return the legacy class with this name, such as "FloatTensor"; None if there is none."""
    for found in WITH_CLASSES:
        if legacy_type_name(found) == f"torch.{name}":
            doc = f"Makes tensors of type {found}."
            return _TensorType(name, (), {"dtype": found, "__module__": Tensor.__module__, "__doc__": doc})
    return None


_found_in("gradloom", set_default_tensor_type)
