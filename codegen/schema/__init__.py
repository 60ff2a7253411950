"""Stage 2, the schema language: a `func:` or `name:` line of the YAML files becomes frozen objects.

In: the text of a schema. Out: a `FunctionSchema`. The stage is `parse`:

    schema = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    schema.name.base, schema.name.overload       # 'add', 'Tensor'
    [a.name for a in schema.positional]          # ['self', 'other']
    schema.argument("alpha").default_value       # 1
    str(schema.as_out())                         # 'add.Tensor_out(Tensor self, ..., Tensor(a!) out) -> ...'

`str(parse(text)) == text` for a text in normal form (one space after a comma and around `->`). The language itself is
in gradloom.schema, which operators defined at run time use, too; model.py adds the stricter parser for YAML files,
methods for the generator, and `check_names`, which refuses reserved names.
"""

from gradloom.schema import (
    BASE_TYPES,
    IDENTIFIER,
    KEYWORD_ONLY,
    SYMBOLS,
    Base,
    List,
    OperatorName,
    Optional,
    Return,
    SchemaError,
    Symbol,
    Type,
    is_data_model_name,
    origin,
    parameters,
)

from .model import (
    ALIASES,
    GENERATED_NAMES,
    MODULE_NAMES,
    TENSOR,
    TENSOR_LIST,
    Annotation,
    Argument,
    FunctionSchema,
    check_kernel_schema,
    check_names,
    parse,
)
