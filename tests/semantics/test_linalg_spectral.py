"""Eigenvalues, singular values and what follows from them: errors, gauges, empty matrices, and kept dtypes."""

import pytest


def complex_matrix(torch, n=3):
    real = torch.arange(1.0, n * n + 1, dtype=torch.float64).reshape(n, n).sin()
    return torch.complex(real, real.mT.cos())


def test_a_loss_of_the_phase_of_eigenvectors_is_refused(torch):
    x = complex_matrix(torch)
    hermitian = (x + x.mH).requires_grad_()
    with pytest.raises(RuntimeError, match=r"linalg_eigh_backward: .*specified up to multiplication by e\^\{i phi\}"):
        torch.linalg.eigh(hermitian)[1].imag.sum().backward()
    x.requires_grad_()
    with pytest.raises(RuntimeError, match=r"linalg_eig_backward: .*depends on this quantity, so it is ill-defined\."):
        torch.linalg.eig(x)[1].imag.sum().backward()


@pytest.mark.parametrize("which", [0, 2])
def test_a_loss_of_the_phase_of_singular_vectors_is_refused(torch, which):
    x = complex_matrix(torch).requires_grad_()
    with pytest.raises(RuntimeError, match=r"svd_backward: .*depends on this phase term, making it ill-defined\."):
        torch.linalg.svd(x)[which].imag.sum().backward()


def test_a_loss_without_the_phase_is_differentiated(torch):
    x = complex_matrix(torch).requires_grad_()
    u, _, vh = torch.linalg.svd(x)
    (u @ vh).real.sum().backward()
    assert x.grad.isfinite().all()


def test_equal_singular_values_have_gradients_of_the_values_only(torch):
    x = torch.eye(3, dtype=torch.float64, requires_grad=True)
    torch.linalg.svdvals(x).sum().backward()
    assert torch.allclose(x.grad, torch.eye(3, dtype=torch.float64))
    (grad,) = torch.autograd.grad(torch.linalg.svd(x)[0].sum(), x)
    assert not grad.isfinite().all()


def test_matrices_that_are_not_finite(torch):
    x = torch.full((2, 3, 3), float("nan"))
    x[0] = torch.eye(3)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.svd: \(Batch element 1\): .*non-finite values"):
        torch.linalg.svd(x)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.eigh: \(Batch element 1\): The algorithm failed"):
        torch.linalg.eigh(x)
    with pytest.raises(RuntimeError, match="input tensor should not contain infs or NaNs"):
        torch.linalg.eig(x)


def test_singular_matrices(torch):
    x = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.inv: The diagonal element 2 is zero"):
        torch.linalg.inv(x)
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"linalg\.inv: \(Batch element 1\): The diagonal element 2 is zero"
    ):
        torch.linalg.inv(torch.stack([torch.eye(2), x]))
    inverse, info = torch.linalg.inv_ex(torch.stack([torch.eye(2), x]))
    assert info.tolist() == [0, 2] and torch.equal(inverse[0], torch.eye(2))
    assert torch.linalg.cond(x, 1).item() == float("inf")
    assert issubclass(torch.linalg.LinAlgError, RuntimeError)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_the_triangle_that_is_read(torch, name):
    x = torch.tensor([[1.0, 5.0], [0.0, 3.0]])
    of_lower, of_upper = (_first(getattr(torch.linalg, name)(x, u)).tolist() for u in "LU")
    assert of_lower == pytest.approx([1, 3])
    assert of_upper == pytest.approx([2 - 26**0.5, 2 + 26**0.5], rel=1e-5)
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got X"):
        getattr(torch.linalg, name)(x, "X")


def _first(found):
    return found[0] if isinstance(found, tuple) else found


def test_dtypes_are_kept(torch):
    x = torch.eye(3)
    for found in (*torch.linalg.eigh(x), *torch.linalg.svd(x), torch.linalg.pinv(x), torch.linalg.matrix_exp(x)):
        assert found.dtype is torch.float32
    assert {found.dtype for found in torch.linalg.eig(x)} == {torch.complex64}
    assert torch.linalg.eigvalsh(x.to(torch.complex64)).dtype is torch.float32
    assert torch.linalg.matrix_rank(x).dtype is torch.int64


def test_values_only_need_no_vectors_without_gradients(torch):
    assert torch.linalg.svdvals(torch.zeros(0, 3)).shape == (0,)
    u, s, v = torch.svd(torch.eye(3)[:2], compute_uv=False)
    assert u.shape == (2, 2) and v.shape == (3, 3) and not u.any() and s.tolist() == [1, 1]


