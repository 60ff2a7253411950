"""The schema language: text to model and back, what is refused, and the variants that are derived."""

import dataclasses

import pytest

from gradloom.codegen.schema import (
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
    parse,
)

TENSOR = Base("Tensor")

ROUND_TRIPS = [
    "f() -> ()",
    "f(Tensor self) -> Tensor",
    "f(Tensor? self, Tensor[] a, Tensor?[] b, Tensor[]? c) -> Tensor[]",
    "ns::f_.over_load(Tensor(a!) self, *, int[2]? size=None) -> Tensor(a!)",
    "__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    "__and__.Tensor(Tensor self, Tensor other) -> Tensor",
    "split(Tensor(a -> *) self, int size) -> Tensor(a)[]",
    "pick(Tensor(a|b) self) -> Tensor(a|b)",
    "f(*, ScalarType? dtype=long, Layout? layout=None, Device? device=None) -> Tensor",
    "f(Tensor self, str a=\"\\\"'\\\\\", str b='x y') -> (Tensor values, Tensor indices)",
    "f(float a=1e-05, float b=inf, float c=-inf, int d=-1, bool e=True, int[] f=[0,1], int[2] g=0) -> Tensor",
    "f.out(Tensor self, *, Tensor(a!) u, Tensor(b!) v) -> (Tensor(a!), Tensor(b!))",
    "f_(Tensor(a!)[] self) -> ()",
    "f(int reduction=Mean, MemoryFormat format=contiguous_format) -> (Tensor, int, bool)",
]


@pytest.mark.parametrize("text", ROUND_TRIPS)
def test_prints_what_it_parsed(text):
    schema = parse(text)
    assert str(schema) == text
    assert parse(str(schema)) == schema


def test_white_space_does_not_matter():
    loose = "  f_ ( Tensor ( a ! )  self ,*, int [ 2 ] ? n = [ 1 , 2 ] )->Tensor (a!)  "
    assert str(parse(loose)) == "f_(Tensor(a!) self, *, int[2]? n=[ 1 , 2 ]) -> Tensor(a!)"


def test_parts():
    schema = parse("add.Tensor(Tensor self, Tensor? other, int from=0, *, Scalar alpha=1) -> Tensor result")
    assert schema.name == OperatorName(None, "add", False, "Tensor")
    assert [a.name for a in schema.positional] == ["self", "other", "from"]
    assert [a.name for a in schema.kwarg_only] == ["alpha"]
    assert schema.argument("other") == Argument("other", Optional(TENSOR))
    assert schema.argument("from").python_name == "from_"
    assert schema.argument("nothing") is None
    assert schema.returns == (Return(TENSOR, "result"),)
    assert schema.kind == "functional"


@pytest.mark.parametrize(
    ("text", "name", "unambiguous", "inplace"),
    [
        ("add", "add", "add", False),
        ("add.Tensor", "add", "add_Tensor", False),
        ("add_.Tensor", "add_", "add__Tensor", True),
        ("add.out", "add", "add_out", False),
        ("__and__.Scalar", "__and__", "__and___Scalar", False),
        ("__ior__", "__ior__", "__ior__", True),
        ("__invert__", "__invert__", "__invert__", False),
        ("_", "_", "_", False),
    ],
)
def test_operator_names(text, name, unambiguous, inplace):
    parsed = OperatorName.parse(text)
    assert (parsed.name, parsed.unambiguous, parsed.inplace) == (name, unambiguous, inplace)
    assert str(parsed) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int x=3", 3),
        ("float x=1e-3", 1e-3),
        ("float x=-inf", float("-inf")),
        ("bool x=False", False),
        ("Scalar? x=None", None),
        ("str x='a b'", "a b"),
        ("int[2] x=[1, -2]", [1, -2]),
        ("int[2] x=7", 7),
        ("int[2] x=[]", []),
        ("int x=Sum", Symbol("Sum", 2)),
        ("ScalarType x=long", Symbol("long")),
        ("int x", None),
    ],
)
def test_default_values(text, value):
    argument = parse(f"f({text}) -> ()").arguments[0]
    assert argument.default_value == value
    assert type(argument.default_value) is type(value)


@pytest.mark.parametrize(
    ("text", "like", "one", "many", "optional", "is_list"),
    [
        ("Tensor", True, True, False, False, False),
        ("Tensor?", True, True, False, True, False),
        ("Tensor[]", True, False, True, False, True),
        ("Tensor?[]", True, False, True, False, True),
        ("Tensor[]?", True, False, True, True, True),
        ("int[2]?", False, False, False, True, True),
        ("Scalar", False, False, False, False, False),
    ],
)
def test_questions_about_types(text, like, one, many, optional, is_list):
    type_ = parse(f"f({text} x) -> ()").arguments[0].type
    assert (type_.is_tensor_like, type_.is_tensor, type_.is_tensor_list) == (like, one, many)
    assert (type_.is_optional, type_.is_list) == (optional, is_list)
    assert str(type_) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f(Tensor self) -> Tensor", "functional"),
        ("f_(Tensor(a!) self) -> Tensor(a!)", "inplace"),
        ("f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "out"),
        ("f(Tensor self, Tensor(a!) mean) -> Tensor", "mutable"),
    ],
)
def test_kinds(text, kind):
    assert parse(text).kind == kind


