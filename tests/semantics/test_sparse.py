"""Sparse tensors: what autograd and programs see of them. tests/conformance/test_sparse.py compares many results."""

import copy
import pickle
import warnings

import pytest


@pytest.fixture(autouse=True)
def _without_pytorchs_advice():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse invariant checks")
        yield


def matrix(torch, **options):
    """A matrix with two values at (1, 0)."""
    return torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3), **options)


def test_a_sparse_tensor_shows_its_components(torch):
    assert repr(matrix(torch, dtype=torch.float64, requires_grad=True)) == (
        "tensor(indices=tensor([[0, 1, 1],\n"
        "                       [2, 0, 0]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, dtype=torch.float64, layout=torch.sparse_coo,\n"
        "       requires_grad=True)"
    )


def test_values_at_one_place_are_summed(torch):
    s = matrix(torch)
    assert not s.is_coalesced() and s._nnz() == 3
    c = s.coalesce()
    assert c.is_coalesced() and c.indices().tolist() == [[0, 1], [2, 0]] and c.values().tolist() == [3.0, 9.0]
    assert s.to_dense().tolist() == [[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]
    assert c.coalesce() is c


def test_places_can_be_declared_unique(torch):
    s = matrix(torch).detach()
    assert s._coalesced_(True) is s and s.is_coalesced() and s._version == 1 and s.coalesce() is s
    assert s._coalesced_(False).coalesce().values().tolist() == [3.0, 9.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        matrix(torch).detach().requires_grad_()._coalesced_(True)
    with pytest.raises(TypeError, match="must be bool, not int"):
        s._coalesced_(1)


def test_components_share_memory_with_the_tensor(torch):
    values = torch.tensor([1.0, 2.0])
    s = torch.sparse_coo_tensor([[0, 1]], values, (3,))
    values[0] = 5
    assert s.to_dense().tolist() == [5.0, 2.0, 0.0]
    s._values()[1] = 7
    assert values.tolist() == [5.0, 7.0]
    s.detach().mul_(2)  # it replaces the components
    assert s.to_dense().tolist() == [5.0, 7.0, 0.0]


def test_the_gradient_of_a_sparse_leaf_has_the_places_of_the_leaf(torch):
    s = matrix(torch, requires_grad=True)
    torch.sparse.mm(s, torch.ones(3, 2)).sum().backward()
    assert s.grad.is_sparse and s.grad.coalesce().indices().tolist() == [[0, 1], [2, 0]]
    s.sum().backward()
    assert not s.grad.is_sparse and s.grad.tolist() == [[1.0, 1.0, 3.0], [3.0, 1.0, 1.0]]


def test_values_are_differentiable_twice(torch):
    places = torch.tensor([[0, 1, 1, 0], [2, 0, 0, 1]])
    dense = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]], dtype=torch.float64, requires_grad=True)
    values = torch.tensor([0.3, -0.7, 1.1, 0.2], dtype=torch.float64, requires_grad=True)

    def product(values, dense):
        graph = torch.sparse_coo_tensor(places, values, (2, 3))
        return torch.sparse.mm(graph, dense) * (graph @ dense)

    assert torch.autograd.gradcheck(product, (values, dense))


def test_second_derivatives_go_through_every_sparse_operator(gradloom):
    torch = gradloom
    places = torch.tensor([[0, 1, 1, 0], [2, 0, 0, 1]])
    values = torch.tensor([0.3, -0.7, 1.1, 0.2], dtype=torch.float64, requires_grad=True)
    weights = torch.arange(1.0, 7.0, dtype=torch.float64).view(2, 3)

    def of(function):
        return lambda values: function(torch.sparse_coo_tensor(places, values, (2, 3)))

    for function in (
        lambda s: (s.coalesce().values() ** 3).sum(),
        lambda s: (s.to_dense() ** 3 * weights).sum(),
        lambda s: ((s * s).to_dense() * weights).sum(),
        lambda s: (torch.sparse.softmax(s, 1).to_dense() * weights).sum(),
        lambda s: (torch.sparse.log_softmax(s, 0).to_dense() * weights).sum(),
        lambda s: (torch.sparse.sum(s, 0).to_dense() ** 3).sum(),
        lambda s: (torch.sparse.mm(s, s.t()).to_dense() ** 2).sum(),
        lambda s: (torch.sparse.mm(s, weights.t()) ** 3).sum(),
        lambda s: (weights.sparse_mask(s.detach()) * s).to_dense().pow(2).sum(),
    ):
        assert torch.autograd.gradcheck(of(function), values)
        assert torch.autograd.gradgradcheck(of(function), values)


