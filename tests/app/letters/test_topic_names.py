"""Names of retry topics and dead-letter topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.app.letters import (
    MAX_RETRY_TOPICS,
    LetterTopic,
    dead_letter_topic,
    is_letter_topic,
    parse_letter_topic,
    retry_topic,
)
from ottla.model import topic_name_problem

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(
    lambda name: topic_name_problem(name) is None
)
GROUPS = st.text(min_size=1, max_size=300)
NUMBERS = st.integers(1, MAX_RETRY_TOPICS)


def test_names_are_those_of_the_guide() -> None:
    assert retry_topic("orders", "billing", 2) == "orders.billing.retry.2"
    assert dead_letter_topic("orders", "billing") == "orders.billing.dlt"


@given(TOPICS, GROUPS, NUMBERS)
def test_every_name_is_valid_for_kafka(topic: str, group: str, number: int) -> None:
    for name in (retry_topic(topic, group, number), dead_letter_topic(topic, group)):
        assert topic_name_problem(name) is None
        assert is_letter_topic(name)


@given(TOPICS, GROUPS, NUMBERS)
def test_a_plain_name_can_be_split_again(topic: str, group: str, number: int) -> None:
    name = retry_topic(topic, group, number)
    parsed = parse_letter_topic(name, {topic})
    assert parsed is not None
    assert parsed.number == number
    if name == f"{topic}.{group}.retry.{number}":
        assert parsed == LetterTopic(topic, group, number)


def test_names_that_are_too_long_stay_apart() -> None:
    long = "x" * 240
    names = {dead_letter_topic(long, f"{'g' * 200}{n}") for n in range(50)}
    names |= {dead_letter_topic(f"{long}{n}", "g" * 200) for n in range(50)}
    assert len(names) == 100
    assert dead_letter_topic(long, "g") == dead_letter_topic(long, "g")


def test_groups_that_differ_in_characters_that_topics_lack_stay_apart() -> None:
    assert dead_letter_topic("orders", "a/b") != dead_letter_topic("orders", "a b")
    assert dead_letter_topic("orders", "a/b").startswith("orders.a-b.")


def test_the_longest_existing_topic_is_the_source() -> None:
    name = "a.b.c.dlt"
    assert parse_letter_topic(name, {"a"}) == LetterTopic("a", "b.c", None)
    assert parse_letter_topic(name, {"a", "a.b"}) == LetterTopic("a.b", "c", None)
    assert parse_letter_topic(name, {"other"}) == LetterTopic(None, None, None)


@pytest.mark.parametrize("name", ["orders", "orders.dlt.x", ".dlt", "orders.retry", "a.g.retry.0"])
def test_other_topics_are_none(name: str) -> None:
    assert not is_letter_topic(name)
    assert parse_letter_topic(name, {"orders", "a"}) is None


@pytest.mark.parametrize("number", [0, -1, MAX_RETRY_TOPICS + 1])
def test_numbers_beyond_the_limit_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 99"):
        retry_topic("orders", "billing", number)
