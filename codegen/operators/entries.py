"""Read a single entry of native_functions.yaml: its keys, schema, kernel, variants and tags, each checked.

What entries are to one another is checked in native_functions.py.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path

from ..errors import did_you_mean, raise_all, shorten
from ..language.kernels import OF_GRADLOOM, KernelExpr, analyse, check_function
from ..language.row_arrays import row_expression
from ..language.rows import Rows, analyse_rows
from ..language.scalars import Scalar, analyse_scalar, array_expression, from_kernel
from ..reading.python_files import FunctionIndex
from ..reading.yaml_files import Entry, Source, Text, entries_in
from ..schema import IDENTIFIER, FunctionSchema, SchemaError, check_names, parse
from .float8 import float8_of
from .keys import DEFAULT_FAMILY, Families, batch_of, check_domain, check_keys, word_of, words_of
from .model import NativeFunction, Variant, derive, schema_error
from .out_tensors import out_errors, out_words
from .rules import ROOMS, SHAPE, Rule, rule_of
from .sparse import sparse_of

# Folders of functions that entries name besides kernels and composites; gradloom's for every package.
BATCHING, SPARSE = "batching/rules", "sparse/kernels"
RULE_FOLDERS = (BATCHING, SPARSE, *(room.folder for room in ROOMS))
# The keys of an operator on lists.
ON_LISTS = ("func", "autogen", "foreach", "fused")


def rules_in(room: str) -> FunctionIndex:
    """Return the named rules of a feature, `batching/rules`, which are gradloom's for every package."""
    here = Path(__file__).resolve().parents[1]
    candidates = (here.parent / "src" / "gradloom", here.parent)
    return FunctionIndex(next(c for c in candidates if (c / "kernels").is_dir()) / room, room)


def parse_func(text: Text) -> FunctionSchema:
    """Return the schema of a `func:` or `name:` value. Raises SpecError at the offending word."""
    try:
        return parse(text.value)
    except SchemaError as error:
        raise schema_error(text, error) from None


