"""The generic operator test: every entry of native_functions.yaml, with what its derivatives claim.

An operator needs no registration here. Its samples come from its schema and `domain:`, or from SAMPLES in
tests/ops/samples/<family>.py, which maps full names to functions that yield (args, kwargs). An operator for which
neither gives a sample fails.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import pytest

from .checks import Sample, check_first_order, check_second_order, check_variants, differentiable_names
from .operators import operators
from .sampler import NoSamples
from .sampler import samples as schema_samples


@cache
def family_samples(family: str, table: str = "SAMPLES") -> dict:
    """SAMPLES of a family; or CONSTANT, the arguments without a derivative of composites, which cannot say so."""
    try:
        return getattr(import_module(f"tests.ops.samples.{family}"), table, {})
    except ModuleNotFoundError as error:
        if error.name != f"tests.ops.samples.{family}":
            raise
        return {}


def samples(operator) -> list[Sample]:
    """The samples of an operator.

    Raises:
        NoSamples: if there are none.
    """
    own = family_samples(operator.family).get(operator.name)
    names = differentiable_names(operator)
    constant = family_samples(operator.family, "CONSTANT").get(operator.name)
    if constant:
        names = {a.python_name for a in operator.schema.inputs} - set(constant)
    found = [Sample(operator, *operator.completed(args, kwargs), names)
             for args, kwargs in (own() if own is not None else schema_samples(operator))]
    if not found:
        raise NoSamples(operator.name)
    return found


@pytest.mark.parametrize("operator", operators(), ids=lambda o: o.name)
def test_operator(operator):
    """Variants, first and second derivatives, both modes."""
    try:
        cases = samples(operator)
    except NoSamples as error:
        pytest.fail(f"no samples for {operator.name} ({error}): give its entry a `domain:`, or add it to SAMPLES in "
                    f"tests/ops/samples/{operator.family}.py")
    for case in cases:
        if operator.schema.kind == "functional":
            check_variants(case)
            if operator.differentiable:
                check_first_order(case)
                check_second_order(case)
        else:
            args, kwargs = case.with_inputs([x.detach() for x in case.inputs()])
            operator.call(*args, **kwargs)


def test_families_have_the_same_names_in_every_room():
    """One family, one name: samples exist only for families that exist."""
    from .operators import ROOT

    families = {o.family for o in operators()}
    for path in (ROOT / "tests" / "ops" / "samples").glob("*.py"):
        assert path.stem in families | {"__init__"}, f"{path.name}: there is no family {path.stem}"
    for room in ("functions", "variable_type"):
        for path in (ROOT / "generated" / room).glob("*.py"):
            assert path.stem in families | {"__init__"}, f"generated/{room}/{path.name}: no such family"


def test_samples_name_operators_that_exist():
    """A sample for an operator that was renamed would test nothing."""
    names = {o.name for o in operators()}
    for family in {o.family for o in operators()}:
        unknown = set(family_samples(family)) - names
        assert not unknown, f"tests/ops/samples/{family}.py: {sorted(unknown)} are not operators"
