"""What operators on shapes say of wrong sizes and dimensions, and which of several mistakes they name."""

import pytest

MISTAKES = {
    "x.unflatten(0, (3, -2))": "unflatten got an unexpected error:\ninvalid shape dimension -2 at index 1 of",
    "x.unflatten(0, (-1, -1))": "unflatten got an unexpected error:\nonly one dimension can be inferred",
    "x.unflatten(9, ())": "unflatten: sizes must be non-empty",
    "x.expand(-2, 6)": "numel: integer multiplication overflow",
    "x.expand(-2, 12)": "The expanded size of the tensor (12) must match the existing size (6) at non-singleton dim",
    "L.zeros((2, -1, -3)).shape": "zeros: Dimension size must be non-negative.",
    "L.ones((2, -1, -3))": "Trying to create tensor with negative dimension -1: [2, -1, -3]",
    "x.repeat(-1, -2)": "Trying to create tensor with negative dimension -1: [-1, -12]",
    "L.rand((-1, -3))": "Trying to create tensor with negative dimension -1: [-1, -3]",
    "L.stack([x, x[1:]], 5)": "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.unfold(3, -1, 0)": "Dimension out of range (expected to be in range of [-1, 0], but got 3)",
    "x.unfold(0, 7, 0)": "maximum size for tensor at dimension 0 is 6 but size is 7",
    "x[:0].narrow(0, 5, 0)": "start out of range (expected to be in range of [0, 0], but got 5)",
    "x.hsplit(-1)": "number of sections must be larger than 0, got -1",
    "L.cdist(x[0], x)": "cdist only supports at least 2D tensors, X1 got: 0D",
    "L.cdist(x[None].long(), x[None, 1:])": "X1 and X2 must have the same number of columns. X1: 6 X2: 5",
    "L.cdist(x[None].long(), x[None])": "cdist only supports floating-point dtypes, X1 got: Long",
    "L.addmm(x.long(), x, x)": "self and mat2 must have the same dtype, but got Long and Float",
    "x[0][3, 5]": "too many indices for tensor of dimension 0",
    "x[0][0,]": "too many indices for tensor of dimension 0",
    "x[0][3]": "index 3 is out of bounds for dimension 0 with size 0",
    "L.empty_strided((2, -1), (5,))": "Trying to create tensor with negative dimension -1: [2, -1]",
    "L.lerp(x.long(), x[1:].long(), 0.5)": "The size of tensor a (6) must match the size of tensor b (5)",
    "L.lerp(x.long(), x.long(), 0.5)": "\"lerp_kernel_scalar\" not implemented for 'Long'",
    "L.ones(3, 1).index_copy(0, L.tensor(0), x[0])": "index_copy_(): Source/destination tensor must have same",
}


@pytest.mark.parametrize("call", MISTAKES)
def test_mistakes_have_pytorchs_words(torch, call):
    with pytest.raises((RuntimeError, IndexError)) as raised:
        eval(call, {"L": torch, "x": torch.ones(6)})
    assert str(raised.value).startswith(MISTAKES[call])
