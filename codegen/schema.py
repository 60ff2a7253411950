"""The schema language: what a `func:` or `name:` line in the YAML files says, as frozen objects.

    schema = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    schema.name.base, schema.name.overload       # 'add', 'Tensor'
    [a.name for a in schema.positional]          # ['self', 'other']
    schema.argument("alpha").default_value       # 1
    str(schema.as_out())                         # 'add.Tensor_out(Tensor self, ..., Tensor(a!) out) -> ...'

`str(parse(text)) == text` for a text in normal form (one space after a comma and around `->`).

This module is the language's face. operator_name.py holds names, schema_types.py holds types, annotations and
defaults, schema_model.py the operator's parts and their checks, schema_parser.py the grammar.
"""

from .operator_name import IDENTIFIER, OperatorName
from .schema_model import TENSOR, TENSOR_LIST, Argument, FunctionSchema, Return
from .schema_parser import parse
from .schema_types import BASE_TYPES, SYMBOLS, Annotation, Base, List, Optional, SchemaError, Symbol, Type, did_you_mean

__all__ = [
    "BASE_TYPES",
    "IDENTIFIER",
    "SYMBOLS",
    "TENSOR",
    "TENSOR_LIST",
    "Annotation",
    "Argument",
    "Base",
    "FunctionSchema",
    "List",
    "OperatorName",
    "Optional",
    "Return",
    "SchemaError",
    "Symbol",
    "Type",
    "did_you_mean",
    "parse",
]
