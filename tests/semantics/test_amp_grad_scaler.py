"""GradScaler: losses are scaled, gradients scaled back, and steps with infinite gradients left out."""

import math
import pickle

import pytest


@pytest.fixture
def made(torch):
    """A scaler, a parameter and its optimizer."""
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    return torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2), p, torch.optim.SGD([p], lr=0.5)


def one_step(scaler, p, optimizer, factor=1.0):
    optimizer.zero_grad()
    scaler.scale((p * factor).sum()).backward()
    found = scaler.step(optimizer)
    scaler.update()
    return found


def test_steps_with_infinite_gradients_are_left_out_and_the_scale_follows(torch, made):
    scaler, p, optimizer = made
    found = []
    for factor in (1, 1, 1, math.inf, 1, math.nan, 1, 1):
        one_step(scaler, p, optimizer, factor)
        found.append((scaler.get_scale(), scaler._get_growth_tracker(), p.tolist()[0]))
    assert found == [
        (4.0, 1, 0.5),
        (8.0, 0, 0.0),
        (8.0, 1, -0.5),
        (4.0, 0, -0.5),
        (4.0, 1, -1.0),
        (2.0, 0, -1.0),
        (2.0, 1, -1.5),
        (4.0, 0, -2.0),
    ]
    assert p.grad.tolist() == [1.0, 1.0]


def test_the_defaults(torch):
    scaler = torch.amp.GradScaler("cpu")
    assert scaler.is_enabled()
    assert scaler.get_scale() == 65536.0
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (2.0, 0.5, 2000)


def test_a_scaler_for_cuda_is_disabled_with_a_warning(torch):
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler()
    assert not scaler.is_enabled()
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}


def test_a_disabled_scaler_lets_everything_through(torch, made):
    _, p, optimizer = made
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert p.tolist() == [0.5, 1.5]


def test_gradients_may_be_scaled_back_before_the_step(torch, made):
    scaler, p, optimizer = made
    scaler.scale(p.sum()).backward()
    assert p.grad.tolist() == [4.0, 4.0]
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 1.0]
    p.grad.mul_(2)
    scaler.step(optimizer)
    assert p.tolist() == [0.0, 1.0]


def test_several_outputs_are_scaled_at_once(torch, made):
    scaler, p, _ = made
    found = scaler.scale([p.sum(), (p.sum(), p.double().sum())])
    assert isinstance(found, list) and isinstance(found[1], tuple)
    assert [found[0].item(), found[1][0].item(), found[1][1].dtype] == [12.0, 12.0, torch.float64]
    assert [t.item() for t in scaler.scale(iter([p.sum()]))] == [12.0]
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_a_scaled_half_is_still_a_half_unless_it_has_no_dimensions(torch, made):
    scaler, p, _ = made
    assert scaler.scale(p.half()).dtype is torch.float16
    assert scaler.scale(p.half().sum()).dtype is torch.float32


def test_one_optimizer_may_step_while_another_is_left_out(torch, made):
    scaler, p, optimizer = made
    q = torch.nn.Parameter(torch.ones(2))
    other = torch.optim.SGD([q], lr=0.5)
    scaler.scale((p * math.inf).sum() + q.sum()).backward()
    scaler.step(optimizer)
    scaler.step(other)
    scaler.update()
    assert (p.tolist(), q.tolist(), scaler.get_scale()) == ([1.0, 2.0], [0.5, 0.5], 2.0)


def test_calls_in_another_order_are_refused(torch, made):
    scaler, p, optimizer = made
    for call in (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            call()
    scaler.scale(p.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer since the last"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)"):
        scaler.step(optimizer)


def test_an_optimizer_without_gradients_is_refused(torch, made):
    scaler, p, optimizer = made
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)


def test_a_closure_is_refused(torch, made):
    scaler, p, optimizer = made
    scaler.scale(p.sum()).backward()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported if GradScaler is enabled"):
        scaler.step(optimizer, closure=lambda: None)


def test_gradients_in_float16_are_refused_and_bfloat16_is_not(torch, made):
    scaler, p, _ = made
    scaler.scale(p.sum())
    for dtype in (torch.float16, torch.bfloat16):
        q = torch.nn.Parameter(torch.ones(2, dtype=dtype))
        optimizer = torch.optim.SGD([q], lr=0.5)
        scaler.scale(q.sum()).backward()
        if dtype is torch.float16:
            with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
                scaler.unscale_(optimizer)
        else:
            scaler.unscale_(optimizer)
            assert q.grad.dtype is torch.bfloat16 and q.grad.tolist() == [1.0, 1.0]


def test_a_new_scale_may_be_set(torch, made):
    scaler, p, optimizer = made
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update(2.0)
    assert scaler.get_scale() == 2.0
    scaler.update(torch.tensor(3.0))
    assert scaler.get_scale() == 3.0
    for bad in (torch.tensor([3.0, 1.0]), torch.tensor(3.0, requires_grad=True)):
        with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element"):
            scaler.update(bad)


def test_the_scale_stays_finite(torch, made):
    _, p, optimizer = made
    scaler = torch.amp.GradScaler("cpu", init_scale=1e38, growth_interval=1, growth_factor=100.0)
    scaler.scale((p * 1e-30).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == pytest.approx(1e38)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"growth_factor": 1.0}, "The growth factor must be > 1.0"),
        ({"backoff_factor": 1.0}, "The backoff factor must be < 1.0"),
    ],
)
def test_factors_that_go_the_wrong_way_are_refused(torch, options, message):
    with pytest.raises(AssertionError, match=message):
        torch.amp.GradScaler("cpu", **options)
    assert not torch.amp.GradScaler("cpu", enabled=False, **options).is_enabled()


def test_the_factors_may_be_changed(torch, made):
    scaler, p, optimizer = made
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(1)
    one_step(scaler, p, optimizer)
    assert scaler.get_scale() == 12.0
    one_step(scaler, p, optimizer, math.inf)
    assert scaler.get_scale() == 3.0
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.25, 1)


def test_the_state_is_saved_and_loaded(torch, made):
    scaler, p, optimizer = made
    for _ in range(3):
        one_step(scaler, p, optimizer)
    state = scaler.state_dict()
    assert state == {
        "scale": 8.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    one_step(other, p, optimizer)
    assert other.get_scale() == 16.0
    other.load_state_dict(state)
    assert other.get_scale() == 8.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_a_scaler_is_pickled_between_iterations(torch, made):
    scaler, p, optimizer = made
    for _ in range(3):
        one_step(scaler, p, optimizer)
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning of an iteration"):
        pickle.dumps(scaler)


def test_an_optimizer_may_scale_back_itself(torch, made):
    scaler, p, _ = made
    seen = []

    class Aware(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            seen.append((self.grad_scale, self.found_inf.item()))
            return "stepped"

    optimizer = Aware([p], lr=0.5)
    assert one_step(scaler, p, optimizer, math.inf) == "stepped"
    assert not hasattr(optimizer, "grad_scale")
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert [None if scale is None else scale.dtype for scale, _ in seen] == [torch.float32, None]
    assert [found for _, found in seen] == [1.0, 1.0]


def test_an_optimizer_may_ask_for_the_scaler(torch, made):
    scaler, p, _ = made

    class Asking(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, grad_scaler=None):
            return grad_scaler

    scaler.scale(p.sum()).backward()
    with pytest.warns(FutureWarning, match="going to stop passing itself"):
        assert scaler.step(Asking([p], lr=0.5)) is scaler
