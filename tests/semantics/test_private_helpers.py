"""Names of private modules that other people's packages call."""

from __future__ import annotations

import importlib
from collections import OrderedDict

import pytest


def module(torch, name):
    return importlib.import_module(f"{torch.__name__}.{name}")


def raised(function, *arguments):
    with pytest.raises(Exception) as caught:
        function(*arguments)
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.since("2.15")
def test_a_check_raises_with_a_text(torch):
    assert raised(torch._check, False, "text") == ("RuntimeError", "text")
    assert raised(torch._check_index, False, 3) == ("IndexError", "3")
    assert raised(torch._check_with, ValueError, False, "text") == ("ValueError", "text")


def test_a_check_raises_with_the_text_that_its_function_returns(torch):
    assert torch._check(True, lambda: 1 / 0) is None
    assert raised(torch._check, False, lambda: "no") == ("RuntimeError", "no")
    assert raised(torch._check_value, False, lambda: 3) == ("ValueError", "3")
    assert raised(torch._check, False)[1].startswith("Expected cond to be True, but got False.")
    assert raised(torch._check, 1) == ("TypeError", "cond must be a bool, but got <class 'int'>")
    assert raised(torch._check, torch.tensor(True))[0] == "TypeError"
    assert (
        raised(torch._check_is_size, -1)[0] == raised(torch._check_tensor_all, torch.zeros(2) > 0)[0] == "RuntimeError"
    )
    assert raised(torch._check_with, OSError, False, lambda: "x") == ("OSError", "x")
    names = {"_check_index": "IndexError", "_check_type": "TypeError", "_check_not_implemented": "NotImplementedError"}
    assert {name: raised(getattr(torch, name), False)[0] for name in names} == names


def test_flat_tensors_are_taken_apart_again(torch):
    utils = module(torch, "_utils")
    tensors = [torch.arange(4.0).view(2, 2).t(), torch.zeros(0, 3), torch.tensor(5.0)]
    flat = utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 2, 1, 3, 5]
    parts = utils._unflatten_dense_tensors(flat, tensors)
    assert [part.tolist() for part in parts] == [t.tolist() for t in tensors]


def test_private_operators_compute(torch):
    aten = torch.ops.aten
    x = torch.tensor([[0.5, -2.0], [0.0, 3.0]])
    assert [aten.linalg__powsum(x, order).item() for order in (0, 1, 2, 3)] == [4, 5.5, 13.25, 35.125]
    assert aten.linalg__powsum(x, 2, dim=[0], keepdim=True).tolist() == [[0.25, 13]]
    assert aten.linalg__powsum(x, 1, dtype=torch.float64).dtype is torch.float64
    assert raised(aten.linalg__powsum, x.long(), 2)[1] == "\"powsum_cpu\" not implemented for 'Long'"
    copied = aten.copy(x.t(), torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert (copied.tolist(), copied.stride(), copied.dtype) == ([[1, 2], [1, 2]], (1, 2), torch.float32)
    indices = torch.tensor([[0, 0], [0, 1]])
    assert aten.cummaxmin_backward(torch.ones(2, 2), x, indices, 0).tolist() == [[2, 1], [0, 1]]
    assert torch._is_all_true(x > -3).item() and not (x > 0)._is_all_true().item()
    assert torch._is_any_true(x > 0).item() and not (x > 3)._is_any_true().item()
    assert raised(torch._is_any_true, x)[0] == "RuntimeError"
    zeros = aten._foreach_zero([x, x[0]])
    assert [zero.tolist() for zero in zeros] == [[[0, 0], [0, 0]], [0, 0]] and x[1, 1] == 3
    assert [one.tolist() for one in aten._foreach_copy([x[0], x[1]], [x[1], x[0]])] == [[0, 3], [0.5, -2]]
    assert not hasattr(torch, "_foreach_zero") and not hasattr(torch, "_foreach_copy")


def test_a_masked_softmax_leaves_out_what_is_masked(torch):
    x = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]], requires_grad=True)
    mask = torch.tensor([[False, True, False], [False, False, True]])
    y = torch._masked_softmax(x, mask, 1, 2)
    kept = x.detach().masked_fill(mask, -torch.inf).requires_grad_()
    torch.testing.assert_close(y, kept.softmax(1))
    assert type(y.grad_fn).__name__ == "MaskedSoftmaxBackward0"
    assert y.grad_fn._saved_dim == 1 and torch.equal(y.grad_fn._saved_mask, mask)
    weights = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
    (g,), (h,) = torch.autograd.grad(y, x, weights), torch.autograd.grad(kept.softmax(1), kept, weights)
    torch.testing.assert_close(g, h)
    scores = torch.arange(16.0).view(1, 2, 2, 4)[..., :2]
    for kind, small, whole in ((0, mask[:, :2], mask[:, :2]), (1, mask[:1, :2], mask[:1, None, None, :2])):
        found = torch._masked_softmax(scores, small, -1, kind)
        assert torch.equal(found, torch._masked_softmax(scores, whole.expand(1, 2, 2, 2), -1, 2))
    assert torch._masked_softmax(x.detach(), torch.ones(2, 3) > 0).isnan().all()
    for arguments, words in {
        (x, mask.float()): "Mask should be a boolean tensor",
        (x, mask[0], 1, 0): "For mask_type == 2 mask shape should match input shape",
        (scores, mask, -1, 0): "For mask_type == 0 mask shape should be (L, L)",
        (scores, mask, -1, 1): "For mask_type == 1 mask shape should be (B, L)",
        (scores, mask, -1): "Mask Type should be defined",
    }.items():
        assert raised(torch._masked_softmax, *arguments) == ("RuntimeError", words)


