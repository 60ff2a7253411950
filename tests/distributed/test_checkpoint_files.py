"""The files of a checkpoint in PyTorch's format: what they may name, and what damaged ones lead to."""

from __future__ import annotations

import os
import pickle
import random
from collections import OrderedDict

import pytest

import gradloom as torch
from gradloom.distributed import checkpoint as dcp
from gradloom.distributed.checkpoint.filesystem import SerializationFormat
from gradloom.distributed.checkpoint.metadata import Metadata, MetadataIndex, _StorageInfo, dumped, parsed

NESTED = {"a": {1: torch.arange(4.0), "b": [torch.ones(2), {"c": 3}]}, "list": [1, [2]], "tuple": (torch.ones(1), 2)}


def zeros():
    return {"a": {1: torch.zeros(4), "b": [torch.zeros(2), {"c": 0}]}, "list": [], "tuple": ()}


def test_keys_and_files_are_pytorchs(tmp_path):
    dcp.save(NESTED, checkpoint_id=tmp_path / "one")
    assert sorted(os.listdir(tmp_path / "one")) == [".metadata", "__0_0.distcp"]
    found = dcp.FileSystemReader(tmp_path / "one").read_metadata()
    assert found.planner_data == {
        "a.1": ("a", "1"), "a.b.0": ("a", "b", 0), "a.b.1.c": ("a", "b", 1, "c"), "list": ("list",),
        "tuple": ("tuple",),
    }  # fmt: skip
    assert isinstance(found.state_dict_metadata["tuple"], dcp.BytesStorageMetadata)
    assert found.state_dict_metadata["a.1"].size == (4,) and found.version == "1.0.0"
    target = zeros()
    dcp.load(target, checkpoint_id=tmp_path / "one")
    assert target["a"][1].tolist() == [0, 1, 2, 3] and target["a"]["b"][1] == {"c": 3} and target["list"] == [1, [2]]
    assert target["tuple"][0].tolist() == [1]


@pytest.mark.parametrize("options", [{"serialization_format": "safetensors"}, {"single_file_per_rank": False}])
def test_writers_have_options(options, tmp_path):
    dcp.save(NESTED, storage_writer=dcp.FileSystemWriter(tmp_path / "one", **options))
    names = sorted(os.listdir(tmp_path / "one"))
    if "single_file_per_rank" in options:
        assert names == [".metadata", *[f"__0_{number}.distcp" for number in range(5)]]
    else:
        assert names == ["metadata.json", "rank_0.safetensors", "rank_0.values.pt"]
    target = zeros()
    dcp.load(target, storage_reader=dcp.FileSystemReader(tmp_path / "one"))
    assert target["a"][1].tolist() == [0, 1, 2, 3] and target["a"]["b"][1] == {"c": 3} and target["list"] == [1, [2]]
    once = dcp.FileSystemWriter(tmp_path / "one", overwrite=False, serialization_format=SerializationFormat.TORCH_SAVE)
    with pytest.raises(dcp.CheckpointException, match="is there already"):
        dcp.save(NESTED, storage_writer=once)
    dcp.save({"a": torch.ones(1)}, checkpoint_id=tmp_path / "one")
    assert sorted(os.listdir(tmp_path / "one")) == [".metadata", "__0_0.distcp"], "nothing of the former one stays"


def test_a_part_of_a_large_tensor_is_written_alone(tmp_path):
    dcp.save({"a": torch.zeros(1000, 1000)[:2, :2]}, checkpoint_id=tmp_path / "one")
    assert (tmp_path / "one/__0_0.distcp").stat().st_size < 10_000


class Runs:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def forbidden(tmp_path):
    """Return pickles that would change something if they ran."""
    mark = str(tmp_path / "mark")
    return [
        pickle.dumps(Runs(os.mkdir, mark)),
        pickle.dumps(OrderedDict(a=Runs(os.mkdir, mark))),
        pickle.dumps({"state_dict_metadata": Runs(eval, f"__import__('os').mkdir({mark!r})")}),
        b"cbuiltins\ngetattr\n(cos\npath\nX\x05\x00\x00\x00mkdirtR.",
        b"ctorch.distributed.checkpoint.metadata\nMetadata\n}X\x0a\x00\x00\x00__module__X\x01\x00\x00\x00asb.",
        b"ctorch.distributed.checkpoint.metadata\nMetadata\n)\x81}X\x09\x00\x00\x00__class__Nsb.",
        b"ctorch.distributed.checkpoint.filesystem\nFileSystemReader\nX\x01\x00\x00\x00a\x85R.",
    ]