def test_dense_values_of_each_entry_have_gradients(torch):
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64, requires_grad=True)

    def function(values):
        s = torch.sparse_coo_tensor([[1, 0, 1]], values, (2, 2))
        halves = s * 0.1
        return (
            torch.sparse.sum(s * 2, 0),
            s.coalesce().values() ** 2,
            torch.sparse.sum(s, 1).to_dense(),
            torch.sparse.softmax(halves, 1).to_dense(),
            torch.sparse.log_softmax(halves, 1).to_dense(),
            torch.sparse.softmax(halves, 0).to_dense(),
        )

    assert torch.autograd.gradcheck(function, values)


def test_places_beyond_64_bit_keys_are_coalesced(torch):
    extents = (1 << 20, 1 << 20, 1 << 20)
    s = torch.sparse_coo_tensor([[1, 0, 1], [2, 3, 2], [(1 << 20) - 1, 4, (1 << 20) - 1]], [1.0, 2.0, 3.0], extents)
    c = s.coalesce()
    assert c.indices().tolist() == [[0, 1], [3, 2], [4, (1 << 20) - 1]] and c.values().tolist() == [2.0, 4.0]


def test_a_write_to_a_saved_sparse_tensor_is_found(torch):
    s = matrix(torch)
    w = torch.ones(3, 2, requires_grad=True)
    y = torch.mm(s, w).sum()
    s.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_nothing_is_recorded_without_grad_mode(torch):
    values = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        s = torch.sparse_coo_tensor([[0, 1]], values, (2,))
        assert not s.requires_grad and not s.to_dense().requires_grad


def test_hooks_and_retain_graph_work_with_sparse_gradients(torch):
    seen = []
    s = matrix(torch, requires_grad=True)
    y = torch.sparse.mm(s, torch.ones(3, 1))
    s.register_hook(lambda grad: seen.append(grad.is_sparse))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert seen == [True, True] and s.grad.to_dense().tolist() == [[0.0, 0.0, 2.0], [2.0, 0.0, 0.0]]
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_pickle_and_deepcopy_keep_sparse_tensors_and_gradients(torch):
    s = matrix(torch)
    assert pickle.loads(pickle.dumps(s)).to_dense().equal(s.to_dense())
    w = torch.ones(3, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([0, 2, 0]), w, sparse=True).sum().backward()
    found = copy.deepcopy(w)
    assert found.grad.is_sparse and found.grad._indices().tolist() == [[0, 2, 0]]
    found.grad.zero_()
    assert w.grad._nnz() == 3 and found.grad._nnz() == 0


def test_anomaly_mode_looks_at_the_values_of_sparse_gradients(torch):
    s = matrix(torch, requires_grad=True)
    dense = torch.ones(3, 2)
    with torch.autograd.set_detect_anomaly(True):
        torch.sparse.mm(s, dense).sum().backward()
        with pytest.raises(RuntimeError, match="'SparseAddmmBackward0' returned nan values in its 1th output"):
            torch.sparse.mm(s, dense * float("nan")).sum().backward()


def test_invariants_are_checked_on_request(torch):
    def bad():
        return torch.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (3,))

    with torch.sparse.check_sparse_tensor_invariants(False):
        bad()
    with torch.sparse.check_sparse_tensor_invariants():
        assert torch.sparse.check_sparse_tensor_invariants.is_enabled()
        with pytest.raises(
            RuntimeError, match="size is inconsistent with indices: for dim 0, size is 3 but found index 7"
        ):
            bad()


