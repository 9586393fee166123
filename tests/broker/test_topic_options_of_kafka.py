"""A topic's options as another cluster has them: all of Kafka's are taken, and a refusal says which and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.broker import test_alter_configs, test_create_topics, test_incremental_alter_configs
from tests.broker.conftest import Starter
from tests.broker.requests import TOPIC, create, session_with
from tests.broker.test_describe_configs import OF_TOPIC, options_of
from tests.broker.test_incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from tests.config.test_topic import CHANGE_NOTHING, KAFKA_DEFAULTS, ONLY_DEFAULT

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

# What a source cluster tells MirrorMaker 2 about a compacted topic: every option, most of them at its default.
DESCRIBED_BY_KAFKA = {
    **{name: value for name, (_, value) in KAFKA_DEFAULTS.items()},
    **{name: values[-1] for name, values in CHANGE_NOTHING.items()},
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.25",
}

Answer = tuple[int, str | None]


def created(connection: RawConnection, topic: str, config: dict[str, str]) -> Answer:
    wanted = test_create_topics.wanted(topic, config=dict(config))
    (result,) = test_create_topics.ask(connection, wanted)
    return result.error_code, result.error_message


def altered(connection: RawConnection, topic: str, config: dict[str, str]) -> Answer:
    create(connection, topic)
    asked = test_alter_configs.resource(TOPIC, topic, **config)
    (result,) = test_alter_configs.ask(connection, asked)
    return result.error_code, result.error_message


def incrementally_altered(connection: RawConnection, topic: str, config: dict[str, str]) -> Answer:
    create(connection, topic)
    changes = [(name, SET, value) for name, value in config.items()]
    asked = test_incremental_alter_configs.resource(TOPIC, topic, *changes)
    (result,) = test_incremental_alter_configs.ask(connection, asked)
    return result.error_code, result.error_message


WAYS = pytest.mark.parametrize("way", [created, altered, incrementally_altered])
Way = Callable[[RawConnection, str, dict[str, str]], Answer]


@WAYS
def test_all_that_kafka_describes_is_taken_in_one_request(
    connection: RawConnection, topic: str, way: Way
) -> None:
    assert way(connection, topic, DESCRIBED_BY_KAFKA) == (ErrorCode.NONE, None)
    described = options_of(connection, TOPIC, topic)
    assert {name: one.value for name, one in described.items()} == DESCRIBED_BY_KAFKA
    assert {one.config_source for one in described.values()} == {OF_TOPIC}


@WAYS
@pytest.mark.parametrize("name", ONLY_DEFAULT)
def test_what_would_be_a_lie_is_refused_by_name_and_with_the_reason(
    connection: RawConnection, topic: str, way: Way, name: str
) -> None:
    _, refused = ONLY_DEFAULT[name]
    error, message = way(connection, topic, {"cleanup.policy": "compact", name: refused})
    assert error == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert message.startswith(f"{name}={refused} is refused: there is no ")
    if way is created:
        assert not test_create_topics.exists(connection, topic)
    else:
        assert options_of(connection, TOPIC, topic)["cleanup.policy"].value == "delete"


def test_options_without_effect_outlive_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        assert created(connection, topic, DESCRIBED_BY_KAFKA) == (ErrorCode.NONE, None)
    broker.stop()
    with session_with(start()) as connection:
        described = options_of(connection, TOPIC, topic)
        assert {name: one.value for name, one in described.items()} == DESCRIBED_BY_KAFKA


def test_throttled_replicas_are_a_list_as_tools_of_kafka_treat_it(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    name = "leader.replication.throttled.replicas"
    alter, value_of = test_incremental_alter_configs.alter, test_incremental_alter_configs.value_of
    for operation, value, becomes in [
        (APPEND, "0:1,1:1", "0:1,1:1"),
        (APPEND, "2:1", "0:1,1:1,2:1"),
        (SUBTRACT, "0:1", "1:1,2:1"),
    ]:
        assert alter(connection, topic, (name, operation, value)) == ErrorCode.NONE
        assert value_of(connection, topic, name) == (becomes, OF_TOPIC)
    assert alter(connection, topic, (name, DELETE, None)) == ErrorCode.NONE
    assert options_of(connection, TOPIC, topic)[name].value == ""


def test_documentation_says_that_a_value_changes_nothing(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    described = options_of(
        connection, TOPIC, topic, include_documentation=True, include_synonyms=True
    )
    for name in CHANGE_NOTHING:
        assert "It has no effect in Ottla: " in (described[name].documentation or "")
    for name in ONLY_DEFAULT:
        assert "Ottla accepts only the default: " in (described[name].documentation or "")
    assert [one.name for one in described["preallocate"].synonyms] == ["log.preallocate"]