def test_an_index_calls_nothing_and_changes_no_class(tmp_path):
    dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "one")
    before = dict(vars(Metadata))
    for data in forbidden(tmp_path):
        (tmp_path / "one/.metadata").write_bytes(data)
        with pytest.raises(pickle.UnpicklingError):
            dcp.FileSystemReader(tmp_path / "one").read_metadata()
        with pytest.raises(dcp.CheckpointException, match="UnpicklingError"):
            dcp.load({"a": torch.zeros(2)}, checkpoint_id=tmp_path / "one")
    assert not (tmp_path / "mark").exists() and dict(vars(Metadata)) == before


def test_a_value_calls_nothing(tmp_path):
    dcp.save({"a": 1}, checkpoint_id=tmp_path / "one")
    file = tmp_path / "one/__0_0.distcp"
    torch.save(Runs(os.mkdir, str(tmp_path / "mark")), file)
    index = dcp.FileSystemReader(tmp_path / "one").read_metadata()
    index.storage_data[MetadataIndex("a")].length = file.stat().st_size
    (tmp_path / "one/.metadata").write_bytes(dumped(index))
    with pytest.raises(dcp.CheckpointException, match=r"mkdir was not an allowed global"):
        dcp.load({"a": None}, checkpoint_id=tmp_path / "one")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "path", ["../other", "/etc/hostname", "C:\\other", "..\\other", "a/../../other", "", "a\0b", 3]
)
def test_an_index_names_files_of_its_folder_only(tmp_path, path):
    index = Metadata({"a": dcp.BytesStorageMetadata()}, storage_data={MetadataIndex("a"): _StorageInfo(path, 0, 1)})
    with pytest.raises(RuntimeError, match="a is in no file of the checkpoint"):
        parsed(dumped(index))


SPOILED = {
    "size": (lambda index: index.state_dict_metadata.update(a=3), "a is no tensor"),
    "part": (lambda index: index.state_dict_metadata["a"].chunks.append(3), "part without a place"),
    "dtype": (lambda index: setattr(index.state_dict_metadata["a"].properties, "dtype", 3), "no dtype"),
    "outside": (lambda index: setattr(index.state_dict_metadata["a"], "size", torch.Size([1])), "not inside"),
    "negative": (lambda index: setattr(index.state_dict_metadata["a"], "size", torch.Size([-1])), "no size"),
    "place": (lambda index: setattr(index, "storage_data", None), "where anything is"),
    "offset": (lambda index: setattr(next(iter(index.storage_data.values())), "offset", -1), "no place"),
    "missing": (lambda index: index.storage_data.clear(), "does not say where a is"),
    "far": (
        lambda index: setattr(next(iter(index.storage_data.values())), "offset", 1 << 40),
        "its end, with a, is miss",
    ),
    "packed": (
        lambda index: setattr(next(iter(index.storage_data.values())), "transform_descriptors", ["zstd"]),
        "transformed by",
    ),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_a_wrong_index_is_an_error_that_says_so(tmp_path, fault, monkeypatch):
    spoil, text = SPOILED[fault]
    dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "one")
    index = dcp.FileSystemReader(tmp_path / "one").read_metadata()
    spoil(index)
    monkeypatch.setattr("gradloom.distributed.checkpoint.metadata._DEFAULTS", {})  # write all fields
    (tmp_path / "one/.metadata").write_bytes(dumped(index))
    target = {"a": torch.zeros(2)}
    with pytest.raises(dcp.CheckpointException, match=text):
        dcp.load(target, checkpoint_id=tmp_path / "one")
    assert target["a"].tolist() == [0, 0]


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
def test_damaged_files_are_errors_or_harmless(tmp_path, name):
    """Change, cut and repeat bytes: what is loaded is an error of the checkpoint, never another one, and never half."""
    state = {"a": torch.arange(6.0).view(2, 3), "b": {"c": [1, 2]}, "d": torch.ones(3, dtype=torch.bfloat16)}
    dcp.save(state, checkpoint_id=tmp_path / "one")
    file = tmp_path / "one" / name
    whole, draw, refused = file.read_bytes(), random.Random(0), 0
    for _ in range(300):
        data = bytearray(whole)
        kind = draw.randrange(3)
        if kind == 0:
            for _ in range(draw.choice((1, 1, 4))):
                data[draw.randrange(len(data))] = draw.randrange(256)
        elif kind == 1:
            del data[draw.randrange(len(data)) :]
        else:
            at = draw.randrange(len(data))
            data[at:at] = data[at : at + draw.randrange(40)]
        file.write_bytes(data)
        target = {"a": torch.zeros(2, 3), "b": {"c": []}, "d": torch.zeros(3, dtype=torch.bfloat16)}
        try:
            dcp.load(target, checkpoint_id=tmp_path / "one")
        except dcp.CheckpointException:
            refused += 1
            assert not target["a"].any() and target["b"] == {"c": []} and not target["d"].any()
    assert refused > 100
