"""Storages as objects: the memory that a tensor shares with its views, as bytes and as elements."""

import copy
import pickle
import warnings

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _without_the_one_warning():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        yield


def test_bytes_of_a_tensor_are_read_and_written_through_its_storage(torch):
    x = torch.arange(4, dtype=torch.int16)
    storage = x.untyped_storage()
    assert storage.tolist() == [0, 0, 1, 0, 2, 0, 3, 0] and storage.nbytes() == storage.size() == len(storage) == 8
    assert storage[2] == 1 and storage[-2] == 3 and type(storage[2]) is int
    storage[0] = 7
    storage[2:4] = 1
    assert x.tolist() == [7, 257, 2, 3]
    assert storage.fill_(0) is storage and x.tolist() == [0, 0, 0, 0]


def test_a_slice_of_a_storage_shows_the_same_memory(torch):
    x = torch.zeros(2, dtype=torch.uint8)
    part = x.untyped_storage()[1:]
    assert len(part) == 1 and part.data_ptr() == x.data_ptr() + 1
    part.fill_(9)
    assert x.tolist() == [0, 9]
    with pytest.raises(RuntimeError, match="only a step of 1 is supported"):
        x.untyped_storage()[::2]


def test_storages_of_views_are_equal_and_copies_are_not(torch):
    x = torch.zeros(4)
    storage = x.untyped_storage()
    assert x[1:].untyped_storage() == storage and hash(x[1:].untyped_storage()) == hash(storage)
    assert storage.clone() != storage and storage != 3
    assert x[1:].untyped_storage().data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda torch: torch.UntypedStorage([1, 2, 300]), [1, 2, 44]),
        (lambda torch: torch.UntypedStorage(), []),
        (lambda torch: torch.FloatStorage([1, 2]), [1.0, 2.0]),
        (lambda torch: torch.TypedStorage([1, 2], dtype=torch.int8), [1, 2]),
        (lambda torch: torch.BFloat16Storage([1.5]), [1.5]),
        (lambda torch: torch.TypedStorage(wrap_storage=torch.UntypedStorage([1, 0]), dtype=torch.int16), [1]),
    ],
)
def test_storages_are_made_of_numbers(torch, make, values):
    made = make(torch)
    assert made.tolist() == values == list(made) and torch.is_storage(made)


def test_the_size_of_a_new_storage_counts_its_elements(torch):
    assert torch.UntypedStorage(5).nbytes() == 5
    assert torch.DoubleStorage(3).nbytes() == 24 and len(torch.DoubleStorage(3)) == 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda torch: torch.UntypedStorage(2.5), RuntimeError, "Expected a sequence type, but got float"),
        (lambda torch: torch.UntypedStorage("ab"), RuntimeError, "of type str instead of int"),
        (lambda torch: torch.UntypedStorage([1])[1], IndexError, "index 1 out of range for storage of size 1"),
        (
            lambda torch: torch.UntypedStorage([1])["a"],
            TypeError,
            "can't index a torch.*UntypedStorage with str|storage",
        ),
        (lambda torch: torch.UntypedStorage(2).copy_(torch.UntypedStorage(1)), RuntimeError, "size does not match"),
        (lambda torch: torch.FloatStorage(torch.ones(2)), TypeError, "Argument type not recognized"),
        (lambda torch: torch.FloatStorage(1, 2), RuntimeError, "[tT]oo many positional arguments"),
        (lambda torch: torch.FloatStorage([1])[0:1], RuntimeError, "slices are only supported in UntypedStorage"),
        (lambda torch: torch.TypedStorage([1], dtype="a"), TypeError, "must be torch.dtype, not str"),
        (lambda torch: torch.DoubleTensor(torch.FloatStorage(1)), RuntimeError, "Expected a Storage of type Double"),
    ],
)
def test_what_storages_refuse(torch, call, error, words):
    with pytest.raises(error, match=words):
        call(torch)


def test_a_typed_storage_has_elements_of_a_dtype(torch):
    x = torch.tensor([1.5, 2.5])
    storage = x.storage()
    assert storage.dtype is torch.float32 and storage[1] == 2.5 and storage.element_size() == 4
    storage[0] = 9
    storage[1:] = 4
    assert x.tolist() == [9.0, 4.0]
    assert storage.type() == "torch.FloatStorage" and storage.pickle_storage_type() == "FloatStorage"
    assert storage.untyped() == x.untyped_storage() and storage != x.storage()
    assert storage.float().tolist() == [9.0, 4.0] and storage.int().tolist() == [9, 4]
    assert storage.device == torch.device("cpu") and not storage.is_cuda and not storage.is_shared()


def test_the_old_classes_know_their_instances(torch):
    storage = torch.FloatStorage([1])
    assert type(storage) is torch.storage.TypedStorage
    assert isinstance(storage, torch.FloatStorage) and not isinstance(storage, torch.DoubleStorage)
    assert torch.FloatStorage.dtype is torch.float32 and torch.zeros(1).storage_type() is torch.FloatStorage
    assert torch.Storage is torch.FloatStorage


def test_a_storage_prints_its_elements_and_its_size(torch):
    assert repr(torch.UntypedStorage([1, 2])) == " 1\n 2\n[torch.storage.UntypedStorage(device=cpu) of size 2]"
    text = " 1.5\n[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 1]"
    assert str(torch.FloatStorage([1.5])) == text


def test_tensors_are_made_on_a_storage(torch):
    storage = torch.FloatStorage([1, 2, 3])
    x = torch.FloatTensor(storage)
    x[0] = 9
    assert storage[0] == 9.0 and x.data_ptr() == storage.data_ptr()
    assert torch.tensor([]).set_(storage, 1, (2,), (1,)).tolist() == [2.0, 3.0]
    assert torch.zeros(1).new(storage.untyped()).tolist() == [9.0, 2.0, 3.0]
    assert torch.tensor(torch.FloatStorage([1])).dtype is torch.float32


