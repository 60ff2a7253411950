"""The batching rules: what `batch:` may say, and what follows for an operator from its other keys.

See Note [Batching rules] in src/gradloom/batching/rules/__init__.py for what the rules do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import SpecError, shorten
from .kernel_expr import check_named
from .kernel_index import FunctionIndex
from .schema import FunctionSchema, did_you_mean
from .text import Entry, Text

if TYPE_CHECKING:
    from .native_functions import NativeFunction
    from .wrappers import Wrapper

__all__ = ["Batch", "BatchedOperator", "batch_of", "table"]

# What stands between the parentheses of each rule.
_NAMES, _NAME, _MAYBE_NAME, _COUNT, _OPERATOR, _NOTHING = "names", "name", "a name", "a count", "operator", "nothing"
RULES: Mapping[str, str] = {
    "pointwise": _NOTHING, "aligned": _NOTHING, "reduction": _NAME, "whole": _OPERATOR, "dims": _NAMES,
    "inserted": _NAMES, "sizes": _NAMES, "fold": _COUNT, "loss": _NOTHING, "loss_backward": _NOTHING,
    "dynamic": _NOTHING, "random": _MAYBE_NAME, "loop": _NOTHING,
}  # fmt: skip
# What `random` may be told that is no argument: one result like the input, or one for each of its rows.
RANDOM_WORDS = ("like",)
_FORM = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)?)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True, slots=True)
class Batch:
    """The value of `batch:`."""

    rule: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}({', '.join(self.arguments)})" if self.arguments else self.rule


def batch_of(entry: Entry, schema: FunctionSchema, rules: FunctionIndex) -> Batch | None:
    """The value of an entry's `batch:`. Raises SpecError at the word that is wrong."""
    text = entry.get("batch")
    if not isinstance(text, Text):
        return None
    found = _FORM.fullmatch(text.value)
    if found is None:
        hint = f"write a rule, such as `dims(dim)`, or `family.function`; the rules are {', '.join(RULES)}"
        raise text.error(f"`{shorten(text.value)}` is not a batching rule", hint)
    rule = found[1]
    arguments = tuple(word.strip() for word in found[2].split(",")) if found[2] and found[2].strip() else ()
    if "." in rule:
        check_named(text.word(found.start(1), len(rule)), rules)
        _check_names(text, schema, found, arguments)
    elif rule not in RULES:
        hint = did_you_mean(rule, RULES) or f"the rules are {', '.join(RULES)}"
        raise text.error(f"there is no batching rule `{rule}`", hint, found.start(1), len(rule))
    else:
        _check_arguments(text, schema, found, arguments)
    return Batch(rule, arguments)


def _check_arguments(text: Text, schema: FunctionSchema, found: re.Match[str], arguments: tuple[str, ...]) -> None:
    rule, wants = found[1], RULES[found[1]]
    problem = ""
    if wants == _NOTHING and arguments:
        problem = "takes nothing"
    elif wants in (_NAME, _COUNT, _OPERATOR) and len(arguments) != 1:
        problem = f"takes {'the name of one argument' if wants == _NAME else 'one ' + wants.removeprefix('a ')}"
    elif wants == _COUNT and not arguments[0].isdigit():
        problem = "takes a number of dimensions"
    elif wants == _MAYBE_NAME and len(arguments) > 1:
        problem = "takes at most one name"
    if problem:
        form = {
            _NOTHING: rule,
            _NAME: f"{rule}(dim)",
            _COUNT: f"{rule}(3)",
            _OPERATOR: f"{rule}(sum.dim_IntList)",
            _MAYBE_NAME: f"{rule}(size)",
        }[wants]
        raise text.error(f"`{rule}` {problem}", f"write `{form}`", found.start(1), len(text.value.rstrip()))
    if wants in (_NAMES, _NAME) or wants == _MAYBE_NAME and arguments and arguments[0] not in RANDOM_WORDS:
        _check_names(text, schema, found, arguments)


def _check_names(text: Text, schema: FunctionSchema, found: re.Match[str], arguments: tuple[str, ...]) -> None:
    names = [a.name for a in schema.inputs]
    for word in arguments:
        if word not in names:
            hint = did_you_mean(word, names) or f"its arguments are {', '.join(names) or 'none'}"
            raise text.error(
                f"`{schema.name}` has no argument `{shorten(word)}`",
                hint,
                text.value.index(word, found.start(2)),
                len(word),
            )


@dataclass(frozen=True, slots=True)
class BatchedOperator:
    """One line of generated/batching.py."""

    wrapper: str
    name: str
    rule: str
    parameters: str
    promotes: str


