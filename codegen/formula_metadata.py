"""What a formula may ask of a tensor besides operators: its shape, dtype and the like.

PyTorch's own formulas spell these in C++ (`self.sym_sizes()`, `self.scalar_type()`); those spellings are
understood and written as Python's in the generated code. Each kind of metadata knows how PyTorch names the
field that keeps it in a node, because `_saved_<field>` is public.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .formula_scope import Kind
from .schema import Base, List, Type

_INT, _INTS, _DTYPE = Base("int"), List(Base("int")), Base("ScalarType")


@dataclass(frozen=True, slots=True)
class Metadata:
    """One kind of metadata.

    Attributes:
        suffix: of the field that keeps it: `self_sym_sizes`.
        read: the Python expression for it, with `{}` for the tensor.
        kind, type: of its value.
        is_public: whether PyTorch shows the field as `_saved_<field>`; it is then kept even if the tensor is,
            too.
    """

    suffix: str
    read: str
    kind: Kind
    type: Type
    is_public: bool = False


SIZES = Metadata("sym_sizes", "{}.shape", Kind.NUMBERS, _INTS, True)
STRIDES = Metadata("sym_strides", "{}.stride()", Kind.NUMBERS, _INTS, True)
NUMEL = Metadata("sym_numel", "{}.numel()", Kind.NUMBER, _INT, True)
DIM = Metadata("dim", "{}.dim()", Kind.NUMBER, _INT, True)
OFFSET = Metadata("sym_storage_offset", "{}.storage_offset()", Kind.NUMBER, _INT)
DTYPE = Metadata("scalar_type", "{}.dtype", Kind.DTYPE, _DTYPE)
DEVICE = Metadata("device", "{}.device", Kind.OTHER, Base("Device"))
LAYOUT = Metadata("layout", "{}.layout", Kind.OTHER, Base("Layout"))

# Attributes and methods without arguments, and what follows the metadata where they say less than it.
_ATTRIBUTES = {
    "shape": (SIZES, ""), "dtype": (DTYPE, ""), "device": (DEVICE, ""), "layout": (LAYOUT, ""),
    "ndim": (DIM, ""), "itemsize": (DTYPE, ".itemsize"),
}  # fmt: skip
_METHODS = {
    "size": (SIZES, ""), "sizes": (SIZES, ""), "sym_sizes": (SIZES, ""),
    "stride": (STRIDES, ""), "strides": (STRIDES, ""), "sym_strides": (STRIDES, ""),
    "numel": (NUMEL, ""), "sym_numel": (NUMEL, ""), "nelement": (NUMEL, ""),
    "dim": (DIM, ""), "ndimension": (DIM, ""),
    "storage_offset": (OFFSET, ""), "sym_storage_offset": (OFFSET, ""),
    "scalar_type": (DTYPE, ""), "element_size": (DTYPE, ".itemsize"),
    "is_complex": (DTYPE, ".is_complex"), "is_floating_point": (DTYPE, ".is_floating_point"),
}  # fmt: skip
_INDEXED = {"size": SIZES, "sym_size": SIZES, "stride": STRIDES, "sym_stride": STRIDES}

# What is neither metadata nor an operator: attributes that give tensors, and methods.
TENSOR_ATTRIBUTES = {"real", "imag", "T", "mT", "H", "mH"}
TENSOR_METHODS = {"item": Kind.NUMBER, "options": Kind.OTHER, "to": Kind.TENSOR, "is_contiguous": Kind.NUMBER}
DTYPE_ATTRIBUTES = {"is_complex", "is_floating_point", "is_signed", "itemsize"}
DTYPE_METHODS = {"to_real", "to_complex"}
NUMBER_ATTRIBUTES = {"real", "imag"}
NUMBER_METHODS = {"conj": "conjugate"}  # Python's name for PyTorch's

ATTRIBUTE_NAMES = frozenset(_ATTRIBUTES) | TENSOR_ATTRIBUTES
METHOD_NAMES = frozenset(_METHODS) | frozenset(_INDEXED) | frozenset(TENSOR_METHODS)


@dataclass(frozen=True, slots=True)
class Read:
    """An expression that reads metadata of `base`: `self.size(0)` reads SIZES of `self` at index `0`.

    `rest` follows it: `.is_complex` for `self.is_complex()`.
    """

    base: ast.expr
    metadata: Metadata
    index: ast.expr | None = None
    rest: str = ""

    @property
    def kind(self) -> Kind:
        return Kind.NUMBER if self.index is not None or self.rest else self.metadata.kind


def metadata_read(node: ast.expr) -> Read | None:
    """What metadata an expression reads; None if it is something else. `x.shape[0]` is read as a whole."""
    if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
        metadata, rest = _ATTRIBUTES[node.attr]
        return Read(node.value, metadata, None, rest)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        name, base = node.func.attr, node.func.value
        if not node.args and name in _METHODS:
            metadata, rest = _METHODS[name]
            return Read(base, metadata, None, rest)
        if len(node.args) == 1 and name in _INDEXED:
            return Read(base, _INDEXED[name], node.args[0])
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
        whole = metadata_read(node.value)
        if whole is not None and whole.index is None and whole.metadata.kind is Kind.NUMBERS:
            return Read(whole.base, whole.metadata, node.slice)
    return None
