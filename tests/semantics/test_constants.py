"""Names of the top level that are no functions."""

from __future__ import annotations

import math

import pytest


def test_numbers_have_names(torch):
    assert (torch.pi, torch.e, torch.inf) == (math.pi, math.e, math.inf) and math.isnan(torch.nan)


def test_newaxis_inserts_a_dimension(torch):
    assert torch.newaxis is None and torch.ones(2)[:, torch.newaxis].shape == (2, 1)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")  # once in a process
def test_storages_are_instances_of_their_classes(torch):
    t = torch.ones(2)
    assert isinstance(t.untyped_storage(), torch.UntypedStorage) and torch.is_storage(t.untyped_storage())
    assert isinstance(t.storage(), torch.TypedStorage)
