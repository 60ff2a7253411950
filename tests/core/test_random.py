"""Generators: seeding, saving and restoring, and what they refuse."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from gradloom import random as generator
from gradloom.kernels.random import distributions
from gradloom.random import Generator
from tests.waiting import LIMIT

FLOAT32 = np.dtype(np.float32)


def numbers(source, n=5):
    return distributions.draw_normal((source or generator.default_generator)._stream, (n,), FLOAT32).tolist()


def test_seeding():
    one = Generator()
    assert one.initial_seed() == 67280421310721 and one.device.type == "cpu"
    assert one.manual_seed(-1) is one and one.initial_seed() == 2**64 - 1
    first = numbers(one.manual_seed(7))
    assert first == numbers(one.manual_seed(7)) != numbers(one)
    assert first == numbers(one.manual_seed(2**32 + 7)), "only the low 32 bits count"
    assert one.seed() == one.initial_seed()


def test_default_generator():
    assert generator.manual_seed(3.7) is generator.default_generator and generator.initial_seed() == 3
    drawn = numbers(None)
    assert drawn == numbers(Generator().manual_seed(3))
    assert generator.seed() == generator.initial_seed()


@pytest.mark.parametrize("before", [0, 1, 3, 623, 624, 625])
def test_state_round_trip(before):
    """At every place of a block of words, and with a normal number cached."""
    source = Generator().manual_seed(2**50 + 1)
    distributions.draw_uniform(source._stream, (before,), FLOAT32)
    numbers(source, before % 2)
    state = source.get_state()
    assert state.shape == (5056,) and state._array.dtype == np.uint8
    expected = numbers(source, 1000)
    for restored in (source.clone_state(), copy.deepcopy(source), pickle.loads(pickle.dumps(source))):
        assert restored.initial_seed() == 2**50 + 1
        restored.set_state(state)
        assert numbers(restored, 1000) == expected
    clone = source.clone_state()
    assert numbers(source, 3) == numbers(clone, 3)


def test_fork_rng():
    generator.manual_seed(1)
    with generator.fork_rng():
        inside = numbers(None)
    assert inside == numbers(None)
    generator.manual_seed(1)
    with generator.fork_rng(enabled=False):
        inside = numbers(None)
    assert inside != numbers(None)


def test_refusals():
    source = Generator()
    for wrong in (1.5, "a", True, None):
        with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
            source.manual_seed(wrong)
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="Overflow"):
            source.manual_seed(wrong)
    with pytest.raises(RuntimeError, match="cuda"):
        Generator("cuda")
    for offset in (source.get_offset, lambda: source.set_offset(1)):
        with pytest.raises(RuntimeError, match="does not use offset"):
            offset()
    with pytest.raises(TypeError, match="ByteTensor"):
        source.set_state(np.zeros(5056, np.uint8))
    state = source.get_state()
    for wrong, message in ((state._array[:10], "size to be 10"), (state._array * 0, "Invalid mt19937 state")):
        with pytest.raises(RuntimeError, match=message):
            source._stream.from_bytes(wrong)


def test_numpy_random_is_imported_at_the_first_draw():
    program = """
import sys, gradloom.random as g
g.manual_seed(1)
assert 'numpy.random' not in sys.modules
g.get_rng_state()
assert 'numpy.random' in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT)
