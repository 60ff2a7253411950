"""What `load` refuses in files that are not trusted: changes of shared objects, sizes without bytes, damage."""

from __future__ import annotations

import io
import pickle
import random
import struct
import zipfile
from collections import OrderedDict

import pytest

import gradloom as torch

TENSOR = b"ctorch\nTensor\n"
STATE = b"}X\x04\x00\x00\x00reluK\x05s"  # {"relu": 5}
ORDERED = b"ccollections\nOrderedDict\n"


def archive(pickled: bytes, *, compressed: bool = False, **members: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as written:
        written.writestr("archive/data.pkl", b"\x80\x02" + pickled + b".")
        for name, data in members.items():
            written.writestr(f"archive/data/{name}", data)
    file.seek(0)
    return file


def old_file(pickled: bytes, keys: list[str], elements: bytes) -> io.BytesIO:
    parts = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    start = b"".join(pickle.dumps(part, 2) for part in parts)
    return io.BytesIO(start + b"\x80\x02" + pickled + b"." + pickle.dumps(keys, 2) + elements)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


def stored(count: int, *, old: bool = False) -> bytes:
    id = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + number(count)
    return id + (b"N" if old else b"") + b"tQ"


def tensor(storage: bytes, size: bytes, stride: bytes = b"(K\x01t") -> bytes:
    rest = b"K\x00" + size + stride + b"\x89" + ORDERED + b")R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tR"


CHANGES = {
    "a class": TENSOR + STATE + b"b",
    "a container class": ORDERED + STATE + b"b",
    "a function": b"ctorch._utils\n_rebuild_tensor_v2\n" + STATE + b"b",
    "a dtype": b"ctorch\nfloat32\n" + STATE + b"b",
    "a layout": b"ctorch.serialization\n_get_layout\n" + text("torch.strided") + b"\x85R" + STATE + b"b",
    "a dtype's slots": b"ctorch\nfloat32\nN" + STATE + b"\x86b",
    "a class, by item": TENSOR + text("relu") + b"K\x05s",
    "a class, by appending": TENSOR + b"K\x05a",
    "a tensor's own names": b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
    + TENSOR + b"(" + stored(0) + b"K\x00)))\x89" + ORDERED + b")Rt" + STATE + b"tR",
}  # fmt: skip
SIZES = {
    "bytearray": b"cbuiltins\nbytearray\n" + number(1 << 40) + b"\x85R",
    "bytes": b"cbuiltins\nbytes\n" + number(1 << 40) + b"\x85R",
    "Tensor": TENSOR + number(1 << 30) + b"\x85R",
    "a list of a tensor": b"cbuiltins\nlist\n" + tensor(stored(1), number(1 << 40) + b"\x85", b"K\x00\x85") + b"\x85R",
    "bytearray8": b"\x96" + struct.pack("<Q", 1 << 40),
    "bytes8": b"\x8e" + struct.pack("<Q", 1 << 40),
    "a tuple that doubles": b"})" + b"2\x86" * 100 + b"K\x01s",
    "a deep tuple": b"})" + b"\x85" * 200_000 + b"K\x01s",
    "text of objects": b"cbuiltins\nstr\n]" + b"2a" + b"\x85R",
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("form", ["archive", "old"])
def test_a_file_changes_only_what_it_made(what, form):
    assert hasattr(torch.Tensor, "relu")  # methods are bound at their first use
    before = {c: dict(vars(c)) for c in (torch.Tensor, OrderedDict)}
    file = archive(CHANGES[what], **{"0": b""}) if form == "archive" else old_file(CHANGES[what], [], b"")
    with pytest.raises((pickle.UnpicklingError, RuntimeError) if form == "old" else pickle.UnpicklingError):
        torch.load(file)
    assert all(dict(vars(c)) == before[c] for c in before) and not hasattr(torch.float32, "relu")
    assert not hasattr(torch.strided, "relu")


@pytest.mark.parametrize("what", SIZES)
def test_what_a_file_has_no_bytes_for_is_refused(what):
    with pytest.raises((pickle.UnpicklingError, RuntimeError), match="load"):
        torch.load(archive(SIZES[what], **{"0": b"\0\0\0\0"}))


def test_a_compressed_archive_is_refused_unless_it_is_trusted():
    pickled = tensor(stored(1 << 20), number(1 << 20) + b"\x85")
    bomb = archive(pickled, compressed=True, **{"0": bytes(4 << 20)})
    with pytest.raises(RuntimeError, match="is compressed"):
        torch.load(bomb)
    bomb.seek(0)
    assert torch.load(bomb, weights_only=False).shape == (1 << 20,)


def test_old_files_show_no_memory_that_they_did_not_fill():
    two = tensor(stored(2, old=True), number(2) + b"\x85")
    good = old_file(two, ["0"], struct.pack("<Qff", 2, 1.5, 2.5))
    assert torch.load(good).tolist() == [1.5, 2.5]
    for keys, elements in (([], b""), (["0"], struct.pack("<Qf", 1, 1.5)), (["0"], struct.pack("<Q", 1 << 62))):
        with pytest.raises(RuntimeError, match="damaged"):
            torch.load(old_file(two, keys, elements))
    with pytest.raises(RuntimeError, match="no room"):
        torch.load(old_file(tensor(stored(1 << 40, old=True), number(2) + b"\x85"), ["0"], b""))


class Own:
    def __init__(self):
        self.x = 1

    def __setstate__(self, state):
        if state.get("x") == 3:
            raise KeyError("of the class")
        self.__dict__.update(state)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_files_may_hold_comes_back(protocol):
    weights = torch.nn.Linear(2, 1).state_dict()
    weights.attribute = "kept"
    plain = {"set": {1, (2, 3)}, "frozen": frozenset([1]), "bytes": b"abc", "array": bytearray(b"abc"), "c": 1 + 2j,
             "big": 1 << 100, "own": Own(), (1, "key"): [None, True, 1.5], "text": "ä" * 300}  # fmt: skip
    file = archive(pickle.dumps({"plain": plain, "ordered": OrderedDict(a=1)}, protocol)[2:-1])
    with torch.serialization.safe_globals([Own]):
        found = torch.load(file)
        plain["own"].x = 3
        with pytest.raises(KeyError, match="of the class"):
            torch.load(archive(pickle.dumps(plain, protocol)[2:-1]))
    assert found["plain"].pop("own").x == 1 and plain.pop("own")
    assert found == {"plain": plain, "ordered": OrderedDict(a=1)}
    file = io.BytesIO()
    torch.save(weights, file)
    file.seek(0)
    again = torch.load(file)
    assert list(again) == list(weights) and again.attribute == "kept"


@pytest.mark.parametrize("old", [False, True])
def test_damaged_files_raise_the_documented_errors(old):
    file = io.BytesIO()
    value = {"a": torch.arange(6.0).view(2, 3), "p": torch.nn.Parameter(torch.ones(3)), "b": bytearray(b"abc"),
             "s": {1, 2}, "d": torch.float64, "h": torch.ones(2, dtype=torch.bfloat16), "c": b"xyz"}  # fmt: skip
    torch.save(value, file, _use_new_zipfile_serialization=not old)
    whole, chance = file.getvalue(), random.Random(11)
    for n in range(1500):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 5))):
            place = chance.randrange(min(len(data), 1500) if n % 2 else len(data))
            data[place] = chance.choice((data[place] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255))
        if n % 3 == 0:
            del data[chance.randrange(len(data)) :]
        elif n % 3 == 1:
            place = chance.randrange(len(data))
            del data[place : place + chance.randrange(9)]
        try:
            torch.load(io.BytesIO(bytes(data)))
        except (RuntimeError, pickle.UnpicklingError):
            pass
        except EOFError:
            assert not data