@pytest.mark.parametrize(
    ("text", "inplace", "out"),
    [
        (
            "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
            "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
            "add.Tensor_out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        ),
        (
            "_foreach_neg(Tensor[] self) -> Tensor[]",
            "_foreach_neg_(Tensor(a!)[] self) -> ()",
            "_foreach_neg.out(Tensor[] self, *, Tensor(a!)[] out) -> ()",
        ),
        (
            "t(Tensor(a) self) -> Tensor(a)",
            "t_(Tensor(a!) self) -> Tensor(a!)",
            "t.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
        ),
    ],
)
def test_variants(text, inplace, out):
    schema = parse(text)
    assert str(schema.as_inplace()) == inplace
    assert str(schema.as_out()) == out
    plain = schema.as_copy().signature().returns if schema.is_view else schema.signature().returns
    for variant in (schema.as_inplace(), schema.as_out()):
        assert variant.signature() == schema.signature()
        assert variant.signature().returns == plain
        assert parse(str(variant)) == variant


def test_variants_of_several_results():
    out = parse("max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)").as_out()
    assert str(out) == (
        "max.dim_out(Tensor self, int dim, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
    )


def test_out_variant_of_a_factory_takes_its_options_from_out():
    options = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
    assert str(parse(f"zeros(int[] size, *, {options}) -> Tensor").as_out()) == (
        "zeros.out(int[] size, *, Tensor(a!) out) -> Tensor(a!)"
    )
    # One of the options alone is an argument like any other.
    assert "dtype" in str(parse("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor").as_out())


def test_functional_of_a_mutable_operator_returns_the_new_values():
    schema = parse("norm(Tensor x, Tensor(a!) mean, Tensor(b!) var) -> (Tensor, Tensor)")
    assert str(schema.as_functional()) == (
        "norm(Tensor x, Tensor mean, Tensor var) -> (Tensor, Tensor, Tensor mean_out, Tensor var_out)"
    )
    out = parse("norm.out(Tensor x, Tensor(a!) mean, *, Tensor(b!) out) -> Tensor(b!)")
    assert str(out.as_functional()) == "norm(Tensor x, Tensor mean) -> (Tensor, Tensor mean_out)"


def test_copy_of_a_view():
    assert str(parse("split.Tensor(Tensor(a -> *) self, int size) -> Tensor(a)[]").as_copy()) == (
        "split_copy.Tensor(Tensor self, int size) -> Tensor[]"
    )


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("f(Scalar value) -> Tensor", "as_inplace"),
        ("f(Tensor self) -> (Tensor, Tensor)", "as_inplace"),
        ("f(Tensor self) -> Tensor[]", "as_inplace"),
        ("f(Tensor self) -> int", "as_out"),
        ("f(Tensor self) -> ()", "as_out"),
        ("f(Tensor self) -> Tensor", "as_copy"),
    ],
)
def test_variants_that_do_not_exist(text, method):
    with pytest.raises(SchemaError, match="has no"):
        getattr(parse(text), method)()


def test_objects_are_frozen_and_hashable():
    schema = parse("f(Tensor(a) self, int[2] n=[1, 2]) -> Tensor(a)")
    assert len({schema, parse(str(schema))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.arguments[0].name = "other"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Base("Tensr"),
        lambda: Optional(Optional(TENSOR)),
        lambda: List(TENSOR, 0),
        lambda: Annotation(()),
        lambda: Annotation(("ab",)),
        lambda: Argument("a b", TENSOR),
        lambda: Argument("x", TENSOR, "1"),
        lambda: Argument("x", List(Base("int"), 2), "[1, 2, 3]"),
        lambda: Argument("x", Base("int"), "True"),
        lambda: OperatorName(None, "a-b"),
        lambda: OperatorName.parse("a."),
        lambda: FunctionSchema(OperatorName(None, "f"), (Argument("x", TENSOR), Argument("x", TENSOR)), ()),
        lambda: FunctionSchema(OperatorName(None, "f", inplace=True), (Argument("x", TENSOR),), ()),
    ],
)
def test_objects_are_checked_when_they_are_made(make):
    with pytest.raises(SchemaError):
        make()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("f(Tensr self) -> Tensor", "Tensr"),
        ("f(Tensor self, Tensor self) -> Tensor", "self"),
        ("f(Tensor self) -> Tensr", "Tensr"),
        ("f(int x=1.5) -> ()", "1.5"),
        ("f(int x='a", "'a"),
        ("f(int x=007) -> ()", "007"),
        ("f(str x='\\q') -> ()", "'\\q'"),
        ("f(int[] x=[Mean]) -> ()", "[Mean]"),
        ("f(Tensor self) Tensor", "Tensor"),
        ("f(Tensor self", ""),
        ("", ""),
        ("f(int[99999999999999999999] x) -> ()", "99999999999999999999"),
        ("f" + "(" * 5000, "("),
    ],
)
def test_errors_mark_the_word(text, word):
    with pytest.raises(SchemaError) as caught:
        parse(text)
    error = caught.value
    marked = text[error.offset : error.offset + error.length]
    assert marked == word
    assert error.hint
    # The word that is marked is not an earlier one that looks the same.
    assert text.rindex(word) == error.offset or word == "("


def test_nesting_and_length_are_bounded():
    with pytest.raises(SchemaError, match="deeply"):
        parse("f(Tensor" + "[]" * 9_000 + " x) -> ()")
    with pytest.raises(SchemaError, match="deeply"):
        parse("f(int[] x=" + "[" * 9_000)
    with pytest.raises(SchemaError, match="characters"):
        parse("f(" + "Tensor x, " * 100_000)
