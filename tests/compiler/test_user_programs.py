"""Programs as people write them: with `compile` they give what they give without it, random numbers and effects too."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass

import pytest

import gradloom as torch
from gradloom import nn, optim
from gradloom.compiler._api import optimized_of
from gradloom.nn import functional as F
from gradloom.utils.checkpoint import checkpoint
from tests.waiting import LIMIT

Output = namedtuple("Output", "logits hidden")


@dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor
    weight: float = 1.0


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        # without bias: its gradient is rounding alone before a batch norm, and Adam would make it a step
        self.first, self.norm = nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8)
        self.drop, self.last = nn.Dropout(dropout), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.drop(F.gelu(self.norm(self.first(x)))))


def batches(count=6):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        yield torch.randn(5, 6, generator=generator), torch.randint(0, 3, (5,), generator=generator)


def state(*modules):
    return [t.detach().clone() for m in modules for t in m.state_dict().values()]


def dropout_batchnorm_scheduler(compiled):
    net = Net(0.5)
    step = compiled(net)
    optimizer = optim.SGD(net.parameters(), 0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(step(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
    net.eval()
    with torch.no_grad():
        return [*losses, *[step(x) for x, _ in batches(3)], *state(net)]


def accumulation_and_averages(compiled):
    net = Net()
    average = copy.deepcopy(net)

    @compiled
    def loss_of(x, y):
        return F.cross_entropy(net(x), y, label_smoothing=0.1) / 2

    optimizer = optim.AdamW(net.parameters(), 1e-2)
    for i, (x, y) in enumerate(batches(8)):
        loss_of(x, y).backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for a, p in zip(average.parameters(), net.parameters(), strict=True):
                    a.mul_(0.9).add_(p, alpha=0.1)
    return state(net, average)


def autocast_and_scaler(compiled):
    net = Net()
    run = compiled(net)
    optimizer = optim.SGD(net.parameters(), 0.1)
    found = []
    for x, y in batches(5):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(run(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return found


def checkpointed(compiled):
    block = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.3), nn.Linear(6, 6))

    @compiled
    def run(x):
        return checkpoint(block, x, use_reentrant=False).tanh()

    found = []
    for x, _ in batches(4):
        x.requires_grad_()
        run(x).sum().backward()
        found.append(x.grad)
    return [*found, *[p.grad for p in block.parameters()]]


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < ctx.limit) * 0.5, None


def custom_function(compiled):
    @compiled
    def run(x):
        return Clipped.apply(x * 3, 1.0).sin() * x

    found = []
    for x, _ in batches(4):
        x.requires_grad_()
        y = run(x)
        y.sum().backward()
        found += [y.detach(), x.grad]
    return found


def hooks(compiled):
    net = Net()
    log = []
    net.first.register_forward_hook(lambda m, args, out: log.append(out.detach().sum()))
    net.last.weight.register_hook(lambda g: g * 2)
    run = compiled(net)
    for x, y in batches(4):
        out = run(x)
        out.register_hook(lambda g: log.append(g.abs().sum()))
        F.cross_entropy(out, y).backward()
    return [*log, *[p.grad for p in net.parameters()]]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 6)
        self.head = nn.Linear(6, 9, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, tokens):
        h = self.embedding(tokens)
        if self.training:
            self.steps += 1
            self.mean.lerp_(h.detach().mean((0, 1)), 0.1)
        return {"logits": self.head(torch.tanh(h - self.mean)), "hidden": [h]}


def tied_weights_buffers_dicts(compiled):
    model = Tied()
    run = compiled(model)
    optimizer = optim.Adam(model.parameters(), 1e-2)
    for _ in range(5):
        tokens = torch.randint(0, 9, (2, 4))
        found = run(tokens)
        loss = F.cross_entropy(found["logits"].flatten(0, 1), tokens.flatten()) + found["hidden"][0].pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [loss.detach(), *state(model)]


def named_and_data_classes(compiled):
    net = Net()

    @compiled
    def run(batch, *, scale=1.0):
        logits = net(batch.x) * scale
        return Output(logits, Batch(logits.exp(), batch.y, batch.weight))

    found = []
    for i, (x, y) in enumerate(batches(5)):
        out = run(Batch(x, y, 0.5), scale=1.0 + i % 2)
        (out.logits * out.hidden.x).mean().backward()
        assert type(out) is Output and type(out.hidden) is Batch and out.hidden.weight == 0.5 and out.hidden.y is y
        found += [*out[:1], out.hidden.x]
    return [f.detach() for f in found] + [p.grad for p in net.parameters()]


def random_numbers(compiled):
    generator = torch.Generator().manual_seed(3)

    @compiled
    def run(x):
        noise = torch.randn_like(x) * 0.1
        mask = torch.rand(x.shape) > 0.3
        return (x + noise) * mask + torch.randn(x.shape, generator=generator), torch.randperm(4)

    return [t for x, _ in batches(5) for t in run(x)]


def generators_and_comprehensions(compiled):
    layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def outputs(x):
        for layer in layers:
            x = torch.relu(layer(x))
            yield x

    @compiled
    def run(x):
        every = list(outputs(x))
        return sum(o.mean() for o in every) + torch.stack([o.max() for o in every if o.shape[0] > 2]).sum()

    for x, _ in batches(4):
        run(x).backward()
    return [p.grad for p in layers.parameters()]


def exceptions(compiled):
    log = []

    @compiled
    def run(x, kind):
        try:
            if kind == "bad":
                raise KeyError(kind)
            return torch.sin(x) * 2
        except KeyError as error:
            log.append(str(error))
            return torch.cos(x)
        finally:
            log.append("done")

    found = [run(x, kind) for (x, _), kind in zip(batches(6), ["good", "bad"] * 3, strict=True)]

    @compiled
    def checks(x):
        if x.shape[0] != 5:
            raise ValueError(f"{x.shape[0]} rows")
        return torch.tanh(x) + 1

    for rows in (5, 4, 5, 5):
        try:
            found.append(checks(torch.ones(rows, 6)))
        except ValueError as error:
            log.append(str(error))
    assert log == ["done", "'bad'", "done"] * 3 + ["4 rows"]
    return found


def nested(compiled):
    net = Net()
    inner = compiled(net)

    @compiled
    def middle(x):
        return inner(x).softmax(-1)

    @compiled
    def outer(x, depth=0):
        return middle(x) * 2 if depth else outer(x, depth + 1) + 1

    found = [outer(x) for x, _ in batches(4)]
    found[-1].sum().backward()
    return [*[f.detach() for f in found], *state(net)]


def whole_steps(compiled):
    net = Net()
    optimizer = optim.Adam(net.parameters(), 1e-2)
    update = compiled(optimizer.step)

    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        update()
        return loss.detach()

    return [*[step(x, y) for x, y in batches(6)], *state(net)]


def transforms(compiled):
    weight = torch.randn(6, 6)

    @compiled
    def energy(w, x):
        return torch.tanh(x @ w).pow(2).sum()

    @compiled
    def per_sample(w, x):
        return torch.func.vmap(torch.func.grad(energy), (None, 0))(w, x)

    return [per_sample(weight, x) for x, _ in batches(4)]


def second_derivatives(compiled):
    @compiled
    def run(x):
        return (x.sin() * x.exp()).sum()

    found = []
    for x, _ in batches(3):
        x.requires_grad_()
        (g,) = torch.autograd.grad(run(x), x, create_graph=True)
        (h,) = torch.autograd.grad(g.pow(2).sum(), x)
        found += [g.detach(), h]
    return found


class Meter:
    def __init__(self):
        self.count, self.history = 0, []

    def add(self, value):
        self.count += 1
        self.history.append(value)


def counters_and_caches(compiled):
    meter, cache = Meter(), {}

    class Positions(nn.Module):
        def forward(self, x):
            key = tuple(x.shape)
            if key not in cache:
                cache[key] = torch.linspace(0, 1, x.shape[-1])
            meter.add(x.shape[0])
            return x * cache[key].sin() + len(meter.history)

    run = compiled(Positions())
    found = [run(torch.ones(n, 4)) for n in (2, 3, 2, 2, 3, 3, 2)]
    assert meter.count == 7 and meter.history == [2, 3, 2, 2, 3, 3, 2] and len(cache) == 2
    return found


def freezing_and_moving(compiled):
    net = Net()
    run = compiled(net)
    found = []
    for i, (x, y) in enumerate(batches(8)):
        net.first.requires_grad_(i % 3 == 0)
        net.train(i % 2 == 0)
        if i == 5:
            net.double()
        x = x.double() if i >= 5 else x
        net.zero_grad()
        F.cross_entropy(run(x), y).backward()
        found += [p.grad for p in net.parameters() if p.grad is not None]
    return found


PROGRAMS = [
    dropout_batchnorm_scheduler, accumulation_and_averages, autocast_and_scaler, checkpointed, custom_function, hooks,
    tied_weights_buffers_dicts, named_and_data_classes, random_numbers, generators_and_comprehensions, exceptions,
    nested, whole_steps, transforms, second_derivatives, counters_and_caches, freezing_and_moving,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_gives_what_it_gives_without_compile(program):
    outcomes = []
    for compiled in (lambda f: f, lambda f: torch.compile(f, backend="numpy")):
        torch.manual_seed(0)
        found = program(compiled)
        outcomes.append((found, torch.rand(3)))
    (expected, wanted), (found, drawn) = outcomes
    assert torch.equal(drawn, wanted)  # as many random numbers were drawn
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


LIMITS = """
import torch


