"""The errors of functions for out= tensors of a dtype that their result cannot be written to."""

from __future__ import annotations

import pytest

CASTABLE = {
    "cond": "linalg.cond: Expected result",
    "eig": "torch.linalg.eig: Expected eigenvalues",
    "eigvals": "torch.linalg.eigvals: Expected eigenvalues",
    "householder_product": "torch.linalg.householder_product: Expected result",
    "lstsq": "torch.linalg.lstsq: Expected solution",
    "matrix_power": "matrix_power: Expected result",
    "pinv": "linalg.pinv: Expected result",
    "tensorinv": "tensorinv: Expected result",
    "tensorsolve": "tensorsolve: Expected result",
}
EXACT = {
    "matrix_norm": "linalg.matrix_norm expected out tensor dtype Double but got: Long",
    "multi_dot": r"multi_dot\(\): expected out tensor to have dtype double but got long int",
    "norm": "linalg.norm expected out tensor dtype Double but got: Long",
    "solve_triangular": "expected scalar type Double but found Long",
    "vecdot": "linalg.vecdot: Expected out of dtypeDouble but found Long",
}
RESULTS = {"eig": 2, "lstsq": 4}


def refused(torch, name, dtype):
    """Call a function of linalg with out= tensors of a dtype."""
    x = torch.eye(2, dtype=torch.float64)
    more = {
        "householder_product": (x[0],),
        "lstsq": (x,),
        "matrix_power": (3,),
        "solve_triangular": (x,),
        "tensorinv": (1,),
        "tensorsolve": (x[0],),
        "vecdot": (x,),
    }
    out = [torch.empty(0, dtype=dtype) for _ in range(RESULTS.get(name, 1))]
    options = {"upper": True} if name == "solve_triangular" else {}
    first = [x, x] if name == "multi_dot" else x
    getattr(torch.linalg, name)(first, *more.get(name, ()), **options, out=out[0] if len(out) == 1 else tuple(out))


@pytest.mark.parametrize("name", [*CASTABLE, *EXACT])
def test_a_result_that_does_not_fit_is_refused(torch, name):
    message = EXACT.get(name) or f"{CASTABLE[name]}.* to be safely castable from (Complex)?Double dtype.*dtype Long"
    with pytest.raises(RuntimeError, match=message):
        refused(torch, name, torch.int64)


def test_matrix_rank_and_tensorsolve_take_what_their_results_can_be_cast_to(torch):
    with pytest.raises(RuntimeError, match="torch.linalg.matrix_rank: Expected result to be safely castable from Long"):
        refused(torch, "matrix_rank", torch.bool)
    refused(torch, "matrix_rank", torch.float32)
    refused(torch, "tensorsolve", torch.float32)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_unique_slices_of_no_slices(torch, dim):
    x = torch.empty([0 if d == dim else 3 for d in range(3)])
    found, inverse, counts = torch.unique(x, dim=dim, return_inverse=True, return_counts=True)
    assert found.shape == x.shape and inverse.shape == counts.shape == (0,)


# What other functions say of an out= tensor of float64 for a result of float32, int64 or bool, and of int64 ones where
# they say CASTABLE.
OTHERS = {
    "Found dtype Double but expected Float": ["neg(x)", "floor(x)", "abs(x)", "_C._nn.gelu(x)"],
    "expected scalar_type Float but found Double": ["cummax(x, 0)", "logcumsumexp(x, 0)"],
    "result dtype Double does not match input dtype Float": ["dot(x[0], x[0])"],
    "all only supports bool tensor for result, got: Double": ["all(x)", "all(x, 0)"],
    "for input's dtype and Double for out's dtype": ["amax(x, 0)"],
    "we got output tensor's dtype Double and out_int32 flag is False": ["bucketize(x, x[0])"],
    "mantissa to have dtype float but got double": ["frexp(x)"],
    "input float and hist double": ["histc(x)", "histogram(x, 3)"],
    "for argument #1 'indices' to have scalar type Long; but got torch.DoubleTensor": ["median(x, 0)@1"],
    "output indices must be of scalar type Long": ["kthvalue(x, 1)@1"],
    "self.dtype = Float and out.dtype = Double": ["take(x, L.tensor([0]))"],
    "Expected out type to be Float but got Double": ["where(x > 0, x, x)"],
    "Expected the output tensor to have dtype Float": ["inner(x, x)"],
    "Expected out tensor to have dtype float, but got double": ["mm(x, x)"],
    "torch.geqrf: Expected tau to be safely castable from Float dtype, but got tau with dtype Long": ["geqrf(x)@1"],
    "cholesky_solve: Expected result to be safely castable from Float": ["cholesky_solve(x, x)"],
}