def test_buckets_hold_tensors_of_one_type_up_to_a_size(torch):
    utils = module(torch, "_utils")
    sizes = [(4, torch.float32), (4, torch.float64), (4, torch.float32), (1, torch.float32)]
    tensors = [torch.zeros(size, dtype=dtype) for size, dtype in sizes]
    found = [[(len(t), t.dtype) for t in bucket] for bucket in utils._take_tensors(tensors, 20)]
    assert found == [[sizes[0]], [sizes[2], sizes[3]], [sizes[1]]]
    assert list(utils._reorder_tensors_as(tensors[:2], tensors[1::-1])) == tensors[1::-1]


def test_a_device_has_a_number_unless_it_is_the_cpu(torch):
    index = module(torch, "_utils")._get_device_index
    assert (index(3), index("cuda:1"), index("cpu", allow_cpu=True), index(None, optional=True)) == (3, 1, -1, None)
    assert raised(index, "cpu") == ("ValueError", "Expected a non cpu device, but got: cpu")
    assert raised(index, None)[0] == raised(index, "cuda")[0] == "ValueError"


def test_an_exception_is_raised_again_with_its_traceback(torch):
    wrapper = module(torch, "_utils").ExceptionWrapper
    for error in (ValueError("lost"), KeyError("key")):
        try:
            raise error
        except Exception:
            wrapped = wrapper(where="in a test")
        kind, text = raised(wrapped.reraise)
        assert kind == type(error).__name__ and text.startswith(f"Caught {kind} in a test.\nOriginal Traceback")


def test_packages_extend_the_functions_that_make_batches(torch):
    collate = module(torch, "utils.data._utils.collate")

    class Box:
        def __init__(self, value):
            self.value = value

    def boxes(batch, *, collate_fn_map=None):
        return collate.collate([box.value for box in batch], collate_fn_map=collate_fn_map)

    functions = {Box: boxes, **collate.default_collate_fn_map}
    found = collate.collate([{"a": Box(1), "b": "x"}, {"a": Box(2), "b": "y"}], collate_fn_map=functions)
    assert found["a"].tolist() == [1, 2] and found["b"] == ["x", "y"]
    assert raised(collate.collate, [Box(1)])[0] == "TypeError"
    assert raised(collate.collate, [1, 2])[0] == "TypeError"  # without functions only containers