@torch.compile(fullgraph=True)
def masked(x):
    with torch.no_grad():
        positive = x > torch.iinfo(torch.int8).min
    return x.masked_fill(positive, torch.finfo(x.dtype).min) * 0.5


@torch.compile
def listed(x):
    return x * torch.arange(2, 4).tolist()[0]


for _ in range(3):
    assert masked(torch.ones(3))[0] == torch.finfo(torch.float32).min * 0.5
    assert listed(torch.ones(3))[0] == 2
assert masked._optimized.calls == [2, 1]
assert "tolist" in listed._optimized.breaks[0][1], listed._optimized.breaks
print("right")
"""


def test_a_program_under_torchs_name_is_compiled_as_under_gradlooms(tmp_path):
    path = tmp_path / "limits.py"
    ours = LIMITS.replace("import torch", "import gradloom as torch")
    for text, command in ((LIMITS, ["-m", "gradloom", "run"]), (ours, [])):
        path.write_text(text)
        done = subprocess.run([sys.executable, *command, str(path)], capture_output=True, text=True, timeout=LIMIT)
        assert done.stdout == "right\n", done.stderr


def pair(x):
    return (x + 1, x + 2), x * 3


def unpacked(x, pairs):
    (a, b), c = pair(x)
    first, (d, *e), *rest, (f, g) = x * 2, [x, x + 1, x + 2], 5.0, 6.0, pair(x)[0]
    for h, (i, j) in pairs:
        c = c + h * (i - j)
    k, (m, n) = 0.5, x
    return [a, b, c, first, d, *e, f, g, k * m + n, *[p * q for (p, q), _ in [(pair(x)[0], 1)]]], rest


@pytest.mark.parametrize("backend", ["numpy", "aot_eager"])
def test_only_what_a_program_unpacks_is_unpacked(backend):
    function = torch.compile(unpacked, backend=backend, fullgraph=True)
    x = torch.tensor([1.0, 2.0])
    pairs = [(x, (x * 2, x)), (x + 1, (x, x * 3))]
    for _ in range(3):
        torch.testing.assert_close(function(x, pairs), unpacked(x, pairs))
    assert function._optimized.calls == [2, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: sum(x, start=5),
        lambda x: sum([x, x], start=5),
        lambda x: sum([x, 2 * x], 5),
        lambda x: sum([1, 2], start=x),
        lambda x: sum(reversed([x, 2 * x]), start=x),
        lambda x: reversed(x) + 1,
    ],
)
def test_sums_and_reversed_tensors(function):
    compiled, x = torch.compile(function), torch.arange(3.0)
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))
    assert optimized_of(compiled).calls == [2, 1]
