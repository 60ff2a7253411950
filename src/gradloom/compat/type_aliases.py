"""The names of PyTorch's `torch.types`, for annotations; `gradloom.types` gives them away."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias, Union

import gradloom as gl
from gradloom import Size as Size, SymBool as SymBool, SymFloat as SymFloat, SymInt as SymInt, Tensor as Tensor

from ..storage import UntypedStorage as Storage

__all__ = ["BoolLikeType", "FileLike", "FloatLikeType", "IntLikeType", "PySymType", "Storage", "py_sym_types"]

_int, _float, _bool, _complex, _str, _bytes = int, float, bool, complex, str, bytes
_device, _dtype, _layout = gl.device, gl.dtype, gl.layout
_qscheme: Any = type("qscheme", (), {"__module__": "gradloom", "__doc__": "The type of schemes of quantization."})
_size: TypeAlias = gl.Size | list[builtins.int] | tuple[builtins.int, ...]
_Number = (int, float, bool)
_symsize: TypeAlias = gl.Size | Sequence[builtins.int | gl.SymInt]
_dispatchkey: TypeAlias = builtins.str
_TensorOrTensors: TypeAlias = gl.Tensor | Sequence[gl.Tensor]
_TensorOrOptionalTensors: TypeAlias = gl.Tensor | Sequence[gl.Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
IntLikeType: TypeAlias = builtins.int | gl.SymInt
FloatLikeType: TypeAlias = builtins.float | gl.SymFloat
BoolLikeType: TypeAlias = builtins.bool | gl.SymBool
PySymType: TypeAlias = gl.SymInt | gl.SymFloat | gl.SymBool
py_sym_types = (gl.SymInt, gl.SymFloat, gl.SymBool)
FileLike: TypeAlias = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007  (programs ask for its arguments)
