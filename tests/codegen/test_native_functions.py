"""Loading operators: keys, derived variants, overloads, families. What is refused is in errors/."""

from pathlib import Path

import pytest

from gradloom.codegen.errors import SpecError, SpecErrors
from gradloom.codegen.operators import native_functions
from gradloom.codegen.operators.keys import KEYS

PACKAGE = Path(__file__).parent / "errors" / "base" / "src" / "gradloom"


@pytest.fixture
def load(tmp_path):
    def load_text(text):
        path = tmp_path / "native_functions.yaml"
        path.write_text(text, encoding="utf-8")
        return native_functions.load(path, shown="native_functions.yaml", package=PACKAGE)

    return load_text


def test_an_entry_of_two_lines(load):
    (entry,) = load("- func: foo(Tensor self) -> Tensor\n  kernel: self + 1\n")
    assert (entry.name, entry.variants, entry.family) == ("foo", ("function",), "elementwise")
    assert (entry.derived, entry.tags, entry.python_module, entry.composite) == ((), (), None, None)
    assert entry.kernel.source == "self + 1"
    assert not entry.is_view
    assert (entry.text.line, entry.text.col) == (1, 9)


def test_an_entry_with_everything(load):
    operators = load("""
- func: t.x(Tensor(a) self, *, Scalar value=1) -> Tensor(a)
  variants: [function, method]
  kernel: xp.transpose(self)
  autogen: t_, t_copy.x, t_copy.x_out
  tags: core, pointwise
  python_module: linalg
  family: reduction
  type_promotion: none
  domain: {self: [0.2, 3]}
""")
    (entry,) = operators
    assert entry.variants == ("function", "method")
    assert entry.tags == ("core", "pointwise")
    assert (entry.python_module, entry.family, entry.type_promotion) == ("linalg", "reduction", "none")
    assert entry.is_view
    assert [item.value for item in entry.domain.fields["self"].items] == ["0.2", "3"]
    assert [(v.kind, v.name) for v in entry.derived] == [
        ("inplace", "t_"),
        ("copy", "t_copy.x"),
        ("copy_out", "t_copy.x_out"),
    ]
    assert operators.names == ("t.x", "t_", "t_copy.x", "t_copy.x_out")
    assert operators["t_copy.x"] is entry
    assert "t_" in operators
    assert operators.get("t") is None
    assert str(operators.schema("t_")) == "t_(Tensor(a!) self, *, Scalar value=1) -> Tensor(a!)"


@pytest.mark.parametrize(
    ("func", "word", "derived"),
    [
        (
            "mul.Tensor(Tensor self, Tensor x) -> Tensor",
            "mul_.Tensor",
            "mul_.Tensor(Tensor(a!) self, Tensor x) -> Tensor(a!)",
        ),
        ("mul.Tensor(Tensor self, Tensor x) -> Tensor", "mul_", "mul_(Tensor(a!) self, Tensor x) -> Tensor(a!)"),
        (
            "mul.Tensor(Tensor self, Tensor x) -> Tensor",
            "mul.out",
            "mul.out(Tensor self, Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        ),
        (
            "mul.Scalar(Tensor self, Scalar x) -> Tensor",
            "mul.Scalar_out",
            "mul.Scalar_out(Tensor self, Scalar x, *, Tensor(a!) out) -> Tensor(a!)",
        ),
        ("fill_(Tensor(a!) self, Scalar x) -> Tensor(a!)", "fill", "fill(Tensor self, Scalar x) -> Tensor"),
        (
            "fill_(Tensor(a!) self, Scalar x) -> Tensor(a!)",
            "fill.out",
            "fill.out(Tensor self, Scalar x, *, Tensor(a!) out) -> Tensor(a!)",
        ),
    ],
)
def test_derived_variants(load, func, word, derived):
    (entry,) = load(f"- func: {func}\n  kernel: self * x\n  autogen: {word}\n")
    assert str(entry.derived[0].schema) == derived


def test_overloads_go_by_python_name(load):
    operators = load(
        "- func: foo.Tensor(Tensor self, Tensor x) -> Tensor\n  kernel: self + x\n"
        "  autogen: foo_.Tensor, foo.out\n"
        "- func: foo.Scalar(Tensor self, Scalar x) -> Tensor\n  kernel: self + x\n"
    )
    assert [str(s.name) for s in operators.overloads("foo")] == ["foo.Tensor", "foo.out", "foo.Scalar"]
    assert [str(s.name) for s in operators.overloads("foo_")] == ["foo_.Tensor"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(Tensor self, int n) -> Tensor", "(Tensor self, float n) -> Tensor"),
        ("(Tensor self) -> Tensor", "(Tensor self, int dim) -> Tensor"),
        ("(Tensor self, bool unbiased=True) -> Tensor", "(Tensor self, int[1]? dim=None, *, Scalar? c=None) -> Tensor"),
        ("(Tensor self, *, Scalar spacing) -> Tensor", "(Tensor self, *, Tensor[] spacing) -> Tensor"),
        ("(Tensor self, int n) -> Tensor", "(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)"),
    ],
)
def test_overloads_that_a_call_tells_apart(load, first, second):
    assert len(load(f"- func: f.a{first}\n  kernel: self\n- func: f.b{second}\n  kernel: self\n")) == 2


