"""The options of a consumer and the rules between them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.config.offset_reset import OffsetReset, OffsetResetKind, parse_duration_ms
from ottla.errors import ConfigError


def consumer(**options: Any) -> ConsumerConfig:
    return read_client_config(ConsumerConfig, {"bootstrap.servers": "127.0.0.1:9092"}, options)


def test_offsets_are_committed_by_default_only_in_a_group() -> None:
    assert consumer(group_id="g").enable_auto_commit
    assert not consumer().enable_auto_commit
    assert not consumer(enable_auto_commit=False).enable_auto_commit


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"enable_auto_commit": True}, r"enable\.auto\.commit=true needs a group: give group\.id"),
        ({"group_instance_id": "i"}, r"group\.instance\.id needs a group"),
        ({"group_id": " "}, r"group\.id is empty"),
        ({"group_id": "g", "group_instance_id": ""}, r"group\.instance\.id is empty"),
        (
            {"group_remote_assignor": "uniform"},
            r"group\.remote\.assignor cannot be given with group\.protocol=classic: remove it",
        ),
        (
            {"group_protocol": "CONSUMER", "heartbeat_interval_ms": 1000},
            r"heartbeat\.interval\.ms cannot be given with group\.protocol=consumer: remove it",
        ),
        (
            {
                "group_protocol": "consumer",
                "session_timeout_ms": 6000,
                "heartbeat_interval_ms": 1000,
                "partition_assignment_strategy": "range",
            },
            r"heartbeat\.interval\.ms, partition\.assignment\.strategy, session\.timeout\.ms cannot be given"
            r" with group\.protocol=consumer: remove them, the broker decides",
        ),
        ({"group_protocol": "raft"}, "one of classic, consumer"),
        (
            {"session_timeout_ms": 3000},
            r"heartbeat\.interval\.ms \(3000\) is not below session\.timeout",
        ),
        (
            {"heartbeat_interval_ms": 45_000},
            r"\(45000\) is not below session\.timeout\.ms \(45000\)",
        ),
        ({"heartbeat_interval_ms": 0}, "at least 1"),
        (
            {"fetch_min_bytes": 2, "fetch_max_bytes": 1},
            r"fetch\.min\.bytes \(2\) is above fetch\.max",
        ),
        (
            {"fetch_max_wait_ms": 30_000},
            r"fetch\.max\.wait\.ms \(30000\) is not below request\.timeout",
        ),
        ({"isolation_level": "serializable"}, "one of read_committed, read_uncommitted"),
        ({"max_poll_records": 0}, "at least 1"),
        ({"max_poll_interval_ms": 0}, "at least 1"),
        ({"partition_assignment_strategy": ""}, r"partition\.assignment\.strategy is empty"),
        ({"stall_timeout_ms": -1}, "at least 0"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_change(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        consumer(**options)


def test_both_group_protocols_may_be_named() -> None:
    assert consumer(group_protocol="Classic").group_protocol == "classic"
    assert consumer(group_protocol="CONSUMER").group_protocol == "consumer"
    assert consumer(group_protocol="consumer", group_remote_assignor="range").group_remote_assignor


def test_isolation_is_as_in_kafka() -> None:
    assert not consumer().reads_committed
    assert consumer(isolation_level="read_committed").reads_committed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", OffsetReset(OffsetResetKind.EARLIEST)),
        ("latest", OffsetReset(OffsetResetKind.LATEST)),
        ("none", OffsetReset(OffsetResetKind.NONE)),
        ("by_duration:PT0S", OffsetReset(OffsetResetKind.BY_DURATION, 0)),
        ("by_duration:P1DT2H3M4.5S", OffsetReset(OffsetResetKind.BY_DURATION, 93_784_500)),
    ],
)
def test_reading_starts_where_auto_offset_reset_says(text: str, expected: OffsetReset) -> None:
    assert consumer(auto_offset_reset=text).offset_reset == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EARLIEST",
        "by_duration",
        "by_duration:",
        "by_duration:P",
        "by_duration:-PT1S",
        "by_duration:1h",
    ],
)
def test_another_start_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"auto\.offset\.reset=.* must be earliest, latest, none or"
    ):
        consumer(auto_offset_reset=text)


# Expected values are those of java.time.Duration.parse(text).toMillis().
@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT20.345S", 20_345),
        ("PT15M", 900_000),
        ("PT10H", 36_000_000),
        ("P2D", 172_800_000),
        ("P2DT3H4M", 183_840_000),
        ("PT-6H+3M", -21_420_000),
        ("-PT6H", -21_600_000),
        ("-PT-6H+3M", 21_420_000),
        ("pt1.5s", 1500),
        ("PT1,5S", 1500),
        ("PT1.S", 1000),
        ("PT-1.5S", -1500),
        ("PT-0.5S", -500),
        ("PT0.0009S", 0),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1", "P1DT", "1D", "P1H", "PT1D", "P1W", "PT1.5H", " PT1S", "PT.5S", "P1M"],
)
def test_what_java_does_not_read_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_ms(text)


@given(st.text() | st.text("PTDHMS0123456789.+-,"))
def test_text_is_a_duration_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_duration_ms(text), int)
    except ValueError as error:
        assert "duration" in str(error)  # noqa: PT017


def test_others_names_of_resets_get_advice() -> None:
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset='smallest'.*you mean earliest$"):
        consumer(auto_offset_reset="smallest")
    with pytest.raises(ConfigError, match=r"as in by_duration:PT1H$"):
        consumer(auto_offset_reset="soon")
