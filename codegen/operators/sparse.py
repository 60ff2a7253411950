"""The key `sparse:` of an entry: what computes the operator for sparse tensors, and its in-place variant.

Note [Sparse tensors] in src/gradloom/sparse/tensor.py says how calls get there.
"""

from __future__ import annotations

from ..language.kernels import check_function
from ..reading.python_files import FunctionIndex
from ..reading.yaml_files import Entry
from ..schema import FunctionSchema
from .keys import words_of

# The operator acts on the values: of the coalesced tensor, or as they are stored.
ON_VALUES = ("values", "stored_values")
INPLACE = "inplace"  # the in-place variant replaces the entries by the result


def sparse_of(
    entry: Entry, schema: FunctionSchema, inplace: FunctionSchema | None, kernels: FunctionIndex
) -> tuple[str, ...]:
    """Return the words of an entry's `sparse:`: one for the operator, and one for its in-place variant if it has one.

    Args:
        inplace: the schema of the in-place variant, if one is derived.

    Raises SpecError at a word that is no kernel for the operator, or if there is no in-place variant.
    """
    words = words_of(entry, "sparse")
    if not words:
        return ()
    if not any(a.type.is_tensor_like for a in schema.inputs):
        message = f"`{schema.name}` has no tensor argument, so that `sparse` has no meaning"
        raise entry.keys["sparse"].error(message, "remove it")
    if len(words) > 2:
        hint = "write one for the operator and one for its in-place variant"
        raise words[2].error("a third word in `sparse`", hint)
    if words[0].value not in ON_VALUES:
        check_function(words[0], schema, kernels)
    if len(words) > 1:
        if inplace is None:
            hint = "remove it, or list the variant under `autogen:`"
            raise words[1].error(f"`{schema.name}` has no in-place variant", hint)
        if words[1].value != INPLACE:
            check_function(words[1], inplace, kernels)
    return tuple(w.value for w in words)
