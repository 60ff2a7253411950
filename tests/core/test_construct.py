"""Making tensors from Python data and NumPy arrays: types, memory, errors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gradloom as L

DTYPES = [
    (1, L.int64),
    (1.5, L.float32),
    (True, L.bool),
    (1j, L.complex64),
    ([], L.float32),
    ([1, 2.5], L.float32),
    ([True, 2], L.int64),
    ([1, 2j], L.complex64),
    (np.float32(1), L.float32),
    (np.arange(2), L.int64),
    ([np.float64(1)], L.float64),
    (np.zeros(1, np.float16), L.float16),
    ([[L.tensor(1.5)], [2]], L.float32),
    ([L.tensor(1), 2.5], L.float32),
    (range(3), L.int64),
]
ERRORS = [
    (lambda: L.tensor([[1, 2], [3]]), ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    (lambda: L.tensor("a"), TypeError, "invalid data type 'str'"),
    (lambda: L.tensor(["a"]), ValueError, "too many dimensions 'str'"),
    (lambda: L.tensor(None), RuntimeError, "Could not infer dtype of NoneType"),
    (lambda: L.tensor([1, None]), RuntimeError, "Could not infer dtype of NoneType"),
    (lambda: L.tensor(2**63), ValueError, "Overflow"),
    (lambda: L.tensor([300], dtype=L.uint8), RuntimeError, "without overflow"),
    (lambda: L.tensor([float("nan")], dtype=L.int64), RuntimeError, "without overflow"),
    (lambda: L.tensor([1j], dtype=L.float32), TypeError, "not complex"),
    (lambda: L.tensor([1], dtype="float32"), TypeError, "must be torch.dtype, not str"),
    (lambda: L.tensor([1], requires_grad=True), RuntimeError, "floating point and complex"),
    (lambda: L.tensor([1], device="cuda"), AssertionError, "CPU"),
    (lambda: L.tensor([L.tensor([1.0, 2.0])]), ValueError, "only one element tensors"),
    (lambda: L.from_numpy([1]), TypeError, "expected np.ndarray"),
    (lambda: L.from_numpy(np.arange(3)[::-1]), ValueError, "negative"),
    (lambda: L.tensor(np.arange(3)[::-1]), ValueError, "negative"),
    (lambda: L.from_numpy(np.array(["a"])), TypeError, "can't convert np.ndarray"),
    (lambda: L.asarray([1], copy=False), ValueError, "can't alias"),
    (lambda: L.zeros(2).item(), RuntimeError, "cannot be converted"),
]


@pytest.mark.parametrize("data, dtype", DTYPES, ids=[str(d) for d, _ in DTYPES])
def test_the_dtype_follows_the_data(data, dtype):
    assert L.tensor(data).dtype is dtype


@pytest.mark.parametrize("make, error, words", ERRORS, ids=[words for _, _, words in ERRORS])
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_the_default_dtype_is_that_of_python_floats():
    L.set_default_dtype(L.float64)
    try:
        assert (L.tensor(1.5).dtype, L.tensor(1j).dtype) == (L.float64, L.complex128)
    finally:
        L.set_default_dtype(L.float32)


def test_tensor_copies_and_from_numpy_shares():
    array = np.zeros(4)
    copied, shared, other = L.tensor(array), L.from_numpy(array), L.as_tensor(array)
    array[0] = 5
    assert (copied[0] if hasattr(copied, "__getitem__") else copied.select(0, 0)).item() == 0
    assert shared.tolist() == other.tolist() == [5, 0, 0, 0]
    shared.add_(1)
    assert array[1] == 1


def test_a_part_of_an_array_begins_its_own_storage():
    array = np.arange(10.0)
    part = L.from_numpy(array[2:8:2])
    assert (part.storage_offset(), part.stride(), part.as_strided((2,), (1,), 0).tolist()) == (0, (2,), [2.0, 3.0])
    part.mul_(10)
    assert array.tolist()[:5] == [0, 1, 20, 3, 40]


def test_as_tensor_keeps_a_tensor_and_its_history():
    x = L.ones(2, requires_grad=True)
    assert L.as_tensor(x) is x
    assert L.as_tensor(x, dtype=L.float64).grad_fn.name() == "ToCopyBackward0"


def test_legacy_classes():
    x = L.FloatTensor([1, 2])
    assert (x.dtype, L.LongTensor(2, 3).shape, x.type()) == (L.float32, (2, 3), "torch.FloatTensor")
    assert isinstance(x, L.FloatTensor) and not isinstance(x, L.DoubleTensor)
    assert L.ones(2, dtype=L.int32).new_tensor([1.5]).dtype is L.int32


def test_copies_and_pickles():
    x = L.tensor([1.0, 2.0], requires_grad=True)
    x.note = "kept"
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.tolist() == [1.0, 2.0] and other.requires_grad and other.note == "kept" and other is not x
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(x * 2)
    y = L.ones(2, dtype=L.bfloat16)
    assert pickle.loads(pickle.dumps(y)).dtype is L.bfloat16


# Arrays with negative strides, which tensors do not have; PyTorch 2.13 ends the process, so no comparison is made.
BACKWARDS = [np.arange(3.0)[::-1], np.arange(6.0).reshape(2, 3)[:, ::-1], np.ones((2, 2), bool)[::-1]]


@pytest.mark.parametrize("array", BACKWARDS, ids=["vector", "columns", "bool"])
def test_negative_strides_are_refused(array):
    for source in (array, array.__dlpack__()):
        with pytest.raises(BufferError, match="negative strides are not supported; copy the array"):
            L.from_dlpack(source)
    with pytest.raises(ValueError, match="negative"):
        L.from_numpy(array)
    assert L.from_dlpack(array, copy=True).tolist() == array.tolist()
    assert L.from_dlpack(array.copy()).tolist() == array.tolist()
