"""Families of operators are imported on first use (Note [Families]), whichever way a program reaches them first.

Each program runs in a process of its own, in which no family but those of Python's operators is imported.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from gradloom.generated import namespaces
from tests.waiting import LIMIT

HEAD = """
import sys
import gradloom as torch
from gradloom import Tensor

def families():
    return {name.rpartition(".")[2] for name in sys.modules if name.startswith("gradloom.generated.variable_type.")}

def waits(family):
    assert family not in families(), f"{family} was imported before it was used"

with_python = {"elementwise", "matmul"}
assert families() == with_python
"""


def run(program: str) -> str:
    command = [sys.executable, "-c", HEAD + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_family_is_bound_everywhere_when_one_of_its_names_is_first_used():
    run("""
waits("linalg")
assert torch.svd is Tensor.svd and torch.svd is vars(torch)["svd"] and vars(Tensor)["svd"] is torch.svd
assert families() == with_python | {"linalg"}
from gradloom.dispatch import _operators
assert _operators.svd is torch.svd and _operators.exact.linalg_qr is _operators.linalg_qr

waits("reduction")
x = torch.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)
assert x.sum().item() == 11 and "reduction" in families()

waits("shape")
assert x.T.shape == (2, 2) and x.T[0].tolist() == [3, 2] and Tensor.T.__get__(x).tolist() == x.T.tolist()

waits("complex")
z = torch.tensor([1 + 2j])
z.real = 5.0
assert z.tolist() == [5 + 2j] and isinstance(vars(Tensor)["real"], property) and "complex" in families()

waits("activation")
assert torch.nn.functional.gelu(torch.tensor([0.0])).item() == 0 and "activation" in families()

waits("pool")
assert torch.ops.aten.avg_pool1d.default(torch.ones(1, 1, 4), [2]).tolist() == [[[1, 1]]] and "pool" in families()

waits("fft")
assert torch.fft.rfft(torch.ones(4)).real.tolist() == [4, 0, 0] and "fft" in families()

waits("sorting")
values = torch.return_types.sort((torch.ones(1), torch.ones(1))).values
assert values.item() == 1 and type(torch.tensor([2.0, 1.0]).sort()) is torch.return_types.sort

waits("special")
import pickle
assert pickle.loads(pickle.dumps(torch.special.i0e)) is torch.special.i0e and "special" in families()

waits("norm")
assert torch._C._VariableFunctions.layer_norm is torch.layer_norm and "norm" in families()
assert torch.linalg.qr is _operators.linalg_qr
""")


def test_names_are_known_before_their_families():
    run("""
import inspect
assert {"svd", "softmax", "sum"} <= {*dir(torch)} & {*dir(Tensor)}
assert {"sort", "svd"} <= {*dir(torch.return_types)}
assert families() == with_python
assert hasattr(torch, "svd") and hasattr(Tensor, "softmax")
assert not hasattr(torch, "svdd") and not hasattr(Tensor, "svdd")
assert list(inspect.signature(Tensor.triu).parameters)[:2] == ["input", "diagonal"]
assert (Tensor.triu.__module__, Tensor.triu.__name__) == ("gradloom", "triu")
""")


def test_the_star_gives_all_operators():
    run("""
names = {}
exec("from gradloom import *", names)
assert names["svd"] is torch.svd and names["sum"] is torch.sum and names["tensor"] is torch.tensor
assert names["vmap"] is torch.vmap and names["FloatTensor"] is torch.FloatTensor and "bmm" in names
assert not {"core", "nn", "generated", "_operator"} & {*names}
""")


def test_what_a_program_has_put_in_place_of_an_operator_stays():
    run("""
from unittest import mock

own = lambda *args: "own"
torch.svd, Tensor.det = own, own
waits("linalg")
x = torch.eye(2)
assert x.inverse().tolist() == [[1, 0], [0, 1]] and "linalg" in families()
assert torch.svd is own and x.det() == "own" and Tensor.svd is not own

waits("sorting")
with mock.patch.object(Tensor, "sort", own):
    assert x.sort() == "own" and x.argsort().tolist() == [[1, 0], [0, 1]]
assert x.sort().values.tolist() == [[0, 1], [0, 1]] and type(Tensor.sort) is type(own) and Tensor.sort is not own
""")


def test_subclasses_and_super_reach_placeholders():
    run("""
class Mine(Tensor):
    def sum(self, *args):
        return "mine", super().sum(*args).item()

assert Mine.argsort is Tensor.argsort and super(Mine, Mine).cumsum is Tensor.cumsum
assert torch.ones(3).as_subclass(Mine).sum() == ("mine", 3)
""")


def test_overrides_see_operators_of_every_family():
    run("""
class Logged(Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})

x = torch.eye(2).as_subclass(Logged)
torch.svd(x), x.det(), x.T
assert Logged.seen[:3] == [torch.svd, Tensor.det, Tensor.T.__get__], Logged.seen
""")


def test_threads_that_use_a_family_for_the_first_time_at_once():
    assert (
        run("""
import threading

names = ["svd", "softmax", "sum", "sort", "transpose", "conv1d", "max_pool1d", "layer_norm", "dropout", "gather"]
start = threading.Barrier(8)
found, errors = {name: set() for name in names}, []

def look(number):
    try:
        start.wait(60)
        for name in names if number % 2 else reversed(names):
            found[name].update((id(getattr(place, name, None)), place) for place in (torch, Tensor))
        assert torch.ones(2, 2).sum().item() == 4 and torch.ones(2, 2).T.shape == (2, 2)
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=look, args=(number,), daemon=True) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(120)
assert not errors, errors
print({name: len(ids) for name, ids in found.items() if len(ids) != 2})
""")
        == "{}\n"
    )


@pytest.mark.parametrize("family", sorted({*namespaces.OPERATORS.families.values()}))
def test_each_family_is_complete_on_its_own(family):
    """A module of names has exactly what the tables say that it has."""
    module = namespaces.family(family)
    for table in ("OVERLOADS", "ENTRIES", "OPERATORS", "GUARDS", "METHODS"):
        names = [name for name, home in getattr(namespaces, table).families.items() if home == family]
        assert list(getattr(module, table)) == names, table
    assert set(module.GUARDS).isdisjoint(module.ENTRIES) and {*module.GUARDS, *module.ENTRIES} == {*module.OPERATORS}
