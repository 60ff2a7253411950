"""The generated stubs say what the YAML says: parameters, defaults, what each takes, what comes back.

The stub of every operator is read back with `ast` and held against its schema, without the generator's own tables.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from keyword import iskeyword

import pytest

import gradloom
from gradloom.codegen.operators import native_functions

from .checkers import ROOT

STUBS = ROOT / "generated" / "stubs" / "gradloom-stubs" / "_stubs"
# What the annotation of an argument of a schema's base type names.
NAMED = {
    "Tensor": "Tensor",
    "Scalar": "Number",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ScalarType": "DType",
    "Device": "Device",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Generator": "Generator",
    "Storage": "UntypedStorage",
}


def definitions(body):
    found = defaultdict(list)
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found[node.name].append(node)
    return found


@pytest.fixture(scope="module")
def functions():
    return definitions(ast.parse((STUBS / "operators.pyi").read_text()).body)


@pytest.fixture(scope="module")
def methods():
    (cls,) = (n for n in ast.parse((STUBS / "methods.pyi").read_text()).body if isinstance(n, ast.ClassDef))
    return definitions(cls.body)


@pytest.fixture(scope="module")
def operators():
    return native_functions.load(ROOT / "native_functions.yaml", package=ROOT / "src" / "gradloom")


def words(annotation: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} | {
        str(n.value) for n in ast.walk(annotation) if isinstance(n, ast.Constant)
    }


def parameters(node: ast.FunctionDef) -> list[tuple[str, ast.arg, bool, bool]]:
    """(name, argument, has a default, keyword-only), `*sizes` as a positional one."""
    given = node.args
    defaults = [False] * (len(given.args) - len(given.defaults)) + [True] * len(given.defaults)
    found = [(a.arg, a, d, False) for a, d in zip(given.args, defaults, strict=True)]
    found += [(given.vararg.arg, given.vararg, False, False)] if given.vararg else []
    return found + [(a.arg, a, d is not None, True) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]


def shown_name(argument) -> str:
    """The name by which callers know an argument; `from` cannot be one."""
    if argument.name == "self" and argument.type.is_tensor:
        return "input"
    return argument.python_name if iskeyword(argument.name) else argument.name


def fits(node: ast.FunctionDef, schema, method: bool) -> bool:
    """Whether a stub says what the schema says."""
    told = [p for p in parameters(node) if p[0] not in ("out", "requires_grad")]
    expected = [a for a in schema.arguments if not (a.is_write and a.kwarg_only)]
    if method:
        expected = [a for a in expected if a.name != "self"]
        told = told[1:]
    names = {shown_name(a) for a in expected}
    told = [p for p in told if p[0] in names | {"self"} or not p[2]]  # one overload may stand for one that has less
    if len(told) != len(expected):
        return False
    starred = node.args.vararg is not None
    for (name, argument, has_default, keyword_only), a in zip(told, expected, strict=True):
        own = a.name if method and a.name == "self" else shown_name(a)
        if name != own or keyword_only != a.kwarg_only:
            return False
        if argument is node.args.vararg:
            if words(argument.annotation) != {"int"} or not str(a.type).startswith(("int[", "SymInt[")):
                return False
            continue
        if has_default != (a.default is not None) and not starred:
            return False
        named = words(argument.annotation)
        base = NAMED[a.type.base.name]
        is_list = str(a.type.required).endswith("]")
        if not ({base, "IntList"} & named if base == "int" else base in named):
            return False
        if ("None" in named) != ("?" in str(a.type)) or bool({"Sequence", "IntList"} & named) != is_list:
            return False
    return True


def returns(node: ast.FunctionDef, schema) -> bool:
    text = ast.unparse(node.returns)
    types = [str(r.type) for r in schema.returns]
    if text == "Self":
        return schema.kind == "inplace"
    if len(types) != 1:
        return text.startswith(("return_types.", "tuple[")) if types else text == "None"
    base = NAMED[schema.returns[0].type.base.name]
    return text == (f"tuple[{base}, ...]" if types[0].endswith("[]") else base)


def test_every_schema_has_its_stub(operators, functions, methods):
    wrong, seen = [], 0
    for operator in operators:
        if "internal" in operator.variants:  # the parser does not offer it
            continue
        variants = [operator.schema, *(v.schema for v in operator.derived if v.kind == "inplace")]
        for schema in variants:
            seen += 1
            name = schema.name.name
            if not any(fits(node, schema, False) and returns(node, schema) for node in functions[name]):
                wrong.append(f"function {schema}")
            if (
                "method" in operator.variants
                and name in methods
                and not any(fits(node, schema, True) and returns(node, schema) for node in methods[name])
            ):
                wrong.append(f"method {schema}")
    assert seen > 700
    assert not wrong, "\n".join(wrong)


def test_an_out_variant_is_an_out_parameter(operators, functions):
    checked = 0
    for operator in operators:
        if any(v.kind == "out" for v in operator.derived):
            checked += 1
            assert any("out" in [p[0] for p in parameters(n)] for n in functions[operator.schema.name.name]), operator
    assert checked > 300


def test_integers_may_be_passed_one_by_one_where_the_parser_takes_them(methods):
    x = gradloom.ones(2, 3)
    for name in ("view", "reshape", "permute", "expand", "repeat"):
        assert any(node.args.vararg for node in methods[name]), name
    assert x.view(3, 2).shape == x.view((3, 2)).shape == (3, 2)
    assert not any(node.args.vararg for node in methods["sum"]), "x.sum(0, 1) means keepdim=1"


def test_the_stubs_themselves_are_free_of_errors(tmp_path):
    """Of those that mypy looks for: an overload that can never be reached, an override that does not fit."""
    from .checkers import environment, mypy

    modules = [word for path in STUBS.glob("[a-z]*.pyi") for word in ("-m", f"gradloom._stubs.{path.stem}")]
    found = mypy(environment(tmp_path, "editable"), tmp_path / "cache", *modules)
    assert not found, found
