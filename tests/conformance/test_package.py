"""Archives of torch.package: each library loads what the other has written."""

from __future__ import annotations

import subprocess
import sys

import pytest

NET = """
import torch
from .shapes import SIZE
from left_out import thing

class Net(torch.nn.Module):
    class Part:
        value = 4

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(SIZE, SIZE)
        self.part = Net.Part()
        self.register_buffer("steps", torch.arange(6))
        self.odd = self.steps[1::2]
        torch.nn.init.constant_(self.layer.weight, 0.5)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        return torch.relu(self.layer(x))

    def use(self):
        return thing(1)
"""

WRITE = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[2])
import torch
from torch.package import PackageExporter
from exchanged.net import Net

with PackageExporter(sys.argv[1]) as exporter:
    exporter.intern("exchanged.**")
    exporter.mock("left_out")
    net = Net()
    exporter.save_pickle("model", "net.pkl", net)
    exporter.save_pickle("model", "values.pkl", {
        "shared": net.steps, "half": torch.ones(2, dtype=torch.bfloat16), "dtype": torch.float16,
        "size": torch.Size([2, 3]), "unsigned": torch.tensor([3], dtype=torch.uint16), "empty": torch.empty(0, 2),
        "function": torch.nn.functional.relu, "parameter": torch.nn.Parameter(torch.ones(1)),
    }, pickle_protocol=4)
    exporter.save_text("texts", "a.txt", "\u00e4")
    exporter.save_binary("texts", "b.bin", bytes([0, 255]))
print(exporter.interned_modules(), exporter.mocked_modules())
print([name for name in exporter.externed_modules() if name not in ("getattr", "builtins")])
"""

READ = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from torch.package import PackageImporter

importer = PackageImporter(sys.argv[1])
net = importer.load_pickle("model", "net.pkl")
assert "exchanged" not in sys.modules
print(type(net), net(torch.ones(2)).tolist(), net.odd.tolist(), net.part.value)
print(net.odd.untyped_storage().data_ptr() == net.steps.untyped_storage().data_ptr(), isinstance(net, torch.nn.Module))
values = importer.load_pickle("model", "values.pkl")
print(values["function"] is torch.nn.functional.relu, {k: v for k, v in values.items() if k != "function"})
print(repr(importer.load_text("texts", "a.txt")), importer.load_binary("texts", "b.bin"))
try:
    net.use()
except NotImplementedError as error:
    print(error)
tree = importer.file_structure(exclude=[".data/**", "byteorder"])
print(tree.has_file("exchanged/net.py"), tree.has_file("left_out.py"), str(tree).partition("\\n")[2])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    package = folder / "source" / "exchanged"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "shapes.py").write_text("SIZE = 2\n")
    (package / "net.py").write_text(NET)
    (folder / "source" / "left_out.py").write_text("import numpy\n\ndef thing(x):\n    return x\n")
    (folder / "write.py").write_text(WRITE)
    (folder / "read.py").write_text(READ)

    def run(library: str, program: str, *arguments: str) -> str:
        launcher = [sys.executable] if library == "torch" else [sys.executable, "-m", "gradloom", "run"]
        done = subprocess.run(
            [*launcher, str(folder / program), str(folder / arguments[0]), str(folder / "source")],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_exchange(run):
    written = {writer: run(writer, "write.py", f"{writer}.pt") for writer in ("torch", "gradloom")}
    assert written["gradloom"] == written["torch"]
    read = {(w, r): run(r, "read.py", f"{w}.pt").replace(f"{w}.pt", "") for w in written for r in written}
    assert len(set(read.values())) == 1, read
    assert "[1.0, 1.0] [1, 3, 5] 4\nTrue True\n" in read["gradloom", "torch"]