def test_a_prefix_of_a_state_dict_is_removed_with_its_metadata(torch):
    consume = module(torch, "nn.modules.utils").consume_prefix_in_state_dict_if_present
    state = torch.nn.Sequential(OrderedDict(module=torch.nn.Linear(1, 1))).state_dict()
    consume(state, "module.")
    assert list(state) == ["weight", "bias"] and set(state._metadata) == {""}


def test_leaving_out_the_keys_of_autocast_turns_it_off(torch):
    C = module(torch, "_C")
    keys = C.DispatchKeySet(C.DispatchKey.AutocastCPU) | C.DispatchKeySet(C.DispatchKey.AutocastCUDA)
    assert keys.has(C.DispatchKey.AutocastCUDA) and not keys.has(C.DispatchKey.CPU)
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with C._ExcludeDispatchKeyGuard(keys):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16


@pytest.mark.build_of_cpus
def test_devices_that_are_not_there_answer_or_refuse(torch):
    assert torch.cuda.default_generators == () and torch.cuda.max_memory_cached() == torch.xpu.memory_allocated() == 0
    assert torch.xpu.get_rng_state_all() == [] and torch.mtia.memory_stats() == {}
    assert raised(torch.accelerator.memory_allocated)[0] == raised(torch.accelerator.empty_cache)[0] == "RuntimeError"
    assert raised(torch.xpu.current_device)[0] == "AssertionError"
    assert not hasattr(torch.xpu, "no_such_name")


@pytest.mark.filterwarnings("ignore")
def test_old_classes_make_sparse_tensors(torch):
    indices, values = torch.tensor([[0, 1], [1, 0]]), torch.tensor([3.0, 4.0])
    made = torch.sparse.FloatTensor(indices, values, torch.Size([2, 3]))
    assert made.to_dense().tolist() == [[0, 3, 0], [4, 0, 0]] and torch.sparse.FloatTensor(indices, values).shape == (
        2,
        2,
    )
    assert torch.sparse.LongTensor(2, 3)._nnz() == 0 and torch.sparse.DoubleTensor(2, 3).dtype == torch.float64
    assert isinstance(made, torch.sparse.FloatTensor) and not isinstance(made, torch.FloatTensor)
    assert not isinstance(made.to_dense(), torch.sparse.FloatTensor)


@pytest.mark.parametrize(
    ("rows", "offsets", "shape"), [((2, 3), [0, 1], (3, 3)), ((2, 5), [1, -1], (3, 3)), ((2, 3), [1, -1], (2, 5))]
)
def test_rows_become_the_diagonals_of_a_sparse_matrix(torch, rows, offsets, shape):
    values = torch.arange(1.0, 1.0 + rows[0] * rows[1]).view(rows)
    expected = [[0.0] * shape[1] for _ in range(shape[0])]
    for row, offset in zip(values.tolist(), offsets, strict=True):
        for j, value in enumerate(row[: shape[1]]):
            if 0 <= j - offset < shape[0]:
                expected[j - offset][j] = value
    assert torch.sparse.spdiags(values, torch.tensor(offsets), shape).to_dense().tolist() == expected
    assert raised(torch.sparse.spdiags, values, torch.tensor([0, 0]), shape)[0] == "RuntimeError"


def test_sizes_of_elements_and_a_running_profiler(torch):
    assert [torch._utils._element_size(t) for t in (torch.bool, torch.bfloat16, torch.complex128)] == [1, 2, 16]
    with pytest.raises(RuntimeError, match="expected torch.dtype"):
        torch._utils._element_size(3)
    assert not torch.autograd._profiler_enabled()
    with torch.autograd.profiler.profile():
        assert torch.autograd._profiler_enabled()


def test_a_replica_of_a_module_shares_its_parts_and_has_no_parameters(torch):
    module = torch.nn.BatchNorm1d(2)
    replica = module._replicate_for_data_parallel()
    assert type(replica) is type(module) and list(replica.parameters()) == []
    assert replica._buffers is not module._buffers and replica.running_mean is module.running_mean
    with pytest.warns(UserWarning, match="zero_grad.. from a module created with nn.DataParallel"):
        replica.zero_grad()
    with pytest.raises(RuntimeError, match="uninitialized parameters can't be used with `DataParallel`"):
        torch.nn.LazyLinear(2)._replicate_for_data_parallel()


