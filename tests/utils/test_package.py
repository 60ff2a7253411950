"""torch.package: archives of code, resources and pickled objects."""

from __future__ import annotations

import importlib.resources
import inspect
import io
import pickle
import subprocess
import sys
import zipfile

import pytest

import gradloom as torch
from gradloom.package import (
    EmptyMatchError,
    GlobGroup,
    ObjMismatchError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
    sys_importer,
)

SOURCES = {
    "boxed/__init__.py": "from . import net\nfrom .net import double\n",
    "boxed/net.py": (
        "import json\nimport gradloom as torch\nfrom helping import tools\nCOUNT = []\n\n\n"
        "def double(x):\n    return x * 2\n\n\ndef helped(x):\n    return tools.help(x)\n\n\n"
        "class Net(torch.nn.Module):\n    class Inner:\n        value = 3\n\n    def __init__(self):\n"
        "        super().__init__()\n        self.layer = torch.nn.Linear(2, 2)\n"
        "        self.view = self.layer.weight.detach()[1]\n        self.inner = Net.Inner()\n\n"
        "    def forward(self, x):\n        return double(self.layer(x))\n"
    ),
    "helping/__init__.py": "",
    "helping/tools.py": "import numpy\n\n\ndef help(x):\n    return numpy.asarray(x)\n",
}