def test_the_gradient_of_a_sparse_embedding_has_an_entry_for_each_row_read(torch):
    w = torch.arange(8.0).view(4, 2).requires_grad_()
    y = torch.nn.functional.embedding(torch.tensor([[1, 2], [1, 0]]), w, padding_idx=2, sparse=True)
    (y * torch.arange(1.0, 9.0).view(2, 2, 2)).sum().backward()
    assert w.grad._indices().tolist() == [[1, 1, 0]] and not w.grad.is_coalesced()
    assert w.grad._values().tolist() == [[1.0, 2.0], [5.0, 6.0], [7.0, 8.0]]


def test_sparse_and_dense_gradients_of_one_leaf_are_added(torch):
    def embedded(*rows):
        return torch.nn.functional.embedding(torch.tensor(rows), w, sparse=True).sum()

    w = torch.zeros(4, 2, requires_grad=True)
    embedded(1, 2).backward()
    embedded(3, 3).backward()
    assert w.grad._indices().tolist() == [[1, 2, 3, 3]]
    w.sum().backward()
    assert w.grad[:, 0].tolist() == [1.0, 2.0, 2.0, 3.0]
    embedded(0).backward()
    assert w.grad[:, 0].tolist() == [2.0, 2.0, 2.0, 3.0]
    for loss in (lambda: embedded(1, 2) + w.sum(), lambda: w.sum() + embedded(1, 2)):
        (grad,) = torch.autograd.grad(loss(), w)
        assert grad[:, 0].tolist() == [1.0, 2.0, 2.0, 1.0]
    (grad,) = torch.autograd.grad(embedded(1, 2) + embedded(3, 1), w)
    assert grad._indices().tolist() == [[1, 2, 3, 1]]


def test_the_gradient_of_a_sparse_embedding_is_differentiable(torch):
    w = torch.arange(8.0).view(4, 2).requires_grad_()
    y = torch.nn.functional.embedding(torch.tensor([1, 2]), w, sparse=True)
    (first,) = torch.autograd.grad((y**2).sum(), w, create_graph=True)
    assert first.is_sparse and first._values().tolist() == [[4.0, 6.0], [8.0, 10.0]]
    (second,) = torch.autograd.grad(first.to_dense().sum(), w)
    assert second.to_dense().tolist() == [[0.0, 0.0], [2.0, 2.0], [2.0, 2.0], [0.0, 0.0]]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bags_have_sparse_gradients(torch, mode):
    bag = torch.nn.EmbeddingBag(4, 2, mode=mode, sparse=True, padding_idx=2)
    y = bag(torch.tensor([1, 2, 1]), torch.tensor([0, 2]))
    (y * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert bag.weight.grad._indices().tolist() == [[1, 1]]
    assert bag.weight.grad._values().tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_frequencies_do_not_scale_sparse_gradients(torch):
    w = torch.zeros(4, 2, requires_grad=True)
    y = torch.nn.functional.embedding(torch.tensor([1, 1]), w, scale_grad_by_freq=True, sparse=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        y.sum().backward()


def test_zero_grad_keeps_a_sparse_gradient_without_entries(torch):
    w = torch.zeros(4, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1]), w, sparse=True).sum().backward()
    torch.optim.SGD([w], lr=0.1).zero_grad(set_to_none=False)
    assert w.grad.is_sparse and w.grad._nnz() == 0


def test_operators_without_a_sparse_kernel_say_so(gradloom):
    s = matrix(gradloom)
    with pytest.raises(NotImplementedError, match="'aten::exp'.*'SparseCPU' backend: gradloom has no sparse exp yet"):
        s.exp()
    with pytest.raises(NotImplementedError, match="gradloom has no sparse sin with out= yet"):
        gradloom.sin(s, out=gradloom.ones(2, 3))
    with pytest.raises(RuntimeError, match="sparse tensor does not have"):
        gradloom.nn.utils.clip_grad_norm_([_with_sparse_gradient(gradloom)], 1.0)
    with pytest.raises(NotImplementedError, match="sparse_coo only"):
        gradloom.ones(2).to_sparse(blocksize=(1, 1))
    with pytest.raises(RuntimeError, match="dense tensors only"):
        gradloom.zeros(2, layout=gradloom.sparse_coo)
    with pytest.raises(NotImplementedError, match="forward"):
        with gradloom.autograd.forward_ad.dual_level():
            gradloom.autograd.forward_ad.make_dual(gradloom.ones(2), gradloom.ones(2)).to_sparse()


