"""Tensors in shared memory. Tests that take `torch` run with PyTorch, too."""

import copy
import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import LIMIT

LIBRARIES = [name for name in ("gradloom", "torch") if find_spec(name)]
PROGRAMS = Path(__file__).with_name("sharing_programs.py")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and /dev/shm")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.fixture(params=LIBRARIES)
def torch(request):
    library = import_module(request.param)
    import_module(f"{request.param}.multiprocessing")
    return library


def sent(thing):
    """Send a thing to this process."""
    return ForkingPickler.loads(ForkingPickler.dumps(thing))


def run(*arguments):
    found = subprocess.run([sys.executable, PROGRAMS, *arguments], capture_output=True, text=True, timeout=LIMIT)
    return found.returncode, found.stdout[-3000:], found.stderr[-3000:]


# --- moving to shared memory ------------------------------------------------------------------------------------------


def test_a_storage_moves_with_its_views(torch):
    base = torch.arange(6.0)
    view, storage = base[2:], base.untyped_storage()
    bits = torch.view_as_complex(base.view(3, 2)).conj()
    assert not base.is_shared() and not storage.is_shared()
    assert view.share_memory_() is view
    assert base.is_shared() and view.is_shared() and bits.is_shared() and storage.is_shared()
    assert view.data_ptr() == base.data_ptr() + 8 and storage.data_ptr() == base.data_ptr()
    view.fill_(1)
    assert base.tolist() == [0, 1, 1, 1, 1, 1]
    assert bits.tolist() == [0 - 1j, 1 - 1j, 1 - 1j]


def test_an_alias_moves_along(torch):
    tensor = torch.ones(3)
    alias, other = tensor.detach(), torch.ones(3)
    tensor.share_memory_()
    assert alias.is_shared() and alias.data_ptr() == tensor.data_ptr() and not other.is_shared()


def test_results_and_copies_are_not_shared(torch):
    tensor = torch.ones(3).share_memory_()
    address = tensor.data_ptr()
    assert tensor.share_memory_().data_ptr() == address
    assert not (tensor + 1).is_shared() and not tensor.clone().is_shared() and not copy.deepcopy(tensor).is_shared()
    assert tensor.detach().is_shared()


def test_an_empty_tensor_moves(torch):
    assert torch.empty(0, 3).share_memory_().is_shared()


def test_a_tensor_of_an_array_leaves_the_array(torch):
    array = np.ones(3)
    tensor = torch.from_numpy(array).share_memory_()
    tensor[0] = 5
    assert array.tolist() == [1, 1, 1] and tensor.tolist() == [5, 1, 1]


def test_storages_move(torch):
    storage = torch.UntypedStorage(16)
    storage.fill_(0)
    assert not storage.is_shared() and storage.share_memory_() is storage and storage.is_shared()
    assert torch.UntypedStorage._new_shared(4).is_shared()
    tensor = torch.ones(2)
    tensor.untyped_storage().share_memory_()
    assert tensor.is_shared() and tensor.tolist() == [1, 1]


def test_modules_move_with_gradients_and_buffers(torch):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    module(torch.ones(3, 2)).sum().backward()
    before = [value.tolist() for value in module.state_dict().values()]
    assert module.share_memory() is module
    assert all(parameter.is_shared() and parameter.grad.is_shared() for parameter in module.parameters())
    assert all(buffer.is_shared() for buffer in module.buffers())
    assert [value.tolist() for value in module.state_dict().values()] == before


def test_training_goes_on_in_shared_memory(torch):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.5, momentum=0.5)
    for step in range(3):
        if step == 1:
            parameter.share_memory_()
        optimizer.zero_grad()
        parameter.sum().backward()
        optimizer.step()
    assert parameter.is_shared() and sent(parameter).tolist() == parameter.tolist() == [-1.125, -1.125]


def test_shared_storages_cannot_grow():
    import gradloom as gl

    tensor = gl.ones(3).share_memory_()
    assert tensor.resize_(2).is_shared()
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.resize_(100)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_messages_refer_to_the_same_memory(torch):
    tensor = torch.ones(2, requires_grad=True)
    got = sent(tensor)
    assert got.requires_grad and got.is_leaf and tensor.is_shared() and got.data_ptr() == tensor.data_ptr()
    first, second = sent((tensor.detach()[:1], tensor.detach()[1:]))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr() == tensor.data_ptr()
    assert second.storage_offset() == 1


