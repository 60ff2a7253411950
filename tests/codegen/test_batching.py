"""The batching rules: which operator has which, and that all of them exist."""

from __future__ import annotations

from collections import Counter

from gradloom.batching.rules import RULES
from gradloom.codegen.operators.keys import RULES as WORDS
from gradloom.dispatch.records import record_of
from gradloom.generated.records import RECORDS

BATCHED = [record for record in RECORDS.all() if record.batch]


def test_every_operator_has_a_rule_that_exists():
    for record in BATCHED:
        rule, *arguments = record.batch
        assert rule == "composite" or callable(RULES[rule]), record
        names = {a.name for a in record.arguments}
        assert set(record.promotes) <= names, record
        if rule in ("dims", "inserted", "sizes"):
            assert set(arguments) <= names, record


def test_a_wrapper_leads_to_its_record():
    for record in BATCHED:
        assert record_of(RECORDS.wrapper_of(record)) is record


def test_the_words_of_the_language_are_rules():
    assert set(WORDS) <= set(RULES)


def test_few_operators_are_called_for_each_example():
    counts = Counter(record.batch[0] for record in BATCHED)
    assert counts["loop"] < 60, "give new operators a rule: docs/yaml-language.md says how"
    assert counts["pointwise"] > 300 and counts["composite"] > 250


RULES_OF = {
    "add.Tensor": "pointwise",
    "add_.Tensor": "pointwise",
    "sum.dim_IntList": "reduction dim[]",
    "argmax": "reduction dim",
    "sum": "whole sum several",
    "cumsum_": "dims dim",
    "index_add_": "write index_add",
    "rand": "random size",
    "rand_like": "random like",
    "addmm_": "write addmm",
    "nonzero": "dynamic",
    "transpose_copy.int": "dims dim0 dim1",
}


def test_rules_follow_from_the_entry():
    assert {name: " ".join(RECORDS[name].batch) for name in RULES_OF} == RULES_OF
