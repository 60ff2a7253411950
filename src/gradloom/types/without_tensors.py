"""Dtypes without tensors: PyTorch's of quantized and packed elements, which programs name in tables and comparisons.

Asking for a tensor of one raises TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dtype import COMPLEX, FLOATING, INTEGRAL, SCALAR_NAMES, dtype

if TYPE_CHECKING:
    from .dtype import float16, int8

# Name -> itemsize, category.
_NAMES = {
    **dict.fromkeys("qint8 quint8 quint4x2 quint2x4 bits8 bits1x8 bits2x4 bits4x2".split(), (1, INTEGRAL)),
    **{f"{kind}{bits}": (1, INTEGRAL) for kind in ("int", "uint") for bits in range(1, 8)},
    "bits16": (2, INTEGRAL),
    "qint32": (4, INTEGRAL),
    "float4_e2m1fn_x2": (1, FLOATING),
    "complex32": (4, COMPLEX),
}


def _make() -> dict[str, dtype]:
    found = {
        name: dtype(name, name, None, itemsize, category, signed=not name.startswith(("u", "q", "bits")))
        for name, (itemsize, category) in _NAMES.items()
    }
    SCALAR_NAMES.update({d: name[:1].upper() + name[1:] for name, d in found.items()})
    return found


if TYPE_CHECKING:
    bits8 = bits16 = bits1x8 = bits2x4 = bits4x2 = chalf = complex32 = float4_e2m1fn_x2 = float16
    int1 = int2 = int3 = int4 = int5 = int6 = int7 = uint1 = uint2 = uint3 = uint4 = uint5 = uint6 = uint7 = int8
    qint8 = qint32 = quint8 = quint2x4 = quint4x2 = int8
else:
    globals().update(_make())
    chalf = globals()["complex32"]
