"""Storages that are made of bytes and files, that grow, and those of the meta device."""

import copy
import io
import warnings

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _without_the_one_warning():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        yield


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"dtype": "int16", "byte_order": "native"}, [256, 770, 1284, 1798]),
        ({"dtype": "int16", "byte_order": "big"}, [1, 515, 1029, 1543]),
        ({"dtype": "int16", "byte_order": "little", "count": 2, "offset": 2}, [770, 1284]),
        ({"dtype": "uint8"}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"dtype": "int8", "count": 3, "offset": 1}, [1, 2, 3]),
        ({"dtype": "bool", "byte_order": "native", "count": 3}, [False, True, True]),
        ({"dtype": "complex64", "byte_order": "big"}, [9.25571648671185e-41 + 1.5636842486455404e-36j]),
        ({"byte_order": "big", "count": 1}, [9.25571648671185e-41]),
        ({"dtype": "int64", "byte_order": "native", "count": 0}, []),
        ({"dtype": "int64", "byte_order": "native", "offset": 8}, []),
    ],
)
def test_storages_are_made_of_the_bytes_of_other_objects(torch, options, values):
    options = {**options, **({"dtype": getattr(torch, options["dtype"])} if "dtype" in options else {})}
    buffer = bytearray(range(8))
    typed = torch.TypedStorage.from_buffer(buffer, **options)
    assert typed.tolist() == values and typed.dtype is options.get("dtype", torch.float32)
    untyped = torch.UntypedStorage.from_buffer(buffer, **{"dtype": torch.float32, **options})
    assert untyped.tolist() == typed.untyped().tolist()
    buffer[:] = bytes(8)
    assert typed.tolist() == values  # a copy


def test_the_old_classes_read_bytes_as_their_dtype(torch):
    assert torch.ShortStorage.from_buffer(b"\1\0\2\0", "little").tolist() == [1, 2]
    assert torch.ByteStorage.from_buffer(b"\1\2").tolist() == [1, 2]
    assert torch.DoubleStorage.from_buffer(bytes(16), "native").tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="'dtype' can only be specified in UntypedStorage.from_buffer"):
        torch.FloatStorage.from_buffer(b"", "native", dtype=torch.float32)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ("b'ab', 'native'", RuntimeError, "argument 'dtype' cannot be None"),
        ("b'ab', 'native', dtype='x'", RuntimeError, "argument 'dtype' must be of type torch.dtype"),
        ("b'ab', dtype=torch.int16", RuntimeError, r"function missing required argument 'byte_order' \(pos 2\)"),
        ("b'ab', dtype=torch.bool", RuntimeError, r"function missing required argument 'byte_order' \(pos 2\)"),
        ("b'ab', 'middle', dtype=torch.int16", ValueError, r"invalid byte_order 'middle' \(expected 'big'"),
        ("b'ab', 1, dtype=torch.int16", TypeError, "argument 2 must be str, not int"),
        ("b'ab', None, dtype=torch.uint8", TypeError, "argument 2 must be str, not None"),
        ("b'abc', 'big', dtype=torch.int16", ValueError, r"buffer size \(3\) must be a multiple of element size \(2\)"),
        ("b'abc', 'big', 2, dtype=torch.int16", ValueError, "buffer has only 3 elements after offset 0, but .* of 2"),
        ("b'abc', 'big', 1, 4, dtype=torch.int16", ValueError, "offset must be non-negative and no greater than"),
        ("b'abc', 'big', 1, -1, dtype=torch.int16", ValueError, "offset must be non-negative and no greater than"),
        ("'abc', 'big', dtype=torch.int8", TypeError, "a bytes-like object is required, not 'str'"),
        ("[1], 'big', dtype=torch.int8", TypeError, "a bytes-like object is required, not 'list'"),
        ("b'ab', 'big', 1.5, dtype=torch.int8", TypeError, "'float' object cannot be interpreted as an integer"),
    ],
)
def test_bytes_that_make_no_storage_are_refused(torch, arguments, error, words):
    with pytest.raises(error, match=words):
        eval(f"torch.UntypedStorage.from_buffer({arguments})", {"torch": torch})


def test_a_storage_knows_its_file_if_writes_reach_it(torch, tmp_path):
    path = str(tmp_path / "numbers")
    (tmp_path / "numbers").write_bytes(bytes(16))
    for shared, name in ((True, path), (False, None)):
        assert torch.UntypedStorage.from_file(path, shared, 8).filename == name
        assert torch.FloatStorage.from_file(path, shared, 2).filename == name
        assert torch.from_file(path, shared, 2)[1:].untyped_storage().filename == name
    storage = torch.zeros(2).untyped_storage()
    assert storage.filename is None
    with pytest.raises(AttributeError):
        storage.filename = path


def test_storages_of_the_cpu_have_no_number_of_a_device(torch):
    for x in (torch.zeros(2), torch.zeros(2, device="meta")):
        assert x.untyped_storage().get_device() is None
        assert x.untyped_storage().resizable()


