"""Data types: the `gradloom.float32` objects, their NumPy counterparts, and PyTorch's promotion rules.

A Tensor does not store its dtype: it is that of the array (`TYPE_OF[array.dtype]`), so the two cannot disagree.
bfloat16 comes from ml_dtypes, which is imported on first use.
"""

from __future__ import annotations

import builtins as _builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from ..types.public import found_in as _found_in

# Promotion categories, in rising order: the higher category has precedence, regardless of width.
BOOL, INTEGRAL, FLOATING, COMPLEX = range(4)


class dtype:
    """An element type, such as `gradloom.float32`.

    Attributes:
        numpy: the NumPy dtype that arrays of this type have.
        itemsize: bytes per element.
        category: BOOL, INTEGRAL, FLOATING or COMPLEX.
    """

    __slots__ = ("_name", "_alias", "_numpy", "itemsize", "category", "is_floating_point", "is_complex", "is_signed")
    __module__ = "gradloom"
    if TYPE_CHECKING:  # typing would look the names up in `gradloom`
        itemsize: _builtins.int
        category: _builtins.int
        is_floating_point: _builtins.bool
        is_complex: _builtins.bool
        is_signed: _builtins.bool

    def __init__(
        self,
        name: str,
        alias: str,
        np_type: Any,
        itemsize: _builtins.int,
        category: _builtins.int,
        signed: _builtins.bool = True,
    ) -> None:
        self._name = name
        self._alias = alias
        self._numpy = np.dtype(np_type) if np_type is not None else None
        self.itemsize = itemsize
        self.category = category
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.is_signed = signed

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays of this type."""
        if self._numpy is None:
            self._numpy = _extension_type(self._name)
        return self._numpy

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return f"{self._name}"

    def to_complex(self) -> dtype:
        """Return the complex type whose parts have this type (float32 -> complex64); itself if it is complex.

        Raises RuntimeError for a type that is not floating.
        """
        if self.category < FLOATING:
            raise RuntimeError(f"Unknown Complex ScalarType for {scalar_type_name(self)}")
        return _TO_COMPLEX.get(self, self)

    def to_real(self) -> dtype:
        """Return the type of the real part (complex64 -> float32)."""
        return REAL_OF.get(self, self)


def _extension_type(name: str) -> np.dtype:
    if name not in _EXTENSIONS:  # ml_dtypes has further ones, such as int4
        raise TypeError(f"gradloom has no tensors of dtype torch.{name}, only its name")
    import ml_dtypes

    found = np.dtype(getattr(ml_dtypes, name))
    TYPE_OF[found] = _EXTENSIONS[name]
    if found.itemsize == 1:
        watch_float8()
    return found


def watch_float8() -> None:
    """Called when a program first uses a float8 dtype; replaced by what Note [Float8 tensors] tells."""


bool: dtype = dtype("bool", "bool", np.bool_, 1, BOOL, signed=False)
uint8: dtype = dtype("uint8", "uint8", np.uint8, 1, INTEGRAL, signed=False)
int8: dtype = dtype("int8", "int8", np.int8, 1, INTEGRAL)
int16: dtype = dtype("int16", "short", np.int16, 2, INTEGRAL)
int32: dtype = dtype("int32", "int", np.int32, 4, INTEGRAL)
int64: dtype = dtype("int64", "long", np.int64, 8, INTEGRAL)
uint16: dtype = dtype("uint16", "uint16", np.uint16, 2, INTEGRAL, signed=False)
uint32: dtype = dtype("uint32", "uint32", np.uint32, 4, INTEGRAL, signed=False)
uint64: dtype = dtype("uint64", "uint64", np.uint64, 8, INTEGRAL, signed=False)
float16: dtype = dtype("float16", "half", np.float16, 2, FLOATING)
bfloat16: dtype = dtype("bfloat16", "bfloat16", None, 2, FLOATING)
float32: dtype = dtype("float32", "float", np.float32, 4, FLOATING)
float64: dtype = dtype("float64", "double", np.float64, 8, FLOATING)
complex64: dtype = dtype("complex64", "cfloat", np.complex64, 8, COMPLEX)
complex128: dtype = dtype("complex128", "cdouble", np.complex128, 16, COMPLEX)
# Stored, converted and moved about, but not computed with.
float8_e4m3fn: dtype = dtype("float8_e4m3fn", "float8_e4m3fn", None, 1, FLOATING)
float8_e4m3fnuz: dtype = dtype("float8_e4m3fnuz", "float8_e4m3fnuz", None, 1, FLOATING)
float8_e5m2: dtype = dtype("float8_e5m2", "float8_e5m2", None, 1, FLOATING)
float8_e5m2fnuz: dtype = dtype("float8_e5m2fnuz", "float8_e5m2fnuz", None, 1, FLOATING)
float8_e8m0fnu: dtype = dtype("float8_e8m0fnu", "float8_e8m0fnu", None, 1, FLOATING, signed=False)
FLOAT8 = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
# By name: the types whose arrays are those of ml_dtypes.
_EXTENSIONS = {d._name: d for d in (bfloat16, *FLOAT8)}

ALL = (
    bool,
    uint8,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
)
half: dtype = float16
short: dtype = int16
int: dtype = int32
long: dtype = int64
float: dtype = float32
double: dtype = float64
cfloat: dtype = complex64
cdouble: dtype = complex128
BY_NAME = {str(t)[6:]: t for t in (*ALL, *FLOAT8)} | {
    "half": half,
    "short": short,
    "int": int,
    "long": long,
    "float": float,
    "double": double,
    "cfloat": cfloat,
    "cdouble": cdouble,
}

_TO_COMPLEX = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}
REAL_OF = {complex64: float32, complex128: float64}


class _TypeTable(dict):
    """NumPy dtype -> gradloom dtype. Bounded by the number of dtypes that exist."""

    def __missing__(self, np_type):
        if np_type.name in _EXTENSIONS:
            assert _EXTENSIONS[np_type.name].numpy  # the look-up registers it
            return self[np_type]
        native = np_type.newbyteorder("=")
        if native in self:
            return self[native]
        raise TypeError(
            f"can't convert np.ndarray of type {np_type}. The only supported types are: float64, float32, float16, "
            "bfloat16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )


TYPE_OF: dict[Any, dtype] = _TypeTable()
TYPE_OF.update({t._numpy: t for t in ALL if t._numpy is not None})

PYTHON_TYPES = {_builtins.float: float64, _builtins.int: int64, _builtins.bool: bool, _builtins.complex: complex128}


class _Default:
    """The default floating-point type, and the types derived from it."""

    float: dtype
    complex: dtype

    __slots__ = ("float", "complex", "numpy_float", "numpy_complex")

    def set(self, d: dtype) -> None:
        self.float, self.complex = d, d.to_complex()
        self.numpy_float, self.numpy_complex = d.numpy, self.complex.numpy


default: _Default = _Default()
default.set(float32)


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of tensors made from Python floats, and of results that float functions compute from integers.

    Raises TypeError if `d` is not a floating-point dtype.
    """
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {d!r}")
    default.set(d)