@pytest.mark.parametrize("name", ["abs_", "relu_", "sin_", "frac_", "nan_to_num_", "floor_"])
def test_functions_that_keep_zero_are_taken_in_place_of_coalesced_tensors(torch, name):
    with pytest.raises(RuntimeError, match=f"{name} requires coalesced input"):
        getattr(matrix(torch), name)()
    c = matrix(torch).coalesce()
    values = getattr(c.values().clone(), name)()
    assert getattr(c, name)() is c and c.is_coalesced() and torch.equal(c.values(), values)


@pytest.mark.parametrize("name", ["signbit", "isneginf", "isposinf", "frac", "nan_to_num"])
def test_results_of_such_functions_are_coalesced(torch, name):
    s, function = matrix(torch) * -1.5, getattr(torch, name)
    assert function(s).is_coalesced() and torch.equal(function(s).values(), function(s.coalesce().values()))


def test_numbers_divide_with_rounding(torch):
    s = matrix(torch)
    assert s.div(2, rounding_mode="floor").values().tolist() == s.floor_divide(2).values().tolist() == [1.0, 4.0]
    assert s.coalesce().floor_divide_(2).values().tolist() == [1.0, 4.0]
    with pytest.raises(RuntimeError, match="Sparse floor division requires a scalar or zero-dim dense tensor divisor"):
        s.floor_divide(s)


def test_parts_and_transposes_in_place(torch):
    s = matrix(torch)
    first, second = s
    assert first.is_coalesced() and first.to_dense().tolist() == [0.0, 0.0, 3.0]
    assert not second.is_coalesced() and second.to_dense().tolist() == [9.0, 0.0, 0.0]
    assert [part.to_dense().tolist() for part in s.unbind(1)] == [[0.0, 9.0], [0.0, 0.0], [3.0, 0.0]]
    assert s.t_() is s and s.shape == (3, 2) and s.to_dense().tolist() == [[0.0, 9.0], [0.0, 0.0], [3.0, 0.0]]
    assert s.transpose_(0, 1).shape == (2, 3) and s._dimI() == 2 and s._dimV() == 0


def test_results_are_written_to_out(torch):
    c, out = matrix(torch).coalesce(), torch.sparse_coo_tensor((5, 5))
    assert torch.add(c, c, out=out) is out and out.to_dense().tolist() == [[0.0, 0.0, 6.0], [18.0, 0.0, 0.0]]
    assert torch.sin(c, out=out).to_dense().equal(c.to_dense().sin())
    dense = torch.empty(2, 2)
    assert torch.mm(c, torch.ones(3, 2), out=dense) is dense and dense.tolist() == [[3.0, 3.0], [9.0, 9.0]]
    with pytest.raises(RuntimeError, match="result type Float"):
        torch.add(c, c, out=torch.sparse_coo_tensor((2, 3), dtype=torch.int32))


def test_tensors_of_other_sizes_are_made_without_entries(torch):
    z = matrix(torch).new_zeros((4, 3, 2), dtype=torch.int32)
    assert z.is_sparse and z.is_coalesced() and z.sparse_dim() == 3 and z.dtype == torch.int32
    assert matrix(torch).new_empty((2,)).shape == (2,) and matrix(torch).new_empty((2,))._nnz() == 0


@pytest.mark.parametrize("masked", [True, False])
def test_gradcheck_takes_sparse_inputs(torch, masked):
    x = matrix(torch, dtype=torch.float64).coalesce().requires_grad_()
    dense, check = torch.arange(6.0, dtype=torch.float64).view(3, 2).requires_grad_(), torch.autograd.gradcheck
    assert check(lambda v: (v * 2).to_dense(masked_grad=masked), (x,), masked=masked)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check(lambda v: v.to_dense(masked_grad=not masked), (x,), masked=masked)
    with pytest.raises(ValueError, match="Sparse output is not supported"):
        check(lambda v: v * 2, (x,), masked=masked)
    of_sparse = torch.sparse.as_sparse_gradcheck(check)
    assert of_sparse(lambda v: v * 2, (x,), masked=masked) and of_sparse(torch.sparse.mm, (x, dense), masked=masked)


