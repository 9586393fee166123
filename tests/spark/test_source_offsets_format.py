"""What the checkpoint keeps of the source, and what is read back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.source.partition_maps import (
    flatten_by_topic,
    nest_by_topic,
    read_numbers,
    read_partitions,
)
from ottla.spark.source.stream_offsets import OffsetFormatError, SourceOffset

TOPICS = st.sampled_from(["orders", "version", "topics", "a.b-c_d", ""])
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 300))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=6)
TEXTS = st.text(max_size=8)

POSITIONS = st.builds(
    SourceOffset,
    OFFSETS,
    st.dictionaries(TOPICS, TEXTS, max_size=3),
    st.none() | TEXTS,
    st.none() | TEXTS,
    OFFSETS,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "topics", "ids", "0", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(POSITIONS)
def test_a_position_survives_the_checkpoint(position: SourceOffset) -> None:
    text = json.dumps(position.to_json())
    assert SourceOffset.from_json(json.loads(text)) == position


@given(OFFSETS)
def test_equal_positions_have_equal_texts(offsets: dict[TopicPartition, int]) -> None:
    backwards = dict(reversed(offsets.items()))
    texts = [json.dumps(SourceOffset(each).to_json()) for each in (offsets, backwards)]
    assert texts[0] == texts[1]


@given(OFFSETS)
def test_a_checkpoint_of_sparks_own_kafka_source_is_understood(
    offsets: dict[TopicPartition, int],
) -> None:
    assert SourceOffset.from_json(nest_by_topic(offsets)).offsets == offsets


@given(JSON)
def test_garbage_in_a_checkpoint_is_refused_in_words(garbage: Any) -> None:
    with suppress(OffsetFormatError):
        position = SourceOffset.from_json(garbage)
        assert SourceOffset.from_json(position.to_json()) == position


def test_a_position_of_a_newer_version_is_refused() -> None:
    with pytest.raises(OffsetFormatError, match="version 2 is not known"):
        SourceOffset.from_json({"version": 2, "topics": {}})


@given(OFFSETS)
def test_numbers_by_partition_survive_the_round_trip(offsets: dict[TopicPartition, int]) -> None:
    assert flatten_by_topic(json.loads(json.dumps(nest_by_topic(offsets)))) == offsets


@given(st.text(max_size=20) | JSON.map(json.dumps))
def test_garbage_in_an_option_is_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        assert read_numbers("startingOffsets", text, -2)
    with suppress(ConfigError):
        assert read_partitions("assign", text)


@pytest.mark.parametrize(
    "text",
    [
        '{"t":{"0":-3}}',
        '{"t":{"0":1.5}}',
        '{"t":{"0":true}}',
        '{"t":{"-1":1}}',
        '{"t":{"1_0":1}}',
        '{"t":{"٣":1}}',
        '{"t":[0]}',
        '{"t":{"0":9223372036854775808}}',
        "{}",
        "[" * 100_000,
    ],
)
def test_what_is_no_offset_of_a_partition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"startingOffsets=.* (is not valid|names no partition)"):
        read_numbers("startingOffsets", text, -2)


def test_assigned_partitions_are_read_once_each() -> None:
    assert read_partitions("assign", '{"b":[1,0,1],"a":[2]}') == (("a", 2), ("b", 0), ("b", 1))
