"""A small checkout to damage: some entries of the real YAML files, which reach every part of the generator.

Kernels, composites and helpers are those of the library which the entries name, with their bodies left out: they are
read, never run.
"""

import ast
import re
from pathlib import Path

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.errors import SpecError
from gradloom.codegen.operators import native_functions
from gradloom.codegen.reading.yaml_files import load_entries
from gradloom.tools import cli

ROOT = Path(__file__).parents[2]
FILES = ("native_functions.yaml", "derivatives.yaml")

# In every case, since many formulas call them; then those of which each case has a few.
ALWAYS = "mul.Tensor add.Tensor neg conj expand zeros_like where.self zeros sum.dim_IntList exp".split()
SOMETIMES = """
    addcmul div.Tensor_mode pow.Tensor_Scalar pow.Tensor_Tensor clamp sqrt atan2 eq.Tensor isnan abs sgn angle
    transpose.int split.Tensor unbind.int cat stack slice.Tensor permute max.dim aminmax cumsum logsumexp
    prod.dim_int sort topk gather scatter.src index_select index.Tensor index_put masked_fill.Scalar mm bmm dot
    _trilinear _softmax_backward_data bernoulli normal_ fill_.Scalar arange full linspace lerp.Scalar dropout einsum
    linear special_erfcx zero_ detach _to_copy
""".split()


def stub(path, words):
    """A Python file with the functions of these names, and with bodies that return nothing to look at."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef) or node.name in words]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body, node.decorator_list = [ast.Raise()], []
    return ast.unparse(tree)


class Checkout:
    """Entries by operator name, and the folder that cases are written to."""

    def __init__(self, folder):
        self.folder = folder
        native, derivative = (_entries(ROOT / name, key) for name, key in zip(FILES, ("func", "name"), strict=True))
        self.native = {name: native[name][0] for name in (*ALWAYS, *SOMETIMES) if name in native}
        self.derivatives = {name: _of_operator(derivative, name) for name in self.native}
        words = {word for texts in (self.native, self.derivatives) for text in texts.values() for word in _words(text)}
        for room in ("kernels", "composite", "formulas"):
            for path in sorted((ROOT / "src" / "gradloom" / room).rglob("*.py")):
                copy = folder / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(stub(path, words), encoding="utf-8")
        self.names = self._that_stand_alone()
        self.always = [name for name in ALWAYS if name in self.names]
        self.sometimes = [name for name in self.names if name not in ALWAYS]

    def _that_stand_alone(self):
        """The entries that are sound without the rest of the real files."""
        names = list(self.native)
        while True:
            texts = self.texts(names)
            try:
                self.load(texts)
                return names
            except SpecError as error:
                wrong = {self._name_at(texts, e) for e in error.errors}
                names = [name for name in names if name not in wrong]

    def _name_at(self, texts, error):
        """The operator whose entry an error is in."""
        file = next(name for name in FILES if error.path.endswith(name))
        banners = re.findall(r"^# == at (.+)$", "\n".join(texts[file].split("\n")[: error.line]), re.MULTILINE)
        return banners[-1]

    def load(self, texts):
        for name, text in texts.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        package = self.folder / "src" / "gradloom"
        functions = native_functions.load(self.folder / FILES[0], package=package)
        return derivatives.load(self.folder / FILES[1], functions, package=package)

    def texts(self, names):
        """The two YAML files with the entries of some operators."""
        native = "".join(f"# == at {name}\n{self.native[name]}" for name in names)
        derivative = "".join(f"# == at {name}\n{self.derivatives[name]}" for name in names if self.derivatives[name])
        return dict(zip(FILES, (native, derivative), strict=True))

    def run(self, *arguments):
        return cli.main([*arguments, "--root", str(self.folder)])

    def contents(self):
        """Everything in the folder but what the two YAML files hold."""
        return {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file() and p.name not in FILES}


def _words(text):
    return re.findall(r"\w+", text)


def _entries(path, key):
    """Operator name -> the texts of its entries."""
    found = {}
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    entries = load_entries(path)
    for entry in entries:
        first = entry.keys[key].line - 1
        last = first + 1
        while last < len(lines) and lines[last].startswith(" "):
            last += 1
        name = entry.fields[key].value.partition("(")[0]
        found.setdefault(name, []).append("\n".join(lines[first:last]) + "\n")
    return found


def _of_operator(derivative, name):
    """The derivative entries of an operator and of its in-place form."""
    stem, dot, overload = name.partition(".")
    return "".join(text for n in (name, f"{stem}_{dot}{overload}") for text in derivative.get(n, ()))
