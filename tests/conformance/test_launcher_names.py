"""What `gradloom run` answers about classes and functions: modules, sources, kinds, base classes, as PyTorch does."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import enum, importlib, inspect, json, pickle, sys, typing, warnings
warnings.simplefilter("ignore")
import torch

MODULES = '''torch torch.autograd torch.autograd.forward_ad torch.autograd.function torch.autograd.graph
    torch.autograd.profiler torch.backends.cuda torch.cuda torch.distributed torch.distributed.distributed_c10d
    torch.distributions torch.func torch.masked torch.mps torch.nn torch.nn.functional torch.nn.init torch.nn.utils
    torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.profiler torch.utils.checkpoint torch.utils.data
    torch.utils._pytree torch.xpu'''.split()

def answered(question):
    try:
        return question()
    except Exception as error:
        return type(error).__name__

def facts(value):
    found = {
        "module": value.__module__,
        "pickled": answered(lambda: pickle.loads(pickle.dumps(value)) is value),
        "hints": answered(lambda: bool(typing.get_type_hints(value)) or True),
        "source": answered(lambda: bool(inspect.getsource(value))),
    }
    if isinstance(value, type):
        found["bases"] = [c.__module__ + "." + c.__qualname__ for c in value.__mro__[1:]]
        found["abstract"] = inspect.isabstract(value)
        if issubclass(value, enum.Enum):
            found["enum"] = [str(member) for member in value]
    elif not inspect.isfunction(value):
        found["signature"] = answered(lambda: inspect.signature(value) and True)
    return found

found = {}
for place in MODULES:
    module = importlib.import_module(place)
    for name in dir(module):
        value = getattr(module, name, None)
        known = isinstance(value, type) or inspect.isroutine(value)
        if not name.startswith("_") and known and (getattr(value, "__module__", None) or "").startswith("torch"):
            found[place + "." + name] = facts(value)
print(json.dumps(found))
"""
# PyTorch's module of these is private; ours is the one in which users find them.
PRIVATE_HOMES = ("torch._", "torch.masked._ops", "torch.jit._", "torch.testing._", "torch.utils.data._utils")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    program = tmp_path_factory.mktemp("names") / "program.py"
    program.write_text(PROGRAM)
    commands = {"PyTorch": [sys.executable, "-W", "ignore"], "gradloom": [sys.executable, "-m", "gradloom", "run"]}
    return {
        library: json.loads(subprocess.run([*command, program], capture_output=True, check=True, timeout=300).stdout)
        for library, command in commands.items()
    }


def differing(answers, fact: str, matters=lambda theirs, ours: True) -> list[str]:
    """Return the names for which PyTorch knows a fact and gradloom answers otherwise."""
    theirs, ours = answers["PyTorch"], answers["gradloom"]
    pairs = [(n, theirs[n][fact], ours[n].get(fact)) for n in theirs if n in ours and fact in theirs[n]]
    assert pairs
    return [f"{n}: {a}, not {b}" for n, b, a in pairs if a != b and a is not None and matters(b, a)]


def test_modules_are_those_of_pytorch(answers):
    def differs(theirs, ours):
        return not theirs.startswith(PRIVATE_HOMES) and not theirs.startswith(f"{ours}.")

    wrong = differing(answers, "module", differs)
    rare = "Future ScriptModule cond fork hsmm hspmm parse_schema saddmm smm sspaddmm wait while_loop split lu stft"
    rare += " thread_safe_generator unravel_index breakpoint record_comm"
    assert [line for line in wrong if line.partition(":")[0].rpartition(".")[2] not in rare.split()] == []


def test_pickles_find_them(answers):
    assert differing(answers, "pickled", lambda theirs, ours: theirs is True) == []


def test_hints_can_be_read(answers):
    wrong = differing(answers, "hints", lambda theirs, ours: theirs is True)
    # A C function in PyTorch.
    assert [line for line in wrong if "result_type" not in line] == []


def test_sources_of_classes_are_found(answers):
    wrong = differing(answers, "source", lambda theirs, ours: theirs is True)
    # Without methods, which tell the file; made by type(); C functions in PyTorch.
    rare = "Storage SymBool SymFloat SymInt DLDeviceType GradcheckError CheckpointError split Key ProfilerAction"
    rare += " GradientEdge classproperty group GroupMember"
    assert [line for line in wrong if not line.partition(":")[0].endswith(tuple(rare.split()))] == []


def test_enumerations_have_the_same_members(answers):
    assert differing(answers, "enum") == []


def test_base_classes_and_abstract_methods(answers):
    def lacks(theirs, ours):
        public = {name.rpartition(".")[2] for name in theirs if "._" not in name and name.startswith("torch")}
        return not public <= {name.rpartition(".")[2] for name in ours}

    wrong = differing(answers, "bases", lacks)
    wrong = [line.partition(":")[0] for line in wrong]
    # A Function is no context here; storages of one dtype and script modules have no other base.
    assert [n for n in wrong if not n.endswith(("Function", "IOFunction", "Storage", "ScriptModule", "Gloo"))] == []
    abstract = differing(answers, "abstract")
    assert [line for line in abstract if "graph.Node" not in line] == []
