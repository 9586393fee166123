"""Rows and plans of configs: what a change leads to, in sentences."""

from __future__ import annotations

import pytest

from ottla.client.admin_model.configs import ConfigEntry, ConfigSynonym, ConfigType
from ottla.config.options import ConfigSource
from ottla.console.http.errors import ApiError
from ottla.console.topics.config_plan import ConfigChange, config_plan
from ottla.console.topics.config_rows import (
    config_rows,
    has_fallback,
    plain_text,
    state_of,
    with_fallback,
)

TOPIC, DEFAULT, FILE = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
)


def entry(name: str, value: str, *, own: str | None = None, **fields: object) -> ConfigEntry:
    """A config with the brokers' value, and the topic's own one if it has one."""
    synonyms = [ConfigSynonym(f"log.{name}", value, DEFAULT)]
    if own is not None:
        synonyms.insert(0, ConfigSynonym(name, own, TOPIC))
    source = DEFAULT if own is None else TOPIC
    kind = ConfigType.LONG
    return ConfigEntry(
        name,
        value if own is None else own,
        source,
        synonyms=tuple(synonyms),
        type=kind,
        **fields,  # type: ignore[arg-type]
    )


def steps(name: str, before: str, after: str | None, *, replicas: int = 1) -> str:
    """What a plan says of one change."""
    own = before if after is None else None
    entries = {name: entry(name, "604800000" if after is None else before, own=own)}
    plan = config_plan("t", [ConfigChange(name, after)], entries, replicas)
    return " ".join(plan.steps)


@pytest.mark.parametrize(
    ("name", "before", "after", "wanted"),
    [
        ("retention.ms", "604800000", "3600000", "older than 1 hour are deleted"),
        ("retention.ms", "604800000", "1209600000", "kept for 14 days instead of 7 days"),
        ("retention.ms", "604800000", "-1", "no longer deleted because of their age"),
        ("retention.ms", "-1", "1500", "older than 1,500 ms are deleted"),
        ("retention.ms", "3600000", None, "kept for 7 days instead of 1 hour"),
        ("retention.bytes", "-1", "1000", "more than 1,000 bytes lose their oldest"),
        ("retention.bytes", "1000", "2000", "may grow to 2,000 bytes"),
        ("cleanup.policy", "delete", "compact", "Compaction begins"),
        ("cleanup.policy", "delete", "compact", "no longer deleted"),
        ("cleanup.policy", "compact", "compact,delete", "deleted by retention.ms"),
        ("cleanup.policy", "compact", "delete", "Compaction ends"),
        ("min.insync.replicas", "1", "2", "all writes with acks=all are refused"),
        ("max.message.bytes", "1000", "500", "more than 500 bytes are refused"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime", "the broker's time"),
    ],
)
def test_a_plan_says_what_follows_from_a_value(
    name: str, before: str, after: str | None, wanted: str
) -> None:
    assert wanted in steps(name, before, after)


def test_what_follows_depends_on_the_replicas_and_nonsense_is_left_to_the_cluster() -> None:
    assert "while fewer than 2" in steps("min.insync.replicas", "1", "2", replicas=3)
    assert steps("retention.ms", "604800000", "soon") == ""
    assert steps("segment.ms", "1", "2") == ""


def test_a_reset_leads_to_what_the_brokers_have() -> None:
    entries = {"retention.ms": entry("retention.ms", "1000", own="5000")}
    plan = config_plan("t", [ConfigChange("retention.ms", None)], entries, 1)
    (change,) = plan.changes
    assert (change.before, change.before_source, change.after) == ("5000", "topic", "1000")
    assert change.is_reset
    assert change.is_after_known


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (ConfigChange("colour", "red"), "no config 'colour'"),
        (ConfigChange("retention.ms", "5000"), "already"),
        (ConfigChange("segment.ms", None), "no value of the topic's own"),
        (ConfigChange("fixed", "1"), "read-only"),
    ],
)
def test_a_change_that_changes_nothing_or_cannot_be_made_is_refused(
    change: ConfigChange, wanted: str
) -> None:
    entries = {
        "retention.ms": entry("retention.ms", "1000", own="5000"),
        "segment.ms": entry("segment.ms", "1000"),
        "fixed": entry("fixed", "0", is_read_only=True),
    }
    with pytest.raises(ApiError, match=wanted):
        config_plan("t", [change], entries, 1)


def test_the_state_is_another_one_when_a_value_or_its_source_is() -> None:
    states = {
        state_of([each])
        for each in (
            entry("a", "1"),
            entry("a", "2"),
            entry("a", "1", own="1"),
            ConfigEntry("a", "1", FILE),
        )
    }
    assert len(states) == 4
    assert state_of([entry("a", "1"), entry("b", "2")]) == state_of(
        [entry("b", "2"), entry("a", "1")]
    )


def test_what_the_topic_sets_comes_first_and_tells_what_it_would_be() -> None:
    a, b = config_rows([entry("a", "1"), entry("b", "1", own="2")])
    assert (a.name, a.is_set, a.fallback_value, a.source) == ("b", True, "1", "topic")
    assert (b.name, b.is_set, b.fallback_value, b.source) == ("a", False, "1", "default")


def test_a_fallback_that_the_brokers_have_in_hours_is_told_in_milliseconds() -> None:
    synonyms = (
        ConfigSynonym("retention.ms", "5", TOPIC),
        ConfigSynonym("log.retention.hours", "168", DEFAULT),
    )
    (row,) = config_rows([ConfigEntry("retention.ms", "5", TOPIC, synonyms=synonyms)])
    assert row.fallback_value == "604800000"
    (row,) = config_rows([ConfigEntry("segment.bytes", "5", TOPIC, synonyms=synonyms)])
    assert row.fallback_value == "168"


def test_a_fallback_that_synonyms_do_not_tell_is_that_of_a_new_topic() -> None:
    alone = ConfigEntry(
        "retention.ms", "5", TOPIC, synonyms=(ConfigSynonym("retention.ms", "5", TOPIC),)
    )
    assert not has_fallback(alone)
    known = with_fallback(alone, ConfigEntry("retention.ms", "604800000", DEFAULT))
    assert has_fallback(known)
    (row,) = config_rows([known])
    assert (row.value, row.fallback_value, row.has_fallback) == ("5", "604800000", True)
    assert with_fallback(alone, ConfigEntry("retention.ms", "7", TOPIC)) is alone
    assert with_fallback(alone, None) is alone


def test_documentation_with_html_is_plain_text() -> None:
    text = plain_text(
        "Sets <code>a &lt; b</code>. <p>See <a href='x'>this</a>:<ul><li>one</li><li>two</li></ul>"
    )
    assert text == "Sets a < b.\nSee this:\none\ntwo"
    assert plain_text("1 < 2 and 3 > 2") == "1 < 2 and 3 > 2"
