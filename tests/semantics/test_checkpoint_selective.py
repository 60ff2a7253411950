"""Selective checkpoints: a policy says which operators' results are kept; those do not run again in backward."""

import warnings
from functools import partial
from importlib import import_module

import pytest


@pytest.fixture
def cp(torch):
    return import_module(f"{torch.__name__}.utils.checkpoint")


@pytest.fixture
def ran(torch):
    """A mode that counts how often an operator runs: `with ran as names`."""

    class Watch(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

        def __enter__(self):
            self.names = []
            super().__enter__()
            return self.names

    return Watch()


def part(x):
    return ((x @ x).sin() @ x).exp()


def selective(torch, cp, policy, function=part, **options):
    """A checkpoint's input and result."""
    x = torch.full((2, 2), 0.5, requires_grad=True)
    contexts = partial(cp.create_selective_checkpoint_contexts, policy, **options)
    return x, cp.checkpoint(function, x, use_reentrant=False, context_fn=contexts)


def gradient(torch, function=part):
    x = torch.full((2, 2), 0.5, requires_grad=True)
    function(x).sum().backward()
    return x.grad.tolist()


def test_operators_of_a_list_do_not_run_again(torch, cp, ran):
    for kept, sines in (("mm", 1), ("sin", 0)):
        x, y = selective(torch, cp, [getattr(torch.ops.aten, kept).default])
        with ran as names:
            y.sum().backward()
        # Each product runs twice in the formulas of backward, and the first once more where it is not kept.
        assert names.count("aten.sin.default") == sines
        assert x.grad.tolist() == gradient(torch)
    x, y = selective(torch, cp, [torch.ops.aten.mm.default])
    with ran as names:
        y.sum().backward()
    assert names.count("aten.mm.default") == 4


def test_with_nothing_to_keep_all_run_again(torch, cp, ran):
    x, y = selective(torch, cp, [])
    with ran as names:
        y.sum().backward()
    assert names.count("aten.mm.default") == 6 and names.count("aten.sin.default") == 1
    assert x.grad.tolist() == gradient(torch)


def test_with_everything_kept_the_operators_do_not_run_again(torch, cp, ran):
    x, y = selective(torch, cp, lambda context, operator, *args, **kwargs: cp.CheckpointPolicy.MUST_SAVE)
    with ran as names:
        y.sum().backward()
    assert names.count("aten.mm.default") == 4
    assert "aten.sin.default" not in names and "aten.exp.default" not in names
    assert x.grad.tolist() == gradient(torch)


def test_a_policy_is_told_the_operator_its_arguments_and_its_result(torch, cp):
    seen = []

    def policy(context, operator, *args, **kwargs):
        assert isinstance(context, cp.SelectiveCheckpointContext)
        seen.append((context.is_recompute, str(operator), len(args), kwargs, tuple(context.op_output.shape)))
        return cp.CheckpointPolicy.PREFER_SAVE

    _, y = selective(torch, cp, policy, lambda x: x.sum(1, keepdim=True).add(x, alpha=2).sin())
    assert seen == [
        (False, "aten.sum.dim_IntList", 3, {}, (2, 1)),
        (False, "aten.add.Tensor", 2, {"alpha": 2}, (2, 2)),
        (False, "aten.sin.default", 1, {}, (2, 2)),
    ]
    y.sum().backward()
    assert len(seen) == 3


@pytest.mark.parametrize(
    "name", ["MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE", "PREFER_RECOMPUTE", "MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD"]
)
def test_every_policy_saves_or_recomputes(torch, cp, ran, name):
    policy = cp.CheckpointPolicy[name]
    x, y = selective(torch, cp, lambda context, operator, *args, **kwargs: policy)
    with ran as names:
        y.sum().backward()
    assert ("aten.sin.default" in names) == ("SAVE" not in name)
    assert x.grad.tolist() == gradient(torch)


def test_a_policy_may_answer_with_a_bool(torch, cp, ran):
    _, y = selective(torch, cp, lambda context, operator, *args, **kwargs: operator is torch.ops.aten.sin.default)
    with ran as names:
        y.sum().backward()
    assert "aten.sin.default" not in names and names.count("aten.mm.default") == 6


def test_results_are_kept_in_the_order_of_the_calls(torch, cp):
    def several(x):
        return (x.sin() * (x * 2).sin() + (x * 3).sin().cos()).exp()

    x, y = selective(torch, cp, [torch.ops.aten.sin.default], several)
    y.sum().backward()
    assert x.grad.tolist() == gradient(torch, several)


def test_operators_with_several_results_and_views_are_kept(torch, cp):
    def function(x):
        values, places = x.max(0)
        first, second = x.split(1)
        return (values * first).sin() + second.t().exp().t()

    x, y = selective(torch, cp, lambda *args, **kwargs: cp.CheckpointPolicy.MUST_SAVE, function)
    y.sum().backward()
    assert x.grad.tolist() == gradient(torch, function)


def test_random_numbers_that_are_kept_are_those_of_the_first_run(torch, cp):
    torch.manual_seed(0)
    x = torch.ones(40, requires_grad=True)
    contexts = partial(cp.create_selective_checkpoint_contexts, [torch.ops.aten.rand_like.default])
    y = cp.checkpoint(
        lambda t: (torch.rand_like(t) < 0.5) * t * t,
        x,
        use_reentrant=False,
        context_fn=contexts,
        preserve_rng_state=False,
    )
    y.sum().backward()
    assert x.grad.tolist() == (2 * y.detach()).tolist()


def test_a_kept_result_must_not_be_written_to(torch, cp):
    def function(x):
        y = x @ x
        y.mul_(2)
        return y.sin()

    _, y = selective(torch, cp, [torch.ops.aten.mm.default], function)
    with pytest.raises(RuntimeError, match="Tensor cached during selective activation checkpoint has been mutated"):
        y.sum().backward()
    _, y = selective(torch, cp, [torch.ops.aten.mm.default], function, allow_cache_entry_mutation=True)
    y.sum().backward()
    # What is given is what the tensor holds after the write, and that runs once more.
    x, y = selective(
        torch, cp, lambda *args, **kwargs: cp.CheckpointPolicy.MUST_SAVE, function, allow_cache_entry_mutation=True
    )
    y.sum().backward()
    assert x.grad.tolist() == gradient(torch, function)


def test_a_part_runs_again_once_only(torch, cp):
    _, y = selective(torch, cp, [torch.ops.aten.mm.default])
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()


@pytest.mark.parametrize("extra", ["mm", "add"])
def test_a_part_that_runs_other_operators_the_second_time(torch, cp, extra):
    runs = []

    def function(x):
        runs.append(1)
        y = x @ x
        if len(runs) > 1:
            getattr(torch, extra)(x.detach(), x.detach())
        return y.sin().exp()

    x = torch.full((2, 2), 0.5, requires_grad=True)
    contexts = partial(cp.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    y = cp.checkpoint(function, x, use_reentrant=False, context_fn=contexts, early_stop=False)
    with pytest.raises(RuntimeError, match=f"aten.{extra}.*encountered during backward but not found in storage"):
        y.sum().backward()


def test_selective_checkpoints_within_each_other(torch, cp, ran):
    contexts = partial(cp.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def outer(x):
        return cp.checkpoint(part, x.cos(), use_reentrant=False, context_fn=contexts) * 2

    x = torch.full((2, 2), 0.5, requires_grad=True)
    y = cp.checkpoint(outer, x, use_reentrant=False, context_fn=contexts)
    with ran as names:
        y.sum().backward()
    assert names.count("aten.mm.default") == 4
    assert x.grad.tolist() == gradient(torch, lambda x: part(x.cos()) * 2)


def test_modules_keep_the_results_of_their_products(torch, cp, ran):
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Tanh())
    x = torch.randn(5, 3)
    net(x).sum().backward()
    expected = [p.grad.tolist() for p in net.parameters()]
    net.zero_grad()
    contexts = partial(cp.create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    y = cp.checkpoint(net, x, use_reentrant=False, context_fn=contexts)
    with ran as names:
        y.sum().backward()
    assert "aten.addmm.default" not in names
    assert [p.grad.tolist() for p in net.parameters()] == expected


def test_operators_that_compute_nothing_are_not_asked_about(torch, cp):
    assert torch.ops.aten.detach.default in cp.SAC_IGNORED_OPS
    seen = []

    def policy(context, operator, *args, **kwargs):
        seen.append(str(operator))
        return False

    selective(torch, cp, policy, lambda x: x.detach().sin() * x)
    assert seen == ["aten.sin.default", "aten.mul.Tensor"]


def test_what_is_no_policy_is_refused(torch, cp):
    create = cp.create_selective_checkpoint_contexts
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create(3)
    with pytest.raises(ValueError, match="(?s)Expected op in `op_list` to be an OpOverload but got: .*mm.default"):
        create([torch.ops.aten.mm])
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload but got: mm"):
        create(["mm"])
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        cp.checkpoint(part, torch.ones(2, 2), use_reentrant=True, context_fn=partial(create, []))


def test_an_answer_that_is_no_policy_is_refused(gradloom):
    cp = import_module("gradloom.utils.checkpoint")
    with pytest.raises(TypeError, match="should return a CheckpointPolicy or a bool, and returned str for aten.mm.def"):
        selective(gradloom, cp, lambda *args, **kwargs: "save")


@pytest.mark.since("2.15")
@pytest.mark.parametrize("respects", [None, True, False])
def test_the_hooks_of_saved_tensors_see_what_is_kept_if_asked_to(torch, cp, respects):
    packed = []
    contexts = partial(cp.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x + 1, lambda x: x - 1):
            x = torch.eye(2, requires_grad=True)
            y = cp.checkpoint(
                lambda x: x.mm(x).sin().exp(),
                x,
                use_reentrant=False,
                context_fn=contexts,
                respect_saved_tensors_hooks=respects,
            )
            y.sum().backward()
    told = [
        str(w.message) for w in found if "saved_tensors_hooks context (e.g. save_on_cpu) is active" in str(w.message)
    ]
    assert len(packed) == (2 if respects else 1) and len(told) == (respects is None)
    z = x.detach().requires_grad_()
    z.mm(z).sin().exp().sum().backward()
    torch.testing.assert_close(x.grad, z.grad)
