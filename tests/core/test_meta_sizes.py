"""Operators on huge tensors of the meta device: no memory that depends on their size, forward and backward."""

import math
import subprocess
import sys
import tracemalloc

import pytest

import gradloom as torch
from gradloom import nn
from tests.waiting import LIMIT

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


M = 2**20
LINE = (2**40,)


def huge(*size, dtype=torch.float32):
    return torch.empty(*(size or (M, M)), device="meta", dtype=dtype)


def picture():
    return huge(1, 1, M, M)


# Calls on 2**40 elements whose results have sizes that the operator computes.
HUGE = {
    "arange": (lambda: torch.arange(1, 2**40, 3, device="meta"), (366503875925,)),
    "arange of floats": (lambda: torch.arange(0.0, 2.0**39, 0.5, device="meta"), LINE),
    "linspace": (lambda: torch.linspace(0, 1, 2**40, device="meta"), LINE),
    "eye": (lambda: torch.eye(M, device="meta"), (M, M)),
    "tril_indices": (lambda: torch.tril_indices(M, M, device="meta"), (2, M * (M + 1) // 2)),
    "triu_indices": (lambda: torch.triu_indices(M, M, 1, device="meta"), (2, M * (M - 1) // 2)),
    "hann_window": (lambda: torch.hann_window(2**40, device="meta"), LINE),
    "randperm": (lambda: torch.randperm(2**40, device="meta"), LINE),
    "rfftfreq": (lambda: torch.fft.rfftfreq(2**40, device="meta"), (2**39 + 1,)),
    "transpose_copy": (lambda: torch.transpose_copy(huge(2, 2**39), 0, 1), (2**39, 2)),
    "unfold_copy": (lambda: torch.unfold_copy(huge(2**40), 0, 3, 2), (2**39 - 1, 3)),
    "split_copy": (lambda: torch.split_copy(huge(2**40), 2**39)[1], (2**39,)),
    "narrow_copy": (lambda: torch.narrow_copy(huge(), 0, 5, 2**19), (2**19, M)),
    "select_scatter": (lambda: huge().select_scatter(huge(M), 0, 2**19), (M, M)),
    "slice_scatter": (lambda: huge().slice_scatter(huge(2**19, M), 0, 0, 2**19), (M, M)),
    "scatter_add": (lambda: huge().scatter_add(0, indices(M, M), huge()), (M, M)),
    "irfft": (lambda: torch.fft.irfft(huge(dtype=torch.complex64)), (M, 2 * M - 2)),
    "stft": (lambda: torch.stft(huge(2**40), 1024, window=huge(1024), return_complex=True), (513, 2**32 + 1)),
    "unfold": (lambda: F.unfold(picture(), 3), (1, 9, (M - 2) ** 2)),
    "fold": (lambda: F.fold(huge(1, 9, (M - 2) ** 2), (M, M), 3), (1, 1, M, M)),
    "glu": (lambda: F.glu(huge()), (M, M // 2)),
    "max_pool2d": (lambda: F.max_pool2d(picture(), 3, ceil_mode=True), (1, 1, 349526, 349526)),
    "avg_pool2d": (lambda: F.avg_pool2d(picture(), 3, 2, 1), (1, 1, M // 2, M // 2)),
    "adaptive_max_pool2d": (lambda: F.adaptive_max_pool2d(picture(), 7), (1, 1, 7, 7)),
    "interpolate": (lambda: F.interpolate(picture(), scale_factor=2, mode="bilinear"), (1, 1, 2 * M, 2 * M)),
    "reflection_pad2d": (lambda: F.pad(picture(), (1, 1, 2, 2), "reflect"), (1, 1, M + 4, M + 2)),
    "grid_sample": (lambda: F.grid_sample(picture(), huge(1, M, 3, 2), align_corners=True), (1, 1, M, 3)),
    "affine_grid": (lambda: F.affine_grid(huge(1, 2, 3), (1, 1, M, M), align_corners=True), (1, M, M, 2)),
    "pixel_shuffle": (lambda: F.pixel_shuffle(huge(1, 16, M, M // 16), 4), (1, 1, 4 * M, M // 4)),
    "block_diag": (lambda: torch.block_diag(huge(), huge()), (2 * M, 2 * M)),
    "conv_tbc": (lambda: torch.conv_tbc(huge(M, 1024, 1024), huge(3, 1024, 5), huge(5)), (M - 2, 1024, 5)),
    "lstm": (lambda: nn.LSTM(1024, 512, device="meta")(huge(M, 1024, 1024))[0], (M, 1024, 512)),
    "pdist": (lambda: F.pdist(huge()), (M * (M - 1) // 2,)),
    "segment_reduce": (lambda: torch.segment_reduce(huge(), "sum", lengths=indices(7)), (7, M)),
    "multinomial": (lambda: torch.multinomial(huge(), 5), (M, 5)),
    "pad_sequence": (lambda: nn.utils.rnn.pad_sequence([huge(2**39, 2), huge(5, 2)]), (2**39, 2, 2)),
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.filterwarnings("ignore")
def test_computed_sizes_take_no_memory(name):
    call, shape = HUGE[name]
    tracemalloc.start()
    try:
        found = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.is_meta and found.shape == shape
    assert peak < MOST


WRONG = {
    "products": (lambda: huge() @ huge(5, M), "cannot be multiplied (1048576x1048576 and 5x1048576)"),
    "elementwise": (lambda: huge() + huge(7), "tensor a (1048576) must match the size of tensor b (7)"),
    "glu": (lambda: F.glu(huge(M, M + 1)), "Halving dimension must be even, but dimension 1 is size 1048577"),
    "fold": (lambda: F.fold(huge(1, 9, 2**39), (M, M), 3), "1048574 * 1048574 = 1099507433476, but got"),
    "select_scatter": (lambda: huge().select_scatter(huge(5), 0, 0), "src size = [5], slice size = [1048576]"),
    "pad of avg_pool2d": (lambda: F.avg_pool2d(picture(), 3, padding=2), "at most half of effective kernel size"),
    "split": (lambda: huge().split_with_sizes([2**19, 2**18]), "1048576"),
    "no shape rule": (lambda: torch.histogram(huge(2**40), 10), "cannot be told without memory of that size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_true_sizes(name):
    call, words = WRONG[name]
    with pytest.raises((RuntimeError, NotImplementedError)) as caught:
        call()
    assert words in str(caught.value)


def test_packed_sequences_keep_their_lengths_on_the_cpu():
    packed = nn.utils.rnn.pack_padded_sequence(huge(5, 3, 2**38), torch.tensor([5, 4, 2]))
    assert packed.data.shape == (11, 2**38) and packed.batch_sizes.tolist() == [3, 3, 2, 2, 1]
    padded, lengths = nn.utils.rnn.pad_packed_sequence(packed)
    assert padded.shape == (5, 3, 2**38) and padded.is_meta and lengths.tolist() == [5, 4, 2]


def test_operators_tagged_as_dependent_on_values_are_refused():
    for call in (lambda: huge().nonzero(), lambda: huge().equal(huge()), lambda: torch.bincount(indices(5))):
        with pytest.raises(NotImplementedError):
            call()


def test_a_wrapper_subclass_may_be_on_the_meta_device():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            found = func(*[a.inner if isinstance(a, Wrapper) else a for a in args], **(kwargs or {}))
            return Wrapper(found) if isinstance(found, torch.Tensor) else found

    x = Wrapper(huge()).requires_grad_()
    y = x @ x
    assert y.device.type == "meta" and y.is_meta and isinstance(y, Wrapper) and y.shape == (M, M)
    y.sum().backward()
    assert isinstance(x.grad, Wrapper) and x.grad.is_meta
    assert Wrapper(torch.ones(2)).device.type == "cpu"


SHAPES_ONLY = """
import sys
import gradloom as torch
x = torch.empty(3, 4, device="meta")
print(torch.erf(x).shape == torch.nn.functional.gelu(x).shape == x.shape, torch.erfc(x.double()).dtype)
print("scipy.special" in sys.modules, torch.erf(torch.tensor([0.5])).item())
"""


def test_shapes_are_told_without_scipy():
    """The import of SciPy takes longer than everything else that the meta device and the compiler do."""
    found = subprocess.run(
        [sys.executable, "-c", SHAPES_ONLY], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    first, second = found.stdout.splitlines()
    assert first == "True torch.float64"
    assert second.split()[0] == "False" and abs(float(second.split()[1]) - math.erf(0.5)) < 1e-6