class Reader:
    """Reads entries, by the functions of a package that they may name.

    Args:
        package: folder of kernels/ and composite/.
        source: file of the entries, whose banners give their families; none for entries in texts of their own.
        family: the default family.
        kernels: the named kernels, if not the package's.
    """

    def __init__(
        self,
        package: Path | None,
        source: Source | None = None,
        family: str = DEFAULT_FAMILY,
        kernels: FunctionIndex | None = None,
    ) -> None:
        self.kernels = kernels or FunctionIndex(package and package / "kernels")
        self.composites = FunctionIndex(package and package / "composite")
        self.batching = rules_in(BATCHING)
        self.sparse = rules_in(SPARSE)
        self.rules = {room.key: rules_in(room.folder) for room in ROOMS}
        self.families = Families(package, source or Source("", ""), family)

    def alone(self, source: Source, banner: str | None) -> NativeFunction:
        """Analyse the entry of a text of its own that stands below a banner. Raises SpecError."""
        (entry,) = entries_in(source)
        raise_all(check_keys(entry))
        reader = copy(self)
        reader.families = self.families.below(banner or DEFAULT_FAMILY)
        return reader.function(entry)

    def function(self, entry: Entry) -> NativeFunction:
        """Analyse an entry whose keys are known. Raises SpecError."""
        text = entry.fields["func"]
        assert isinstance(text, Text)  # checked by check_keys
        schema = parse_func(text)
        variants = tuple(w.value for w in words_of(entry, "variants")) or ("function",)
        rows = analyse_rows(entry, schema)
        scalar = self.scalar(entry, schema) if rows is None else None
        rules = {room.key: rule_of(entry, schema, room, self.rules[room.key]) for room in ROOMS if room is not SHAPE}
        derived = tuple(derive(schema, word) for word in words_of(entry, "autogen"))
        has_out = any(v.kind in ("out", "copy_out") for v in derived)
        kernel, composite = None, None
        if rules["foreach"] is None and rules["fused"] is None:
            check_names(text, schema, has_out)
            kernel, composite = self.implementation(entry, text, schema, scalar, rows)
        else:  # no code is generated for it
            self.check_lists(entry, schema)
        self.check_method(entry, schema, variants)
        inplace = next((v.schema for v in derived if v.kind == "inplace"), None)
        self.check_inplace_function(entry, variants, derived)
        tags = tuple(w.value for w in words_of(entry, "tags"))
        if scalar is not None and "pointwise" not in tags and entry.get("batch") is None:
            tags = (*tags, "pointwise")
        return NativeFunction(
            entry=entry,
            text=text,
            schema=schema,
            variants=variants,
            kernel=kernel,
            scalar=scalar or (from_kernel(kernel) if "pointwise" in tags else None),
            rows=rows,
            composite=composite,
            derived=derived,
            tags=tags,
            python_module=word_of(entry, "python_module"),
            family=self.families.of(entry, kernel, composite),
            type_promotion=word_of(entry, "type_promotion"),
            promotes=self.tensors(entry, schema, "promotes"),
            accepts_number=self.tensors(entry, schema, "accepts_number"),
            number_overload=self.number_overload(entry, schema),
            deprecated_order=self.deprecated_order(entry, schema),
            deprecated=word_of(entry, "deprecated"),
            deprecated_because=word_of(entry, "deprecated_because"),
            infix=word_of(entry, "infix"),
            domain=check_domain(entry, schema),
            is_differentiable=self.is_differentiable(entry, schema),
            kinks=tuple(word.value for word in words_of(entry, "kinks")),
            on_real=word_of(entry, "on_real"),
            out=out_words(entry, schema, has_out),
            out_errors=out_errors(entry, schema, has_out),
            half_numbers=word_of(entry, "half_numbers"),
            autocast=self.autocast(entry, schema),
            float8=float8_of(entry, schema),
            sparse=sparse_of(entry, schema, inplace, self.sparse),
            batch=batch_of(entry, schema, self.batching),
            shape=self.shape(entry, schema),
            **rules,
            top_level=word_of(entry, "top_level") is not None,
            composite_module=None if composite is None else self.composites.module(*composite.split(".")),
            has_written_kernel=entry.get("kernel") is not None,
        )

    def scalar(self, entry: Entry, schema: FunctionSchema) -> Scalar | None:
        """Return the definition that `scalar:` gives, which is for pointwise operators with one result."""
        text = entry.get("scalar")
        if not isinstance(text, Text):
            return None
        tags = [w.value for w in words_of(entry, "tags")]
        other = word_of(entry, "batch") not in (None, "pointwise") or "reduction" in tags
        if other and "pointwise" not in tags:
            hint = "add `pointwise` to `tags:`, or `batch: pointwise`"
            raise entry.keys["scalar"].error(f"`{schema.name}` is not pointwise", hint)
        if len(schema.as_functional().returns) != 1:
            raise entry.keys["scalar"].error(f"`{schema.name}` has several results", "remove `scalar:`")
        return analyse_scalar(text, schema)

    def is_differentiable(self, entry: Entry, schema: FunctionSchema) -> bool:
        """Return whether a definition may get derivatives; refuse `differentiable:` where there is no definition."""
        if "differentiable" in entry and "scalar" not in entry:
            hint = "remove it; only operators with `scalar:` get derivatives that derivatives.yaml does not have"
            message = f"`{schema.name}` has no definition, so that `differentiable` has no meaning"
            raise entry.keys["differentiable"].error(message, hint)
        return "differentiable" not in entry

    def implementation(
        self, entry: Entry, text: Text, schema: FunctionSchema, scalar: Scalar | None, rows: Rows | None
    ) -> tuple[KernelExpr | None, str | None]:
        """Return the kernel, that which a definition makes if there is no other, or the composite."""
        kernel, composite = entry.get("kernel"), entry.get("composite")
        if kernel is not None and composite is not None:
            hint = "remove `kernel:`, or remove `composite:`"
            raise entry.keys["composite"].error(f"`{schema.name}` has a kernel and is a composite", hint)
        if isinstance(kernel, Text):
            return analyse(kernel, schema, self.kernels), None
        if isinstance(composite, Text):
            return None, check_function(composite, schema, self.composites)
        made = self.made(schema, scalar, rows)
        if made is not None:
            return self.made_kernel(entry, schema, made), None
        shown = len(str(schema.name))
        hint = "add `kernel: family.function`, or an array expression such as `kernel: xp.sin(self)`"
        raise text.error(f"`{schema.name}` has no kernel", hint, 0, shown)

    def made(self, schema: FunctionSchema, scalar: Scalar | None, rows: Rows | None) -> str | None:
        """Return the kernel that a definition makes; None without one."""
        if scalar is not None:
            return array_expression(scalar)
        return None if rows is None else row_expression(rows, schema)

    def made_kernel(self, entry: Entry, schema: FunctionSchema, made: str) -> KernelExpr:
        """Return the kernel that a definition makes."""
        text = entry.fields["scalar"]
        assert isinstance(text, Text)
        of_gradloom = rules_in("kernels")
        kernel = analyse(replace(text, value=made), schema, of_gradloom)
        if self.kernels.folder == of_gradloom.folder:
            return kernel
        return replace(kernel, modules=tuple((name, OF_GRADLOOM + module) for name, module in kernel.modules))

    def tensors(self, entry: Entry, schema: FunctionSchema, key: str) -> tuple[str, ...]:
        """Return the tensor arguments that a key names."""
        words = words_of(entry, key)
        tensors = [a.name for a in schema.inputs if a.type.is_tensor]
        for word in words:
            if word.value not in tensors:
                hint = did_you_mean(word.value, tensors) or f"its tensor arguments are {', '.join(tensors) or 'none'}"
                raise word.error(f"`{schema.name}` has no tensor argument `{word.value}`", hint)
        return tuple(w.value for w in words)

    def number_overload(self, entry: Entry, schema: FunctionSchema) -> str | None:
        """Return the overload of the same operator that takes a number as the second argument."""
        name = entry.get("number_overload")
        second = [a.name for a in schema.inputs[1:2]]
        if not isinstance(name, Text):
            return None
        if not IDENTIFIER.fullmatch(name.value):
            raise name.error(f"`{shorten(name.value)}` is not the name of an overload", "write a name such as `Scalar`")
        if second and second[0] in self.tensors(entry, schema, "accepts_number"):
            return name.value
        hint = f"add `accepts_number: {second[0]}`, or remove it" if second else "remove it"
        message = f"the second argument of `{schema.name}` may be no number, so that `number_overload` has no meaning"
        raise entry.keys["number_overload"].error(message, hint)

    def deprecated_order(self, entry: Entry, schema: FunctionSchema) -> tuple[str, ...]:
        """Return the arguments in the deprecated order: all of them, with those that are keyword-only among them."""
        words = words_of(entry, "deprecated_order")
        names = [a.name for a in schema.inputs]
        for word in words:
            if word.value not in names:
                hint = did_you_mean(word.value, names) or f"its arguments are {', '.join(names) or 'none'}"
                raise word.error(f"`{schema.name}` has no argument `{shorten(word.value)}`", hint)
        missing = [name for name in names if name not in [word.value for word in words]] if words else []
        if missing:
            hint = f"add {', '.join(missing)}"
            raise entry.keys["deprecated_order"].error("`deprecated_order` does not name all arguments", hint)
        if words and not schema.kwarg_only:
            message = f"`{schema.name}` has no keyword-only argument, so that `deprecated_order` has no meaning"
            raise entry.keys["deprecated_order"].error(message, "remove it; it is for numbers that moved behind `*`")
        return tuple(word.value for word in words)

    def autocast(self, entry: Entry, schema: FunctionSchema) -> str | None:
        """Return autocast's rule for the arguments. Refuse it for operators without tensors, or that write to one."""
        rule = word_of(entry, "autocast")
        if rule is None:
            return None
        if any(a.is_write for a in schema.arguments):
            reason, hint = "writes to an argument", "remove it; autocast leaves what is written to as it is"
        elif not any(a.type.is_tensor_like for a in schema.inputs):
            reason, hint = "has no tensor argument", "remove it; there is nothing to cast"
        else:
            return rule
        raise entry.keys["autocast"].error(f"`{schema.name}` {reason}, so that `autocast` has no meaning", hint)

    def shape(self, entry: Entry, schema: FunctionSchema) -> Rule | None:
        """Return the rule of the shapes of the results. Refuse it for composites, whose operators have theirs."""
        found = rule_of(entry, schema, SHAPE, self.rules["shape"])
        if found is not None and "composite" in entry:
            message = f"`{schema.name}` is made of operators that have shapes, so that `shape` has no meaning"
            raise entry.keys["shape"].error(message, "remove it")
        return found

    def check_lists(self, entry: Entry, schema: FunctionSchema) -> None:
        """Refuse an operator on lists that has none, or keys of other operators."""
        if not any(str(a.type) == "Tensor[]" for a in schema.inputs):
            key = next(entry.keys[name] for name in ("foreach", "fused") if name in entry)
            raise key.error(f"`{schema.name}` takes no list of tensors", f"remove `{key.value}:`")
        for name, key in entry.keys.items():
            if name not in ON_LISTS:
                hint = f"remove it; an operator on lists has {', '.join(f'`{n}:`' for n in ON_LISTS[:3])} or `fused:`"
                raise key.error(f"`{schema.name}` works on lists, so that `{name}` has no meaning", hint)

    def check_method(self, entry: Entry, schema: FunctionSchema, variants: tuple[str, ...]) -> None:
        if "method" not in variants:
            return
        own = schema.argument("self")
        if own is None or own.kwarg_only or not own.type.is_tensor:
            word = next(w for w in words_of(entry, "variants") if w.value == "method")
            hint = "name the tensor that it is a method of `self`, or remove `method`"
            raise word.error(f"`{schema.name}` cannot be a method: it has no argument `Tensor self`", hint)

    def check_inplace_function(self, entry: Entry, variants: tuple[str, ...], derived: tuple[Variant, ...]) -> None:
        word = next((w for w in words_of(entry, "variants") if w.value == "function_"), None)
        if word is None or ("method" in variants and any(v.kind == "inplace" for v in derived)):
            return
        raise word.error(
            "`function_` makes the in-place variant of a method a function, too, and there is none",
            "remove it, or write `method` here and the in-place variant in `autogen:`",
        )
