"""The programs for HIPS autograd, in its own idiom.

Where it has nothing like a program (views, backward from many results) there is none here,
and the table's cell stays empty.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter as clock

Sample = Callable[[], dict[str, float]]


def _forward_and_backward(program, inputs, gradient, calls=1) -> Sample:
    """Time tracing `program(*inputs)` with gradients for all inputs, and its backward pass."""
    from autograd import make_vjp

    # With a tuple of argument numbers the inputs are traced as one boxed tuple, as grad(f, (0, 1)) does.
    trace = make_vjp(program, tuple(range(len(inputs))))

    def sample():
        began = clock()
        vjp, _ = trace(*inputs)
        built = clock()
        vjp(gradient)
        return {"forward": (built - began) / calls, "backward": (clock() - built) / calls}

    return sample


def chain(np) -> Sample:
    def program(a, b):
        x = np.ones(4)
        for _ in range(1000):
            x = x * b
            x = x + a
        return x

    return _forward_and_backward(program, (np.full(4, 1e-3), np.full(4, 0.999)), np.ones(4), 2000)


def convnet(np) -> Sample:
    from autograd.scipy.signal import convolve

    def layer(x, weights, bias):  # weights: (channels in, channels out, 5, 5)
        x = convolve(x, weights, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")
        x = np.maximum(x + bias, 0)
        n, channels, height, width = x.shape
        return np.max(np.max(x.reshape(n, channels, height // 2, 2, width // 2, 2), axis=3), axis=4)

    def scores(params, images):
        k1, c1, k2, c2, w1, b1, w2, b2 = params
        x = layer(layer(images, k1, c1), k2, c2).reshape(-1, 800)
        return np.dot(np.maximum(np.dot(x, w1) + b1, 0), w2) + b2

    convolutions = (1, 20, 5, 5), (1, 20, 1, 1), (20, 50, 5, 5), (1, 50, 1, 1)
    return _training_step(np, scores, (*convolutions, (800, 500), (500,), (500, 10), (10,)), (64, 1, 28, 28))


def mlp(np) -> Sample:
    def scores(params, images):
        w1, b1, w2, b2 = params
        return np.dot(np.maximum(np.dot(images, w1) + b1, 0), w2) + b2

    return _training_step(np, scores, ((784, 500), (500,), (500, 10), (10,)), (64, 784))


def _training_step(np, scores, shapes, image_shape) -> Sample:
    from autograd import value_and_grad

    rng = np.random.RandomState(0)
    params = [rng.uniform(-0.04, 0.04, shape).astype("float32") for shape in shapes]
    moments = [np.zeros_like(value) for value in params]
    images, labels = rng.randn(*image_shape).astype("float32"), rng.randint(0, 10, 64)
    rows = np.arange(64)

    def loss(params):
        x = scores(params, images)
        x = x - np.max(x, axis=1, keepdims=True)
        log_p = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))
        return -np.mean(log_p[rows, labels])

    gradient = value_and_grad(loss)

    def sample():
        began = clock()
        _, grads = gradient(params)
        for value, grad, moment in zip(params, grads, moments, strict=True):
            moment *= 0.5
            moment += grad
            value -= 0.01 * moment
        return {"step": clock() - began}

    return sample


def elementwise(np) -> Sample:
    rng = np.random.RandomState(0)
    x, y = (rng.randn(1_000_000).astype("float32") for _ in range(2))
    return _forward_and_backward(lambda x, y: np.tanh(x * y + x), (x, y), np.ones_like(x))


def matmul(np) -> Sample:
    rng = np.random.RandomState(0)
    x, y = (rng.randn(256, 256).astype("float32") for _ in range(2))
    return _forward_and_backward(lambda x, y: np.dot(x, y), (x, y), np.ones_like(x))


def sum(np) -> Sample:
    from autograd import grad

    x = np.random.RandomState(0).randn(1_000_000).astype("float32")
    gradient = grad(np.sum)

    def sample():
        began = clock()
        gradient(x)
        return {"both": clock() - began}

    return sample


def long_graph(np) -> Sample:
    from autograd import make_vjp

    start, ones = np.ones(4), np.ones(4)

    def program(x):
        for _ in range(100_000):
            x = x * 1.00001
        return x

    trace = make_vjp(program)

    def sample():
        began = clock()
        vjp, _ = trace(start)
        built = clock()
        vjp(ones)
        run = clock()
        del vjp
        vjp, _ = trace(start)
        again = clock()
        del vjp, _
        return {"build": built - began, "backward": run - built, "free": clock() - again}

    return sample
