"""What tensors are made of: numbers that fit or do not, arrays among numbers, buffers, DLPack, asarray's options."""

import array
import collections
import pickle
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from tests.waiting import LIMIT


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.7, -0.5, 256.0])
@pytest.mark.parametrize(
    "make",
    [
        lambda torch, v: torch.tensor(v, dtype=torch.uint8),
        lambda torch, v: torch.tensor([v], dtype=torch.uint8),
        lambda torch, v: torch.full((1,), v, dtype=torch.uint8),
        lambda torch, v: torch.zeros(1, dtype=torch.uint8).fill_(v),
    ],
)
def test_a_float_beyond_an_integer_type_is_refused_before_it_is_truncated(torch, make, value):
    with pytest.raises(RuntimeError, match="without overflow"):
        make(torch, value)


@pytest.mark.since("2.15")
@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32"])
def test_a_float_is_within_an_integer_type_if_it_is_when_truncated(torch, kind):
    dtype = getattr(torch, kind)
    most = torch.iinfo(dtype).max
    assert torch.tensor([most + 0.9], dtype=dtype).tolist() == [most]
    assert torch.full((1,), most + 0.9, dtype=dtype).tolist() == [most]
    assert torch.zeros(1, dtype=dtype).fill_(most + 0.9).tolist() == [most]
    assert torch.zeros(1, dtype=dtype).masked_fill(torch.tensor([True]), most + 0.9).tolist() == [most]


def test_a_float_within_an_integer_type_is_truncated(torch):
    assert torch.tensor([1.7, -1.7], dtype=torch.int32).tolist() == [1, -1]
    assert torch.tensor(0.5, dtype=torch.bool).item() is True and torch.tensor(1j, dtype=torch.bool).item() is True