META = {
    "bytes": lambda torch: torch.UntypedStorage(8, device="meta"),
    "values": lambda torch: torch.UntypedStorage([7] * 8, device="meta"),
    "elements": lambda torch: torch.TypedStorage(2, device="meta"),
    "tensor": lambda torch: torch.zeros(2, device="meta").untyped_storage(),
    "typed tensor": lambda torch: torch.zeros(2, device="meta").storage(),
}


@pytest.mark.parametrize("make", META)
def test_a_meta_storage_has_a_size_and_no_elements(torch, make):
    storage = META[make](torch)
    typed = isinstance(storage, torch.TypedStorage)
    assert str(storage.device) == "meta" and storage.nbytes() == 8 and storage.data_ptr() == 0
    assert len(storage) == (2 if typed else 8) and repr(storage).startswith("...")
    for read in (lambda: storage[0], lambda: storage.tolist(), lambda: list(storage)):
        with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
            read()
    for leave in (storage.cpu, lambda: storage.to(device="cpu"), lambda: torch.save(storage, io.BytesIO())):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            leave()
    storage[0] = 1
    assert storage.fill_(1) is storage and storage.copy_(storage) is storage
    assert storage.to(device="meta").nbytes() == 8
    assert storage.clone().nbytes() == copy.deepcopy(storage).nbytes() == 8
    assert storage.double().nbytes() == 8 * len(storage) and str(storage.double().device) == "meta"
    assert not storage.is_shared() and not storage.is_pinned()
    with pytest.raises(RuntimeError, match="_share_fd_: only available on CPU"):
        storage.share_memory_()
    storage.resize_(16)
    assert len(storage) == 16
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.UntypedStorage(storage.nbytes()).copy_(storage.untyped())
    with pytest.raises(RuntimeError, match="out of (bounds|range)") if not typed else pytest.raises(IndexError):
        storage[99] = 1


def test_an_old_class_has_its_device_and_dtype(torch):
    for options in ({"device": "cpu"}, {"dtype": torch.float32}):
        with pytest.raises(RuntimeError, match="Keyword argument '.*' cannot be specified"):
            torch.FloatStorage(2, **options)


def test_a_storage_grows_with_all_its_tensors(torch):
    x = torch.arange(6.0)
    view, storage = x[1:3], x.untyped_storage()
    y = torch.empty(0).set_(storage, 2, (10,))
    y[0], y[9] = 55.0, 3.0
    assert x.tolist() == [0.0, 1.0, 55.0, 3.0, 4.0, 5.0] and view.tolist() == [1.0, 55.0]
    assert y[:4].tolist() == [55.0, 3.0, 4.0, 5.0] and y.storage_offset() == 2
    assert storage.nbytes() == x.untyped_storage().nbytes() == 48
    assert storage.resize_(64) is storage and x.untyped_storage().nbytes() == 64 and y[9] == 3.0
    floats = x.storage()
    assert floats.resize_(20) is None and floats.nbytes() == x.untyped_storage().nbytes() == 80
    x[0] = 9.0
    assert floats[0] == 9.0 and storage.nbytes() == 80


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("place", "nbytes"),
    [
        ((0, (3, 4)), 48),
        ((4, (4,), (1,)), 32),
        ((0, (2,), (8,)), 36),
        ((0, (3, 4), (1, 2)), 36),
        ((6, ()), 28),
        ((0, (3,), (0,)), 24),
        ((6, (0,)), 24),
    ],
)
def test_set_lets_a_storage_grow_to_what_the_tensor_shows(torch, device, place, nbytes):
    for source in (lambda x: x, lambda x: x.untyped_storage(), lambda x: x.storage()):
        x = torch.arange(6.0, device=device)
        y = torch.empty(0, device=device).set_(source(x), *place)
        assert x.untyped_storage().nbytes() == y.untyped_storage().nbytes() == nbytes
        assert y.storage_offset() == place[0] and tuple(y.shape) == place[1]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ((-1, (2,)), "Tensor: invalid storage offset -1"),
        ((0, (2,), (-1,)), r"Storage size calculation overflowed with sizes=\[2\] and strides=\[-1\]"),
        ((0, (-2,)), "numel: integer multiplication overflow"),
    ],
)
def test_set_refuses_geometries_that_no_memory_has(torch, place, words):
    with pytest.raises(RuntimeError, match=words):
        torch.empty(0).set_(torch.zeros(3).untyped_storage(), *place)


def test_memory_of_others_does_not_grow(torch, tmp_path):
    (tmp_path / "numbers").write_bytes(bytes(16))
    mapped = torch.FloatStorage.from_file(str(tmp_path / "numbers"), False, 4)
    array = torch.from_numpy(np.zeros(4, np.float32)).untyped_storage()
    for storage in (mapped, array):
        assert not storage.resizable()
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            torch.empty(0).set_(storage, 0, (8,))
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            storage.resize_(99)


def test_set_refuses_memory_of_another_device(torch):
    words = 'Attempted to set the storage of a tensor on device "{}" to a storage on different device "{}"'
    for own, other in (("cpu", "meta"), ("meta", "cpu")):
        x, y = torch.empty(0, device=own), torch.zeros(2, device=other)
        for source in (y, y.untyped_storage()):
            with pytest.raises(RuntimeError, match=words.format(own, other)):
                x.set_(source)
