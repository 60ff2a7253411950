"""Samples written by hand, a module per family, for operators whose schema is not specific enough.

SAMPLES maps an operator's full name to a function that yields (args, kwargs); CONSTANT maps it to the arguments without
a derivative that its entry cannot declare; CALLS to a function that takes the operator's and returns the one to call
instead, where arguments must be functions of one another for the derivative to be right.
"""

from __future__ import annotations

import numpy as np

import gradloom


def tensor(*shape, low=0.3, high=1.7, seed=0, complex=False):
    """Return distinct float64 numbers in random order."""
    random = np.random.default_rng((seed, *shape))
    n = int(np.prod(shape))
    values = random.permutation(np.linspace(low, high, n)) if n else np.zeros(0)
    if complex:
        values = values + 1j * random.permutation(values)
    return gradloom.from_numpy(np.asarray(values.reshape(shape)))


def transposed(*shape):
    """Return a tensor with its first and last dimensions swapped, so that it is not contiguous."""
    return tensor(*shape).transpose(0, -1)


def integers(*values):
    """Return an int64 vector."""
    return gradloom.tensor(values, dtype=gradloom.int64)


def calls(*samples):
    """Yield samples given as tuples of arguments; a dict at the end holds keyword arguments."""

    def function():
        for sample in samples:
            given = sample[-1] if sample and isinstance(sample[-1], dict) else {}
            yield (sample[:-1] if given else sample), given

    return function
