"""gradloom.optim answers as PyTorch did: every section of sessions/*.txt is a test."""

from pathlib import Path

import pytest

from tests.sessions import replay, sections

FILES = sorted((Path(__file__).parent / "sessions").glob("*.txt"))
CASES = [pytest.param(one, id=f"{path.stem}: {one.title}") for path in FILES for one in sections(path)]


@pytest.mark.parametrize("section", CASES)
def test_session(section):
    found = replay(section, "gradloom")
    assert not found.differences, "\n\n".join(map(str, found.differences))
    if found.missing:
        pytest.skip("not compared for want of operators: " + ", ".join(sorted(found.missing)))
