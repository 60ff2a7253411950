"""The recorded sessions of tests/nn and tests/optim are what PyTorch says."""

from pathlib import Path

import pytest

from tests.sessions import record, sections

FILES = sorted(Path(__file__).parents[1].glob("*/sessions/*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_recorded_from_pytorch(path):
    assert sections(path), "the file has sections"
    assert record(path) == path.read_text()