def test_drivers_of_least_squares(torch):
    a, b = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    for driver in ("gels", "gelsd", "gelss", "gelsy"):
        found = torch.linalg.lstsq(a, b, driver=driver)
        assert torch.allclose(found.solution, torch.ones(2, 1))
        assert found.residuals.tolist() == ([] if driver == "gelsy" else pytest.approx([9.0]))
        assert found.rank.tolist() == ([] if driver == "gels" else 2)
        assert len(found.singular_values) == (2 if driver in ("gelsd", "gelss") else 0)
    with pytest.raises(torch.linalg.LinAlgError, match=r"does not have full rank \(error code: 2\)"):
        torch.linalg.lstsq(torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), b, driver="gels")


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_exponential_of_a_batch_is_that_of_its_matrices(torch, scale):
    x = scale * torch.arange(12.0, dtype=torch.float64).reshape(3, 2, 2).cos()
    assert torch.allclose(torch.matrix_exp(x), torch.stack([torch.matrix_exp(m) for m in x]), rtol=1e-9)


@pytest.mark.parametrize("name", ["symeig", "eig", "matrix_rank"])
def test_removed_names_say_what_replaces_them(torch, name):
    with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed"):
        getattr(torch, name)(torch.eye(2))


def test_vmap_maps_the_decompositions(torch):
    x = torch.arange(24.0, dtype=torch.float64).reshape(4, 3, 2).sin()
    mapped = torch.func.vmap(torch.linalg.svdvals, in_dims=2)(x)
    assert torch.allclose(mapped, torch.stack([torch.linalg.svdvals(m) for m in x.unbind(2)]))
    b = torch.ones(4, dtype=torch.float64)
    solved = torch.func.vmap(lambda a: torch.linalg.lstsq(a, b).solution, in_dims=2)(x)
    assert torch.allclose(solved, torch.stack([torch.linalg.lstsq(a, b).solution for a in x.unbind(2)]))


def test_the_inverse_of_a_singular_matrix_is_what_its_triangles_give(torch):
    singular = torch.tensor([[1.0, 1, 1], [1, 1, 1], [1, 1, 1]])
    inverse, info = torch.linalg.inv_ex(torch.stack([torch.eye(3), singular]))
    assert torch.equal(inverse[0], torch.eye(3)) and info.tolist() == [0, 2]
    assert torch.equal(inverse[1], torch.linalg.solve_ex(singular, torch.eye(3))[0]) or inverse[1].isnan().any()


def test_least_squares_of_full_rank_give_zeros_for_a_matrix_of_zeros(torch):
    a = torch.stack([torch.eye(2), torch.zeros(2, 2)])
    found = torch.linalg.lstsq(a, torch.ones(2, 2, 1), driver="gels").solution
    assert found.squeeze(-1).tolist() == [[1, 1], [0, 0]]


def test_a_reflection_by_nothing_leaves_other_columns_finite(torch):
    v = torch.tensor([[1.0, float("inf")], [2, 3], [4, float("nan")]])
    found = torch.linalg.householder_product(v, torch.zeros(2))
    assert found[:, 0].tolist() == [1, 0, 0] and found[0, 1] == 0


@pytest.mark.parametrize("name", ["lu", "lu_factor", "lu_factor_ex"])
def test_a_matrix_without_columns_has_a_factorization(torch, name):
    found = getattr(torch.linalg, name)(torch.empty(1, 0))
    assert 0 in found[-1].shape or not found[-1].any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            "vecdot(ones(2), ones(2).double())",
            RuntimeError,
            "x and y to have the same dtype, but found x of type Float",
        ),
        ("slogdet(ones(2, 2).half())", RuntimeError, "linalg.slogdet: Low precision dtypes not supported. Got Half"),
        ("householder_product(ones(2, 2), ones(()))", IndexError, "Dimension specified as -1"),
        ("tensorsolve(ones(2, 2), ones(3, 2))", RuntimeError, "but got 1 != 6"),
        ("tensorinv(ones(1, 1), ind=1, out=ones(1, 1).long())", RuntimeError, "cast"),
    ],
)
def test_wrong_operands_are_refused(torch, call, error, message):
    with pytest.raises(error, match=message):
        eval(f"torch.linalg.{call}", {"torch": torch, "ones": torch.ones})


@pytest.mark.parametrize("call", ["tensorinv(x, ind=1, out=out)", "householder_product(x, torch.ones(2), out=out)"])
def test_out_may_be_wider_than_the_result(torch, call):
    x, out = 2 * torch.eye(2), torch.empty(2, 2, dtype=torch.float64)
    narrow = eval(f"torch.linalg.{call}".replace(", out=out", ""), {"torch": torch, "x": x})
    assert eval(f"torch.linalg.{call}", {"torch": torch, "x": x, "out": out}) is out
    assert torch.equal(out, narrow.double())


