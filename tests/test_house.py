"""Figures of the whole house, with limits, and where facts of operators may come from.

A limit is what was reached. It is raised only with the reason in the commit; where a figure falls, lower it.

What is true of an operator stands in its YAML entry and in its record (Note [Records] in gradloom.dispatch.records). No
room below `tools` looks at the help text, the name or the module of an operator's function to learn it, or keeps a
table of operators' names. EXCUSED lists the files that do, with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.operators import native_functions
from gradloom.codegen.outputs.render import render
from gradloom.generated.records import RECORDS
from tests.test_layering import CORE_CIRCLE

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "gradloom"
GOLDEN = ROOT / "tests" / "codegen" / "golden"

# --- figures ----------------------------------------------------------------------------------------------------------

LIMITS = {
    "places that take a help text apart": 0,
    "files with tables of operators' names": 5,
    "generated tables with one operator": 10,
    "spellings of an operator's key in generated tables": 1,
    "files at the root of src/gradloom": 36,
    "files under tests": 631,
    "files whose functions run while one formula becomes text": 33,
    "modules in the import circle": 5,
    "lines of src and codegen": 199_000,
    "generated lines": 83_540,
    "modules of the core that are not of the core": 0,
}
# Modules of `gradloom.core`: tensors, edges, nodes, saved variables, the engine, and what these cannot do without.
CORE = set(
    """__init__ accumulate_grad anomaly attributes edge engine gradient_checks hooks late node roots saved_variable
    tangents tensor tensor_base user_stack variants views""".split()
)
# Where names of operators are not looked up: names of NumPy's, SymPy's and Python's functions and of instructions, and
# samples for tests.
OTHER_NAMES = (
    "codegen/derivation/",
    "codegen/language/",
    "codegen/wrappers/results.py",
    "src/gradloom/compiler/_eager_large.py",
    "src/gradloom/compiler/_interpreter.py",
    "src/gradloom/compiler/_llvm/",
    "src/gradloom/compiler/_loops.py",
    "src/gradloom/compiler/_numbers.py",
    "src/gradloom/compiler/_scalar.py",
    "src/gradloom/tools/emit/definitions.py",
    "src/gradloom/tools/verify/samples/",
)
MANY = 12  # names of operators in one file


STRING = re.compile(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)


@cache
def sources(*folders: str) -> dict[str, str]:
    """Return the texts of the Python files in some folders."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def tabled_names(source: str, operators: Iterable[str]) -> set[str]:
    """Return the names of operators that are keys or items of displays, or words of strings that are split there; those
    of `__all__` are public names."""
    words = {word for texts in STRING.findall(source) for text in texts for word in text.split()}
    if len({word for word in words if word.partition(".")[0] in operators}) < MANY:
        return set()  # without a syntax tree
    tree, words = ast.parse(source), set()
    assigned = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    public = {id(n.value) for n in assigned if n.targets[0].id == "__all__"}
    for node in ast.walk(tree):
        items: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            items = list(node.keys)
        elif isinstance(node, ast.Set | ast.List | ast.Tuple) and id(node) not in public:
            items = list(node.elts)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            items = [node.func.value]
        for item in items:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                words |= set(item.value.split())
    return {word for word in words if word.partition(".")[0] in operators}


def files_with_tables() -> list[str]:
    operators = frozenset(RECORDS.operators)
    return [
        name
        for name, source in sources("src/gradloom", "codegen").items()
        if not name.startswith(OTHER_NAMES) and len(tabled_names(source, operators)) >= MANY
    ]


def help_texts_taken_apart() -> list[str]:
    return [
        f"{name}:{line}"
        for name, source in sources("src/gradloom").items()
        if not name.startswith("src/gradloom/tools/") and "__doc__" in source
        for line in lookups(ast.parse(source), ("__doc__",))
    ]


def generated_tables(operator: str) -> list[tuple[str, str]]:
    """Return (place, spelling) of each generated table with an operator: module-level displays that name it."""
    found = []
    for name, source in sources("generated").items():
        for statement in ast.parse(source).body if f"{operator}" in source else ():
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                texts = [n.value for n in ast.walk(statement) if isinstance(n, ast.Constant)]
                written = {text.partition("(")[0] for text in texts if isinstance(text, str)}
                place = f"{name}: {statement.targets[0].id}"
                found += [(place, word) for word in written if re.fullmatch(rf"(aten::)?{operator}", word)]
    return found


def files_that_run(folder: Path) -> set[str]:
    """Return the files of the generator whose functions run while the formulas of a folder become text."""
    used: set[str] = set()
    codegen = str(ROOT / "codegen")

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(codegen):
            used.add(code.co_filename)

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        functions = native_functions.load(folder / "native_functions.yaml", package=LIBRARY)
        render(derivatives.load(folder / "derivatives.yaml", functions, package=LIBRARY))
    finally:
        sys.setprofile(former)
    return {name for name in used if name.endswith(".py")}


def lines_of(*folders: str) -> int:
    paths = [
        p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts
    ]
    return sum(path.read_bytes().count(b"\n") for path in paths)


def files_in(folder: str, pattern: str) -> list[Path]:
    return [p for p in (ROOT / folder).glob(pattern) if p.is_file() and "__pycache__" not in p.parts]