def get_default_dtype() -> dtype:
    """Return the current default floating-point dtype (float32 unless it was changed)."""
    return default.float


_RANK = {
    bool: 0,
    uint8: 1,
    int8: 2,
    int16: 3,
    int32: 4,
    int64: 5,
    float16: 6,
    bfloat16: 7,
    float32: 8,
    float64: 9,
    complex64: 10,
    complex128: 11,
}
_WIDE_UNSIGNED = (uint16, uint32, uint64)


def promote_types(a: dtype, b: dtype) -> dtype:
    """Return the smallest type that both convert to, by PyTorch's table: int64 with float16 gives float16.

    Args:
        a: a dtype.
        b: a dtype.

    Raises RuntimeError for mixtures with uint16, uint32 and uint64 that PyTorch does not define.
    """
    if a.__class__ is not dtype or b.__class__ is not dtype:
        a, b = _meant(a, "promote_types", "type1", 1), _meant(b, "promote_types", "type2", 2)
    if a is b:
        return a
    if a in FLOAT8 or b in FLOAT8:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{scalar_type_name(a)} and {scalar_type_name(b)}"
        )
    if a.category < b.category:
        a, b = b, a
    if a.category == COMPLEX:
        return complex128 if float64 in (a, b) or complex128 in (a, b) else complex64
    if a.category == FLOATING:
        if b.category != FLOATING:
            return a
        if {a, b} == {float16, bfloat16}:
            return float32
        return a if _RANK[a] > _RANK[b] else b
    if b.category == BOOL:
        return a
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        return _promote_wide_unsigned(a, b)
    if {a, b} == {uint8, int8}:
        return int16
    return a if _RANK[a] > _RANK[b] else b


