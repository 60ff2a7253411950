"""Stage 2, the schema language: a `func:` or `name:` line of the YAML files becomes frozen objects.

In: the text of a schema. Out: a `FunctionSchema`. The stage is `parse`:

    schema = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    schema.name.base, schema.name.overload       # 'add', 'Tensor'
    [a.name for a in schema.positional]          # ['self', 'other']
    schema.argument("alpha").default_value       # 1
    str(schema.as_out())                         # 'add.Tensor_out(Tensor self, ..., Tensor(a!) out) -> ...'

`str(parse(text)) == text` for a text in normal form (one space after a comma and around `->`). types.py has names,
types, annotations and defaults, model.py an operator's parts and their checks, parser.py the grammar.
"""

from .model import TENSOR, TENSOR_LIST, Argument, FunctionSchema, Return
from .parser import parse
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
)

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
    "parse",
]
