"""Kernel expressions: what they use, and which ufunc they are. Refusals are in errors/."""

from pathlib import Path

import pytest

from gradloom.codegen.errors import SpecError
from gradloom.codegen.language.array_language import kind_of, names_in
from gradloom.codegen.language.kernels import analyse
from gradloom.codegen.reading.python_files import FunctionIndex
from gradloom.codegen.reading.yaml_files import parse_entries
from gradloom.codegen.schema import parse

KERNELS = FunctionIndex(Path(__file__).parent / "errors" / "base" / "src" / "gradloom" / "kernels")
SCHEMA = parse("f(Tensor self, Tensor other, Tensor[] list, *, Scalar value=1, bool flag=False) -> Tensor")


def kernel(text, schema=SCHEMA):
    quoted = text.replace("'", "''")
    (entry,) = parse_entries(f"- kernel: '{quoted}'\n", "f.yaml")
    return analyse(entry.fields["kernel"], schema, KERNELS)


@pytest.mark.parametrize(
    "text",
    [
        "self",
        "value * other + self",
        "xp.where(flag, self, 0.5)",
        "xp.concatenate([xp.ravel(x) for x in list if x.ndim > 0])",
        "sum(x.size for x in list) + self",
        "self if flag else -self",
        "self[..., None, ::-1].T.real",
        "xp.linalg.det(self) + xp.fft.fft(other)",
        "self.astype(xp.float32).sum(axis=(0, -1), keepdims=True)",
        "self.astype(bool) & (other.dtype.kind == 'f')",
        "xp.finfo(self.dtype).eps * xp.pi",
        "xp.add.reduce(self, axis=0)",
        "not flag and value is None or 1 < value <= 2",
        "xp.stack((*list, self), axis=0)",
    ],
)
def test_expressions(text):
    found = kernel(text)
    assert (found.kind, found.source) == ("expression", text)


@pytest.mark.parametrize(
    ("text", "ufunc", "operands"),
    [
        ("xp.sin(self)", "sin", ("self",)),
        ("self + value * other", "add", ("self", "value * other")),
        ("self @ other", "matmul", ("self", "other")),
        ("-self", "negative", ("self",)),
        ("self >= other", "greater_equal", ("self", "other")),
        ("xp.maximum(self, xp.abs(other))", "maximum", ("self", "xp.abs(other)")),
        ("0 < self < 1", None, ()),
        ("self is other", None, ()),
        ("not self", None, ()),
        ("xp.sum(self)", None, ()),
        ("xp.add(self, other, dtype=bool)", None, ()),
        ("self", None, ()),
    ],
)
def test_outermost_ufunc(text, ufunc, operands):
    found = kernel(text)
    assert (found.ufunc, found.operands) == (ufunc, operands)


def test_ufuncs_with_two_results_take_no_single_out():
    assert kernel("xp.frexp(self)", parse("f(Tensor self) -> (Tensor, Tensor)")).ufunc is None


def test_named_kernels():
    found = kernel(" elementwise.mul ", parse("f(Tensor self, Tensor other, *, Device? device=None) -> Tensor"))
    assert (found.kind, found.family, found.function) == ("named", "elementwise", "mul")


def test_named_kernels_may_be_called_in_an_expression():
    found = kernel("elementwise.mul(self, other) + 1")
    assert (found.kind, found.families, found.family) == ("expression", ("elementwise",), None)


@pytest.mark.parametrize(
    "call", ["mul(self, other)", "mul(self, other=other)", "mul(*list)", "addcmul(self, self, other, value=value)"]
)
def test_calls_of_kernels_that_fit_their_definition(call):
    assert kernel(f"elementwise.{call}").families == ("elementwise",)


def test_an_argument_hides_a_family():
    schema = parse("f(Tensor reduction, Tensor amax) -> Tensor")
    assert kernel("reduction.real", schema).kind == "expression"
    hidden = parse("f(Tensor reduction, Tensor dim, bool keepdim) -> Tensor")
    assert kernel("reduction.amax", hidden).kind == "named"


