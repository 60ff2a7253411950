"""A YAML file from elsewhere can do nothing but describe operators.

Nothing of it is executed while code is generated, and what is generated computes tensors from tensors: every attack of
attacks.py is refused in every place, or ends up as harmless text.
"""

import ast
import builtins
import os
import re
import shutil
import sys

import jinja2
import numpy
import pytest

from gradloom.codegen.errors import SpecError, UsageError
from gradloom.codegen.language import array_language
from gradloom.codegen.outputs import render as templating
from gradloom.codegen.reading.yaml_files import MAX_BYTES, load_entries, parse_entries
from gradloom.codegen.target import project
from gradloom.tools import cli
from tests.codegen.attacks import DEFAULTS, EXPRESSIONS, NAMES, SCHEMAS
from tests.codegen.cases import BASE
from tests.codegen.generated_code import problems

NATIVE = (BASE / "native_functions.yaml").read_text(encoding="utf-8")
DERIVATIVES = (BASE / "derivatives.yaml").read_text(encoding="utf-8")


@pytest.fixture
def generate(checkout, capsys, monkeypatch):
    """Generates from two texts, with everything that could do harm replaced by a failure.

    Returns the generated files by name, or the message that the texts were refused with.
    """

    assert cli.main(["generate", "--root", str(checkout)]) == 0  # imports what there is to import
    shutil.rmtree(checkout / "generated")
    capsys.readouterr()

    def forbidden(*args, **kwargs):
        raise AssertionError(f"the generator was made to run something: {args}")

    for name in ("eval", "exec", "breakpoint", "input"):
        monkeypatch.setattr(builtins, name, forbidden)
    for name in ("system", "popen", "remove", "execv"):
        monkeypatch.setattr(os, name, forbidden)

    def run(native, derivatives=DERIVATIVES):
        (checkout / "native_functions.yaml").write_text(native, encoding="utf-8")
        (checkout / "derivatives.yaml").write_text(derivatives, encoding="utf-8")
        code = cli.main(["generate", "--root", str(checkout)])
        message = capsys.readouterr().err
        outside = {p.name for p in checkout.parent.iterdir()} - {"checkout"}
        assert not outside
        if code:
            assert code == 1
            assert not (checkout / "generated").exists()
            return message
        folder = checkout / "generated"
        files = {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in folder.rglob("*.py")}
        shutil.rmtree(folder)
        return files

    return run


