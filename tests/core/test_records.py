"""Records of operators: they say what native_functions.yaml says, and features need nothing else of a wrapper."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from gradloom.codegen.operators import native_functions
from gradloom.dispatch.records import Record, record_at, record_of
from gradloom.generated.records import RECORDS
from gradloom.schema import parse

RENAMED = {"from": "from_", "wrap": "wrap_"}  # names that Python or generated code has
ROOT = Path(__file__).parents[2]

WITHOUT_DOCSTRINGS = """
import gradloom as torch
assert torch.add.__doc__ is None
x = torch.ones(2)
print(torch.add(x, x, out=torch.empty(2)).tolist())
print(torch.add(torch.ones(2, device="meta"), 1).shape)
try:
    torch.cumsum(torch.eye(2).to_sparse(), 0)
except NotImplementedError as error:
    print(error)
print(torch.vmap(torch.sin)(x).shape, torch.ops.aten.add.Tensor(x, x).tolist())
print(torch.compile(lambda x: torch.sigmoid(x) * x)(x).shape)
y = torch.zeros(2, requires_grad=True)
z = y.exp()
z.mul_(2)
try:
    z.sum().backward()
except RuntimeError as error:
    print(error.__notes__[0])
"""
SAID = """
\\[2.0, 2.0\\]
torch.Size\\(\\[2\\]\\)
Could not run 'aten::cumsum' with arguments from the 'SparseCPU' backend.*
torch.Size\\(\\[2\\]\\) \\[2.0, 2.0\\]
torch.Size\\(\\[2\\]\\)
This came from ExpBackward0, the backward of exp, in the formula of `self`: .*
"""


def test_operators_work_without_docstrings():
    command = [sys.executable, "-OO", "-c", WITHOUT_DOCSTRINGS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert not done.returncode, done.stderr
    for line, expected in zip(lines, SAID.strip().splitlines(), strict=False):
        assert re.match(expected, line), line


def test_every_operator_of_the_file_has_its_record():
    functions = native_functions.load(ROOT / "native_functions.yaml")
    for function in functions:
        record = RECORDS[function.name]
        assert record.schema == str(function.schema)
        assert record.family == function.family
        assert set(function.tags) <= {*record.tags, "core"} and set(record.tags) <= {*function.tags, "inplace", "out"}
        assert record.is_composite == (function.composite is not None)
    assert len(RECORDS) == sum(1 for _ in RECORDS.all())


def test_arguments_are_those_of_the_schema():
    for record in RECORDS.all():
        schema = parse(record.schema)
        assert [a.name for a in record.arguments] == [RENAMED.get(a.name, a.name) for a in schema.arguments], record
        assert [a.type for a in record.arguments] == [a.type.text(a.annotation) for a in schema.arguments], record
        assert [bool(a.tensors) for a in record.arguments] == [a.type.is_tensor_like for a in schema.arguments], record
        assert record.written == tuple(i for i, a in enumerate(schema.arguments) if a.is_write), record


def test_a_wrapper_and_its_name_lead_to_its_record():
    add = RECORDS["add.Tensor"]
    assert record_of(RECORDS.wrapper_of(add)) is add
    assert record_at("gradloom.generated.variable_type.elementwise", "add") is add
    assert record_of(len) is None and record_at("gradloom", "add") is None
    assert RECORDS.out_of(add) is RECORDS["add.out"]
    assert [r.overload for r in RECORDS.of_operator("add")] == ["Tensor", "Scalar", "out", "Scalar_out"]
    assert RECORDS["add_.Tensor"].functional == "add.Tensor" and add.functional == "add.Tensor"
    for name in ("add.nothing", "nothing"):
        assert name not in RECORDS
        with pytest.raises(KeyError):
            RECORDS[name]


def test_rules_of_records_are_functions_that_take_the_arguments_there():
    for record in RECORDS.all():
        for rule, folder, given in ((record.shape, "meta", 2), (record.shard, "distributed.tensor", 1)):
            if rule:
                file, _, name = rule[0].rpartition(".")
                function = getattr(import_module(f"gradloom.{folder}.rules.{file or 'general'}"), name)
                inspect.signature(function).bind(*[None] * given, *rule[1:])
                assert not record.is_out, record
        if record.onnx:
            file, _, name = record.onnx[0].rpartition(".")
            parameters = inspect.signature(
                getattr(import_module(f"gradloom.onnx.rules.{file or 'general'}"), name)
            ).parameters
            assert [*parameters][len(record.onnx) - 1 :][:2] == ["b", "node"], record
        assert not (record.shape and record.is_composite), record


def test_a_record_does_not_change():
    with pytest.raises(AttributeError, match="a record does not change: tags"):
        RECORDS["add.Tensor"].tags = ()
    assert Record('f(Tensor from, *, str mode="a, b", int[2] wrap=[1, 1]) -> ()', "", "f").arguments == (
        ("from_", "Tensor", "Tensor"),
        ("mode", "str", ""),
        ("wrap_", "int[2]", ""),
    )