@pytest.fixture
def boxed(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    import boxed.net

    yield boxed
    for name in [n for n in sys.modules if n.split(".")[0] in ("boxed", "helping")]:
        del sys.modules[name]


def packed(fill, **options):
    file = io.BytesIO()
    with PackageExporter(file, **options) as exporter:
        fill(exporter)
    file.seek(0)
    return file


def fill(exporter):
    import boxed

    exporter.intern("boxed.**")
    exporter.mock("helping.**")
    exporter.save_pickle("model.parts", "net.pkl", boxed.net.Net())
    exporter.save_module("boxed")
    exporter.save_text("texts", "a.txt", "ä")
    exporter.save_binary("texts", "b.bin", b"\0\1")


def test_module_with_its_own_source(boxed):
    importer = PackageImporter(packed(fill))
    net = importer.load_pickle("model.parts", "net.pkl")
    assert type(net) is not boxed.net.Net and type(net).__module__ == f"{importer.id()}.boxed.net"
    assert net(torch.ones(2)).shape == (2,) and net.inner.value == 3
    assert net.view.untyped_storage().data_ptr() == net.layer.weight.untyped_storage().data_ptr()
    assert importer.load_text("texts", "a.txt") == "ä" and importer.load_binary("texts", "b.bin") == b"\0\1"
    assert is_from_package(net) and not is_from_package(boxed.net.Net())
    assert inspect.getsource(type(net)).startswith("class Net(torch.nn.Module):")
    assert inspect.getsource(importer.import_module("boxed").double) == "def double(x):\n    return x * 2\n"
    with pytest.raises(NotImplementedError, match="helping.tools.help' was mocked out during packaging .* __call__"):
        importer.import_module("boxed.net").helped(1)


def test_packages_are_apart(boxed):
    file = packed(fill)
    first, second = PackageImporter(file), PackageImporter(file)
    first.import_module("boxed.net").COUNT.append(1)
    assert second.import_module("boxed.net").COUNT == [] == boxed.net.COUNT
    assert first.import_module("boxed").net is first.import_module("boxed.net")
    assert not any(name.startswith("<torch_package") for name in sys.modules)
    with pytest.raises(ModuleNotFoundError, match='No module named "numpy" in self-contained archive "<binary>"'):
        first.import_module("numpy")
    with pytest.raises(ImportError, match="needs the external module 'json' but that module has been disallowed"):
        PackageImporter(file, module_allowed=lambda name: name != "json")


def test_packing_again(boxed):
    importer = PackageImporter(packed(fill))
    net = importer.load_pickle("model.parts", "net.pkl")

    def again(exporter):
        exporter.mock("helping.**")
        exporter.intern("boxed.**")
        exporter.save_pickle("p", "o", net)

    other = PackageImporter(packed(again, importer=(importer, sys_importer))).load_pickle("p", "o")
    assert type(other) is not type(net) and torch.equal(other.layer.weight, net.layer.weight)
    assert OrderedImporter(sys_importer, importer).get_name(type(net)) == ("boxed.net", "Net")
    with pytest.raises(pickle.PicklingError, match=r"Can't pickle .*comes from <torch_package_\d+>"):
        packed(again)
    with pytest.raises(ObjMismatchError, match="importer that lists the importer for .* before 'sys_importer'"):
        sys_importer.get_name(type(net))


def test_what_cannot_be_packaged(boxed):
    def failing(*actions, source="import boxed.net\n", **options):
        def save(exporter):
            for action, names in actions:
                getattr(exporter, action)(names)
            exporter.save_source_string("a.b", source)

        with pytest.raises(PackagingError) as error:
            packed(save, **options)
        return str(error.value)

    assert (
        "* Module did not match against any action pattern. Extern, mock, or intern it.\n    boxed.net\n" in failing()
    )
    denied = failing(("deny", "boxed.**"), debug=True)
    assert "* Module was denied by a pattern.\n    boxed.net\n      A path to boxed.net: a.b -> boxed.net\n" in denied
    c_source = failing(("intern", "numpy.**"), source="import numpy._core._multiarray_umath\n")
    assert "* Module is a C extension module. torch.package supports Python modules only.\n    numpy._core" in c_source
    assert "* Module had no __file__ defined.\n    sys\n" in failing(("intern", "**"), source="import sys")
    assert "Dependency resolution failed.\n    a.b\n      Context: invalid syntax" in failing(source="import (")
    assert "beyond top-level package" in failing(source="from ... import x")
    assert "    boxed.net\n" in failing(source="__import__('boxed', fromlist=['net'])\n__import__(name)\n")

    def mocked(exporter):
        exporter.mock("boxed.**")
        exporter.save_pickle("p", "o.pkl", boxed.net.Net())

    with pytest.raises(PackagingError, match=r"(?s)Module was mocked out, but is still being used.*resource - `o.pkl`"):
        packed(mocked)
    with pytest.raises(EmptyMatchError, match=r"GlobGroup\(include=none.\*\*, exclude=\(\)\), which was marked as"):
        packed(lambda exporter: exporter.intern("none.**", allow_empty=False))


def test_names_and_graph(boxed):
    called = []
    with PackageExporter(io.BytesIO()) as exporter:
        exporter.register_intern_hook(lambda _, name: called.append(("intern", name)))
        exporter.register_mock_hook(lambda _, name: called.append(("mock", name)))
        exporter.register_extern_hook(lambda _, name: called.append(("never", name))).remove()
        fill(exporter)
        exporter.save_source_string("code", "import os.path, unknown_module\nfrom helping import tools\n")
    assert exporter.interned_modules() == ["boxed", "boxed.net", "code"]
    assert exporter.mocked_modules() == ["helping.tools"] and exporter.denied_modules() == []
    assert {"json", "gradloom", "os.path"} <= set(exporter.externed_modules())
    assert exporter.get_rdeps("helping.tools") == ["boxed.net", "code"]
    assert '"code" -> "helping.tools";' in exporter.dependency_graph_string()
    assert "code" not in exporter.all_paths("boxed", "helping.tools")
    assert ("intern", "boxed.net") in called and ("mock", "helping.tools") in called and len(called) == 5
    assert [exporter.get_unique_id() for _ in range(2)] == ["0", "1"]


def test_files_folders_and_resources(boxed, tmp_path):
    path = tmp_path / "whole.pt"
    with PackageExporter(path) as exporter:
        exporter.save_source_file("own", str(tmp_path / "boxed"), dependencies=False)
        exporter.save_source_string("pack", "from .sub import X\n", is_package=True)
        exporter.save_source_string("pack.sub", "X = 5\n")
        exporter.save_text("pack", "note.txt", "n")
    with zipfile.ZipFile(path) as archive:
        assert {"whole/own/net.py", "whole/pack/__init__.py", "whole/.data/version"} <= set(archive.namelist())
        archive.extractall(tmp_path / "out")
    for source in (path, tmp_path / "out" / "whole"):
        importer = PackageImporter(source)
        assert importer.import_module("pack").X == 5 and importer.get_source("pack.sub") == "X = 5\n"
        assert importer.python_version() == ".".join(map(str, sys.version_info[:3]))
        tree = importer.file_structure(include="**/*.py", exclude="own/**")
        assert str(tree) == f"─── {source}\n    └── pack\n        ├── __init__.py\n        └── sub.py\n"
        assert tree.has_file("pack/sub.py") and not tree.has_file("own")
        pack = importer.import_module("pack")
        assert importlib.resources.files(pack).joinpath("note.txt").read_text() == "n"
    with pytest.raises(RuntimeError, match="file not found"):
        importer.load_text("pack", "none")
    with pytest.raises(RuntimeError, match="not a ZIP archive"):
        PackageImporter(io.BytesIO(b"none"))


class Reduced:
    def __reduce_package__(self, exporter):
        return rebuilt, (exporter.get_unique_id(),)


def rebuilt(importer, number):
    return [importer.load_text("code", "own.txt"), number]


def test_objects_that_reduce_themselves():
    def fill(exporter):
        one = Reduced()
        exporter.extern(__name__)
        exporter.save_text("code", "own.txt", "text")
        exporter.save_pickle("p", "o", [one, one, Reduced()])

    first, same, other = PackageImporter(packed(fill)).load_pickle("p", "o")
    assert first is same and first == ["text", "0"] and other == ["text", "1"]


def test_an_error_leaves_no_file(tmp_path):
    with pytest.raises(KeyError), PackageExporter(tmp_path / "a.pt") as exporter:
        exporter.save_text("a", "b", "c")
        raise KeyError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**", "a b a.b a.c.b a.xbx"),
        ("a.**", "a a.b a.c.b a.xbx"),
        ("a.**.b", "a.b a.c.b"),
        ("a.*b*", "a.b a.xbx"),
        ("**.b", "b a.b a.c.b"),
    ],
)
def test_patterns(pattern, names):
    every = "a b a.b a.c.b a.xbx xb".split()
    wanted = [n for n in every if n in names.split() or pattern == "**"]
    assert [n for n in every if GlobGroup(pattern).matches(n)] == wanted
    assert not GlobGroup(pattern, exclude="**").matches("a.b")
    with pytest.raises(ValueError, match="entire path segment"):
        GlobGroup(pattern + "x**")


