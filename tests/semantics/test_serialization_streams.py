"""Saved objects in streams, where storages are loaded to, and other modules' picklers."""

import copyreg
import io
import pickle
import struct
import types
import warnings
import zipfile

import pytest

CUDA = "Attempting to deserialize object on a "


def saved(torch, value, old=False, **options):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=not old, **options)
    return file.getvalue()


@pytest.mark.parametrize("trusted", [False, True])
def test_objects_of_the_old_format_follow_each_other(torch, trusted):
    first, second = saved(torch, torch.ones(2), old=True), saved(torch, {"x": torch.arange(3)}, old=True)
    file = io.BytesIO(b"head" + first + second + b"tail")
    assert file.read(4) == b"head"
    assert torch.load(file, weights_only=not trusted).tolist() == [1.0, 1.0]
    assert file.tell() == 4 + len(first)
    assert torch.load(file, weights_only=not trusted)["x"].tolist() == [0, 1, 2]
    assert file.read() == b"tail"


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("old", [[True, False], [False, True], [False, False]])
def test_an_object_begins_at_the_position_of_the_file(torch, old, trusted):
    first, second = (saved(torch, torch.full((2,), 1.0 + i), old=is_old) for i, is_old in enumerate(old))
    file = io.BytesIO(b"head" + first + second)
    for position, value in ((4, 1.0), (4 + len(first), 2.0), (4, 1.0)):
        file.seek(position)
        assert torch.load(file, weights_only=not trusted).tolist() == [value] * 2


def test_an_archive_is_found_before_much_other_data(gradloom):
    torch, tail = gradloom, b"PK\x05\x06" * 100_000
    file = io.BytesIO(b"head" + saved(torch, torch.ones(2)) + tail)
    file.seek(4)
    assert torch.load(file).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("old", [False, True])
def test_positions_without_an_object_are_errors(torch, old):
    file = io.BytesIO()
    torch.save(torch.ones(2), file, _use_new_zipfile_serialization=not old)
    with pytest.raises(EOFError):  # at the end
        torch.load(file)
    file = io.BytesIO(b"head" + file.getvalue())
    with pytest.raises((RuntimeError, KeyError, pickle.UnpicklingError)):
        torch.load(file)


class Stream:
    """A file of the user's, with few methods."""

    def __init__(self, data=b""):
        self._file = io.BytesIO(data)
        self.write, self.read, self.getvalue = self._file.write, self._file.read, self._file.getvalue
        self.readline, self.flush = self._file.readline, self._file.flush


class Seeking(Stream):
    def __init__(self, data=b""):
        super().__init__(data)
        self.seek, self.tell = self._file.seek, self._file.tell


@pytest.mark.parametrize("old", [False, True])
def test_streams_need_few_methods(torch, old):
    file = Stream()
    torch.save(torch.ones(2), file, _use_new_zipfile_serialization=not old)
    assert torch.load(Seeking(file.getvalue())).tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="seek"):
        torch.load(Stream(file.getvalue()))


def test_members_are_pytorchs_in_names_order_and_place(torch):
    shared = torch.arange(5.0)
    value = {"a": shared, "b": torch.ones(3, dtype=torch.int8), "c": torch.zeros(0), "d": shared[1:]}
    for prefix in (b"", b"head"):
        file = io.BytesIO(prefix)
        file.seek(len(prefix))
        torch.save(value, file)
        data = file.getvalue()[len(prefix) :]
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            contents = {info.filename.removeprefix("archive/"): archive.read(info) for info in members}
        names = (
            "data.pkl .format_version .storage_alignment byteorder data/0 data/1 data/2 version .data/serialization_id"
        )
        assert list(contents) == names.split()
        assert contents[".format_version"] == b"1" and contents[".storage_alignment"] == b"64"
        assert contents["version"] == b"3\n" and contents["data/1"] == b"\1\1\1"
        assert len(contents[".data/serialization_id"]) == 40 and contents[".data/serialization_id"].isdigit()
        for info in members:
            name, extra = struct.unpack("<2H", data[info.header_offset + 26 : info.header_offset + 30])
            start = info.header_offset + 30 + name + extra
            assert start % 64 == 0 and data[start : start + info.file_size] == contents[info.filename[8:]]
            assert data[start - extra : start - extra + 2] == b"FB" and not info.extra
    assert saved(torch, value) == saved(torch, value) != saved(torch, {**value, "c": torch.ones(0, 2)})