def test_a_function_and_a_method_may_be_called_alike(load):
    both = "- func: f.{0}(Tensor self) -> Tensor\n  variants: {1}\n  kernel: self\n"
    assert len(load(both.format("a", "function") + both.format("b", "method"))) == 2
    with pytest.raises(SpecError, match="ambiguous"):
        load(both.format("a", "function") + both.format("b", "function, method"))


def test_composites(load):
    (entry,) = load("- func: square(Tensor self) -> Tensor\n  composite: elementwise.square\n")
    assert (entry.kernel, entry.composite, entry.family) == (None, "elementwise.square", "elementwise")


def test_the_family_is_that_of_the_named_kernel(load):
    (entry,) = load("- func: amax(Tensor self, int dim, bool keepdim) -> Tensor\n  kernel: reduction.amax\n")
    assert entry.family == "reduction"


def test_banners_file_what_no_kernel_does(load):
    plain = "- func: {}(Tensor self) -> Tensor\n  kernel: self\n"
    operators = load(
        plain.format("a")
        + "# == reduction ==\n"
        + plain.format("b")
        + "- func: c(Tensor self) -> Tensor\n  composite: elementwise.square\n"
        + "# == no such family ==\n# == nowhere ==\n"
        + plain.format("d")
        + plain.format("e")
        + "  family: elementwise\n"
    )
    families = {f.name: f.family for f in operators}
    assert families == {"a": "elementwise", "b": "reduction", "c": "elementwise", "d": "reduction", "e": "elementwise"}


def test_order_banners_and_position_do_not_matter(load):
    one, two = (f"- func: {name}(Tensor self) -> Tensor\n  kernel: self\n" for name in ("one", "two"))
    assert [f.name for f in load(f"# banner\n{two}\n\n# other\n{one}")] == ["two", "one"]


def test_all_errors_are_reported_at_once(load):
    with pytest.raises(SpecErrors) as caught:
        load(
            "- func: a(Tensr self) -> Tensor\n  kernel: self\n"
            "- func: b(Tensor self) -> Tensor\n  kernal: self\n"
            "- func: c(Tensor self) -> Tensor\n  kernel: slef\n"
        )
    assert [(e.line, e.col) for e in caught.value.errors] == [(1, 11), (4, 3), (6, 11)]


def test_package_folder_prefers_the_checkout_of_the_file(tmp_path):
    (tmp_path / "src" / "gradloom" / "kernels").mkdir(parents=True)
    path = tmp_path / "native_functions.yaml"
    assert native_functions.package_folder(path) == tmp_path / "src" / "gradloom"


def test_every_key_and_word_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "yaml-language.md").read_text(encoding="utf-8")
    for name, key in KEYS.items():
        assert f"| `{name}` |" in page
        assert all(f"`{word}`" in page for word in key.known), name