def test_messages_keep_class_layout_and_dtype(torch):
    assert sent(torch.ones(3, 2).t()).stride() == (1, 2)
    assert sent(torch.arange(6)[::2]).tolist() == [0, 2, 4]
    assert sent(torch.empty(0, 3)).shape == (0, 3)
    for name in ("bfloat16", "float16", "bool", "int8", "complex64", "uint16"):
        tensor = torch.tensor([0, 1, 1]).to(getattr(torch, name))
        got = sent(tensor)
        assert got.dtype == tensor.dtype and torch.equal(got, tensor)
    parameter = sent(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert type(parameter) is torch.nn.Parameter and not parameter.requires_grad
    assert sent(torch.ones(2, device="meta")).device.type == "meta"
    assert sent(torch.eye(2).to_sparse()).to_dense().tolist() == [[1, 0], [0, 1]]
    assert sent(torch.UntypedStorage(8)).nbytes() == 8


def test_messages_keep_conjugate_and_negative_bits():
    import gradloom as gl

    complex_ = gl.tensor([1 + 2j])
    assert sent(complex_.conj()).is_conj() and sent(complex_.conj()).tolist() == [1 - 2j]  # PyTorch drops the bits
    assert sent(complex_.conj().imag).tolist() == [-2]


def test_attributes_stay_behind(torch):
    for tensor in (torch.ones(2), torch.nn.Parameter(torch.ones(2))):
        tensor.note = "mine"
        assert not hasattr(sent(tensor), "note")


def test_a_tensor_with_history_is_refused(torch):
    tensor = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(tensor)
    assert sent(tensor.detach()).tolist() == [2, 2]


def test_the_sharing_strategy_can_be_set(torch):
    mp = torch.multiprocessing
    before = mp.get_sharing_strategy()
    assert before in mp.get_all_sharing_strategies()
    for name in mp.get_all_sharing_strategies():
        mp.set_sharing_strategy(name)
        assert mp.get_sharing_strategy() == name
    with pytest.raises(AssertionError, match="invalid sharing strategy 'telepathy', expected one of"):
        mp.set_sharing_strategy("telepathy")
    mp.set_sharing_strategy(before)


def test_the_names_of_multiprocessing_are_there(torch):
    import multiprocessing

    assert set(multiprocessing.__all__) <= set(torch.multiprocessing.__all__)
    assert torch.multiprocessing.Queue is not None and torch.multiprocessing.cpu_count() >= 1


# --- processes --------------------------------------------------------------------------------------------------------


@forks
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "program",
    ["exchange fork file_descriptor", "exchange fork file_system", "exchange spawn file_descriptor", "failures fork"],
)
def test_programs_of_several_processes(library, program):
    code, out, errors = run(library, *program.split())
    assert (code, out.splitlines()[-1:]) == (0, ["done"]), out + errors


@pytest.mark.parametrize("program", ["exchange spawn file_system", "spawns"])
def test_programs_that_spawn(program):
    code, out, errors = run("gradloom", *program.split())
    assert (code, out.splitlines()[-1:]) == (0, ["done"]), out + errors


@on_linux
@pytest.mark.parametrize("program", ["descriptors file_descriptor", "descriptors file_system", "threads"])
def test_programs_that_look_at_the_system(program):
    code, out, errors = run("gradloom", *program.split())
    assert (code, out.splitlines()[-1:]) == (0, ["done"]), out + errors


@on_linux
def test_nothing_stays_after_sigkill():
    code, out, errors = run("gradloom", "killed")
    assert code == -9 and "unread" in out, out + errors
    end = time.monotonic() + LIMIT
    while left := [name for name in os.listdir("/dev/shm") if name.startswith("gradloom_")]:
        owners = {name.split("_")[1] for name in left}
        if not owners & {out.split()[1]} and all(Path(f"/proc/{pid}").exists() for pid in owners):
            break  # of a test that runs beside this one
        assert time.monotonic() < end, left
        time.sleep(0.1)
