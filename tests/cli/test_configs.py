"""`ottla configs`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ottla, Result, soon

from ottla.admin import AlterConfig
from ottla.cli.cluster.configs import changes_text, parse_bracketed
from ottla.cli.errors import UsageError


def there(done: Result) -> None:
    assert done.code == 0, done.err


def two_of(done: Result) -> tuple[dict[str, str], dict[str, str]]:
    one, two = done.table
    return one, two


def test_configs_are_set_shown_and_deleted(
    anywhere: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    assert anywhere("topics", "create", name).code == 0
    soon(lambda: there(anywhere("topics", "describe", name)))
    changed = anywhere(
        *("configs", "alter", "--entity-type", "topics", "--entity-name", name),
        *("--add-config", "cleanup.policy=[compact,delete],retention.ms=77000"),
    )
    assert changed.lines == [
        f"topic {name} changed: cleanup.policy=compact,delete, retention.ms=77000"
    ], changed.err
    policy, retention = soon(lambda: two_of(anywhere("configs", "describe", "--topic", name)))
    assert policy["NAME"] == "cleanup.policy"
    assert policy["VALUE"] == "compact,delete"
    assert policy["SYNONYMS"] == "DEFAULT_CONFIG:log.cleanup.policy=delete"
    assert retention["SOURCE"] == "DYNAMIC_TOPIC_CONFIG"

    deleted = anywhere(
        *("configs", "alter", "--topic", name),
        *("--delete-config", "cleanup.policy", "--set", "retention.ms=78000"),
    )
    assert deleted.code == 0, deleted.err

    def is_left() -> dict[str, Any]:
        (left,) = anywhere("configs", "describe", "--topic", name, "-o", "json").data
        assert (left["name"], left["value"], left["entity_name"]) == ("retention.ms", "78000", name)
        return dict(left)

    left = soon(is_left)
    assert left["synonyms"][0] == {
        "name": "retention.ms",
        "value": "78000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    everything = anywhere("configs", "describe", "--topic", name, "--all", "-o", "json").data
    sources = {each["name"]: each["source"] for each in everything}
    assert sources["cleanup.policy"] == "DEFAULT_CONFIG"
    assert sources["retention.ms"] == "DYNAMIC_TOPIC_CONFIG"


def test_wrong_names_and_values_are_told_in_one_line(inside: Ottla, tmp_path: Path) -> None:
    inside("topics", "create", "told", "--if-not-exists")
    for words, expected in (
        (["--delete", "retention.ms"], "retention.ms is not set"),
        (["--set", "retention.m=5"], "retention.ms?"),
        (["--set", "retention.ms=long"], "retention.ms"),
        (["--set", "cleanup.policy=burn", "--dry-run"], "cleanup.policy"),
    ):
        done = inside("configs", "alter", "--topic", "told", *words)
        assert (done.code, done.out) == (1, ""), words
        (line,) = done.err.splitlines()
        assert expected in line
    (tmp_path / "more.properties").write_text("retention.ms = 5\n", encoding="utf-8")
    would = inside(
        *("configs", "alter", "--topic", "told", "--dry-run"),
        *("--add-config-file", "more.properties"),
    )
    assert would.lines == ["topic told would change: retention.ms=5"], would.err
    assert inside("configs", "describe", "--topic", "told").out == ""
    missing = inside("configs", "describe", "--topic", "told", "--topic", "nothing", "--all")
    assert missing.code == 1
    assert "nothing" in missing.err
    assert missing.table


def test_brokers_and_their_defaults_have_configs(inside: Ottla) -> None:
    done = inside("configs", "describe", "--broker", "1", "--all", "-o", "json")
    assert {"num.partitions", "log.retention.hours"} <= {each["name"] for each in done.data}
    set_now = inside("configs", "alter", "--broker-defaults", "--set", "log.retention.ms=123000")
    assert set_now.lines == ["broker (default) changed: log.retention.ms=123000"], set_now.err
    try:
        for words in (["--broker-defaults"], ["--entity-type", "brokers", "--entity-default"]):
            (row,) = inside("configs", "describe", *words).table
            assert (row["NAME"], row["VALUE"]) == ("log.retention.ms", "123000")
            assert row["SOURCE"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        everywhere = inside("configs", "describe", "--entity-type", "brokers", "-o", "json").data
        assert [each["entity_name"] for each in everywhere] == [None]
    finally:
        inside("configs", "alter", "--broker-defaults", "--delete", "log.retention.ms")


def test_values_of_passwords_are_not_printed() -> None:
    changes = [AlterConfig(name, "x") for name in ("ssl.key.password", "sasl.jaas.config", "a")]
    assert changes_text(changes) == "ssl.key.password=(hidden), sasl.jaas.config=(hidden), a=x"


def test_lists_grow_and_shrink(inside: Ottla) -> None:
    inside("topics", "create", "growing", "-c", "cleanup.policy=compact")
    alter = ("configs", "alter", "--topic", "growing")
    assert inside(*alter, "--append", "cleanup.policy=delete").code == 0
    (row,) = inside("configs", "describe", "--topic", "growing").table
    assert row["VALUE"] == "compact,delete"
    assert inside(*alter, "--subtract", "cleanup.policy=compact").code == 0
    (row,) = inside("configs", "describe", "--topic", "growing").table
    assert row["VALUE"] == "delete"


def test_groups_and_client_metrics_have_configs(
    anywhere: Ottla, ottla_topic_name: Callable[[], str]
) -> None:
    name = ottla_topic_name()
    for flag, kind, option, value, source in (
        ("--group", "groups", "consumer.session.timeout.ms", "50000", "DYNAMIC_GROUP_CONFIG"),
        ("--client-metrics", "client-metrics", "interval.ms", "7000", None),
    ):
        changed = anywhere("configs", "alter", flag, name, "--set", f"{option}={value}")
        assert changed.lines == [f"{flag[2:]} {name} changed: {option}={value}"], changed.err

        def is_listed(kind: str = kind) -> dict[str, str]:
            (row,) = (
                row
                for row in anywhere("configs", "describe", "--entity-type", kind).table
                if row["ENTITY"].endswith(f" {name}")
            )
            return row

        row = soon(is_listed)
        assert (row["NAME"], row["VALUE"]) == (option, value)
        assert row["SOURCE"] == (source or "DYNAMIC_CLIENT_METRICS_CONFIG")
        assert anywhere("configs", "alter", flag, name, "--delete", option).code == 0
    refused = anywhere(
        "configs", "alter", "--group", name, "--set", "consumer.session.timeout.ms=1"
    )
    assert (refused.code, refused.out) == (1, "")
    (line,) = refused.err.splitlines()
    assert "consumer.session.timeout.ms" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe"],
        ["describe", "--entity-name", "x"],
        ["describe", "--topic", "x", "--entity-type", "topics"],
        ["describe", "--broker", "x"],
        ["describe", "--entity-type", "topics", "--entity-default"],
        ["describe", "--entity-type", "users"],
        ["alter", "--topic", "x"],
        ["alter", "--entity-type", "topics", "--set", "a=b"],
        ["alter", "--topic", "x", "--set", "a=b", "--delete", "a"],
        ["alter", "--topic", "x", "--add-config", "a"],
    ],
)
def test_what_makes_no_sense_is_exit_code_2(inside: Ottla, arguments: list[str]) -> None:
    done = inside("configs", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a=b,c=[d,e]", {"a": "b", "c": "d,e"}),
        ("a=[x=1,y=2],b=", {"a": "x=1,y=2", "b": ""}),
        (" a = b , c=d", {"a": "b", "c": "d"}),
    ],
)
def test_values_with_commas_stand_in_brackets(text: str, expected: dict[str, str]) -> None:
    assert parse_bracketed(text) == expected


@pytest.mark.parametrize("text", ["a", "a=b=c", "=b", "a=b,,c=d"])
def test_what_is_not_name_and_value_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bracketed(text)
