"""gradloom.nn.functional: what it exports, and what it says about operators that there are not."""

import pytest

from gradloom.nn import functional as F
from gradloom.nn._functional import operators


def test_every_exported_name_is_there_or_says_which_operator_is_not():
    for name in F.__all__:
        try:
            assert callable(getattr(F, name))
        except NotImplementedError as error:
            assert "gradloom has no operator" in str(error)


def test_a_missing_operator_is_named():
    with pytest.raises(NotImplementedError, match="no operator 'surely_absent'"):
        operators.__getattr__("surely_absent")


def test_a_name_that_is_no_function_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'gradloom.nn.functional' has no attribute 'absent'"):
        F.__getattr__("absent")
    assert "absent" not in dir(F) and "relu" in dir(F)
