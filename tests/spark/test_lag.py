"""The lag of queries, from what Spark tells about them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark")

from ottla.model import TopicPartition
from ottla.spark.source.lag import lag_of_sources
from ottla.spark.source.stream_offsets import SourceOffset

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_offsets_are_read_as_text_and_as_objects() -> None:
    end, latest = (SourceOffset(each).to_json() for each in ({T0: 2, T1: 5}, {T0: 9, T1: 5}))
    expected = {T0: 7, T1: 0}
    assert lag_of_sources([(end, latest)]) == expected
    assert lag_of_sources([(json.dumps(end), json.dumps(latest))]) == expected


def test_of_two_sources_the_one_that_is_behind_counts() -> None:
    positions = [SourceOffset({T0: at}).to_json() for at in (2, 4, 9)]
    near, far = (positions[1], positions[2]), (positions[0], positions[2])
    assert lag_of_sources([near, far]) == lag_of_sources([far, near]) == {T0: 7}


def test_other_sources_have_no_lag_that_could_be_told() -> None:
    ours = (SourceOffset({T0: 1}).to_json(), SourceOffset({T0: 2}).to_json())
    others = [(5, 9), ("7", "8"), (None, None), ("{", "{"), ({"logOffset": 3}, {"logOffset": 4})]
    assert lag_of_sources([*others, ours]) == {T0: 1}
