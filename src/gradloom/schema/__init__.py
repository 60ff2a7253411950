"""The schema language: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` becomes frozen objects.

    schema = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    schema.name.base, schema.name.overload        # 'add', 'Tensor'
    schema.arguments[2].default_value             # 1
    str(schema)                                   # the text again, in normal form

One model and one parser, without dependencies, for everybody: the generator adds stricter checks and variants of
operators (gradloom.codegen.schema), operators as objects show a schema under PyTorch's names (gradloom.ops), and the
argument parser takes its parameters as plain tuples (`parameters`), which generated code holds ready.
"""

from .model import KEYWORD_ONLY, Argument, FunctionSchema, Return, parameters
from .parser import Parser, parse
from .types import (
    BASE_TYPES,
    IDENTIFIER,
    SYMBOLS,
    Annotation,
    Base,
    List,
    OperatorName,
    Optional,
    SchemaError,
    Symbol,
    Type,
    is_data_model_name,
    shorten,
)
