"""The schema language: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` becomes frozen objects.

    schema = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    schema.name.base, schema.name.overload        # 'add', 'Tensor'
    schema.arguments[2].default_value             # 1
    str(schema)                                   # the text again, in normal form

There is one model and one parser, without dependencies. The generator adds stricter checks and variants of operators
(gradloom.codegen.schema), operator objects present a schema under PyTorch's names (gradloom.ops), and the argument
parser takes parameters as plain tuples (`parameters`), which generated code contains.
"""

from ..types.public import origin as origin
from .model import (
    BASE_TYPES,
    IDENTIFIER,
    KEYWORD_ONLY,
    SYMBOLS,
    Annotation,
    Argument,
    Base,
    FunctionSchema,
    List,
    OperatorName,
    Optional,
    Return,
    SchemaError,
    Symbol,
    Type,
    is_data_model_name,
    parameters,
    shorten,
)
from .parser import Parser, parse