def test_solving_with_one_by_one_matrices_does_not_write_to_the_inputs(torch):
    matrices, right = torch.rand(20, 1, 1) + 1, torch.rand(20, 1, 1)
    kept = matrices.clone(), right.clone()
    solution = torch.linalg.solve_triangular(matrices, right, upper=False)
    torch.linalg.lu_factor(matrices)
    assert torch.equal(matrices, kept[0]) and torch.equal(right, kept[1])
    assert torch.allclose(solution, right / matrices)
    spread = torch.linalg.solve_triangular(matrices, torch.ones(1, 1, 1).expand(20, 1, 1), upper=True)
    assert torch.allclose(spread, 1 / matrices)


def positive_matrices(torch, *batch):
    torch.manual_seed(3)
    x = torch.randn(*batch, 20, 20, dtype=torch.float64)
    return x @ x.mT / 20


@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_finds_extreme_eigenpairs(torch, method, largest):
    a, seen = positive_matrices(torch, 3), []
    start = torch.randn(3, 20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values, vectors = torch.lobpcg(a, 3, X=start, largest=largest, method=method, niter=200, tracker=seen.append)
    expected = torch.linalg.eigvalsh(a)
    expected = expected.flip(-1)[:, :3] if largest else expected[:, :3]
    assert torch.allclose(values, expected, atol=1e-8)
    assert torch.allclose(a @ vectors, vectors * values.unsqueeze(-2), atol=1e-5)
    assert len(seen) < (80 if largest else 300)
    assert {w.iparams["batch_index"] for w in seen} == {2} and seen[-1].ivars["converged_count"] >= 3


def test_lobpcg_takes_a_second_matrix_and_a_sparse_one(torch):
    a, b = positive_matrices(torch), torch.diag(torch.linspace(1, 2, 20, dtype=torch.float64))
    torch.manual_seed(1)
    values, vectors = torch.lobpcg(a, 2, b, largest=False)
    assert torch.allclose(a @ vectors, b @ vectors * values, atol=1e-6)
    assert torch.allclose(vectors.mT @ b @ vectors, torch.eye(2, dtype=torch.float64))
    values, _ = torch.lobpcg(torch.diag(torch.arange(1.0, 13.0)).to_sparse(), k=2)
    assert torch.allclose(values, torch.tensor([12.0, 11.0]))


@pytest.mark.parametrize("k, largest", [(1, True), (2, False), (3, True), (4, True)])
def test_lobpcg_has_the_gradient_of_eigh(torch, k, largest):
    a = positive_matrices(torch, 2).requires_grad_()
    torch.manual_seed(1)
    values, vectors = torch.lobpcg(a, k, largest=largest, tol=1e-13)
    assert values.grad_fn.name() == "LOBPCGAutogradFunctionBackward"

    def loss(values, vectors):  # without the signs of the vectors
        weights = torch.linspace(1, 2, 20 * k, dtype=torch.float64).reshape(20, k)
        return (values**2).sum() + (vectors**2 * weights).sum()

    (grad,) = torch.autograd.grad(loss(values, vectors), a)
    values, vectors = torch.linalg.eigh(a)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    (expected,) = torch.autograd.grad(loss(values[:, :k], vectors[:, :, :k]), a)
    assert torch.allclose(grad, (expected + expected.mT) / 2, atol=1e-6)


@pytest.mark.parametrize(
    "call, error, message",
    [
        ("eye(5), 2", ValueError, r"number of A rows \(=5\) is smaller than 3 x the number of requested eigenpairs"),
        ("ones(5, 4), 1", AssertionError, r"A must be square, got shape torch.Size\(\[5, 4\]\)"),
        ("eye(5), 1, eye(6)", AssertionError, "A and B must have same shape"),
        ("eye(5), 1, X=ones(6, 1)", AssertionError, r"X shape mismatch: .* expected \(5, 1\)"),
    ],
)
def test_lobpcg_refuses_wrong_shapes(torch, call, error, message):
    with pytest.raises(error, match=message):
        eval(f"torch.lobpcg({call})", {"torch": torch, "eye": torch.eye, "ones": torch.ones})


def test_lobpcg_has_no_gradient_with_a_second_matrix(torch):
    a = torch.diag(torch.arange(1.0, 13.0)).requires_grad_()
    with pytest.raises(ValueError, match="does not support backward with B != I yet"):
        torch.lobpcg(a, k=2, B=torch.eye(12))[0].sum().backward()


def test_a_tracker_ends_lobpcg(torch):
    def stop(worker):
        worker.bvars["force_stop"] = worker.ivars["istep"] == 3

    seen = []
    torch.lobpcg(positive_matrices(torch), 2, tracker=lambda worker: (stop(worker), seen.append(worker.ivars["istep"])))
    assert seen == [1, 2, 3]


def test_least_squares_take_a_right_hand_side_of_one_dimension_less_for_vectors(torch):
    a = torch.ones(5, 4, 3)
    assert torch.linalg.lstsq(a, torch.ones(5, 4)).solution.shape == (5, 3)
    assert torch.linalg.lstsq(a, torch.ones(1, 4, 2)).solution.shape == (5, 3, 2)
    with pytest.raises(RuntimeError, match=r"tensor a \(5\) must match the size of tensor b \(4\) .* dimension 0"):
        torch.linalg.lstsq(a, torch.ones(4, 2))


def test_linalg_matrix_exp_has_no_out(torch):
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        torch.linalg.matrix_exp(torch.eye(2), out=torch.eye(2))


@pytest.mark.since("2.15")
def test_polar_decompositions_take_matrices_with_as_many_rows_as_columns(torch):
    u, h = torch.linalg.polar(torch.ones(2, 5, 4, 3, dtype=torch.complex64))
    assert u.shape == (2, 5, 4, 3) and h.shape == (2, 5, 3, 3) and u.is_contiguous() and h.is_contiguous()
    assert [x.shape for x in torch.linalg.polar(torch.ones(3, 0))] == [(3, 0), (0, 0)]
    assert [x.shape for x in torch.linalg.polar(torch.ones(0, 3, 2, device="meta"))] == [(0, 3, 2), (0, 2, 2)]
    found = torch.vmap(torch.linalg.polar, in_dims=-1)(torch.eye(3).expand(2, 3, 3).permute(1, 2, 0))
    assert torch.allclose(found.U, torch.eye(3)) and torch.allclose(found.H, torch.eye(3))
    out = torch.empty(0), torch.empty(0)
    torch.linalg.polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]]), out=out)
    assert torch.allclose(out[0], torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
    assert torch.allclose(out[1], torch.diag(torch.tensor([3.0, 2.0])))


@pytest.mark.since("2.15")
@pytest.mark.parametrize(
    ("name", "shape", "dtype", "message"),
    [
        ("polar", (2, 3), "float32", "must have at least as many rows as columns, but got 2 by 3 matrices"),
        ("polar", (3,), "float32", "input tensor A must have at least 2 dimensions"),
        ("polar", (2, 2), "int64", "Expected a floating point or complex tensor as input. Got Long"),
        ("polar", (2, 2), "float16", '"linalg_svd_cpu" not implemented for'),
        ("matrix_sqrth", (2, 3), "float32", "A must be batches of square matrices, but they are 2 by 3 matrices"),
        ("matrix_sqrth", (3,), "float32", "input tensor A must have at least 2 dimensions"),
        ("matrix_sqrth", (2, 2), "int64", "Expected a floating point or complex tensor as input. Got Long"),
        ("matrix_sqrth", (2, 2), "float16", "Low precision dtypes not supported. Got Half"),
    ],
)
def test_polar_decompositions_and_square_roots_refuse(torch, name, shape, dtype, message):
    with pytest.raises(RuntimeError, match=message):
        getattr(torch.linalg, name)(torch.ones(shape, dtype=getattr(torch, dtype)))


@pytest.mark.since("2.15")
def test_square_roots_of_hermitian_matrices_in_batches(torch):
    x = torch.tensor([[4.0, 1j], [-1j, 4.0]]).expand(3, 2, 2)
    root = torch.linalg.matrix_sqrth(x)
    assert torch.allclose(root @ root, x, atol=1e-6) and root.shape == (3, 2, 2)
    assert torch.allclose(torch.vmap(torch.linalg.matrix_sqrth)(x), root)
    assert torch.linalg.matrix_sqrth(torch.ones(2, 0, 0)).shape == (2, 0, 0)
    assert torch.linalg.matrix_sqrth(torch.ones(2, 3, 3, device="meta")).shape == (2, 3, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        torch.linalg.matrix_sqrth(torch.eye(2), out=torch.eye(2))


@pytest.mark.since("2.15")
def test_derivatives_of_square_roots_and_polar_decompositions_where_eigenvalues_coincide(torch):
    x = (2 * torch.eye(2, dtype=torch.float64)).requires_grad_()
    for function in (torch.linalg.matrix_sqrth, lambda x: torch.linalg.polar(x)[1]):
        assert torch.autograd.gradcheck(lambda x, f=function: f((x + x.mT) / 2), x)
    if torch.__name__ == "gradloom":  # PyTorch's second derivatives are NaN
        assert torch.autograd.gradgradcheck(lambda x: torch.linalg.matrix_sqrth((x + x.mT) / 2), x)
        assert torch.autograd.gradgradcheck(lambda x: torch.linalg.polar(x), x)
