"""Members of torch.Tensor that gradloom lacks: reading one says so, and nothing else shows that there is anything."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradloom
from gradloom.types.absent_names import NAMES

ABSENT = NAMES["torch.Tensor"].split()


class Mine(gradloom.Tensor):
    pass


@pytest.mark.parametrize("name", ABSENT)
def test_reading_it_says_that_it_is_not_there_yet(name):
    tensor = gradloom.ones(2)
    for owner in (tensor, gradloom.Tensor, gradloom.nn.Parameter(tensor), tensor.as_subclass(Mine), Mine):
        with pytest.raises(
            AttributeError, match=rf"{__file__}:\d+: gradloom has no torch\.Tensor\.{name} yet; docs/absent"
        ) as e:
            getattr(owner, name)
        assert (e.value.name, e.value.obj) == (name, owner) if isinstance(owner, type) else e.value.obj is owner
        assert not hasattr(owner, name) and getattr(owner, name, None) is None


def test_other_names_have_pythons_error():
    with pytest.raises(AttributeError, match="^'Tensor' object has no attribute 'surely_absent'$"):
        gradloom.ones(2).surely_absent  # noqa: B018
    with pytest.raises(AttributeError, match="^type object 'Tensor' has no attribute 'surely_absent'$"):
        gradloom.Tensor.surely_absent  # noqa: B018


def test_a_tensor_does_not_list_them():
    assert set(dir(gradloom.ones(2))).isdisjoint(ABSENT)
    assert set(vars(gradloom.Tensor)).isdisjoint(ABSENT)


def test_a_program_may_use_the_names():
    tensor = gradloom.ones(2)
    tensor.index = "mine"
    assert [t.index for t in (tensor, copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)))] == ["mine"] * 3
    Mine.qscheme = lambda self: "own"
    assert tensor.as_subclass(Mine).qscheme() == "own" and not hasattr(tensor, "qscheme")
    del Mine.qscheme
