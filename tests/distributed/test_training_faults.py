"""Ranks that are killed while they train; `python tests/distributed/faults.py --runs 100` does it more often."""

from __future__ import annotations

import os

import pytest

from tests.distributed import faults

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals and shared memory")


@pytest.mark.parametrize("number", range(len(faults.PARTS)), ids=faults.PARTS)
def test_the_others_end_and_the_checkpoint_is_whole(number):
    assert faults.run(number, seed=int.from_bytes(os.urandom(2), "little")) == []