def _with_sparse_gradient(torch):
    w = torch.zeros(4, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1]), w, sparse=True).sum().backward()
    return w


# --- optimizers ---------------------------------------------------------------------------------------------------


def trained(torch, name, steps=4, **options):
    """Return an embedding table after some steps by its sparse gradient, which has rows twice, and the optimizer."""
    w = torch.arange(8.0).view(4, 2).requires_grad_()
    optimizer = getattr(torch.optim, name)([w], lr=0.1, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        (torch.nn.functional.embedding(torch.tensor([2, 1, 2]), w, sparse=True) ** 2).sum().backward()
        assert w.grad.is_sparse
        optimizer.step()
    return w.detach(), optimizer


def test_sparse_gradients_change_only_the_rows_that_were_read(torch):
    for name in ("SGD", "Adagrad", "SparseAdam"):
        w, _ = trained(torch, name)
        assert w[0].tolist() == [0.0, 1.0] and w[3].tolist() == [6.0, 7.0]
        assert (w[1:3] < torch.tensor([[2.0, 3.0], [4.0, 5.0]])).all()


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse_and_dense_gradients_take_the_same_steps(torch, name):
    w = torch.arange(8.0).view(4, 2).requires_grad_()
    optimizer = getattr(torch.optim, name)([w], lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        (torch.nn.functional.embedding(torch.tensor([2, 1, 2]), w) ** 2).sum().backward()
        optimizer.step()
    torch.testing.assert_close(trained(torch, name)[0], w.detach())


def test_momentum_of_sparse_gradients_is_sparse(torch):
    w, optimizer = trained(torch, "SGD", momentum=0.9, nesterov=True)
    (state,) = optimizer.state.values()
    assert state["momentum_buffer"].is_sparse and state["momentum_buffer"].coalesce().indices().tolist() == [[1, 2]]
    copy.deepcopy(optimizer).load_state_dict(optimizer.state_dict())


def test_a_first_step_of_sparse_adam_has_the_length_of_the_learning_rate(torch):
    w, optimizer = trained(torch, "SparseAdam", steps=1)
    torch.testing.assert_close(w, torch.tensor([[0.0, 1.0], [1.9, 2.9], [3.9, 4.9], [6.0, 7.0]]))
    (state,) = optimizer.state.values()
    assert state["step"] == 1 and state["exp_avg"][0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Adam", {}, "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("AdamW", {}, "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("RMSprop", {}, "RMSprop does not support sparse gradients"),
        ("Adadelta", {}, "Adadelta does not support sparse gradients"),
        ("Rprop", {}, "Rprop does not support sparse gradients"),
        ("NAdam", {}, "NAdam does not support sparse gradients"),
        ("SGD", {"weight_decay": 0.1}, "add(sparse, dense) is not supported. Use add(dense, sparse) instead."),
        ("SGD", {"fused": True}, "`_fused_sgd` does not support sparse gradients"),
        ("Adagrad", {"weight_decay": 0.1}, "weight_decay option is not compatible with sparse gradients"),
    ],
)
def test_what_optimizers_refuse_of_sparse_gradients(torch, name, options, message):
    with pytest.raises(RuntimeError) as raised:
        trained(torch, name, **options)
    assert str(raised.value) == message


def test_what_sparse_adam_refuses(torch):
    w = torch.ones(3, requires_grad=True)
    w.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        torch.optim.SparseAdam([w]).step()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 1\]\]: SparseAdam requires dense"):
        torch.optim.SparseAdam([w, matrix(torch, requires_grad=True)])
    with pytest.raises(ValueError, match=r"Complex params at indices \[\[0, 0\]\]"):
        torch.optim.SparseAdam([torch.ones(2, dtype=torch.complex64)])
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}):
        with pytest.raises(ValueError, match="Invalid"):
            torch.optim.SparseAdam([w], **options)


def test_lbfgs_takes_sparse_gradients(torch):
    w = torch.arange(8.0).view(4, 2).requires_grad_()
    optimizer = torch.optim.LBFGS([w], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (torch.nn.functional.embedding(torch.tensor([2, 1, 2]), w, sparse=True) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert closure() < 1e-4 and w[0].tolist() == [0.0, 1.0]