def table(wrappers: Collection[Wrapper]) -> list[BatchedOperator]:
    """The rule of every wrapper that takes tensors, or draws."""
    by_name = {w.name: w for w in wrappers}
    found = []
    for w in wrappers:
        if w.arrays or "nondeterministic_seeded" in w.native.tags:
            rule = _rule(w, by_name)
            found.append(
                BatchedOperator(
                    f"{w.native.family}.{w.function}",
                    w.name,
                    _spelled(w, rule, by_name),
                    _parameters(w),
                    ", ".join(p.argument.python_name for p in w.promotes),
                )
            )
    return found


def _rule(w: Wrapper, by_name: Mapping[str, Wrapper]) -> Batch:
    """The rule of a wrapper: its own, or what follows from its tags and arguments."""
    native = w.native
    if native.batch is not None and (w.kind != "inplace" or native.schema is w.schema):
        return native.batch
    if native.composite is not None:
        return Batch("composite")
    tags = native.tags
    if "nondeterministic_seeded" in tags:
        return _random(native)
    rule = native.batch or _derived(native)
    if w.kind != "inplace" or rule.rule in _IN_PLACE:
        return rule
    functional = _functional(w, by_name)
    if functional is None or _rule(functional, by_name).rule == "loop":
        return Batch("loop")  # each example is written in its place
    return Batch("write", (functional.function,))


# Rules that write to the physical tensor as they would compute a new one.
_IN_PLACE = ("pointwise", "dims", "inserted", "random", "shape.t", "shape.squeeze", "shape.through")


def _derived(native: NativeFunction) -> Batch:
    tags = native.tags
    if "pointwise" in tags:
        return Batch("pointwise")
    if "dynamic_output_shape" in tags:
        return Batch("dynamic")
    if "reduction" in tags and any(a.name == "dim" for a in native.schema.inputs):
        return Batch("reduction", ("dim",))
    return Batch("loop")


def _random(native: NativeFunction) -> Batch:
    names = {a.name for a in native.schema.inputs}
    if "size" in names:
        return Batch("random", ("size",))
    if {"dtype", "memory_format"} <= names:
        return Batch("random", ("like",))
    return Batch("random")


def _functional(w: Wrapper, by_name: Mapping[str, Wrapper]) -> Wrapper | None:
    """The operator that computes what an in-place one writes, in the same file."""
    base, dot, overload = w.name.partition(".")
    found = by_name.get(base.removesuffix("_") + dot + overload)
    return found if found is not None and found.native.family == w.native.family else None


def _spelled(w: Wrapper, batch: Batch, by_name: Mapping[str, Wrapper]) -> str:
    """A rule as the table has it, with what the operators that it names look like."""
    arguments = batch.arguments
    if batch.rule == "reduction":
        type_ = next(p.argument.type for p in w.parameters if p.argument.name == arguments[0])
        arguments = (arguments[0] + "[]" * type_.is_list,)
    elif batch.rule == "whole":
        arguments = _whole(w, by_name[batch.arguments[0]])
    return str(Batch(batch.rule, arguments))


def _whole(w: Wrapper, over: Wrapper) -> tuple[str, ...]:
    """The operator, whether it takes several dimensions, and what it is given before them."""
    dim = next(p.argument for p in over.parameters if p.argument.name == "dim")
    before = [p.argument.python_name for p in w.parameters[1:] if not p.argument.kwarg_only]
    return (over.python_name, "several" if dim.type.is_list else "one", *before)


def _parameters(w: Wrapper) -> str:
    """The arguments in the order of the schema, tensors with their types."""
    words = []
    for p in w.parameters:
        kind = {
            "value": "",
            "tensor": ": Tensor",
            "optional": ": Tensor?",
            "list": ": Tensor[]",
            "optional_list": ": Tensor?[]",
        }[p.kind]
        words.append(p.argument.python_name + kind)
    return ", ".join(words)


def check_whole(functions: Collection[NativeFunction], known: Callable[[str], object]) -> list[SpecError]:
    """The errors of `whole(f)` where there is no operator f with an argument `dim`."""
    errors = []
    for function in functions:
        batch = function.batch
        if batch is None or batch.rule != "whole":
            continue
        text = function.entry.fields["batch"]
        assert isinstance(text, Text)
        name = batch.arguments[0]
        other = known(name)
        if not isinstance(other, FunctionSchema) or other.argument("dim") is None:
            hint = "name the operator that does the same along given dimensions, such as `sum.dim_IntList`"
            errors.append(
                text.error(
                    f"there is no operator `{shorten(name)}` with an argument `dim`",
                    hint,
                    text.value.index(name),
                    len(name),
                )
            )
    return errors
