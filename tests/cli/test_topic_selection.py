"""Which topics and partitions words choose."""

from __future__ import annotations

import pytest

from ottla.cli.errors import UsageError
from ottla.cli.topics.selection import PartitionRule, check_patterns, choose_topics, partition_rules

NAMES = ["a.b", "a-b", "orders-1", "orders-2", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("words", "chosen", "missing"),
    [
        (["a.b"], ["a.b"], []),
        (["orders"], [], ["orders"]),
        (["orders-.*"], ["orders-1", "orders-2"], []),
        (["orders-[12]", "a-b"], ["a-b", "orders-1", "orders-2"], []),
        (["orders-1,a.b", "a.b"], ["a.b", "orders-1"], []),
        (["a|b"], [], ["a|b"]),
        (["a(.|-)b{1,2}"], ["a-b", "a.b"], []),
        (["a.c"], [], ["a.c"]),
        ([".*"], sorted(NAMES), []),
    ],
)
def test_a_name_is_itself_and_anything_else_a_pattern_for_whole_names(
    words: list[str], chosen: list[str], missing: list[str]
) -> None:
    assert choose_topics(words, NAMES) == (chosen, missing)


def test_a_name_with_a_dot_chooses_no_other_topic() -> None:
    assert choose_topics(["a.b"], ["a-b", "aXb"]) == ([], ["a.b"])


def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(UsageError, match="regular expression"):
        choose_topics(["orders("], NAMES)


@pytest.mark.parametrize(("word", "meant"), [("orders-*", "orders-.*"), ("a?,b*", "a.")])
def test_a_shells_pattern_is_refused_before_topics_are_changed(word: str, meant: str) -> None:
    with pytest.raises(UsageError, match="repeats a single letter") as raised:
        check_patterns([word])
    assert raised.value.advice == f"write '{meant}'"


def test_regular_expressions_are_no_shells_patterns() -> None:
    check_patterns(["orders", "orders-.*", r"a\d*", "(a|b)?", "[ab]*", "a.*?", "(?i)a+"])


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a:1", [PartitionRule("a", 1, 2)]),
        ("a:0-3,b", [PartitionRule("a", 0, 3), PartitionRule("b", 0, None)]),
        ("a:5-", [PartitionRule("a", 5, None)]),
        ("a:-3", [PartitionRule("a", 0, 3)]),
        (":2", [PartitionRule(".*", 2, 3)]),
        ("a:", [PartitionRule("a", 0, None)]),
    ],
)
def test_partitions_are_chosen_as_by_kafkas_tool(text: str, rules: list[PartitionRule]) -> None:
    assert partition_rules(text) == rules


def test_the_end_of_a_range_of_partitions_is_excluded() -> None:
    (rule,) = partition_rules("a:1-3")
    assert [number for number in range(5) if rule.has(number)] == [1, 2]


def test_partitions_that_make_no_sense_are_told() -> None:
    with pytest.raises(UsageError, match="a:x"):
        partition_rules("a:x")