def test_several_results():
    two = parse("f(Tensor self, bool flag) -> (Tensor values, Tensor indices)")
    for text in ("self.max(), self.argmax()", "(self, self) if flag else (-self, self)", "xp.linalg.eigh(self)"):
        assert kernel(text, two).kind == "expression"
    for text in ("xp.split(self, 2)", "self[0], self[1]", "[self]", "list", "[x for x in list]"):
        assert kernel(text, parse("f(Tensor self, Tensor[] list) -> Tensor[]")).kind == "expression"


def test_several_lines_are_one_expression():
    (entry,) = parse_entries("- kernel: |\n    xp.where(flag,\n      self, other)\n", "f.yaml")
    assert analyse(entry.fields["kernel"], SCHEMA, KERNELS).source == "xp.where(flag, self, other)"


def test_a_keyword_as_argument_name_gets_an_underscore():
    assert kernel("from_ + 1", parse("f(int from) -> Tensor")).ufunc == "add"


def test_an_out_argument_is_not_an_input():
    with pytest.raises(SpecError, match="unknown name `out`"):
        kernel("self + out", parse("f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"))


@pytest.mark.parametrize("text", ["-" * 3000 + "self", "self" + ".T" * 1500, " + ".join(["self"] * 560)])
def test_no_expression_overflows_the_stack(text):
    with pytest.raises(SpecError):
        kernel(text)


@pytest.mark.parametrize(
    "name",
    """load save fromfile memmap vectorize frompyfunc seterr copyto put random ctypeslib testing lib test info
    apply_along_axis __class__ __builtins__ f2py emath polynomial ndarray errstate""".split(),
)
def test_names_of_numpy_that_are_outside(name):
    assert kind_of((name,)) is None
    assert kind_of(("linalg", name)) is None


def test_names_of_numpy_that_are_inside():
    assert [kind_of((n,)) for n in ("sin", "sum", "zeros", "float32", "pi", "linalg")] == [
        "ufunc",
        "function",
        "function",
        "value",
        "value",
        "module",
    ]
    assert len(names_in("")) > 300
    assert not any(name.startswith("_") for part in ("", "linalg", "fft") for name in names_in(part))


def test_a_family_may_be_a_folder(tmp_path):
    folder = tmp_path / "family"
    (folder / "deeper").mkdir(parents=True)
    (folder / "__init__.py").write_text("from .first import one\n")
    (folder / "first.py").write_text("from ..other import lent\ndef one(self): ...\ndef twice(): ...\n")
    (folder / "second.py").write_text("from .first import one\ndef two(self): ...\ndef twice(): ...\n")
    (folder / "_private.py").write_text("def four(): ...\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "_common").mkdir()
    (tmp_path / "_common" / "__init__.py").write_text("def five(): ...\n")
    index = FunctionIndex(tmp_path)
    assert index.families == ("family",)
    assert set(index.functions("family")) == {"lent", "one", "twice", "two"}
    assert [index.module("family", name) for name in ("one", "two", "lent")] == [
        "family.first",
        "family.second",
        "family.first",
    ]
    assert index.explain("family", "two") is None and index.find("five") == ()
    word, message, _ = index.explain("family", "twice")
    assert word == "function" and message.endswith("/family/first.py and " + tmp_path.name + "/family/second.py")


def test_the_index_reads_files_without_running_them(tmp_path):
    (tmp_path / "family.py").write_text(
        "raise SystemExit\nfrom os import path\nfrom .sibling import five as imported\n"
        "def one(): ...\ntwo = one\nthree: int = 3\ndef _hidden(): ...\n"
    )
    (tmp_path / "_private.py").write_text("def four(): ...\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    index = FunctionIndex(tmp_path)
    assert index.families == ("broken", "family")
    assert set(index.functions("family")) == {"imported", "one", "two", "three"}
    assert not index.functions("nowhere")
    assert index.find("one") == ("family",)
    assert index.explain("family", "one") is None
    assert index.explain("broken", "one")[1] == "folder/broken.py is not Python".replace("folder", tmp_path.name) + (
        ": invalid syntax in line 1"
    )
