"""Sobol sequences: the same numbers as PyTorch's."""

import pytest
import torch

import gradloom


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 5, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sobol_engines_draw_the_same(dimension, scramble, dtype):
    engines = [library.quasirandom.SobolEngine(dimension, scramble, seed=3) for library in (gradloom, torch)]

    def same(act):
        ours, theirs = (act(engine, library) for engine, library in zip(engines, (gradloom, torch), strict=True))
        assert ours.numpy().dtype == theirs.numpy().dtype and (ours.numpy() == theirs.numpy()).all()
        assert engines[0].num_generated == engines[1].num_generated and repr(engines[0]) == repr(engines[1])
        assert (engines[0].quasi.numpy() == engines[1].quasi.numpy()).all()

    same(lambda engine, library: engine.draw(dtype=getattr(library, dtype)))
    same(lambda engine, library: engine.draw(6, dtype=getattr(library, dtype)))
    same(lambda engine, library: engine.fast_forward(9).draw(2, library.empty(0)))
    same(lambda engine, library: engine.reset().fast_forward(4).draw_base2(2))
    assert (engines[0].sobolstate.numpy() == engines[1].sobolstate.numpy()).all()


def test_scrambling_draws_from_the_default_generator():
    points = []
    for library in (gradloom, torch):
        library.manual_seed(5)
        points.append(library.quasirandom.SobolEngine(4, scramble=True).draw(3).numpy())
    assert (points[0] == points[1]).all()
