import os
import shutil

import pytest

from tests.codegen.cases import BASE


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch):
    """No test pulls the plug: thousands of files need not reach the disk before the next step."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Make a copy of errors/base the current folder: a value that were executed would leave its file there."""
    folder = tmp_path / "checkout"
    shutil.copytree(BASE, folder)
    monkeypatch.chdir(folder)
    return folder
