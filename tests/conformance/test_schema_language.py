"""The schema language against PyTorch's own files, read where the torch wheel has them."""

import importlib.util
from functools import cache
from pathlib import Path

import pytest

from gradloom.codegen.reading.yaml_files import load_entries
from gradloom.codegen.schema import SchemaError, parse
from tests.releases import pytorch_before

# torchgen is found without importing torch.
_TORCHGEN = importlib.util.find_spec("torchgen")
pytestmark = pytest.mark.skipif(_TORCHGEN is None, reason="torch is not installed")


@cache
def entries(name):
    return load_entries(Path(_TORCHGEN.origin).parent / "packaged" / name)


def funcs():
    return [e.fields["func"].value for e in entries("ATen/native/native_functions.yaml")]


def test_every_schema_prints_back_as_it_was():
    assert len(funcs()) == (2584 if pytorch_before("2.15") else 2590)
    assert [str(parse(text)) for text in funcs()] == funcs()


def test_every_derivative_names_a_schema():
    names = [e.fields["name"].value for e in entries("autograd/derivatives.yaml")]
    assert len(names) == (687 if pytorch_before("2.15") else 688)
    assert [str(parse(text)) for text in names] == names


def test_derived_variants_are_those_that_pytorch_has():
    """Where PyTorch spells a variant out, deriving it from the functional entry gives the same arguments."""
    families = {}
    for text in funcs():
        schema = parse(text)
        families.setdefault(schema.signature(), {}).setdefault(schema.kind, []).append(schema)
    compared, different = 0, []
    for kinds in families.values():
        for functional in kinds.get("functional", ()):
            for kind, derive in (("inplace", functional.as_inplace), ("out", functional.as_out)):
                for theirs in kinds.get(kind, ()):
                    compared += 1
                    if _arguments(derive()) != _arguments(theirs):
                        different.append(str(theirs))
    assert compared > 900
    # The functional form of this one has no default for p.
    assert different == ["bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)"]


def _arguments(schema):
    """Types, defaults and annotations; names of out arguments are free."""
    return [(str(a.type), a.default, str(a.annotation)) for a in schema.arguments], len(schema.returns)


def test_every_entry_of_pytorch_has_every_position():
    """An offset in any value leads to the character that stands there."""
    for entry in entries("ATen/native/native_functions.yaml"):
        text = entry.fields["func"]
        for offset in range(0, len(text.value), 7):
            if not text.value[offset].isspace():
                assert text.source.text[text.index(offset)] == text.value[offset]


def test_damaged_schemas_are_refused_with_a_position():
    """Whatever is cut out of a schema, the answer is a schema or a SchemaError that points into it."""
    for text in funcs()[::40]:
        for start in range(0, len(text), 3):
            damaged = text[:start] + text[start + 2 :]
            try:
                parse(damaged)
            except SchemaError as error:
                assert 0 <= error.offset <= len(damaged)
                assert error.offset + error.length <= len(damaged) + 1
