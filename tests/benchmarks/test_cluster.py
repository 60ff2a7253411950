"""The cost model has the limits that it must have, and the benchmark of several ranks runs."""

from __future__ import annotations

import json
import os

import cluster
import cluster_model as model
import pytest

K = model.Constants(**json.loads(model.CONSTANTS.read_text())["constants"])
ALPHA, BETA, GAMMA = 1e-5, 1e-9, 1e-10


@pytest.mark.parametrize("name", model.ALGORITHMS)
def test_two_ranks_send_at_least_their_bytes_once_and_at_most_twice(name):
    n = 1e9
    seconds = model.ALGORITHMS[name](n, 2, ALPHA, BETA, GAMMA)
    assert n * BETA <= seconds <= 2 * n * (BETA + GAMMA)


def test_the_algorithms_cross_where_they_should():
    for p in (8, 64, 1024):
        n = model.crossover(p, ALPHA, BETA, GAMMA)
        for size, faster, slower in (
            (n / 2, model.tree, model.reduce_scatter),
            (2 * n, model.reduce_scatter, model.tree),
        ):
            assert faster(size, p, ALPHA, BETA, GAMMA) < slower(size, p, ALPHA, BETA, GAMMA)
        assert model.reduce_scatter(1, p, ALPHA, BETA, GAMMA) < model.ring(1, p, ALPHA, BETA, GAMMA)


def test_buckets_are_those_of_the_reducer():
    from gradloom.distributed import _reducer
    from gradloom.distributed._engines import _segment

    assert (model.FIRST, model.CHUNK) == (_reducer.FIRST_BUCKET, _segment.CHUNK)
    for nbytes in (*model.MODELS.values(), 5, model.FIRST, model.FIRST + model.BUCKET):
        assert sum(model.buckets(nbytes)) == nbytes and all(model.buckets(nbytes))


def test_overlap_hides_communication_but_never_makes_it_vanish():
    for seconds in (1e-4, 1e-2, 1.0):
        steps = [model.simulate(100 << 20, 0.1, 0.3, 0.1, lambda n, s=seconds: s, overlap) for overlap in (True, False)]
        assert steps[0].total <= steps[1].total
        assert steps[0].total >= max(0.5, steps[0].busy) and steps[1].exposed == pytest.approx(steps[1].busy)
    assert model.simulate(1 << 20, 0.1, 0.3, 0.1, lambda n: 0.0).total == pytest.approx(0.5)


def test_more_nodes_and_slower_networks_are_never_better():
    for name in model.MODELS:
        for network in model.NETWORKS:
            totals = [model.on_cluster(name, p, network, K).total for p in model.NODES]
            assert totals == sorted(totals)
        assert model.on_cluster(name, 64, "10 Gb/s", K).total > model.on_cluster(name, 64, "100 Gb/s", K).total


def test_a_fit_finds_the_constants_of_made_up_measurements():
    true = model.Constants(1e-4, 4e-10, 4e-10 / 3, dict.fromkeys(cluster.MODELS, 0.05), 0.15, 0.25, 2, 1.2)
    made = {
        "cores": 2,
        "allreduce": {str(n): {"gradloom": model.shared_memory(n, 2, true)} for n in cluster.SIZES},
        "steps": {
            name: {str(p): {"gradloom": model.on_this_machine(name, p, true)} for p in (1, 2)}
            for name in cluster.MODELS
        },
    }
    found = model.fit(made)
    assert found.sync == pytest.approx(true.sync, rel=1e-6) and found.byte == pytest.approx(true.byte, rel=1e-6)
    assert found.sharing == pytest.approx(true.sharing, rel=1e-6)


def test_the_sizes_of_the_models_are_right():
    for name, widths in cluster.MODELS.items():
        count = sum(width * wider + wider for width, wider in zip(widths, widths[1:], strict=False))
        assert model.MODELS[name] == pytest.approx(4 * count, rel=0.1)


@pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")
def test_ranks_answer_with_times(tmp_path):
    party = cluster.Party("gradloom", 2, tmp_path)
    try:
        seconds = party.ask("allreduce", 1 << 16) + party.ask("step", "2.7 MB")
    finally:
        party.close()
    assert len(seconds) >= 2 and all(one > 0 for one in seconds)