def test_copies_of_storages_have_memory_of_their_own(torch):
    storage = torch.LongStorage([1, 2])
    for other in (copy.copy(storage), copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))):
        assert other.tolist() == [1, 2] and other.data_ptr() != storage.data_ptr()
    assert storage.copy_(torch.LongStorage([3, 4])).tolist() == [3, 4]


def test_a_storage_is_mapped_to_a_file(torch, tmp_path):
    path = str(tmp_path / "numbers")
    np.arange(4, dtype=np.float32).tofile(path)
    private = torch.from_file(path, size=4)
    private[0] = 5.0
    shared = torch.from_file(path, shared=True, size=2, dtype=torch.float32)
    assert shared.tolist() == [0.0, 1.0]
    shared[1] = 7.0
    assert torch.UntypedStorage.from_file(path, False, 16).tolist()[4:8] == [0, 0, 224, 64]
    assert torch.from_file(path, size=0).shape == (0,)


def test_resizing_a_storage_is_refused_with_a_way_out(gradloom):
    storage = gradloom.zeros(2).untyped_storage()
    assert storage.resize_(8) is storage
    with pytest.raises(NotImplementedError, match="Tensor.resize_"):
        storage.resize_(0)


def test_the_memory_of_an_array_is_not_resizable(torch):
    x = torch.from_numpy(np.zeros(3))
    assert x.resize_(2).shape == (2,)
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        x.resize_(10)


def test_typed_storages_say_once_that_they_are_the_old_way(torch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.zeros(1).storage()
        before = len(caught)
        torch.zeros(1).storage()
    assert len(caught) == before <= 1


REFUSED_BYTES = {
    "s[True]": (TypeError, "can't index a torch.UntypedStorage with bool"),
    "s[1.0]": (TypeError, "can't index a torch.UntypedStorage with float"),
    "s['a']": (TypeError, "can't index a torch.UntypedStorage with str"),
    "s[8]": (IndexError, "index 8 out of range for storage of size 8"),
    "s[-9]": (IndexError, "out of range for storage of size 8"),
    "s.__setitem__(8, 1)": (RuntimeError, "out of bounds"),
    "s.__setitem__(-1, 1)": (RuntimeError, "out of bounds"),
    "s.__setitem__(True, 1)": (RuntimeError, "can't index a torch.UntypedStorage with bool"),
    "s.__setitem__('a', 1)": (RuntimeError, "can't index a torch.UntypedStorage with str"),
    "s.__setitem__(0, 1.5)": (RuntimeError, "can only set storage content with a int types, but got float instead"),
    "s.__setitem__(slice(0, 4, 2), 3)": (RuntimeError, "Trying to slice with a step of 2"),
    "s.fill_(None)": (RuntimeError, "fill_ expects int, but got NoneType"),
    "s.resize_('a')": (RuntimeError, "resize_ expects an int, but got str"),
    "torch.UntypedStorage(True)": (RuntimeError, "Expected a sequence type, but got bool"),
    "torch.empty(0).set_(s, 0, (2, 2), (2,))": (RuntimeError, r"unequal size length \(2\) and stride length \(1\)"),
}
REFUSED_ELEMENTS = {
    "s[True]": (TypeError, "can't index a <class '.*TypedStorage'> with <class 'bool'>"),
    "s[1.0]": (RuntimeError, "can't index a <class '.*TypedStorage'> with <class 'float'>"),
    "s[[0]]": (RuntimeError, "can't index a <class '.*TypedStorage'> with <class 'list'>"),
    "s[4]": (IndexError, "index 4 out of range for storage of size 4"),
    "s.__setitem__(4, 1)": (IndexError, "index 4 .*out of .* size 4"),
    "s.__setitem__(0, None)": (TypeError, "can't assign a NoneType to a torch.FloatTensor"),
    "s.__setitem__(slice(0, 2), [1, 2])": (TypeError, "can't assign a list to a torch.FloatTensor"),
    "s.__setitem__(slice(0, 2), s)": (RuntimeError, "cannot set item with value type"),
    "s.__setitem__(0, 1j)": (RuntimeError, "value cannot be converted to type float without overflow"),
    "s.copy_('a')": (TypeError, r"copy_\(\): argument 'src' \(position 1\) must be torch.Storage, not str"),
    "torch.empty(0, dtype=torch.int64).set_(s)": (RuntimeError, "but got type Float for argument 1 'storage'"),
}


@pytest.mark.parametrize("source", [*REFUSED_BYTES, *(f"{e} of elements" for e in REFUSED_ELEMENTS)])
def test_what_a_storage_refuses(torch, source):
    expression = source.removesuffix(" of elements")
    is_typed = expression != source
    storage = torch.arange(4.0).storage() if is_typed else torch.UntypedStorage(8).fill_(7)
    kind, text = (REFUSED_ELEMENTS if is_typed else REFUSED_BYTES)[expression]
    with pytest.raises(kind, match=text):
        eval(expression, {"torch": torch, "s": storage})


def test_storages_of_files_keep_their_size(torch, tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(16))
    for shared in (True, False):
        storage = torch.UntypedStorage.from_file(str(path), shared, 8)
        for size in (4, 8, 16):
            with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
                storage.resize_(size)
    floats = torch.FloatStorage.from_file(str(path), shared=True, size=2)
    floats[1] = 1.0
    assert floats.size() == 2 and path.read_bytes()[4:8] == bytes([0, 0, 128, 63])
    with pytest.raises(RuntimeError, match="unable to open file"):
        torch.UntypedStorage.from_file(str(tmp_path / "missing" / "x"), True, 8)