@pytest.mark.parametrize("old", [False, True])
def test_where_storages_are_loaded_to(torch, old):
    def load(tag, where):
        data = saved(torch, {"x": torch.ones(2), "y": torch.zeros(3)}, old)
        given, wanted = (b"X" + len(t).to_bytes(4, "little") + t.encode() for t in ("cpu", tag))
        if old:
            return torch.load(io.BytesIO(data.replace(given, wanted)), map_location=where)
        changed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(changed, "w") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name).replace(given, wanted))
        changed.seek(0)
        return torch.load(changed, map_location=where)

    cpu = torch.device("cpu")
    for tag, where in [
        ("cpu", None), ("cpu", {}), ("cuda:1", "cpu"), ("cuda:1", cpu), ("cuda:1", {"cuda:1": "cpu"}), ("zzz", "cpu"),
        ("cuda:1", lambda storage, location: storage), ("zzz", lambda storage, location: storage.clone()),
        ("cpu", lambda storage, location: None),
    ]:  # fmt: skip
        found = load(tag, where)
        assert found["x"].tolist() == [1.0, 1.0] and found["y"].device == cpu
    for tag, where in [("cpu", "meta"), ("zzz", torch.device("meta")), ("meta", None), ("meta", lambda *_: None)]:
        assert str(load(tag, where)["y"].device) == "meta"
    for tag, where, error, message in [
        ("cuda:1", None, RuntimeError, CUDA), ("cpu", "cuda", RuntimeError, CUDA), ("cuda", {}, RuntimeError, CUDA),
        ("cuda:0", lambda storage, location: None, RuntimeError, CUDA),
        ("zzz", None, RuntimeError, r"don't know how to restore data location of .*\(tagged with zzz\)"),
        ("zzz", lambda storage, location: None, RuntimeError, r"\(tagged with zzz\)"),
        ("cpu", {"cpu": "zzz"}, RuntimeError, r"\(tagged with zzz\)"), ("cpu", "zzz", RuntimeError, "tagged with zzz"),
        ("cpu", 3, TypeError, "'int' object is not callable"), ("cpu", ["cpu"], TypeError, "not callable"),
        ("cpu", lambda storage, location: "cpu", TypeError, None), ("cpu", lambda *_: 1 / 0, ZeroDivisionError, None),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            load(tag, where)


class Secret:
    """An object that cannot be pickled by itself."""

    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        raise TypeError("secret")


class InPython(pickle._Pickler):
    def reducer_override(self, obj):
        return (Secret, (obj.value + 1,)) if type(obj) is Secret else NotImplemented


class InC(pickle.Pickler):
    def reducer_override(self, obj):
        return (Secret, (obj.value + 1,)) if type(obj) is Secret else NotImplemented


class ByTable(pickle.Pickler):
    dispatch_table = {**copyreg.dispatch_table, Secret: lambda obj: (Secret, (obj.value + 1,))}


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return (lambda value: [value]) if name == "Secret" else super().find_class(module, name)


@pytest.mark.parametrize("pickler", [InPython, InC, ByTable])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("old", [False, True])
def test_other_picklers_and_unpicklers_are_used(torch, pickler, protocol, old):
    module = types.ModuleType("picklers")
    module.Pickler, module.Unpickler, module.dump, module.load = pickler, Unpickler, pickle.dump, pickle.load
    value = {"x": torch.ones(2), "secret": Secret(1), "dtype": torch.float64, "n": torch.nn.Parameter(torch.zeros(1))}
    data = saved(torch, value, old, pickle_module=module, pickle_protocol=protocol)
    if not old:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.read("archive/data.pkl")[:2] == bytes([0x80, protocol])
    for options in ({}, {"weights_only": False}):
        found = torch.load(io.BytesIO(data), pickle_module=module, **options)
        assert found["x"].tolist() == [1.0, 1.0] and found["secret"] == [2] and found["dtype"] is torch.float64
        assert type(found["n"]) is torch.nn.Parameter
    assert torch.load(io.BytesIO(data), weights_only=False)["secret"].value == 2
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        torch.load(io.BytesIO(data), pickle_module=module, weights_only=True)


def test_options_of_picklers_are_checked(torch):
    data, empty = saved(torch, torch.ones(1)), types.ModuleType("empty")
    with pytest.raises(AttributeError, match="Pickler"):
        torch.save(1, io.BytesIO(), pickle_module=empty)
    with pytest.raises(AttributeError, match="Unpickler"):
        torch.load(io.BytesIO(data), pickle_module=empty)
    with pytest.raises(ValueError, match="pickle protocol must be <= 5"):
        torch.save(1, io.BytesIO(), pickle_protocol=9)
    for trusted in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, that options have no effect with weights_only
            with pytest.raises(TypeError, match="nonsense"):
                torch.load(io.BytesIO(data), weights_only=not trusted, nonsense=1)
            assert torch.load(io.BytesIO(data), weights_only=not trusted, encoding="latin1").tolist() == [1.0]
    with pytest.raises(ValueError, match="must be a file path"):
        torch.load(io.BytesIO(data), mmap=True)