FIGURES = {
    "places that take a help text apart": lambda: len(help_texts_taken_apart()),
    "files with tables of operators' names": lambda: len(files_with_tables()),
    "generated tables with one operator": lambda: len({place for place, _ in generated_tables("softplus")}),
    "spellings of an operator's key in generated tables": lambda: len({s for _, s in generated_tables("softplus")}),
    "files at the root of src/gradloom": lambda: len(files_in("src/gradloom", "*")),
    "files under tests": lambda: len(files_in("tests", "**/*")),
    "files whose functions run while one formula becomes text": lambda: len(files_that_run(GOLDEN)),
    "modules in the import circle": lambda: len(CORE_CIRCLE),
    "lines of src and codegen": lambda: lines_of("src", "codegen"),
    "generated lines": lambda: lines_of("generated"),
    "modules of the core that are not of the core": lambda: len(
        {path.stem for path in (LIBRARY / "core").glob("*.py")} - CORE
    ),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_the_house_stays_as_it_is(figure):
    assert FIGURES[figure]() <= LIMITS[figure], figure


# --- facts of operators -----------------------------------------------------------------------------------------------

EXCUSED = {
    "src/gradloom/amp/casting.py": "the rules of `autocast:` stand beside the wrappers, by their names",
    "src/gradloom/autograd/zero_tangent.py": "operators on tangents without values, by the names that formulas call",
    "src/gradloom/dispatch/records.py": "it finds the record of a wrapper, and the package of one",
    "src/gradloom/masked/_masks.py": "the functions of `gradloom.masked`, by the names that users call",
    "src/gradloom/python_dispatch/torch_dispatch.py": "composites that are primitive operators in PyTorch",
}
# Names by which this code calls the function of an operator.
OPERATORS = ("wrapper", "operator", "overload", "op")


def lookups(tree: ast.AST, attributes: tuple[str, ...], of: tuple[str, ...] = ()) -> Iterator[int]:
    """Yield the lines that compare, take apart or look up the value of an attribute, directly or by a variable of the
    function that holds it; of any object, or of those whose names are in `of`."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def is_read(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            source, attribute = node.value, node.attr
        elif not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            return False
        elif node.func.id == "home_of":
            source, attribute = node.args[0], "__module__"
        else:
            source, attribute = node.args[0], getattr(node.args[1:] and node.args[1], "value", "")
            if node.func.id != "getattr":
                return False
        return attribute in attributes and (not of or getattr(source, "attr", getattr(source, "id", "")) in of)

    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]:
        nodes = list(ast.walk(function))
        assigned = [n for n in nodes if isinstance(n, ast.Assign) and is_read(_without_default(n.value))]
        held = {target.id for n in assigned for target in n.targets if isinstance(target, ast.Name)}
        for node in nodes:
            if is_read(node) or isinstance(node, ast.Name) and node.id in held:
                if _decides(node, parents):
                    yield node.lineno


def _without_default(node: ast.expr) -> ast.expr:
    return node.values[0] if isinstance(node, ast.BoolOp) else node


def _decides(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether the value of an expression is compared, taken apart, or looked up."""
    parent = parents[node]
    while isinstance(parent, ast.BoolOp) or isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "str":
        parent = parents[parent]
    if isinstance(parent, ast.Compare):
        return not any(isinstance(c, ast.Constant) and c.value is None for c in parent.comparators)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        return parent.func.attr in ("get", "match", "search", "fullmatch", "pop", "index")
    return isinstance(parent, ast.Attribute | ast.Subscript)


READ = ("__doc__", "__name__", "__qualname__", "__module__")
MAY_READ = re.compile(rf"\b({'|'.join(OPERATORS)})\b(\.|, \")__(doc|name|qualname|module)__|\bhome_of\(")


def test_facts_of_operators_come_from_their_records():
    found = {
        name
        for name, source in sources("src/gradloom").items()
        if not name.startswith("src/gradloom/tools/") and MAY_READ.search(source)
        if any(lookups(ast.parse(source), READ, OPERATORS))
    }
    assert found == set(EXCUSED)
    assert len(EXCUSED) <= 10 and all(EXCUSED.values())


@pytest.mark.parametrize(
    "line",
    [
        "TABLE.get(wrapper.__name__)",
        "call.wrapper.__name__ in TABLE",
        'str(wrapper.__doc__).partition("(")',
        '(wrapper.__doc__ or "").split()',
        'home_of(call.wrapper).endswith(".fft")',
        'name = getattr(op, "__name__", "")\n    return name in TABLE',
    ],
)
def test_a_lookup_is_found(line):
    source = f"def f(op, call, wrapper):\n    {line if line.startswith('name') else 'return ' + line}\n"
    assert MAY_READ.search(source)
    assert list(lookups(ast.parse(source), READ, OPERATORS))


def test_names_in_messages_are_no_lookups():
    source = "def f(wrapper):\n    name = wrapper.__name__\n    raise RuntimeError(f'{name}: {wrapper.__doc__}')\n"
    assert not list(lookups(ast.parse(source), READ, OPERATORS))


def test_tables_of_names_are_found():
    names = ["add", "mul", "sub", "div", "exp", "log", "sin", "cos", "tan", "neg", "abs", "sqrt"]
    operators = frozenset(RECORDS.operators)
    for table in (
        f"T = {names}",
        f"T = {dict.fromkeys(names)}",
        f"T = '{' '.join(names)}'.split()",
        f"T = {set(names)}",
    ):
        assert tabled_names(table.replace("'", '"'), operators) == set(names)
    assert not tabled_names(f"__all__ = {names}".replace("'", '"'), operators)