def test_a_subclass_of_the_loader_replaces_its_sampler_as_timm_does(torch):
    loader = torch.utils.data.DataLoader([1, 2, 3], batch_size=2)
    with pytest.raises(ValueError, match="batch_sampler attribute should not be set after DataLoader is initialized"):
        loader.batch_sampler = [[2]]
    loader._DataLoader__initialized = False
    loader.batch_sampler = [[2], [0, 1]]
    loader._DataLoader__initialized = True
    assert [batch.tolist() for batch in loader] == [[3], [1, 2]]


def test_an_insert_point_holds_from_the_call_on_until_its_block_ends(torch):
    def function(x):
        return (x + 1) * 2

    made = torch.fx.symbolic_trace(function)
    add, mul = (node for node in made.graph.nodes if node.op == "call_function")
    point = made.graph.inserting_after(add)
    neg = made.graph.call_function(torch.neg, (add,))
    with point:
        mul.args = (neg, 2)
    made.graph.call_function(torch.abs, (mul,))
    assert [node.name for node in made.graph.nodes] == ["x", "add", "neg", "mul", "output", "abs_1"]


def test_arguments_of_functional_are_tuples_of_tensors(torch):
    functional = module(torch, "autograd.functional")
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert functional._as_tuple(x, "inputs", "f") == (False, (x,)) and functional._as_tuple(3) == (3,)
    several, found = functional._as_tuple((x, y), "inputs", "f")
    assert several and found[1] is y
    words = "The inputs given to f must be either a Tensor or a tuple of Tensors but the"
    for value, rest in (
        ([x], "given inputs has type <class 'list'>."),
        ((x, 2), "value at index 1 has type <class 'int'>."),
    ):
        assert raised(functional._as_tuple, value, "inputs", "f") == ("TypeError", f"{words} {rest}")
    rows = ((1, 2), (3, 4))
    answers = {(True, True): rows, (True, False): (1, 3), (False, True): (1, 2), (False, False): 1}
    assert {to: functional._tuple_postprocess(rows, to) for to in answers} == answers
    assert functional._tuple_postprocess((5,), False) == 5 and functional._tuple_postprocess((5,), True) == (5,)
    assert functional._grad_postprocess((y,), True)[0] is y
    assert not functional._grad_postprocess((y,), False)[0].requires_grad
    assert not functional._grad_postprocess(((y,), (y,)), False)[1][0].requires_grad


