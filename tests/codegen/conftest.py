import shutil

import pytest

from tests.codegen.cases import BASE


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Make a copy of errors/base the current folder: a value that were executed would leave its file there."""
    folder = tmp_path / "checkout"
    shutil.copytree(BASE, folder)
    monkeypatch.chdir(folder)
    return folder
