"""Statements that programs contain, on small tensors, where the time of a call is not that of its arithmetic.

Each is one row, forward (with history, where an input asks for a gradient) and backward. They see the names that
`_names` returns: `x` and `y` of shape (32, 32), `v` and `w` of shape (32,), all float32 and asking for gradients.

A call takes microseconds, and a busy or virtual machine slows down for seconds at a time. So times are those of the
processor, every statement is visited in several passes over all of them, and the table shows a low quantile.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time as clock

CALLS = 20  # of one sample
LLVM = "llvm: "  # before a statement: with gradloom's machine code in the place of kernels

STATEMENTS = (
    # arithmetic
    *("x + y", "x - y", "x * y", "x / y", "x + 1", "2 * x", "1 - x", "x / 3", "x + v", "x * scalar", "x ** 2", "-x"),
    *("x @ y", "x @ v", "torch.outer(v, w)", "torch.addmm(v, x, y)", "torch.einsum('ij,kj->ik', x, y)"),
    *("torch.bmm(image[0], image[0])", "torch.cdist(x, y)"),
    # elementwise functions
    *("x.exp()", "positive.log()", "positive.sqrt()", "x.tanh()", "x.sigmoid()", "x.sin()", "x.abs()", "x.square()"),
    *("x.clamp(-1, 1)", "x.erf()", "F.relu(x)", "F.gelu(x)", "F.silu(x)", "F.leaky_relu(x)", "F.elu(x)"),
    *("F.softplus(x)", "F.dropout(x, 0.1)", "torch.maximum(x, y)"),
    # comparisons and masks
    *("x > 0", "x == y", "mask & mask", "mask.any()", "torch.where(mask, x, y)", "x.masked_fill(mask, 0.0)"),
    # reductions
    *("x.sum()", "x.sum(1)", "x.mean()", "x.mean(0)", "x.max()", "x.max(1)", "x.amax(1)", "x.argmax(1)", "x.prod(1)"),
    *("x.std()", "x.var(1)", "x.norm()", "x.logsumexp(1)", "x.cumsum(1)", "x.topk(5)", "x.sort(1)"),
    # shapes
    *("x.reshape(-1)", "x.view(4, 8, 32)", "x.t()", "x.transpose(0, 1)", "x.permute(1, 0)", "x.unsqueeze(0)"),
    *("x.flatten()", "v.expand(32, 32)", "v.repeat(4, 1)", "torch.cat([x, y])", "torch.stack([x, y])", "x.chunk(4)"),
    *("x.split(8)", "x.tril()", "x.roll(1, 0)", "x.flip(0)", "x.t().contiguous()", "F.pad(x, (1, 1))"),
    # indexing
    *("x[0]", "x[1:5]", "x[:, 3]", "x[None]", "x[index]", "x[index, index]", "x[mask]", "x.gather(1, indices)"),
    *("x.index_select(0, index)", "torch.zeros(32, 32).scatter_add(1, indices, x)", "set_item(x, w)", "x.diagonal()"),
    # neural networks
    *("F.linear(x, y, v)", "F.softmax(x, 1)", "F.log_softmax(x, 1)", "F.cross_entropy(x, labels)"),
    *("F.nll_loss(x, labels)", "F.mse_loss(x, y)", "F.binary_cross_entropy_with_logits(x, target)"),
    *("F.layer_norm(x, (32,), v, w)", "F.batch_norm(x, None, None, v, w, True)", "F.embedding(index, x)"),
    *("F.conv2d(image, weight, padding=1)", "F.max_pool2d(image, 2)", "F.avg_pool2d(image, 2)", "F.normalize(x)"),
    *("F.one_hot(labels, 32)", "F.scaled_dot_product_attention(image, image, image)"),
    # making tensors
    *("torch.zeros(32, 32)", "torch.ones(32, 32)", "torch.full((32, 32), 0.5)", "torch.arange(32)"),
    *("torch.randn(32, 32)", "torch.rand(32, 32)", "torch.randint(0, 9, (32,))", "torch.tensor([1.0, 2.0, 3.0])"),
    *("torch.zeros_like(x)", "x.detach()", "x.clone()", "x.double()", "scalar.item()", "x.numpy(force=True)"),
)


def program(statement: str, kernels: str | None = None) -> Callable:
    """Return the program (as in rows_torch.py) that times `statement`.

    `kernels` is what gradloom's `set_kernels` gets.
    """

    def prepare(torch):
        sample = _prepared(torch, statement)
        if not hasattr(torch, "set_kernels"):
            return sample

        def with_kernels():  # a program sets them once: most calls of this find them set
            torch.set_kernels(kernels or "numpy")
            return sample()

        with_kernels()
        return with_kernels

    return prepare


def _prepared(torch, statement: str) -> Callable:
    names = _names(torch)
    leaves = [value for value in names.values() if isinstance(value, torch.Tensor) and value.is_leaf]
    run = eval(f"lambda: {statement}", names)
    backward = _backward(torch, run())

    def sample():
        for leaf in leaves:
            leaf.grad = None
        results = []
        began = clock()
        for _ in range(CALLS):
            results.append(run())
        built = clock()
        if backward is None:
            return {"forward": (built - began) / CALLS}
        for result in results:
            backward(result)
        return {"forward": (built - began) / CALLS, "backward": (clock() - built) / CALLS}

    return sample


def _backward(torch, result) -> Callable | None:
    """Return what calls backward on results like this one, None if they have no history."""
    several = isinstance(result, (tuple, list))
    first = result[0] if several else result
    if not isinstance(first, torch.Tensor) or not first.requires_grad:
        return None
    ones = torch.ones_like(first)
    if several:
        return lambda result: result[0].backward(ones)
    return lambda result: result.backward(ones)


def _names(torch) -> dict:
    torch.manual_seed(0)
    x, y, v, w = (torch.randn(*shape, requires_grad=True) for shape in [(32, 32), (32, 32), (32,), (32,)])

    def set_item(x, row):
        copy = x.clone()
        copy[3] = row
        return copy

    return {
        "torch": torch,
        "F": torch.nn.functional,
        "x": x,
        "y": y,
        "v": v,
        "w": w,
        "scalar": torch.tensor(0.5, requires_grad=True),
        "positive": (torch.rand(32, 32) + 0.5).requires_grad_(),
        "target": torch.rand(32, 32),
        "mask": torch.rand(32, 32) > 0.5,
        "index": torch.arange(0, 32, 2),
        "indices": torch.randint(0, 32, (32, 32)),
        "labels": torch.randint(0, 32, (32,)),
        "image": torch.randn(1, 4, 32, 32, requires_grad=True),
        "weight": torch.randn(4, 4, 3, 3, requires_grad=True),
        "set_item": set_item,
    }
