"""Operators on huge tensors of the meta device: no memory that depends on their size, forward and backward."""

import tracemalloc

import pytest

import gradloom as torch
from gradloom import nn

F = nn.functional
MOST = 64 << 20  # bytes; the smallest of the tensors below have 100 times as many


def empty(*size, **options):
    return torch.empty(*size, device="meta", requires_grad=True, **options)


def big():
    return empty(100_000, 100_000)


def images():
    return empty(256, 512, 224, 224)


def words():
    return empty(512, 4096, 1024)


def indices(*size):
    return torch.empty(*size, dtype=torch.int64, device="meta")


N = 100_000
CALLS = {
    "mul": (lambda: big() * big(), (N, N)),
    "matmul": (lambda: big() @ big(), (N, N)),
    "linear": (lambda: nn.Linear(10**6, 10**6, device="meta")(empty(64, 10**6)), (64, 10**6)),
    "sum": (lambda: big().sum(0), (N,)),
    "mean": (lambda: big().mean(), ()),
    "var": (lambda: images().var((2, 3)), (256, 512)),
    "max": (lambda: big().max(1)[0], (N,)),
    "softmax": (lambda: big().softmax(-1), (N, N)),
    "cumsum": (lambda: big().cumsum(0), (N, N)),
    "sort": (lambda: big().sort(-1)[0], (N, N)),
    "topk": (lambda: big().topk(50)[0], (N, 50)),
    "where": (lambda: torch.where(big() > 0, big(), 0.0), (N, N)),
    "views": (lambda: big().view(-1)[::3].reshape(-1, 1)[5:].T, (1, 3333333329)),
    "copied view": (lambda: big().T.reshape(-1), (10**10,)),
    "indices": (lambda: big()[indices(7)], (7, N)),
    "gather": (lambda: big().gather(0, indices(4096, 4096)), (4096, 4096)),
    "cat": (lambda: torch.cat([images(), images()], 1), (256, 1024, 224, 224)),
    "stack": (lambda: torch.stack([big(), big()]), (2, N, N)),
    "pad": (lambda: F.pad(images(), (1, 1, 2, 2)), (256, 512, 228, 226)),
    "repeat": (lambda: words().repeat(1, 10, 1), (512, 40960, 1024)),
    "conv2d": (lambda: nn.Conv2d(512, 1024, 3, padding=1, stride=2, device="meta")(images()), (256, 1024, 112, 112)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(512, 64, 2, 2, device="meta")(images()), (256, 64, 448, 448)),
    "max_pool2d": (lambda: F.max_pool2d(images(), 2), (256, 512, 112, 112)),
    "avg_pool2d": (lambda: F.avg_pool2d(images(), 3, 2), (256, 512, 111, 111)),
    "adaptive_avg_pool2d": (lambda: F.adaptive_avg_pool2d(images(), 1), (256, 512, 1, 1)),
    "interpolate": (lambda: F.interpolate(images(), scale_factor=2), (256, 512, 448, 448)),
    "batch_norm": (lambda: nn.BatchNorm2d(512, device="meta")(images()), (256, 512, 224, 224)),
    "group_norm": (lambda: nn.GroupNorm(32, 512, device="meta")(images()), (256, 512, 224, 224)),
    "layer_norm": (lambda: nn.LayerNorm(1024, device="meta")(words()), (512, 4096, 1024)),
    "embedding": (lambda: nn.Embedding(10**6, 4096, device="meta")(indices(4096, 4096)), (4096, 4096, 4096)),
    "attention": (lambda: F.scaled_dot_product_attention(*[empty(64, 32, 8192, 128)] * 3), (64, 32, 8192, 128)),
    "encoder": (lambda: nn.TransformerEncoderLayer(1024, 16, device="meta")(words()), (512, 4096, 1024)),
    "dropout": (lambda: F.dropout(images()), (256, 512, 224, 224)),
    "cross_entropy": (lambda: F.cross_entropy(big(), indices(N)), ()),
    "rfft": (lambda: torch.fft.rfft(big()), (N, N // 2 + 1)),
    "solve": (lambda: torch.linalg.solve(big(), big()), (N, N)),
    "einsum": (lambda: torch.einsum("ij,jk->ik", big(), big()), (N, N)),
    "random": (lambda: torch.randn(N, N, device="meta", requires_grad=True), (N, N)),
}


@pytest.mark.parametrize("name", CALLS)
def test_memory_does_not_depend_on_sizes(name):
    call, shape = CALLS[name]
    tracemalloc.start()
    try:
        found = call()
        if found.is_floating_point():
            found.sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.is_meta and found.shape == shape
    assert peak < MOST


def test_sizes_that_an_operator_computes_are_not_taken_for_others():
    x = torch.empty(100, 7, 9, device="meta")
    assert F.unfold(torch.empty(20, 50, 30, 40, device="meta"), 3).shape == (20, 450, 1064)
    assert torch.diag_embed(x, 3).shape == (100, 7, 12, 12)
    assert torch.multinomial(torch.empty(100, 70, device="meta"), 5).shape == (100, 5)
    assert torch.kron(x[0], x[0]).shape == (49, 81)
    assert torch.randperm(10**4, device="meta").shape == (10**4,)
    assert torch.tril_indices(100, 100, device="meta").shape == (2, 5050)


def test_a_tensor_of_another_class_is_of_its_class_on_the_meta_device():
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2, 3).as_subclass(Mine)
    assert isinstance(torch.empty(2, device="meta").as_subclass(Mine), Mine)
    assert isinstance(nn.Parameter(torch.empty(2, device="meta")), nn.Parameter)
    assert x.to("meta").is_meta
