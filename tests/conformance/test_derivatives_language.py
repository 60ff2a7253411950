"""The derivatives format against PyTorch's own file and the node classes that it generated from it.

The formulas there are C++. Those that are Python as well, most of them, are analysed as if they were ours;
helpers are not known here, so every unknown function counts as one.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from gradloom.codegen.derivatives import derivatives, entries as derivative_keys
from gradloom.codegen.errors import SpecError
from gradloom.codegen.language.scope import Callables, Helper, describe_operators
from gradloom.codegen.reading.yaml_files import load_entries
from gradloom.codegen.schema import parse
from gradloom.codegen.target import OPERATORS

_TORCHGEN = importlib.util.find_spec("torchgen")
pytestmark = pytest.mark.skipif(_TORCHGEN is None, reason="torch is not installed")

# Where a field differs, PyTorch saves a tensor although its file asks for metadata only (`ones_like(self)`),
# or sees a name inside a string or in `.values()`.
DIFFERENT = {
    "MeanBackwardAutogradNestedTensor0", "SumBackwardAutogradNestedTensor0", "BatchNormBackwardBackward0",
    "SparseCompressedTensorBackward0",
}  # fmt: skip


class _AnyHelper(dict):
    """Takes every name that is no operator for a helper with any arguments."""

    def __init__(self, operators):
        self.operators = operators

    def __contains__(self, name):
        special = name in ("wrap_opt_if", "not_implemented", "zeros_like")
        return name not in self.operators and not special and re.fullmatch(r"[a-z_]\w+", name) is not None

    def __getitem__(self, name):
        return Helper(name, "any")

    def __iter__(self):
        return iter(())


def entries(name):
    return load_entries(Path(_TORCHGEN.origin).parent / "packaged" / name)


@cache
def analysed():
    """{node: info, or None where a formula is not Python} for all that makes a node in PyTorch's file."""
    rows = []
    for entry in entries("ATen/native/native_functions.yaml"):
        variants = entry.fields.get("variants")
        words = [w.value for w in variants.words()] if variants is not None else ["function"]
        module = entry.fields.get("python_module")
        rows.append((parse(entry.fields["func"].value), words, module.value if module is not None else ""))
    operators = describe_operators(rows)
    callables = Callables(_AnyHelper(operators), operators)
    namer = derivatives._Loader((), callables, OPERATORS, replaces=False)
    found = {}
    for entry in entries("autograd/derivatives.yaml"):
        schema = parse(entry.fields["name"].value)
        for section in derivative_keys.sections(entry, schema):
            if all(line.word == derivative_keys.NON_DIFFERENTIABLE for line in section.inputs):
                continue
            node = namer.node_name(schema, section.dispatch_key)
            try:
                found[node] = derivatives.analyse(section, schema, callables)
            except SpecError:
                found[node] = None
    return found


def generated_nodes():
    """PyTorch's node classes: {name: their `_saved_` fields}."""
    torch = pytest.importorskip("torch")
    classes = {name: value for name, value in vars(torch._C._functions).items() if isinstance(value, type)}
    return {
        name: {a.removeprefix("_saved_") for a in dir(value) if a.startswith("_saved_")}
        for name, value in classes.items()
        if re.search(r"Backward\D*\d+$", name)
    }


def test_every_node_has_pytorchs_name():
    assert set(analysed()) == set(generated_nodes())


def test_every_node_saves_what_pytorchs_does():
    theirs = generated_nodes()
    ours = {node: {s.name for s in info.saved if s.is_public} for node, info in analysed().items() if info is not None}
    assert len(ours) > 350
    assert {node for node in ours if ours[node] != theirs[node]} == DIFFERENT
