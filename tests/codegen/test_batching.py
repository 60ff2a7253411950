"""The batching rules: which operator has which, and that all of them exist."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from gradloom.batching.call import operator_of
from gradloom.batching.rules import RULES
from gradloom.codegen.operators.keys import RULES as WORDS
from gradloom.generated.batching import OPERATORS


def wrapper(key: str):
    family, _, name = key.partition(".")
    return getattr(import_module(f"gradloom.generated.variable_type.{family}"), name)


@pytest.mark.parametrize("key", OPERATORS)
def test_every_operator_has_a_rule_that_exists(key):
    found = operator_of(wrapper(key))
    assert found is not None
    assert found.rule == "composite" or callable(RULES[found.rule])
    names = {p.name for p in found.parameters}
    assert set(found.promotes) <= names
    if found.rule in ("dims", "inserted", "sizes"):
        assert set(found.arguments) <= names


def test_the_words_of_the_language_are_rules():
    assert set(WORDS) <= set(RULES)


def test_few_operators_are_called_for_each_example():
    counts = Counter(rule.partition("(")[0] for _, rule, _, _ in OPERATORS.values())
    assert counts["loop"] < 60, "give new operators a rule: docs/yaml-language.md says how"
    assert counts["pointwise"] > 300 and counts["composite"] > 250


RULES_OF = {
    "elementwise.add": "pointwise",
    "elementwise.add_": "pointwise",
    "reduction.sum_dim_IntList": "reduction(dim[])",
    "reduction.argmax": "reduction(dim)",
    "reduction.sum": "whole(sum, several)",
    "reduction.cumsum_": "dims(dim)",
    "indexing.index_add_": "write(index_add)",
    "random.rand": "random(size)",
    "random.rand_like": "random(like)",
    "matmul.addmm_": "write(addmm)",
    "indexing.nonzero": "dynamic",
    "shape.transpose_copy": "dims(dim0, dim1)",
}


@pytest.mark.parametrize("key, rule", RULES_OF.items())
def test_rules_follow_from_the_entry(key, rule):
    assert OPERATORS[key][1] == rule
