"""Names that generated code uses itself, so that no operator, argument or result may have them.

Strings in schemas are checked here, too: PyTorch's schema language makes neither check.

A wrapper is straight-line code over names of three kinds: its parameters, names derived from them (`self_` is the
array of `self`, `self_t` its tangent) and a fixed stock (`fn`, `flags`, `ops` ...). An argument with a name from the
stock would hide it, and the generated file would be wrong or not even compile.
tests/codegen/test_reserved.py compares these tables with the generated files.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from ..errors import SpecError
from ..reading.text import Text
from ..schema import Argument, FunctionSchema, is_data_model_name

# What a generated module imports or defines besides its operators.
MODULE_NAMES = frozenset(
    """ANOMALY AUTOCAST AUTOCAST_RULES FORWARD_AD GRAD_OFF GuardedOverload INFERENCE INTERCEPT MISSING MULTI_OUTPUT
    NO_EDGE NUMBERS Node REDISPATCH REFUSALS RELEASED SavedVariable Tensor asarray bump_version check_device
    check_inplace check_layout default_float factory_dtype fits gradient_edge intercept make_view mark_inference
    metadata_of ndarray new next_sequence_nr not_differentiable not_implemented_history not_implemented_write ops own
    promote promote_exact
    promote_numbers promote_to_float promote_to_float_exact rebase_history refusal refuse_tangents remember
    replace_history require_gradient result_class save save_list set_tangent share_version state take_kernel tangent_of
    tangent_to_write unpack unpack_list update_tangent wrap wrapped_number write_inplace write_out xp zeros_for
    zeros_of""".split()
)

# Local variables and keyword parameters of wrappers and nodes.
LOCAL_NAMES = frozenset(
    """call changed edge edges error flags flat fn given grad_ grad_input_mask grads nr out records requires_grad
    results retain_variables written""".split()
)

# Python's names in them. An operator may have such a name (`any`) if its family does not use it.
PYTHON_NAMES = frozenset(
    """AttributeError NotImplementedError all any bool builtins complex enumerate float int len list object str tuple
    zip""".split()
)

GENERATED_NAMES = MODULE_NAMES | LOCAL_NAMES | PYTHON_NAMES
_OF_A_MODULE = MODULE_NAMES.union("AttributeError NotImplementedError builtins enumerate len object tuple zip".split())

# Variables derived from a name: `{}` is that of an argument or result.
_DERIVED = (
    "{}_", "{}_t", "{}_p", "{}_numpy", "{}_tangent", "{}_out", "edge_{}", "edges_{}", "needs_{}", "grad_of_{}",
    "{}_is_none", "{}_size_", "{}_sym_sizes", "{}_sym_strides", "{}_sym_numel", "{}_dim",
    "{}_sym_storage_offset", "{}_scalar_type", "{}_device", "{}_layout",
)  # fmt: skip
_STRING = re.compile(r"""(["'])[ !#-&(-\[\]-~]{0,100}\1""")
_QUOTES = frozenset("\"'\\")
_LISTS = re.compile(r"Tensor\??\[\d*\]")
ALIASES = {"dim": "axis", "keepdim": "keepdims"}  # NumPy's names for these parameters, which callers may use, too


def check_names(text: Text, schema: FunctionSchema) -> None:
    """Refuse names for which no correct Python function could be generated.

    Args:
        text: the `func:` value of the operator.

    Raises SpecError at the first name that is taken.
    """
    name = schema.name.name
    wrong = _operator_problem(name)
    if wrong:
        raise text.error(f"`{name}` cannot be the name of an operator: {wrong}", "choose another name", 0, len(name))
    arguments = [a.python_name for a in schema.arguments]
    results = [r.name for r in schema.returns if r.name is not None]
    outs = {a.name for a in schema.out_arguments}
    for what, names in (("argument", arguments), ("result", results)):
        for word in names:
            wrong = "" if word in outs else _problem(word, what)
            if wrong:
                message = f"`{word}` cannot be the name of an {what}".replace("an result", "a result")
                raise _error(text, word, f"{message}: {wrong}")
    inputs = [a.name for a in schema.inputs]
    if inputs[:1] == ["self"] and "input" in inputs:
        raise _error(text, "input", "an argument `input` beside `self`, which callers of the function know as `input`")
    for word, alias in ALIASES.items():
        if word in inputs and alias in inputs:
            raise _error(text, alias, f"an argument `{alias}` beside `{word}`, which may be called `{alias}`, too")
    _check_derived(text, arguments, [*arguments, *results])
    for argument in schema.arguments:
        _check_string(text, argument)


def check_kernel_schema(text: Text, schema: FunctionSchema) -> None:
    """Refuse schemas that a kernel cannot have: tensors and lists of tensors go in, tensors come out. Raises SpecError
    for a schema of another form, which a composite may have."""
    shown = len(str(schema.name))
    hint = "write it as `composite: family.function`, which gets the arguments as they are"
    results = [r.type for r in schema.returns]
    if schema.kind == "functional" and not results:
        raise text.error(f"`{schema.name}` has a kernel but returns nothing", hint, 0, shown)
    for type_ in results:
        if not type_.is_tensor_like or (len(results) > 1 and type_.is_list):
            what = "beside other results" if type_.is_tensor_like else "which a kernel cannot give"
            raise text.error(f"`{schema.name}` returns {type_}, {what}", hint, 0, shown)
    for argument in schema.arguments:
        type_ = argument.type
        if type_.is_tensor_list and not _LISTS.fullmatch(str(type_)):
            message = f"`{argument.name}` is {type_}; a kernel takes Tensor[] or Tensor?[]"
            raise _error(text, argument.name, message, hint)
    first = schema.arguments[0].type if schema.arguments else None
    if schema.kind == "inplace" and first is not None and not (first.is_tensor and not first.is_optional):
        message = f"`{schema.name}` has a kernel and writes to {first}"
        raise _error(text, schema.arguments[0].name, message, hint)


def _check_string(text: Text, argument: Argument) -> None:
    """Refuse a string that is not a plain word: it is copied into docstrings and signatures."""
    if argument.default is not None and not _QUOTES.isdisjoint(_STRING.sub("", argument.default)):
        message = f"the default of `{argument.name}` is a string with other than plain characters"
        hint = "a string has at most 100 characters, of ASCII, without quotes and backslashes"
        raise _error(text, argument.name, message, hint)


def _operator_problem(name: str) -> str:
    if keyword.iskeyword(name):
        return "Python has it as a keyword"
    if not name.strip("_"):
        return "it has no letter"
    if name.startswith("__") and not is_data_model_name(name):
        return "names that start with two underscores are reserved for Python"
    return "generated code uses it" if name in _OF_A_MODULE else ""


def _problem(word: str, what: str) -> str:
    if not word.strip("_"):
        return "it has no letter"
    if word.startswith("__"):
        return "names that start with two underscores are reserved for Python"
    if what == "result" and (keyword.iskeyword(word) or word.startswith("_")):
        return "it is to be an attribute of the returned tuple"
    taken = word in GENERATED_NAMES or word.startswith(("kernels_", "composite_"))
    return "generated code uses it" if taken else ""


def _check_derived(text: Text, arguments: Iterable[str], names: Iterable[str]) -> None:
    derived = {form.format(name): name for name in names for form in _DERIVED}
    for word in arguments:
        if word in derived:
            message = f"arguments `{word}` and `{derived[word]}`: generated code derives `{word}` from the other"
            raise _error(text, word, message)


def _error(text: Text, word: str, message: str, hint: str = "choose another name") -> SpecError:
    match = re.compile(rf"\b{re.escape(word)}\b(?=\s*[=,)])").search(text.value, text.value.find("("))
    offset = match.start() if match else 0
    return text.error(message, hint, offset, len(word) if match else None)