def test_one_element_of_half_precision_is_filled_with_infinity_by_large_numbers_which_others_refuse(torch):
    inf = float("inf")
    for kind in (torch.float16, torch.bfloat16):
        assert torch.full((1,), 1e39, dtype=kind).tolist() == [inf]
        assert torch.zeros(1, dtype=kind).fill_(-1e39).tolist() == [-inf]
        assert torch.tensor([1e39, 1.0], dtype=kind).tolist() == [inf, 1.0]
    assert torch.tensor(1e39).item() == inf
    for call in (
        lambda: torch.full((2,), 1e39, dtype=torch.float16),
        lambda: torch.full((1,), 1e39),
        lambda: torch.zeros(1).fill_(1e39),
        lambda: torch.full((1,), 1e39, dtype=torch.complex64),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            call()


def test_integers_beyond_64_bits_fit_into_floating_tensors(torch):
    assert torch.tensor([2**70, 1.0]).tolist() == [float(2**70), 1.0]
    assert torch.tensor(2**64, dtype=torch.float64).item() == 2.0**64
    with pytest.raises((RuntimeError, ValueError), match="Overflow when unpacking long"):
        torch.tensor([2**70])


class Numbers:
    """A sequence that is neither a list nor a tuple."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return self.numbers[index]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: Numbers(1.5, 2.0), "float32"),
        (lambda: Numbers(1, 2), "int64"),
        (lambda: [Numbers(1.5), [2]], "float32"),
        (lambda: array.array("d", [1, 2]), "float32"),
        (lambda: array.array("i", [1, 2]), "int64"),
        (lambda: collections.deque([1.0]), "float32"),
        (lambda: memoryview(b"ab"), "int64"),
        (lambda: range(3), "int64"),
        (lambda: bytearray(b"ab"), "int64"),
    ],
)
def test_sequences_of_any_kind_hold_python_numbers(torch, make, kind):
    for function in (torch.tensor, torch.as_tensor):
        assert function(make()).dtype is getattr(torch, kind)


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([np.zeros(2, np.float32), [1, 2]], "float32"),
        ([np.zeros(2), np.zeros(2, np.int64)], "float64"),
        ([np.zeros(1, np.int8), np.zeros(1, np.int16)], "int16"),
        ([np.zeros(1, np.float32), np.zeros(1, np.int64)], "float32"),
        ([[np.float32(1)], [1]], "float32"),
    ],
)
def test_arrays_in_a_list_promote_as_tensors_do(torch, data, kind):
    assert torch.tensor(data).dtype is getattr(torch, kind)


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda torch: torch.tensor(b"ab"), TypeError, "invalid data type 'bytes'"),
        (lambda torch: torch.tensor([np.zeros(1), np.zeros(2)]), ValueError, "expected sequence of length 1 at dim 1"),
        (lambda torch: torch.Tensor([1], [2]), TypeError, "new\\(\\) received an invalid combination of arguments"),
        (lambda torch: torch.Tensor(-1), RuntimeError, "negative dimension -1"),
        (lambda torch: torch.Tensor(True), TypeError, "data must be a sequence \\(got bool\\)"),
        (lambda torch: torch.asarray([1], copy=False), ValueError, "can't alias arbitrary sequence into a tensor"),
        (
            lambda torch: torch.asarray(np.zeros(1), dtype=torch.float32, copy=False),
            ValueError,
            "can't alias tensor with dtype 'Double' into dtype 'Float'",
        ),
    ],
)
def test_what_constructors_refuse(torch, call, error, words):
    with pytest.raises(error, match=words):
        call(torch)


def test_the_old_constructor_takes_its_data_by_name(torch):
    assert torch.Tensor(data=[1, 2]).tolist() == [1.0, 2.0]


@pytest.mark.filterwarnings("ignore:torch.asarray")
def test_asarray_keeps_changes_or_ends_the_history_of_a_tensor(torch):
    leaf = torch.ones(2, requires_grad=True)
    result = leaf * 2
    assert torch.asarray(result) is result and torch.asarray(leaf) is leaf
    assert torch.asarray(result, copy=True).grad_fn.name() == "CloneBackward0"
    assert torch.asarray(result, requires_grad=False).grad_fn is None and result.requires_grad
    assert torch.asarray(leaf, requires_grad=False) is leaf and not leaf.requires_grad
    assert torch.asarray(leaf, requires_grad=True) is leaf and leaf.requires_grad
    assert torch.asarray([1.0], requires_grad=True).requires_grad


def test_asarray_shares_buffers_and_what_offers_dlpack(torch):
    class Lender:
        def __init__(self):
            self.array = np.arange(3.0)

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    lender = Lender()
    assert torch.asarray(lender).data_ptr() == lender.array.ctypes.data
    assert torch.asarray(bytearray(b"\0\0\x80\x3f"), dtype=torch.float32).tolist() == [1.0]
    assert torch.asarray(memoryview(bytearray(b"ab")), dtype=torch.uint8).tolist() == [97, 98]


@pytest.mark.since("2.15")
@pytest.mark.parametrize(
    "code, kind", [("b", "int8"), ("B", "uint8"), ("i", "int32"), ("q", "int64"), ("d", "float64")]
)
def test_asarray_takes_the_dtype_of_a_buffer(torch, code, kind):
    found = torch.asarray(array.array(code, [1, 2]))
    assert found.dtype is getattr(torch, kind) and found.tolist() == [1, 2]


def test_frombuffer_shares_the_memory_of_a_buffer(torch):
    memory = bytearray(range(8))
    x = torch.frombuffer(memory, dtype=torch.int16)
    assert x.tolist() == [256, 770, 1284, 1798]
    x[0] = 0
    assert memory[1] == 0
    assert torch.frombuffer(memory, dtype=torch.uint8, count=2, offset=3).tolist() == [3, 4]
    assert torch.frombuffer(memory, dtype=torch.float32, requires_grad=True).requires_grad
    assert torch.frombuffer(array.array("f", [1.5]), dtype=torch.float32).tolist() == [1.5]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda torch: torch.frombuffer(bytearray(8), dtype=torch.int32, offset=8),
            ValueError,
            "no greater than buffer",
        ),
        (
            lambda torch: torch.frombuffer(bytearray(8), dtype=torch.int32, offset=1),
            ValueError,
            "must be a multiple of",
        ),
        (
            lambda torch: torch.frombuffer(bytearray(8), dtype=torch.int32, count=3),
            ValueError,
            "requested buffer length",
        ),
        (lambda torch: torch.frombuffer(bytearray(8), dtype=torch.int32, count=0), ValueError, "must not be 0"),
        (lambda torch: torch.frombuffer(bytearray(8), dtype=torch.int32, requires_grad=True), RuntimeError, "floating"),
        (
            lambda torch: torch.frombuffer([1], dtype=torch.int32),
            ValueError,
            "does not implement Python buffer protocol",
        ),
        (lambda torch: torch.frombuffer(bytearray(8)), TypeError, "missing 1 required"),
    ],
)
def test_what_frombuffer_refuses(torch, call, error, words):
    with pytest.raises(error, match=words):
        call(torch)


def test_dlpack_capsules_are_taken_once(torch):
    x = torch.arange(3.0)
    capsule = torch.utils.dlpack.to_dlpack(x)
    assert torch.utils.dlpack.from_dlpack(capsule).data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        torch.from_dlpack(capsule)


def test_dlpack_keeps_layout_and_copies_if_asked(torch):
    x = torch.zeros(2, 3).t()
    assert torch.from_dlpack(x).stride() == (1, 3) and torch.from_dlpack(x).data_ptr() == x.data_ptr()
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.from_dlpack(torch.ones(2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    assert x.__dlpack_device__() == (1, 0) and x.__dlpack_device__()[0] is torch.utils.dlpack.DLDeviceType.kDLCPU
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(torch.ones(1, requires_grad=True))


def test_dlpack_needs_memory_with_elements_in_it(torch):
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        torch.ones(2, device="meta").__dlpack__()
    with pytest.raises(ValueError, match="Unknown device type meta"):
        torch.ones(2, device="meta").__dlpack_device__()
    for convert in (np.from_dlpack, torch.from_dlpack):
        with pytest.raises(BufferError, match="layout other than torch.strided"):
            convert(torch.eye(2).to_sparse())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "u1", "i8", "u2", "u8", "?"])
def test_dlpack_takes_arrays_of_every_layout(torch, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    expanded = np.lib.stride_tricks.as_strided(array, (2, 4), (0, array.itemsize))
    for view in (array, array.T, array[::2, 1:], array[0, :1].reshape(()), array[:0], expanded):
        assert torch.from_dlpack(view).tolist() == view.tolist()
    for refused in (np.zeros(2, ">f4"), np.zeros(2, [("a", "f4")]), np.array(["a"]), np.array([None])):
        with pytest.raises(BufferError):
            torch.from_dlpack(refused)


# --- to NumPy and Python ------------------------------------------------------------------------------------------


def test_numpy_has_no_bfloat16(torch):
    x = torch.ones(2, dtype=torch.bfloat16)
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            convert()
    assert x.float().numpy().tolist() == x.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:__array_wrap__")
def test_what_numpy_finds_true_of_a_tensor_comes_back_as_bytes(torch):
    assert np.isnan(torch.tensor([1.0, float("nan")])).dtype is torch.uint8


def test_equality_alone_of_the_comparisons_takes_arrays(torch):
    x, n = torch.tensor([1.0, 2.0]), np.array([1.0, 3.0])
    assert (x == n).tolist() == (n == x).tolist() == [True, False] and (x == n).dtype is torch.bool
    assert (torch.tensor([1, 2]) == np.array([[1], [2]])).tolist() == [[True, False], [False, True]]
    assert (x.requires_grad_() == n).tolist() == [True, False]
    assert (x == np.array(["a", "b"])) is False and (x != n) is True
    with pytest.raises(TypeError, match="'<' not supported between instances of 'Tensor' and 'numpy.ndarray'"):
        x < n  # noqa: B015
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)"):
        x == np.zeros(3)  # noqa: B015


PROGRAM = """
import sys, warnings, importlib
torch = importlib.import_module(sys.argv[1])
x = torch.tensor(2.0, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with torch.no_grad():
        float(x)
    bool(x), x.item(), x.tolist(), f"{x:.1f}", float(x.detach())
    assert not caught, caught
    int(x), float(x), complex(x)
    assert len(caught) == 1 and "Converting a tensor with requires_grad=True to a scalar" in str(caught[0].message)
    assert caught[0].filename == "<string>", caught[0].filename
    torch.set_warn_always(True)
    float(x), float(x)
    assert len(caught) == 3
"""


def test_a_number_taken_from_a_tensor_that_requires_grad_warns_once(torch):
    subprocess.run([sys.executable, "-c", PROGRAM, torch.__name__], check=True, timeout=LIMIT)


def test_membership_compares_the_element_with_the_tensor(torch):
    assert 1 in torch.tensor([1.0]) and torch.tensor([1.0, 2.0]) in torch.tensor([1.0, 3.0])
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match the size of tensor b \(2\)"):
        torch.zeros(3) in torch.zeros(2)  # noqa: B015


def test_normal_numbers_need_shapes_that_broadcast(torch):
    assert torch.normal(torch.zeros(2, 1), torch.ones(3)).shape == (2, 3)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)"):
        torch.normal(torch.zeros(2), torch.ones(3))


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.longlong, np.complex64])
def test_arrays_with_a_dtype_object_of_their_own_are_ordinary(torch, kind):
    found = pickle.loads(pickle.dumps(np.ones((2, 2), kind)))  # NumPy makes a new dtype for it, which is equal
    want = torch.ones(2, 2, dtype=torch.from_numpy(np.ones(1, kind)).dtype)
    for make in (torch.from_numpy, torch.as_tensor, torch.tensor, torch.asarray, lambda a: torch.tensor([a, a])[0]):
        value = make(found)
        assert value.dtype is want.dtype and torch.equal(value @ want, want + want) and torch.equal(value + 0, want)
    shared = torch.from_numpy(found)
    shared[0, 0] = 5
    assert found[0, 0] == 5


@pytest.mark.since("2.15")
def test_dlpack_exports_memory_that_the_receiver_must_not_write_to(torch):
    x = torch.arange(4.0)
    wrapper = import_module(f"{torch.__name__}.utils.dlpack").ReadOnlyTensorWrapper
    read_only = np.from_dlpack(wrapper(x))
    assert not read_only.flags.writeable and np.from_dlpack(x).flags.writeable
    x[0] = 5
    assert read_only.tolist() == [5, 1, 2, 3] and wrapper(x).__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="read_only export requires the versioned DLPack protocol"):
        x.__dlpack__(read_only=True)
    with pytest.raises(RuntimeError, match="only supports DLPack export; 'add' is not allowed"):
        wrapper(x) + 1