def _meant(given: Any, function: str, name: str, place: _builtins.int) -> dtype:
    """Return the dtype for a dtype or a Python type."""
    found = PYTHON_TYPES.get(given) if isinstance(given, type) else given
    if not isinstance(found, dtype):
        raise TypeError(
            f"{function}(): argument '{name}' (position {place}) must be torch.dtype, not {type(given).__name__}"
        )
    return found


def _promote_wide_unsigned(a: dtype, b: dtype) -> dtype:
    raise RuntimeError(
        "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
        f"{scalar_type_name(a)} and {scalar_type_name(b)}"
    )


def can_cast(from_: dtype, to: dtype) -> _builtins.bool:
    """Return whether a result of type `from_` can be written to a tensor of type `to`."""
    from_, to = _meant(from_, "can_cast", "from_", 1), _meant(to, "can_cast", "to", 2)
    if from_.category > to.category:
        return False
    return not (from_.category == INTEGRAL and to.category == BOOL)


class _Info:
    __slots__ = ("_info", "dtype")
    __module__ = "gradloom"
    if TYPE_CHECKING:
        dtype: str

    def __eq__(self, other: object) -> _builtins.bool:
        return type(other) is type(self) and other.dtype == self.dtype

    def __hash__(self) -> _builtins.int:
        return hash((type(self), self.dtype))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._number(getattr(self._info, name))


class finfo(_Info):
    """Limits of a floating-point type: eps, max, min, tiny, smallest_normal, resolution, bits (as in PyTorch)."""

    __slots__ = ()
    __module__ = "gradloom"
    _number = staticmethod(_builtins.float)

    @property
    def resolution(self) -> _builtins.float:
        """The decimal resolution of the type, a power of ten."""
        precision: _builtins.int = self._info.precision
        return 10.0 ** -(precision if self._info.bits > 8 else 0)

    def __init__(self, type: dtype | None = None) -> None:
        type = default.float if type is None else _meant(type, "finfo", "type", 1)
        if type.category < FLOATING:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{type!r}'")
        real = type.to_real()
        self.dtype: str = str(real)[6:]
        if real._name in _EXTENSIONS:
            import ml_dtypes

            self._info = ml_dtypes.finfo(real.numpy)
        else:
            self._info = np.finfo(real.numpy)

    @property
    def bits(self) -> _builtins.int:
        """Bits of one number (of each part, for complex types)."""
        return _builtins.int(self._info.bits)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Info):
    """Limits of an integer type: min, max, bits."""

    __slots__ = ()
    __module__ = "gradloom"
    _number = staticmethod(_builtins.int)

    def __init__(self, type: dtype) -> None:
        type = _meant(type, "iinfo", "type", 1)
        if type.category != INTEGRAL:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type!r}'")
        self.dtype: str = str(type)[6:]
        self._info = np.iinfo(type.numpy)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


SCALAR_NAMES = {
    float32: "Float",
    float64: "Double",
    float16: "Half",
    bfloat16: "BFloat16",
    int8: "Char",
    uint8: "Byte",
    int16: "Short",
    int32: "Int",
    int64: "Long",
    bool: "Bool",
    complex64: "ComplexFloat",
    complex128: "ComplexDouble",
    uint16: "UInt16",
    uint32: "UInt32",
    uint64: "UInt64",
    **{d: d._name.capitalize() for d in FLOAT8},
}


def scalar_type_name(d: dtype) -> str:
    """Return the type's name in PyTorch's messages: Float, Double, Long ..."""
    return SCALAR_NAMES[d]


# Dtypes for which there are classes, torch.FloatTensor ...
WITH_CLASSES = (float16, float32, float64, bfloat16, uint8, int8, int16, int32, int64, bool)


def legacy_type_name(d: dtype) -> str:
    """Return the class name that `Tensor.type()` returns: torch.FloatTensor ..."""
    return f"torch.{SCALAR_NAMES[d]}Tensor"


def type_text(d: dtype) -> str:
    """Return the name of a tensor of this dtype in PyTorch's messages: torch.FloatTensor, but CPUComplexFloatType."""
    return legacy_type_name(d) if d._name in _WITH_LEGACY_TYPES else f"CPU{scalar_type_name(d)}Type"


_WITH_LEGACY_TYPES = ("float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64")
_C_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
}


def c_name(kind: np.dtype) -> str:
    """Return the name of the C++ type in PyTorch's messages: float, long int, c10::Half ..."""
    return _C_NAMES.get(kind.name, kind.name)


_found_in("gradloom", can_cast, get_default_dtype, promote_types, set_default_dtype)