def quoted(text):
    """A text as a YAML value, whatever it holds."""
    escaped = "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def check_harmless(files, attack):
    """Generated files compile, and name nothing that could do more than compute. A message is fine, too."""
    if isinstance(files, str):
        assert "error: " in files, attack
        return
    assert problems(files) == [], attack
    for name, text in files.items():
        if text in _HARMLESS:
            continue
        allowed = False
        if name in _OF_TEMPLATES:  # the template's own functions, without a word of the YAML files
            assert text.count(_OF_TEMPLATES[name]) == 1, attack
            text = text.replace(_OF_TEMPLATES[name], "")
        text = text.replace("\n\n\nsilence(globals())\n", "\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert [a.name for a in node.names] == ["numpy"], (attack, name)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("by_name", "named", "methods_of"):
                texts = [n.value for part in node.args for n in ast.walk(part) if isinstance(n, ast.Constant)]
                words = [word for text in texts for word in text.split()]
                assert all(re.fullmatch(r"\w+(=[\w,]+)?", word, re.ASCII) for word in words), (attack, name, words)
            if isinstance(node, ast.ImportFrom):
                assert node.level or (node.module or "").split(".")[0] in ("gradloom", "numpy"), (attack, name)
            word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            assert word not in _NEVER or word in attack, (attack, name, word)
            allowed = allowed or word in _NEVER
            if word.startswith("__") and not word.isupper():  # `___AND___TENSOR` is the guard of an operator
                assert word in ("__class__", "__slots__", "__new__", "__and__"), (attack, name, word)
        if not allowed:
            _HARMLESS.add(text)


_HARMLESS: set[str] = set()  # texts without any word of _NEVER: most files are the same for all attacks
_OF_TEMPLATES = {
    "namespaces/__init__.py": '''from importlib import import_module

from gradloom.dispatch.families import FamilyTable, by_name


def family(name):
    """Import the module of a family, which has the tables below with the objects themselves."""
    return import_module(f"{__name__}.{name}")
''',
    "records/__init__.py": '''from importlib import import_module

from gradloom.dispatch.families import by_name
from gradloom.dispatch.records import RecordIndex


def family(name):
    """Import the module with the records of a family."""
    return import_module(f"{__name__}.{name}")


def wrappers(family):
    """Import the module with the wrappers of a family."""
    return import_module(f"{__package__.rpartition('.')[0]}.variable_type.{family}")
''',
    "variable_type/__init__.py": '''from importlib import import_module


def records(family):
    """Import the records of a family."""
    return import_module(f"{__package__.rpartition('.')[0]}.records.{family}").RECORDS
''',
}
_NEVER = frozenset(
    """eval exec compile open breakpoint getattr setattr delattr vars globals locals dir type memoryview help print
    system popen load fromfile tofile memmap ctypes ctypeslib testing random f2py lib core frompyfunc vectorize
    __import__ __subclasses__ __globals__ __builtins__ __dict__ __mro__ __bases__ __reduce__ __init__""".split()
)


@pytest.mark.parametrize("place", ["kernel", "formula", "tangent", "condition"])
def test_expressions(place, generate):
    passed = set()
    for attack in EXPRESSIONS:
        value = quoted(attack)
        kernel = value if place == "kernel" else "self"
        entry = "- name: f(Tensor self, Tensor other) -> Tensor\n"
        entry += f"  output_differentiability: [{value}]\n" if place == "condition" else ""
        entry += f"  self: {value if place == 'formula' else 'grad'}\n"
        entry += f"  result: {value}\n" if place == "tangent" else ""
        native = f"- func: f(Tensor self, Tensor other) -> Tensor\n  kernel: {kernel}\n"
        made = generate(NATIVE + native, DERIVATIVES + entry)
        check_harmless(made, attack)
        if isinstance(made, dict):
            passed.add(attack)
    assert passed <= _MAY_PASS[place], "attacks that passed"


# Those of the list that are plain mathematics of the language, and so pass.
_TEXTS = {"not_implemented('a\\nb')", "not_implemented('{{ x }}')"}  # what is said to whom asks for that derivative
_MAY_PASS = {
    "kernel": {
        "(0,) * 10 ** 10",
        "(self,)",
        "(x for x in self)",
        "1",
        "1.5j",
        "True",
        "[grad for grad in self]",
        "[self.shape for _ in self]",
        "[self]",
        "[x for x in self for y in x]",
        "elementwise.mul",
        "self == other",
        "self,",
        "self.item()",
        "self.real.real",
        "self.tolist()",
        "self['a']",
        "self[1:2, ...]",
        "xp.einsum('i->', self)",
        "xp.pad(self, 1, self)",
    },
    "formula": {
        *_TEXTS,
        "None",
        "[self.shape for _ in self]",
        "[self]",
        "[xp for xp in self]",
        "grad.to(dtype='x')",
        "self == other",
        "self.real.real",
        "self['a']",
        "self[1:2, ...]",
        "wrap_opt_if(self, True)",
    },
    "tangent": _TEXTS,
    "condition": {"True", "math.pi", "self.item()", "self['a']", "self[1:2, ...]"},
}


@pytest.mark.parametrize(
    "schema",
    [
        "{}(Tensor self) -> Tensor",
        "f.{}(Tensor self) -> Tensor",
        "f(Tensor {}) -> Tensor",
        "f(Tensor self, int {}=1) -> Tensor",
        "f(Tensor self) -> (Tensor {}, Tensor b)",
    ],
)
def test_names(schema, generate):
    for attack in NAMES:
        text = schema.format(attack)
        head, _, returns = schema.partition("->")
        argument = attack if "Tensor {}" in head else "self"
        kernel = f"{argument}, {argument}" if "," in returns else argument
        made = generate(
            NATIVE + f"- func: {quoted(text)}\n  kernel: {quoted(kernel)}\n",
            DERIVATIVES + f"- name: {quoted(text)}\n  {quoted(argument)}: grad\n",
        )
        check_harmless(made, attack)


@pytest.mark.parametrize(
    "type_", ["int", "float", "Scalar", "str", "str[]", "int[2]", "bool", "ScalarType?", "str[][]"]
)
def test_defaults(type_, generate):
    for attack in DEFAULTS:
        schema = quoted(f"f(Tensor self, {type_} x={attack}) -> Tensor")
        native = NATIVE + f"- func: {schema}\n  kernel: self\n"
        check_harmless(generate(native, DERIVATIVES + f"- name: {schema}\n  self: grad\n"), attack)


@pytest.mark.parametrize(
    "key",
    [
        "func",
        "autogen",
        "tags",
        "python_module",
        "family",
        "type_promotion",
        "promotes",
        "autocast",
        "composite",
        "variants",
        "domain",
    ],
)
def test_values_of_other_keys(key, generate):
    for attack in [*SCHEMAS, *NAMES, *EXPRESSIONS[::6]]:
        keys = {"func": "f(Tensor self) -> Tensor", "kernel": "self", key: quoted(attack)}
        made = generate(NATIVE + "- " + "  ".join(f"{k}: {v}\n" for k, v in keys.items()))
        check_harmless(made, attack)
        assert isinstance(made, str) or key == "func" or attack in ("mul", "self", "elementwise"), attack


@pytest.mark.parametrize("key", ["node", "input", "dispatch"])
def test_values_of_derivatives(key, generate):
    for attack in [*NAMES, *SCHEMAS]:
        entry = {
            "node": f"  node: {quoted(attack)}\n  self: grad\n",
            "input": f"  {quoted(attack)}: grad\n",
            "dispatch": f"  dispatch:\n    {quoted(attack)}:\n      self: grad\n",
        }[key]
        native = NATIVE + "- func: f(Tensor self) -> Tensor\n  kernel: self\n"
        check_harmless(generate(native, DERIVATIVES + "- name: f(Tensor self) -> Tensor\n" + entry), attack)


def test_a_docstring_cannot_be_left(generate):
    """A default that ends the docstring of the wrapper would be code of the generated file."""
    schema = 'f(Tensor self, str m=\'"""+__import__("os").system("true")+"""\') -> Tensor'
    made = generate(NATIVE + f"- func: {quoted(schema)}\n  kernel: self\n")
    assert "plain characters" in made
    assert templating._docstring('a"""b\\') == 'a\\"\\"\\"b\\\\'
    assert ast.literal_eval(f'"""{templating._docstring(schema)}"""') == schema


def test_templates_are_sandboxed():
    template = templating.templates().from_string("{{ ''.__class__.__mro__ }}")
    with pytest.raises(jinja2.exceptions.SecurityError):
        template.render()
    with pytest.raises(jinja2.exceptions.SecurityError):
        templating.templates().from_string("{{ x.append(1) }}").render(x=[])
    with pytest.raises(jinja2.exceptions.UndefinedError):
        templating.templates().from_string("{{ missing }}").render()


def test_text_from_the_files_is_no_template(generate):
    made = generate(NATIVE + "- func: \"f(Tensor self, str m='{{ 7 * 7 }}') -> Tensor\"\n  kernel: self\n")
    text = made["variable_type/elementwise.py"]
    assert "{{ 7 * 7 }}" in text
    assert "49" not in text


@pytest.mark.parametrize("submodule", ["", "linalg", "fft"])
def test_functions_of_numpy_are_listed_one_by_one(submodule):
    module = getattr(numpy, submodule) if submodule else numpy
    listed = array_language._IN[submodule]
    missing = {name for name in listed if not hasattr(module, name)}
    assert not missing, "a function that NumPy has no more: take it from the list"
    for name in listed:
        member = getattr(module, name)
        if name in array_language.UFUNCS and not submodule:
            assert isinstance(member, numpy.ufunc), name
        elif name in array_language.DTYPES and not submodule:
            assert issubclass(member, numpy.number | numpy.bool_), name
        else:
            assert not isinstance(member, type(numpy)), f"{name} is a module"
            assert name not in _NEVER, name


def test_what_is_not_listed_is_refused():
    for name in (*dir(numpy), *(f"linalg.{n}" for n in dir(numpy.linalg)), *(f"fft.{n}" for n in dir(numpy.fft))):
        kind = array_language.kind_of(tuple(name.split(".")))
        submodule, _, last = name.rpartition(".")
        if name in ("linalg", "fft"):
            assert kind == "module"
        else:
            assert (kind is not None) == (last in array_language._IN[submodule]), name


def test_numpy_functions_that_touch_files_or_call_back_are_not_listed():
    listed = {name for names in array_language._IN.values() for name in names}
    assert listed.isdisjoint(
        """load loads save savez savez_compressed savetxt loadtxt genfromtxt fromfile fromstring fromregex
        frombuffer fromiter fromfunction frompyfunc vectorize piecewise apply_along_axis apply_over_axes memmap
        open_memmap ctypeslib testing random lib core f2py seterr seterrcall errstate setbufsize set_printoptions
        put place putmask copyto fill_diagonal put_along_axis object_ void str_ bytes_ datetime64 record rec char
        ndarray nditer nested_iters require show_config info get_include show_runtime bmat matrix asmatrix ma
        polynomial einsum_call exec eval""".split()
    )


def test_yaml_makes_no_objects():
    for text in (
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "!x y",
        "!!binary aGk=",
        "!!set {a, b}",
    ):
        with pytest.raises(SpecError, match="tag"):
            parse_entries(f"- func: {text}\n", "f.yaml")


def test_yaml_aliases_do_not_unfold():
    bomb = "- a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"- {new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
    )
    with pytest.raises(SpecError, match="anchor"):
        parse_entries(bomb, "f.yaml")
    with pytest.raises(SpecError, match=r"alias|\*"):
        parse_entries("- func: *a\n", "f.yaml")
    with pytest.raises(SpecError):
        parse_entries("- <<: *a\n", "f.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "{" * 20_000,
        "- " * 20_000,
        "- a:\n" * 20_000,
        "? " * 10_000,
        "- " + "a" * 100_000,
        "- a: '" + "\n" * 20_000,
        "- a: [" + "b, " * 20_000 + "]",
        "- {" + "a: b, " * 10_000 + "}",
        "- k: v\n" * 20_000,
        "- " + "[a]: " * 10_000,
    ],
)
def test_hostile_yaml_ends_soon(text, tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load_entries(path)
    except SpecError as error:
        assert error.hint


def test_files_that_are_no_files(tmp_path):
    with pytest.raises(SpecError, match="cannot be read: is a directory"):
        load_entries(tmp_path)
    with pytest.raises(SpecError, match="no such file"):
        load_entries(tmp_path / "absent.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    with pytest.raises(SpecError, match="cannot be read"):
        load_entries(tmp_path / "loop.yaml")
    with pytest.raises(SpecError, match="not a regular file"):
        load_entries(os.devnull)
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(SpecError, match="the file has"):
        load_entries(tmp_path / "huge.yaml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(SpecError, match="not a regular file"):
        load_entries(tmp_path / "pipe.yaml")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "secret.yaml"
    path.write_text("- func: x\n")
    path.chmod(0)
    with pytest.raises(SpecError, match="cannot be read: permission denied"):
        load_entries(path)


def test_nothing_of_the_kernels_is_imported(generate):
    """Named kernels are found by reading their files."""
    before = set(sys.modules)
    native = "- func: f(Tensor self, Tensor other) -> Tensor\n  kernel: elementwise.mul\n"
    assert isinstance(generate(NATIVE + native), dict)
    assert not {name for name in set(sys.modules) - before if "kernels" in name}


@pytest.mark.parametrize("error", [RecursionError, MemoryError, SystemError, ValueError])
def test_whatever_pythons_parser_gives_up_with(error, generate, monkeypatch):
    """Python 3.11 raises a SystemError when memory is collected while it reads a deeply nested expression."""

    def give_up(text, *args, **kwargs):
        if "deep" in text:
            raise error("too much")
        return parse(text, *args, **kwargs)

    parse = ast.parse
    monkeypatch.setattr(ast, "parse", give_up)
    assert "nested too deeply" in generate(NATIVE + "- func: f(Tensor deep) -> Tensor\n  kernel: -deep\n")
    native = NATIVE + "- func: f(Tensor deep, Tensor b) -> Tensor\n  kernel: elementwise.mul\n"
    assert "nested too deeply" in generate(native, "- name: f(Tensor deep, Tensor b) -> Tensor\n  deep: grad * deep\n")


@pytest.mark.parametrize("where", ["../elsewhere", "src/link", "/{tmp}/elsewhere"])
def test_a_project_generates_code_in_its_own_folder_only(where, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "src" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "native_functions.yaml").write_text(NATIVE)
    where = where.format(tmp=str(tmp_path).lstrip("/"))
    (tmp_path / "project" / "pyproject.toml").write_text(f'[tool.gradloom]\npackage = "{where}"\n')
    with pytest.raises(UsageError, match="not in the project's folder"):
        project(tmp_path / "project")