def test_it_loads_when_asked_for():
    program = "import sys, gradloom; assert 'gradloom.package' not in sys.modules; gradloom.package.PackageExporter"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_modules_that_a_callable_uses(boxed):
    from gradloom.package.analyze import trace_dependencies

    def own_function():
        return boxed.net.double(3)

    assert trace_dependencies(boxed.net.helped, [(1,)]) == ["boxed.net", "helping.tools", "numpy"]
    assert trace_dependencies(boxed.net.Net(), [(torch.ones(2),)]) == ["boxed.net", "gradloom"]
    assert trace_dependencies(own_function, [(), ()]) == sorted([__name__, "boxed.net"])
    assert trace_dependencies(own_function, []) == []
    before = sys.getprofile()
    with pytest.raises(TypeError, match="double"):
        trace_dependencies(boxed.net.double, [()])
    assert sys.getprofile() is before


def test_where_broken_modules_come_from():
    from gradloom.package import analyze

    with pytest.raises(PackagingError) as found:
        packed(lambda exporter: exporter.save_source_string("n", "import sys"))
    assert analyze.find_first_use_of_broken_modules(found.value) == {"sys": ["n", "sys"]}
    with pytest.raises(TypeError, match="must be a PackagingError, not int"):
        analyze.find_first_use_of_broken_modules(3)
