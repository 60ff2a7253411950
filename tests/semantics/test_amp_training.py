"""Training within autocast: networks learn, and their parameters and gradients stay float32."""

import pytest


def data(torch):
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    return x, torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], dim=1)


def network(torch):
    torch.manual_seed(1)
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))


def train(torch, steps, dtype=None, scaler=None):
    """The losses of a network that is trained in the dtype, and the network."""
    net, (x, y) = network(torch), data(torch)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            found = net(x)
            loss = torch.nn.functional.mse_loss(found, y)
        assert found.dtype is (dtype or torch.float32) and loss.dtype is torch.float32
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
    return losses, net


def test_a_network_learns_in_bfloat16(torch):
    losses, net = train(torch, 150, torch.bfloat16)
    assert losses[-1] < losses[0] / 10
    for p in net.parameters():
        assert p.dtype is p.grad.dtype is torch.float32


def test_a_network_learns_in_float16_with_scaled_gradients(torch):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=50)
    losses, _ = train(torch, 150, torch.float16, scaler)
    assert losses[-1] < losses[0] / 10
    assert scaler.get_scale() < 2.0**24  # the first steps overflowed, and were left out


def test_the_losses_are_close_to_those_in_float32_and_not_the_same(torch):
    full, _ = train(torch, 20)
    half, _ = train(torch, 20, torch.bfloat16)
    assert half != full
    assert half == pytest.approx(full, rel=0.05)


def test_convolutions_and_normalization_learn_in_bfloat16(torch):
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )
    x, y = torch.randn(16, 1, 8, 8), torch.arange(16) % 3
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cpu"):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    assert {p.grad.dtype for p in net.parameters()} == {torch.float32}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_losses_are_those_of_pytorch(gradloom, dtype):
    reference = pytest.importorskip("torch")
    ours, _ = train(gradloom, 30, getattr(gradloom, dtype))
    theirs, _ = train(reference, 30, getattr(reference, dtype))
    assert ours == pytest.approx(theirs, rel=0.02)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_fused_step_unscales_gradients_and_leaves_out_infinite_ones(torch, name):
    def parameters(fused):
        p = torch.nn.Parameter(torch.arange(3.0))
        optimizer = getattr(torch.optim, name)([p], lr=0.1, fused=fused)
        for gradient, infinite in ((1.0, 0), (3.0, 1), (2.0, 0)):
            p.grad = torch.full((3,), gradient)
            if fused:
                p.grad *= 4
                optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.tensor(float(infinite))
            if fused or not infinite:
                optimizer.step()
                assert p.grad.tolist() == [gradient * (4 if infinite else 1)] * 3
        return p

    assert torch.allclose(parameters(True), parameters(False))


@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_a_scaler_leaves_unscaling_to_fused_steps(torch, name):
    p = torch.nn.Parameter(torch.arange(3.0))
    optimizer = getattr(torch.optim, name)([p], lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale((p * p).sum()).backward()
    assert p.grad.tolist() == [0, 16, 32]
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(p.grad, torch.tensor([0.0, 2, 4]))
    assert not hasattr(optimizer, "grad_scale")


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_fused_steps_refuse_complex_parameters_and_sparse_gradients(torch, name):
    kind = getattr(torch.optim, name)
    p = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match="requires all the params to be floating point Tensors .* torch.complex64"):
        kind([p], fused=True).step()
    p = torch.ones(2, requires_grad=True)
    p.grad = torch.ones(2).to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse grad"):
        kind([p], fused=True).step()
