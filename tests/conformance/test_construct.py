"""tensor, as_tensor, asarray, from_numpy and the old constructors against PyTorch, expression by expression."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402

from .side_by_side import _close, describe, first_line  # noqa: E402

EXPRESSIONS = """
L.tensor(1)  L.tensor(1.5)  L.tensor(True)  L.tensor(1j)  L.tensor([])  L.tensor([[]])  L.tensor([[], []])
L.tensor(())  L.tensor([1, 2])  L.tensor([1, 2.5])  L.tensor([True, False])  L.tensor([True, 2])
L.tensor([1, 2j])  L.tensor([[1, 2], [3, 4]])  L.tensor((1, 2))  L.tensor([(1, 2), [3, 4]])
L.tensor(range(3))  L.tensor([range(2), range(2)])  L.tensor([1.5], dtype=L.int32)
L.tensor([300], dtype=L.uint8)  L.tensor([-1], dtype=L.uint8)  L.tensor([1, 0], dtype=L.bool)
L.tensor(3, dtype=L.float16)  L.tensor([1.5, 2], dtype=L.bfloat16)  L.tensor([1], dtype=L.complex64)
L.tensor([1j], dtype=L.float32)  L.tensor(2**40)  L.tensor(2**63)  L.tensor(-2**63)  L.tensor([2**70])
L.tensor(1e400)  L.tensor([float("nan")], dtype=L.int64).shape  L.tensor([0.1], dtype=L.float64)
L.tensor([1.], requires_grad=True)  L.tensor([1], requires_grad=True)  L.tensor([1j], requires_grad=True)
L.tensor("a")  L.tensor(["a"])  L.tensor(None)  L.tensor([None])  L.tensor([[1, 2], [3]])
L.tensor([[1], 2])  L.tensor([1, [2]])  L.tensor({})  L.tensor(object())  L.tensor([[1, 2], [3, "a"]])
L.tensor({1: 2})  L.tensor({1, 2})  L.tensor(np.arange(3))  L.tensor(np.float32(1.5))  L.tensor(np.int8(3))
L.tensor(np.bool_(True))  L.tensor([np.float64(1.5)])  L.tensor([np.float32(1.5), np.float32(2)])
L.tensor([np.int32(3)])  L.tensor(np.array(2.5))  L.tensor(np.array([1.5], np.float16))
L.tensor(np.array(["a"]))  L.tensor(np.array([None]))  L.tensor([np.arange(2), np.arange(2)])
L.tensor(np.arange(6).reshape(2, 3)[:, ::2])  L.tensor(np.arange(3)[::-1])
L.tensor(np.array([1, 2], np.uint16))  L.tensor([L.tensor(1), L.tensor(2)])  L.tensor([L.tensor(1.5), 2])
L.tensor([[L.tensor(1.)], [2]])  L.tensor(L.tensor([1, 2]))  L.tensor([L.tensor([1, 2]), L.tensor([3, 4])])
L.tensor([1, 2], device="cpu")  L.tensor(data=[1])  L.tensor()  L.tensor(1, 2)
L.tensor([1], dtype="float32")  L.tensor([1], dtype=float)  L.as_tensor([1, 2])
L.as_tensor([1, 2], dtype=L.float32)  L.as_tensor(np.arange(2.))  L.as_tensor(np.arange(2), dtype=L.float32)
L.as_tensor(3)  L.as_tensor(L.ones(2))  L.as_tensor(L.ones(2), dtype=L.int64)
L.as_tensor(L.ones(2, requires_grad=True))  L.as_tensor(np.arange(3)[::-1])  L.as_tensor(np.float64(2))
L.as_tensor([[1], [2, 3]])  L.as_tensor(L.ones(2, requires_grad=True), dtype=L.float64)  L.asarray([1, 2])
L.asarray(np.arange(3))  L.asarray(L.ones(2))  L.asarray([1.5], dtype=L.int32)
L.asarray(L.ones(2), copy=True)  L.asarray(3.)  L.asarray(L.ones(2), dtype=L.float64, copy=False)
L.asarray([1], copy=False)  L.asarray([1.], requires_grad=True)  L.asarray(L.ones(2, requires_grad=True))
L.asarray(L.ones(2, requires_grad=True), requires_grad=True)  L.asarray(np.float32(1))
L.asarray(np.arange(2), dtype=L.float64)  L.from_numpy(np.arange(3))
L.from_numpy(np.arange(6).reshape(2, 3).T)  L.from_numpy(np.arange(4)[1:])  L.from_numpy([1])
L.from_numpy(np.array(1.5))  L.from_numpy(np.array(["a"]))  L.from_numpy(np.arange(3)[::-1])
L.from_numpy(np.zeros(2, ">f4"))  L.from_numpy(np.array([1+2j]))
L.from_numpy(np.arange(8, dtype=np.int16)[::2])  L.from_numpy(np.broadcast_to(np.ones(1), (2, 3)).copy())
L.from_numpy(np.zeros(2, np.longdouble))  L.Tensor([1, 2])  L.Tensor(2, 3).shape  L.Tensor()
L.Tensor([[1], [2]])  L.Tensor(L.ones(2))  L.Tensor(np.arange(2))  L.Tensor(1.5)  L.Tensor((1, 2))
L.Tensor(L.Size([2])).shape  L.FloatTensor([1])  L.LongTensor([1, 2])  L.DoubleTensor([1.5])
L.BoolTensor([1, 0])  L.IntTensor(2).shape  L.ByteTensor([1])  L.LongTensor([1.5])  L.HalfTensor([1])
L.ShortTensor([1])  L.CharTensor([1])  L.FloatTensor(2, 3).shape  L.FloatTensor(L.ones(2))
L.LongTensor(L.ones(2))  L.ones(2).new_tensor([1, 2])  L.ones(2, dtype=L.int32).new_tensor([1.5])
L.ones(2).new_tensor(3, dtype=L.int64)  L.ones(2).new_tensor([1.], requires_grad=True)
L.ones(2).new([1, 2])  L.ones(2).new(2, 3).shape  L.ones(2).item()  L.ones(1).item()  L.tensor(3).item()
L.tensor(1.5).tolist()  L.ones(2, 2).tolist()  L.ones(1, 1).item()  L.tensor([True]).item()
L.tensor(1j).item()  L.zeros(0).item()  L.tensor([1.5], dtype=L.bfloat16).item()  float(L.tensor([2]))
int(L.tensor(2.7))  bool(L.tensor([0.]))  bool(L.ones(2))  bool(L.zeros(0))  complex(L.tensor(2.))
len(L.ones(3))  len(L.tensor(1))  list(L.ones(2))  [*range(3)][L.tensor(1)]  [1, 2][L.tensor(1.)]
round(L.tensor(2.6).item())  L.ones(2).numpy()  L.ones(2, requires_grad=True).numpy()  np.asarray(L.ones(2))
L.ones(2, requires_grad=True).numpy(force=True)  np.array(L.ones(2, dtype=L.int32)).dtype
np.add(L.ones(2).numpy(), 1)  np.float64(L.tensor(2.))  L.is_tensor(L.ones(1))  L.is_tensor(1)
L.numel(L.ones(2, 3))  L.ones(2).dtype  L.is_floating_point(L.ones(1))  L.is_complex(L.ones(1))
L.get_default_dtype()  L.promote_types(L.int32, L.float16)  L.result_type(L.ones(2), 1j)
L.can_cast(L.float32, L.int32)  L.finfo(L.float32).eps  L.iinfo(L.int8).max  L.finfo().dtype
L.ones(2).nbytes  L.ones(2).element_size()  L.ones(2, 3).numel()  L.ones(2).type()
L.ones(2).is_contiguous()  L.ones(2, 3).t().is_contiguous()  L.ones(2, 3).size(-1)  L.ones(2, 3).size()
L.ones(2, 3).stride(1)  L.ones(2, 3).shape.numel()  L.Size([2, 3]) + (1,)  L.ones(2).is_signed()
L.ones(2).get_device()  L.ones(2).untyped_storage().nbytes()  L.ones(2, 3).dim()  L.ones(2, 3).ndim
L.ones(2).names  L.complex(L.ones(1), L.ones(1))  L.float32.itemsize  L.float32.is_floating_point
L.complex64.to_real()  L.float64.to_complex()  L.device("cpu")
"""


def outcome(library, expression):
    """What an expression gives, or its error: class, and message where it is the library's own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return describe(eval(expression, {"L": library, "np": np}))
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"


@pytest.mark.parametrize("expression", [e for line in EXPRESSIONS.splitlines() for e in line.split("  ") if e])
def test_expression(expression):
    expected, found = outcome(torch, expression), outcome(gradloom, expression)
    if isinstance(expected, str) and "Error" in expected.split(":")[0]:
        assert isinstance(found, str) and found.split(":")[0] == expected.split(":")[0], f"{found}\n{expected}"
    else:
        assert _close(found, expected), f"{found}\n{expected}"
