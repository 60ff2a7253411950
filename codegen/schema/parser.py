"""The parser of schemas in YAML files, stricter than gradloom.schema's."""

from __future__ import annotations

from gradloom.schema import Base, Parser, SchemaError

from ..errors import did_you_mean
from .model import Annotation, Argument, FunctionSchema

# Types of arguments that generated code can take.
TYPES = (
    "Tensor", "Scalar", "int", "SymInt", "float", "bool", "SymBool", "str", "ScalarType", "Layout", "Device",
    "DeviceIndex", "MemoryFormat", "QScheme", "Generator", "Storage", "Stream",
)  # fmt: skip

# What to write for types of C++, Python and NumPy.
_FOREIGN_TYPES = {
    **dict.fromkeys(("list", "List"), "write `Tensor[]`, `int[]` ..."),
    **dict.fromkeys(("TensorList", "Tensors"), "write `Tensor[]`"),
    **dict.fromkeys(("tuple", "IntArrayRef", "ArrayRef", "ints", "shape", "Size"), "write `int[]`"),
    **dict.fromkeys(("number", "Number", "complex"), "write `Scalar`"),
    **dict.fromkeys(("double", "float64", "float32"), "write `float`"),
    **dict.fromkeys(("string", "string_view"), "write `str`"),
    **dict.fromkeys(("Optional", "optional"), "write `Tensor?`, `int?` ..."),
    **dict.fromkeys(("ndarray", "array"), "write `Tensor`"),
    "dtype": "write `ScalarType`",
    "device": "write `Device`",
    "layout": "write `Layout`",
    "memory_format": "write `MemoryFormat`",
    "int64_t": "write `int`",
    "boolean": "write `bool`",
    "Any": "name the type: `Tensor`, `Scalar`, `int` ...",
    "void": "nothing is returned by `-> ()`",
    "self": "the type goes first: `Tensor self`",
}


class _Parser(Parser):
    strict = True
    argument_class, annotation_class, schema_class = Argument, Annotation, FunctionSchema

    def base_type(self, name: str) -> Base:
        if name not in TYPES:
            hint = _FOREIGN_TYPES.get(name) or did_you_mean(name, TYPES) or f"the types are {', '.join(TYPES)}"
            raise SchemaError(f"unknown type `{name}`", length=len(name), hint=hint)
        return Base(name)


def parse(text: str) -> FunctionSchema:
    """Parse `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

    Raises:
        SchemaError: with the offset and length of the offending word.
    """
    schema = _Parser(text).schema()
    assert isinstance(schema, FunctionSchema)
    return schema