@pytest.mark.parametrize("words, call", [(words, call) for words, calls in OTHERS.items() for call in calls])
def test_functions_have_words_of_their_own(torch, words, call):
    x = torch.eye(2)
    call, _, position = call.partition("@")
    right = eval(f"L.{call}", {"L": torch, "x": x})
    dtypes = [t.dtype for t in right] if isinstance(right, tuple) else [right.dtype]
    dtypes[int(position or 0)] = torch.int64 if "castable" in words else torch.float64
    out = [torch.empty(0, dtype=dtype) for dtype in dtypes]
    with pytest.raises(RuntimeError) as raised:
        eval(f"L.{call[:-1]}, out=out)", {"L": torch, "x": x, "out": out[0] if len(out) == 1 else tuple(out)})
    assert words in str(raised.value)


def test_all_and_any_also_write_to_uint8(torch):
    out = torch.empty(0, dtype=torch.uint8)
    assert torch.all(torch.ones(2, 3), 0, out=out) is out and out.tolist() == [1, 1, 1]


@pytest.mark.parametrize("call", ["maximum(b, b", "where(b, b, b", "take(b, i", "tril(b.expand(2, 2)", "concat([b, b]"])
def test_results_of_bools_are_not_written_to_tensors_that_require_grad(torch, call):
    names = {"L": torch, "b": torch.tensor([True, False]), "i": torch.tensor([0, 1])}
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        eval(f"L.{call}, out=L.zeros(2, requires_grad=True))", names)
    out = torch.zeros(2, requires_grad=True)
    assert torch.eq(names["b"], names["b"], out=out) is out  # has no derivative in any dtype


@pytest.mark.parametrize("name", ["cat", "concat", "concatenate", "row_stack", "vstack"])
def test_joins_refuse_a_dtype_before_they_compare_shapes(torch, name):
    parts = [torch.ones(2, 2), torch.ones(2, 3)]
    with pytest.raises(TypeError, match=r"torch.cat\(\): input types can't be cast to the desired output type Int"):
        getattr(torch, name)(parts, out=torch.zeros(4, dtype=torch.int32))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda z: z(3, 5).long(), RuntimeError, "Expected result dtype to be of type kInt but got long int"),
        (lambda z: z(3, 4).float(), RuntimeError, "Expected result dtype to be of type kInt but got float"),
        (lambda z: z(5, 3), RuntimeError, r"Expected result.size\(0\) to be 3 but got 5"),
        (lambda z: z(0), RuntimeError, r"Expected result.size\(0\) to be 3 but got 0"),
        (lambda z: z(15), RuntimeError, r"Expected result.size\(0\) to be 3 but got 15"),
        (lambda z: z(3, 4), RuntimeError, r"Expected result.size\(1\) to be 5 but got 4"),
        (lambda z: z(3, 5, 1), RuntimeError, "Expected result to be of dimension 2 but got 3"),
        (lambda z: z(5, 3).t(), RuntimeError, "int_mm_out_cpu: Expected result to be contiguous"),
        (lambda z: z(6, 5)[::2], RuntimeError, "int_mm_out_cpu: Expected result to be contiguous"),
        (lambda z: z(3, 10)[:, :5], RuntimeError, "int_mm_out_cpu: Expected result to be contiguous"),
        (lambda z: z(1, 5).expand(3, 5), RuntimeError, "int_mm_out_cpu: Expected result to be contiguous"),
        (lambda z: z(()), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    ],
)
def test_products_of_bytes_write_to_their_dtype_and_shape_alone(torch, make, error, words):
    a, b = torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 5, dtype=torch.int8)
    out = make(lambda *sizes: torch.zeros(*sizes, dtype=torch.int32))
    with pytest.raises(error, match=words):
        torch._int_mm(a, b, out=out)
    assert not out.any()
