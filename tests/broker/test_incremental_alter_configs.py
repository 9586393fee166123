"""IncrementalAlterConfigs: single options are set, deleted, extended and shortened, with effect at once."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    BROKER,
    TOPIC,
    batch_of,
    create,
    every_version_of,
    fill,
    produce,
    session_with,
    set_options,
)
from tests.broker.test_describe_configs import DEFAULT, NODE, OF_BROKER, OF_TOPIC, options_of

from ottla.client.raw import RawConnection
from ottla.errors import ConfigError, ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
Change = tuple[str, int, str | None]


def resource(resource_type: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            AlterableConfig(name=option, config_operation=operation, value=value)
            for option, operation, value in changes
        ],
    )


def ask(
    connection: RawConnection,
    *resources: AlterConfigsResource,
    validate_only: bool = False,
    version: int = 1,
) -> list[AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    results: list[AlterConfigsResourceResponse] = connection.call(
        request, IncrementalAlterConfigsResponse, version
    ).responses
    return results


def alter(connection: RawConnection, topic: str, *changes: Change) -> int:
    """The error of changing a topic's options."""
    (result,) = ask(connection, resource(TOPIC, topic, *changes))
    assert (result.error_message is None) == (result.error_code == ErrorCode.NONE)
    return result.error_code


def value_of(connection: RawConnection, topic: str, option: str) -> tuple[str | None, int]:
    found = options_of(connection, TOPIC, topic)[option]
    return found.value, found.config_source


