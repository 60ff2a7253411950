"""The names that generated code has for itself are those that no operator or argument may bear."""

import builtins
import symtable
from pathlib import Path

import pytest

import gradloom
from gradloom.codegen.derivatives.specification import OF_OPERATORS
from gradloom.codegen.language.array_language import BUILTINS
from gradloom.codegen.operators import native_functions
from gradloom.codegen.schema import model, origin
from gradloom.generated import namespaces
from tests.codegen.generated_code import problems

ROOT = Path(__file__).parents[2]
FILES = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in (ROOT / "generated").rglob("*.py")}
WRAPPERS = [name for name in FILES if "/variable_type/" in name and not name.endswith("__init__.py")]
NODES = [name for name in FILES if "/functions/" in name and not name.endswith("__init__.py")]


def test_the_generated_files_define_every_name_once():
    assert len(FILES) > 20
    assert problems(FILES) == []


@pytest.mark.parametrize("name", [*WRAPPERS, *NODES])
def test_what_a_generated_module_defines_for_itself_is_reserved(name):
    top = symtable.symtable(FILES[name], name, "exec")
    functions = {child.get_name() for child in top.get_children()}
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()} - functions
    own = {n for n in defined if not n.startswith(("kernels_", "composite_", "_"))}
    own -= {n for n in own if n.endswith(("_result", "_wrapper")) or "Backward" in n}
    assert own - _helpers() <= model.MODULE_NAMES, "add the new names to codegen/schema/model.py"


def _helpers():
    lines = [line for text in FILES.values() for line in text.splitlines()]
    imports = [line for line in lines if line.startswith("from gradloom.formulas.")]
    return {word.strip() for line in imports for word in line.split(" import ")[1].split(",")}


@pytest.fixture(scope="module")
def arguments():
    functions = native_functions.load(ROOT / "native_functions.yaml")
    names = {a.python_name for f in functions for s in f.schemas for a in s.arguments}
    return names | {r.name for f in functions for r in f.schema.returns if r.name}


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_a_wrapper_calls_its_own_is_reserved(name, arguments):
    """Every name in a wrapper is a parameter, a name derived from one, or reserved."""
    top = symtable.symtable(FILES[name], name, "exec")
    derived = {form.format(word) for word in (*arguments, "result") for form in model._DERIVED}
    derived |= {form.format(f"result{i}") for i in range(9) for form in model._DERIVED}
    known = arguments | derived | model.GENERATED_NAMES | BUILTINS | {"result", "input", "axis", "keepdims"}
    known |= {f"result{i}" for i in range(9)} | {"nr", "r", "t"}  # loops at the end of a wrapper
    families = {s.get_name() for s in top.get_symbols()}
    for function in (child for child in top.get_children() if child.get_type() == "function"):
        for symbol in function.get_symbols():
            word = symbol.get_name()
            own = symbol.is_local() and not symbol.is_parameter()
            python = symbol.is_global() and hasattr(builtins, word) and word not in families
            assert not (own or python) or word in known, f"{name}, {function.get_name()}: {word}"


def test_what_an_operator_object_has_besides_its_overloads_is_reserved():
    add = gradloom.ops.aten.add
    public = {name for name in dir(add) if not name.startswith("_")}
    assert public - set(add.overloads()) | {"default"} == OF_OPERATORS


def test_the_library_says_which_names_are_taken():
    assert {origin("method", name) for name in namespaces.METHODS} == {"operator"}
    assert {origin("function", name) for name in namespaces.FUNCTIONS} == {"operator"}
    methods = "data grad shape numpy backward _array _edge is_leaf __class__ register_hook apply_ T".split()
    assert {origin("method", name) for name in methods} == {"library"}
    functions = "load nn core kernels no_grad Tensor FloatTensor float32 Size tensor __getattr__".split()
    assert {origin("function", name) for name in functions} == {"library"}
    assert [origin(place, "softabs") for place in ("method", "function")] == [None, None]
    with gradloom.ops.define(
        "- func: softabs(Tensor self) -> Tensor\n  variants: method, function\n  top_level: true\n  kernel: self"
    ):
        assert gradloom.softabs and [origin(place, "softabs") for place in ("method", "function")] == [None, None]
