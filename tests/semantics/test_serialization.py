"""save, load, pickle and deepcopy: values, shared memory, leaves and graphs."""

import copy
import io
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from functools import partial
from pathlib import Path

import pytest

from tests.waiting import LIMIT, Running, in_threads


def there_and_back(torch, value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


def saved_and_loaded(torch, value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


def test_parameters_keep_their_attributes(torch):
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.scale = 3
    found = saved_and_loaded(torch, {"p": parameter})["p"]
    assert type(found) is torch.nn.Parameter and found.scale == 3 and not found.requires_grad


def test_a_file_of_the_users_is_flushed_when_all_is_written(torch):
    class Upload(io.BytesIO):
        sent = b""

        def flush(self):
            self.sent = self.getvalue()

    for options in ({}, {"_use_new_zipfile_serialization": False}):
        file = Upload()
        torch.save(torch.ones(2), file, **options)
        assert file.sent == file.getvalue() != b""
        assert torch.load(io.BytesIO(file.sent)).tolist() == [1, 1]


def test_a_file_of_the_users_needs_nothing_but_write(torch):
    class Uploaded:
        """Uploads what was written at each flush."""

        def __init__(self):
            self.waiting, self.uploads = b"", []

        def write(self, data):
            self.waiting += data

        def flush(self):
            if self.waiting:
                self.uploads.append(self.waiting)
                self.waiting = b""

        def tell(self):
            raise NotImplementedError("Tell is not (yet) implemented")

    file = Uploaded()
    torch.save({"weight": torch.arange(5.0)}, file)
    assert len(file.uploads) == 1
    assert torch.load(io.BytesIO(file.uploads[0]))["weight"].tolist() == [0, 1, 2, 3, 4]


def test_schedulers_are_pickled_with_the_functions_that_they_use(torch):
    def optimizer():
        return torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)

    for make in (
        lambda: torch.optim.lr_scheduler.CyclicLR(optimizer(), 0.01, 0.1, 2, mode="triangular2"),
        lambda: torch.optim.lr_scheduler.CyclicLR(optimizer(), 0.01, 0.1, 2, mode="exp_range", gamma=0.9),
        lambda: torch.optim.swa_utils.SWALR(optimizer(), 0.05, anneal_strategy="linear", anneal_epochs=4),
    ):
        first = make()
        names = ("_scale_fn_ref", "anneal_func")
        assert any(name in vars(first) for name in names) and not any(name in first.state_dict() for name in names)
        second = pickle.loads(pickle.dumps(first))
        second.load_state_dict(first.state_dict())
        for _ in range(7):
            for scheduler in (first, second):
                scheduler.optimizer.step()
                scheduler.step()
            assert first.get_last_lr() == second.get_last_lr()


def test_a_scheduler_takes_its_function_from_the_state(torch):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
    SWALR = torch.optim.swa_utils.SWALR
    cosine, linear = SWALR(optimizer, 0.05), SWALR(optimizer, 0.05, anneal_strategy="linear")
    cosine.load_state_dict(linear.state_dict())
    assert cosine.anneal_func(0.2) == 0.2


def test_a_result_is_saved_as_a_leaf_without_a_word(torch, recwarn):
    found = saved_and_loaded(torch, torch.ones(2, requires_grad=True) * 2)
    assert found.is_leaf and found.requires_grad and not recwarn.list


def test_an_empty_file_ends_too_early(torch):
    with pytest.raises(EOFError):
        torch.load(io.BytesIO())


def test_containers_of_tensors_come_back(torch):
    value = {
        "a": torch.arange(6.0).view(2, 3),
        "list": [torch.tensor(True), (1, 2.5, None, "text", b"bytes")],
        "dtype": torch.float64,
        "shape": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "ordered": OrderedDict(x=torch.ones(2, dtype=torch.bfloat16)),
        "set": {1, 2},
        "complex": torch.tensor([1 + 2j]),
        "int": torch.tensor([1, 2], dtype=torch.int16),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
    }
    found = there_and_back(torch, value)
    assert repr(found) == repr(value)
    assert found["dtype"] is torch.float64 and isinstance(found["ordered"], OrderedDict)


def test_tensors_that_share_memory_share_it_again(torch):
    x = torch.arange(6.0)
    for way in (lambda v: there_and_back(torch, v), copy.deepcopy):
        whole, part, turned = way([x, x[2:4], x.view(2, 3).t()])
        part.fill_(9)
        assert whole.tolist() == [0.0, 1.0, 9.0, 9.0, 4.0, 5.0]
        assert turned.stride() == (1, 3) and turned[0].tolist() == [0.0, 9.0]
        part, whole = way([x[2:4], x])
        part.fill_(9)
        assert whole.tolist() == [0.0, 1.0, 9.0, 9.0, 4.0, 5.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_leaves_keep_requires_grad_and_parameters_their_class(torch):
    leaf, parameter = torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(3))
    a, b = there_and_back(torch, [leaf, parameter])
    assert a.requires_grad and a.is_leaf and type(b) is torch.nn.Parameter and b.requires_grad


def test_training_goes_on_from_a_checkpoint(torch):
    torch.manual_seed(0)

    def build():
        module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        return module, torch.optim.Adam(module.parameters(), lr=0.1)

    def step(module, optimizer):
        optimizer.zero_grad()
        loss = (module(torch.arange(12.0).view(4, 3)) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    module, optimizer = build()
    step(module, optimizer)
    checkpoint = there_and_back(torch, {"module": module.state_dict(), "optimizer": optimizer.state_dict()})
    again, its_optimizer = build()
    again.load_state_dict(checkpoint["module"])
    its_optimizer.load_state_dict(checkpoint["optimizer"])
    assert [step(module, optimizer) for _ in range(3)] == [step(again, its_optimizer) for _ in range(3)]


def test_a_path_is_written_and_read(torch, tmp_path):
    path = tmp_path / "weights.pt"
    torch.save(torch.ones(2), path)
    assert torch.load(path).tolist() == [1.0, 1.0] and torch.load(str(path)).tolist() == [1.0, 1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["weights.pt"]
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "absent.pt")
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        torch.save(torch.ones(2), tmp_path / "absent" / "weights.pt")
    with pytest.raises(AttributeError, match="seek"):
        torch.load(3)


class Plain:
    def __init__(self):
        self.x = 1


def test_classes_of_the_program_have_to_be_allowed(torch):
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL .*Plain was not an allowed global"):
        there_and_back(torch, Plain())
    assert there_and_back(torch, Plain(), weights_only=False).x == 1
    with torch.serialization.safe_globals([Plain]):
        assert there_and_back(torch, Plain()).x == 1
    with pytest.raises(pickle.UnpicklingError):
        there_and_back(torch, Plain())


def test_a_file_cannot_run_code(torch, tmp_path):
    import os

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    with pytest.raises(pickle.UnpicklingError, match="Unsupported global|unsupported GLOBAL"):
        there_and_back(torch, Attack())
    assert not (tmp_path / "made").exists()


def test_deepcopy_refuses_a_graph_and_copies_gradients(torch):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="created explicitly by the user"):
        copy.deepcopy(x * 2)
    (x * 3).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.grad.tolist() == [3.0, 3.0] and twin.grad is not x.grad and twin.is_leaf and twin.requires_grad


def test_attributes_of_a_tensor_go_along(torch):
    x = torch.ones(2)
    x.note = {"made": "today"}
    assert copy.deepcopy(x).note == {"made": "today"} and pickle.loads(pickle.dumps(x)).note == {"made": "today"}
    assert there_and_back(torch, x).note == {"made": "today"}


def test_a_damaged_file_is_refused(gradloom, tmp_path):
    path = tmp_path / "weights.pt"
    gradloom.save(gradloom.arange(1000.0), path)
    whole = path.read_bytes()
    for damaged in (b"hello", whole[:200], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(RuntimeError, match="load()"):
            gradloom.load(path)


def test_what_cannot_be_saved_leaves_the_old_file(gradloom, tmp_path):
    path = tmp_path / "weights.pt"
    gradloom.save(gradloom.ones(2), path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        gradloom.save({"f": lambda: 1}, path)
    assert gradloom.load(path).tolist() == [1.0, 1.0] and len(list(tmp_path.iterdir())) == 1


def test_threads_that_save_to_one_path_never_show_a_broken_file(gradloom, tmp_path):
    path = tmp_path / "weights.pt"
    gradloom.save({"x": gradloom.zeros(3), "n": 0}, path)

    def save(n):
        for _ in range(10):
            gradloom.save({"x": gradloom.full((10_000 * n,), float(n)), "n": n}, path)

    def load():
        for _ in range(40):
            found = gradloom.load(path)
            assert (found["x"] == found["n"]).all()

    in_threads(*[partial(save, n) for n in (1, 2, 3)], load, load)
    assert [p.name for p in tmp_path.iterdir()] == ["weights.pt"]


def test_a_killed_save_leaves_the_old_file_and_nothing_that_the_next_does_not_remove(gradloom, tmp_path):
    path = tmp_path / "weights.pt"
    gradloom.save(gradloom.ones(2), path)
    killed = "import gradloom, os, sys\nos.fsync = lambda f: os._exit(9)\ngradloom.save(gradloom.zeros(9), sys.argv[1])"
    assert subprocess.run([sys.executable, "-c", killed, path], timeout=LIMIT, check=False).returncode == 9
    assert gradloom.load(path).tolist() == [1.0, 1.0] and len(list(tmp_path.iterdir())) == 2
    other = tmp_path / "weights.pt.0123456789abcdef.part.txt"
    other.touch()
    gradloom.save(gradloom.zeros(1), path)
    assert gradloom.load(path).tolist() == [0.0] and set(tmp_path.iterdir()) == {path, other}


@pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes as on POSIX")
def test_modes_links_and_pipes_stay_what_they_are(torch, tmp_path):
    path, link, pipe = tmp_path / "weights.pt", tmp_path / "link.pt", tmp_path / "pipe"
    path.touch()
    path.chmod(0o640)
    link.symlink_to("weights.pt")
    torch.save(torch.ones(2), link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert torch.load(path).tolist() == [1.0, 1.0]
    os.mkfifo(pipe)
    reader = Running(pipe.read_bytes)
    if torch.__name__ == "gradloom":  # PyTorch seeks
        torch.save(torch.ones(2), pipe)
        assert pipe.is_fifo() and torch.load(io.BytesIO(reader.result())).tolist() == [1.0, 1.0]
    else:
        pipe.write_bytes(b"")
    torch.save(torch.ones(2), os.devnull)
    assert not Path(os.devnull).is_file()


# --- the format from before PyTorch 1.6 -----------------------------------------------------------------------------


def in_the_old_format(torch, value):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def test_the_old_format_keeps_values_types_and_shared_memory(torch):
    x = torch.arange(6.0).view(2, 3)
    kinds = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64)
    value = {
        "x": x,
        "row": x[1],
        "t": x.t(),
        "p": torch.nn.Parameter(torch.ones(2)),
        "none": None,
        "kinds": [torch.ones(1, dtype=kind) for kind in kinds],
        "empty": torch.zeros(0, 3),
    }
    found = torch.load(io.BytesIO(in_the_old_format(torch, value)))
    assert torch.equal(found["x"], x) and found["t"].stride() == (1, 3) and found["empty"].shape == (0, 3)
    assert [one.dtype for one in found["kinds"]] == list(kinds) and [one.item() for one in found["kinds"]] == [1] * 7
    assert type(found["p"]) is torch.nn.Parameter and found["p"].requires_grad
    found["x"][1, 0] = 100
    assert found["row"][0] == 100


def test_files_of_the_old_format_are_read_across_libraries():
    theirs, ours = pytest.importorskip("torch"), __import__("gradloom")
    for one, other in ((theirs, ours), (ours, theirs)):
        data = in_the_old_format(one, {"w": one.arange(4.0)[1:], "state": one.nn.Linear(2, 1).state_dict()})
        found = other.load(io.BytesIO(data))
        assert found["w"].tolist() == [1.0, 2.0, 3.0] and found["w"].storage_offset() == 1
        assert found["state"]["weight"].shape == (1, 2)


def test_several_objects_in_one_file_follow_each_other(torch):
    file = io.BytesIO(in_the_old_format(torch, torch.ones(2)) + in_the_old_format(torch, torch.zeros(1)))
    assert torch.load(file).tolist() == [1.0, 1.0]


def test_a_damaged_file_of_the_old_format_is_refused(gradloom):
    whole = in_the_old_format(gradloom, {"a": gradloom.arange(100.0), "b": [1, "x"]})
    for end in range(1, len(whole), 7):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            gradloom.load(io.BytesIO(whole[:end]))
    with pytest.raises(RuntimeError, match="this file was not written by save"):
        gradloom.load(io.BytesIO(pickle.dumps({"a": 1})))


def test_code_in_a_file_of_the_old_format_is_not_run(torch):
    class Evil:
        def __reduce__(self):
            return print, ("run",)

    data = in_the_old_format(torch, [Evil()])
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(io.BytesIO(data))


def test_only_files_can_be_written_to(torch):
    with pytest.raises(AttributeError, match="file-like object with a 'write' attribute"):
        torch.save(torch.ones(1), 3)


def test_errors_of_a_file_that_cannot_seek_are_its_own(torch):
    class Remote:
        def seek(self, *position):
            raise NotImplementedError("no seek here")

        tell = read = readinto = readline = seek

    with pytest.raises(NotImplementedError, match="no seek here"):
        torch.load(Remote())