@pytest.mark.parametrize("version", every_version_of(IncrementalAlterConfigsRequest))
def test_set_and_delete(connection: RawConnection, topic: str, version: int) -> None:
    create(connection, topic, config={"segment.bytes": "5000"})
    (result,) = ask(
        connection, resource(TOPIC, topic, ("retention.ms", SET, "1234")), version=version
    )
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, topic)
    assert value_of(connection, topic, "retention.ms") == ("1234", OF_TOPIC)
    assert value_of(connection, topic, "segment.bytes") == ("5000", OF_TOPIC)
    assert alter(connection, topic, ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert value_of(connection, topic, "retention.ms") == ("604800000", DEFAULT)
    assert value_of(connection, topic, "segment.bytes") == ("5000", OF_TOPIC)
    # Deleting what is not set changes nothing.
    assert alter(connection, topic, ("retention.ms", DELETE, None)) == ErrorCode.NONE


def test_append_and_subtract_work_on_lists(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    assert alter(connection, topic, ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert value_of(connection, topic, "cleanup.policy") == ("delete,compact", OF_TOPIC)
    assert alter(connection, topic, ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert value_of(connection, topic, "cleanup.policy") == ("delete,compact", OF_TOPIC)
    assert alter(connection, topic, ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert value_of(connection, topic, "cleanup.policy") == ("compact", OF_TOPIC)
    assert alter(connection, topic, ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert value_of(connection, topic, "cleanup.policy") == ("compact", OF_TOPIC)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "5"), ErrorCode.INVALID_CONFIG),
        (("no.such.option", APPEND, "5"), ErrorCode.INVALID_CONFIG),
        (("no.such.option", SET, "5"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "shred"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("cleanup.policy", APPEND, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    connection: RawConnection, topic: str, change: Change, error: ErrorCode
) -> None:
    create(connection, topic)
    assert alter(connection, topic, ("segment.bytes", SET, "5000"), change) == error
    assert value_of(connection, topic, "segment.bytes") == ("1073741824", DEFAULT)


def test_rules_between_options_hold_for_what_was_set_before(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, config={"max.compaction.lag.ms": "100"})
    changes = ("min.compaction.lag.ms", SET, "101")
    assert alter(connection, topic, changes) == ErrorCode.INVALID_CONFIG
    both = (("max.compaction.lag.ms", SET, "200"), changes)
    assert alter(connection, topic, *both) == ErrorCode.NONE


def test_an_option_or_a_resource_named_twice_is_invalid(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    twice = (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert alter(connection, topic, *twice) == ErrorCode.INVALID_REQUEST
    results = ask(connection, resource(TOPIC, topic, twice[0]), resource(TOPIC, topic, twice[1]))
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
    assert value_of(connection, topic, "retention.ms") == ("604800000", DEFAULT)


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (8, NODE, ErrorCode.INVALID_CONFIG),
        (77, NODE, ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_do_not_exist(
    connection: RawConnection, resource_type: int, name: str, error: ErrorCode
) -> None:
    (result,) = ask(connection, resource(resource_type, name, ("retention.ms", SET, "1")))
    assert result.error_code == error
    assert result.error_message


def test_validate_only_checks_and_changes_nothing(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for value, error in (("1000", ErrorCode.NONE), ("soon", ErrorCode.INVALID_CONFIG)):
        (result,) = ask(
            connection, resource(TOPIC, topic, ("retention.ms", SET, value)), validate_only=True
        )
        assert result.error_code == error
    (result,) = ask(
        connection, resource(BROKER, NODE, ("message.max.bytes", SET, "99")), validate_only=True
    )
    assert result.error_code == ErrorCode.NONE
    assert value_of(connection, topic, "retention.ms") == ("604800000", DEFAULT)
    assert options_of(connection, BROKER, NODE)["message.max.bytes"].config_source == DEFAULT


def test_one_refusal_does_not_keep_the_others_from_being_changed(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    results = ask(
        connection,
        resource(TOPIC, "no-such-topic", ("retention.ms", SET, "1")),
        resource(TOPIC, topic, ("retention.ms", SET, "77")),
    )
    assert [result.error_code for result in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert value_of(connection, topic, "retention.ms") == ("77", OF_TOPIC)


def test_an_open_partition_obeys_at_once(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"x" * 1000)
    alter(connection, topic, ("max.message.bytes", SET, "500"))
    large = batch_of(b"x" * 1000)
    assert produce(connection, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(connection, topic, ("max.message.bytes", DELETE, None))
    assert produce(connection, topic, large).error_code == ErrorCode.NONE
    alter(connection, topic, ("message.timestamp.type", SET, "LogAppendTime"))
    assert produce(connection, topic, large).log_append_time_ms > 0


def test_a_brokers_option_reaches_its_open_partitions_at_once(start: Starter, topic: str) -> None:
    with session_with(start()) as connection:
        create(connection, topic)
        own = f"{topic}-own"
        create(connection, own, config={"max.message.bytes": "2000"})
        large = batch_of(b"x" * 1000)
        fill(connection, topic, b"x" * 1000)
        assert set_options(connection, NODE, {"message.max.bytes": "500"}, BROKER) == 0
        assert produce(connection, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        # A topic's own option is stronger.
        assert produce(connection, own, large).error_code == ErrorCode.NONE
        found = options_of(connection, TOPIC, topic)["max.message.bytes"]
        assert (found.value, found.config_source) == ("500", OF_BROKER)
        # For all brokers is weaker than for this one.
        assert set_options(connection, "", {"message.max.bytes": "5000"}, BROKER) == 0
        assert produce(connection, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        ask(connection, resource(BROKER, NODE, ("message.max.bytes", DELETE, None)))
        assert produce(connection, topic, large).error_code == ErrorCode.NONE


def test_a_brokers_list_is_extended_from_what_it_is(start: Starter) -> None:
    with session_with(start(log_cleanup_policy=["compact"])) as connection:
        (result,) = ask(
            connection, resource(BROKER, NODE, ("log.cleanup.policy", APPEND, "delete"))
        )
        assert result.error_code == ErrorCode.NONE
        found = options_of(connection, BROKER, NODE)["log.cleanup.policy"]
        assert found.value == "compact,delete"


@pytest.mark.parametrize("option", ["num.partitions", "node.id", "no.such.option", "listeners"])
def test_a_brokers_other_options_cannot_be_altered(connection: RawConnection, option: str) -> None:
    (result,) = ask(connection, resource(BROKER, NODE, (option, SET, "1")))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message


def test_what_was_altered_survives_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        fill(connection, topic, b"v")
        alter(connection, topic, ("max.message.bytes", SET, "500"))
        set_options(connection, NODE, {"log.retention.bytes": "123456"}, BROKER)
        set_options(connection, "", {"log.segment.bytes": "654321"}, BROKER)
    broker.stop()
    with session_with(start()) as connection:
        assert value_of(connection, topic, "max.message.bytes") == ("500", OF_TOPIC)
        assert value_of(connection, topic, "retention.bytes") == ("123456", OF_BROKER)
        assert value_of(connection, topic, "segment.bytes") == ("654321", 3)
        result = produce(connection, topic, batch_of(b"x" * 1000))
        assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_broker_option_that_a_topic_cannot_live_with_is_refused(start: Starter) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, "lagging", config={"min.compaction.lag.ms": "1000000"})
        change = ("log.cleaner.max.compaction.lag.ms", SET, "1000")
        (result,) = ask(connection, resource(BROKER, "", change))
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert "topic 'lagging'" in (result.error_message or "")
        assert fill(connection, "lagging", b"still there") == [0]
    broker.stop()
    with pytest.raises(ConfigError, match="topic 'lagging'"):
        start(log_cleaner_max_compaction_lag_ms=1000)