def test_a_line_search_takes_a_function_of_length_and_direction(torch):
    lbfgs = module(torch, "optim.lbfgs")
    one, two = torch.tensor(1.0, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
    assert float(lbfgs._cubic_interpolate(0, one, -one, 1, two, 3 * one)) == pytest.approx(0.25)
    assert float(lbfgs._cubic_interpolate(0, one, -one, 1, two, 3 * one, bounds=(0.3, 0.4))) == 0.3

    def loss(x, t, d):
        at = x + t * d
        return float(((at - 3) ** 4).sum() + (at**2).sum()), 4 * (at - 3) ** 3 + 2 * at

    x = torch.tensor([0.0, 1.0], dtype=torch.float64)
    value, gradient = loss(x, 0, x)
    found = {}
    for start, options in ((1e-3, {"c2": 0.1}), (1.0, {}), (10.0, {"c1": 0.3}), (10.0, {"max_ls": 2})):
        at, slope, length, calls = lbfgs._strong_wolfe(
            loss, x, start, -gradient, value, gradient, gradient.dot(-gradient), **options
        )
        found[start, *options] = (round(at, 4), [round(n, 4) for n in slope.tolist()], round(float(length), 6), calls)
    assert found == {
        (1e-3, "c2"): (15.7752, [6.6257, -1.3764], 0.0303, 3),
        (1.0,): (14.6193, [6.1524, -2.3076], 0.028475, 5),
        (10.0, "c1"): (11.8748, [-0.5286, -9.2204], 0.01818, 8),
        (10.0, "max_ls"): (98.0, [-108.0, -30.0], 0.0, 3),
    }


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_each_example_has_its_gradient(torch, reduction):
    call = module(torch, "nn.utils._per_sample_grad").call_for_per_sample_grads
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(*layers)
    layers[2].bias.requires_grad_(False)
    x = torch.arange(15.0).view(5, 3) / 10
    found = call(model, loss_reduction=reduction)(x)
    assert torch.allclose(found, model(x))
    getattr(found.square().sum(1), reduction)().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None
        if not parameter.requires_grad:
            assert not hasattr(parameter, "grad_sample")
            continue
        for i in range(5):
            (alone,) = torch.autograd.grad(model(x[i : i + 1]).square().sum(), dict(model.named_parameters())[name])
            assert torch.allclose(parameter.grad_sample[i], alone, atol=1e-6)
    assert raised(call, model)[0] == "RuntimeError"  # the gradients would be added up
    for wrong in ({"loss_reduction": "max"}, {"batch_size": 0}, {"batch_size": "5"}):
        assert raised(lambda wrong=wrong: call(torch.nn.Linear(1, 1), **wrong))[0] == "RuntimeError"
    assert raised(call, 3) == ("RuntimeError", "Module passed must be nn.Module, got int")
    assert raised(call(torch.nn.Bilinear(1, 1, 1)), torch.ones(2, 1), torch.ones(3, 1))[1].startswith(
        "When computing batch size, found at least one input with batch size 2 and one with batch size 3."
    )


def test_private_modules_are_imported(torch):
    vmapped = module(torch, "_vmap_internals")._vmap(lambda x: x * 2, 0, 0)(torch.ones(3, 2))
    assert vmapped.tolist() == [[2.0, 2.0]] * 3
    assert module(torch, "_VF").tanh(torch.zeros(1)).item() == 0.0
    assert "list" in str(module(torch, "utils.data.dataloader")._collate_fn_t)
    experimental = module(torch, "distributed._tensor.experimental")
    assert experimental.implicit_replication is module(torch, "distributed.tensor.experimental").implicit_replication
    for name in ("rpc", "autograd"):
        assert isinstance(module(torch, f"distributed.{name}").is_available(), bool)


def test_settings_of_the_compiler_are_patched(torch):
    config = module(torch, "_dynamo.config")
    before = config.recompile_limit, config.suppress_errors
    with config.patch(recompile_limit=3), config.patch("suppress_errors", True), config.patch({"verbose": True}):
        assert (config.recompile_limit, config.suppress_errors, config.verbose) == (3, True, True)
    assert (config.recompile_limit, config.suppress_errors) == before
    assert raised(lambda: config.patch(no_such_setting=1).__enter__())[0] == "AttributeError"


def test_the_compiler_counts_what_it_did(torch):
    counters = module(torch, "_dynamo.utils").counters
    counters.clear()
    doubled = torch.compile(lambda x: x * 2 + 1, backend="eager" if torch.__name__ == "torch" else "numpy")
    for size in (2, 3, 3):
        doubled(torch.ones(size))
    assert counters["stats"]["unique_graphs"] == 2 and counters["frames"] == {"total": 2, "ok": 2}
    assert sum(counters["graph_break"].values()) == 0


def test_lists_of_tensors_are_grouped_by_dtype(torch):
    group = module(torch, "utils._foreach_utils")._group_tensors_by_device_and_dtype
    a, b, c = torch.ones(1), torch.ones(1, dtype=torch.float64), torch.zeros(1)
    device = torch.device("cpu")
    found = group([[a, b, c], [None, None, None], [c, b, a]], with_indices=True)
    assert set(found) == {(device, torch.float32), (device, torch.float64)}
    (first, none, last), indices = found[device, torch.float32]
    assert indices == [0, 2] and none == [None, None] and first[0] is a and last[0] is c and last[1] is a
    assert group([[b]])[device, torch.float64] == ([[b]], [])
    for wrong in ([], [[]], [[a], [a, b]], [[None, a], [a, b]]):
        assert raised(group, wrong)[0] == "RuntimeError"
