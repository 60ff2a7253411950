"""Dtypes without tensors: PyTorch's of quantized and packed elements, which programs name in tables and comparisons.

Asking for a tensor of one raises TypeError.
"""

from __future__ import annotations

from .dtype import COMPLEX, FLOATING, INTEGRAL, REAL_OF, SCALAR_NAMES, bfloat16, dtype, float16

# Name -> itemsize, category.
_NAMES = {
    **dict.fromkeys("qint8 quint8 quint4x2 quint2x4 bits8 bits1x8 bits2x4 bits4x2".split(), (1, INTEGRAL)),
    **{f"{kind}{bits}": (1, INTEGRAL) for kind in ("int", "uint") for bits in range(1, 8)},
    "bits16": (2, INTEGRAL),
    "qint32": (4, INTEGRAL),
    "float4_e2m1fn_x2": (1, FLOATING),
    "complex32": (4, COMPLEX),
    "bcomplex32": (4, COMPLEX),
}


def _make() -> dict[str, dtype]:
    found = {
        name: dtype(name, name, None, itemsize, category, signed=not name.startswith(("u", "q", "bits")))
        for name, (itemsize, category) in _NAMES.items()
    }
    SCALAR_NAMES.update({d: name[:1].upper() + name[1:] for name, d in found.items()})
    SCALAR_NAMES[found["bcomplex32"]] = "BComplex32"
    REAL_OF.update({found["complex32"]: float16, found["bcomplex32"]: bfloat16})
    return found


bcomplex32: dtype
bits16: dtype
bits1x8: dtype
bits2x4: dtype
bits4x2: dtype
bits8: dtype
chalf: dtype
complex32: dtype
float4_e2m1fn_x2: dtype
int1: dtype
int2: dtype
int3: dtype
int4: dtype
int5: dtype
int6: dtype
int7: dtype
qint32: dtype
qint8: dtype
quint2x4: dtype
quint4x2: dtype
quint8: dtype
uint1: dtype
uint2: dtype
uint3: dtype
uint4: dtype
uint5: dtype
uint6: dtype
uint7: dtype
globals().update(_make())
chalf = globals()["complex32"]
