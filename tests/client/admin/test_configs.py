"""Configs of topics and brokers."""

from __future__ import annotations

import pytest
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import (
    AlterConfig,
    AlterConfigOperation,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ResourceType,
)
from ottla.client.blocking.admin import Admin
from ottla.errors import ErrorCode, KafkaError, PartialFailureError

DELETE, APPEND, SUBTRACT = (
    AlterConfigOperation.DELETE,
    AlterConfigOperation.APPEND,
    AlterConfigOperation.SUBTRACT,
)


def value(stage: Stage, topic: str, name: str) -> str | None:
    resource = ConfigResource.topic(topic)
    return stage.admin.describe_configs([resource])[resource][name].value


def check_value(stage: Stage, topic: str, name: str, expected: str) -> None:
    stage.comes_true(lambda: value(stage, topic, name) == expected)
    assert value(stage, topic, name) == expected


@essential
def test_only_the_configs_that_are_named_come(stage: Stage) -> None:
    resource = ConfigResource.topic(stage.topic())
    names = ["retention.ms", "cleanup.policy", "no.such.config"]
    found = stage.admin.describe_configs([resource], config_names=names)[resource]
    assert sorted(found) == ["cleanup.policy", "retention.ms"]


@essential
def test_configs_say_where_they_come_from(stage: Stage) -> None:
    topic = stage.topic()
    resource = ConfigResource.topic(topic)
    stage.admin.incremental_alter_configs({resource: [AlterConfig("segment.bytes", "7777777")]})
    check_value(stage, topic, "segment.bytes", "7777777")
    plain = stage.admin.describe_configs([resource])[resource]
    assert (plain["segment.bytes"].value, plain["segment.bytes"].is_default) == ("7777777", False)
    assert plain["segment.bytes"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert plain["segment.bytes"].synonyms == ()
    assert plain["segment.ms"].is_default
    assert plain["segment.ms"].documentation is None
    full = stage.admin.describe_configs(
        [resource], include_synonyms=True, include_documentation=True
    )[resource]
    entry = full["segment.bytes"]
    assert entry.type is ConfigType.INT
    assert entry.documentation
    assert (entry.synonyms[0].name, entry.synonyms[0].value) == ("segment.bytes", "7777777")
    assert entry.synonyms[-1].source is ConfigSource.DEFAULT_CONFIG
    assert not entry.is_sensitive


@essential
def test_brokers_have_configs(stage: Stage) -> None:
    node_id = stage.admin.describe_cluster().nodes[0].id
    one, all_of_them = ConfigResource.broker(node_id), ConfigResource.all_brokers()
    found = stage.admin.describe_configs([one, all_of_them])
    assert found[one]["log.retention.hours"].value == "168"
    assert "log.retention.hours" not in found[all_of_them]


@essential
def test_single_configs_are_changed_and_the_others_stay(stage: Stage) -> None:
    topic = stage.topic()
    resource = ConfigResource.topic(topic)
    change = stage.admin.incremental_alter_configs
    change({resource: [AlterConfig("retention.ms", "1"), AlterConfig("segment.ms", "2")]})
    change({resource: [AlterConfig("retention.ms", None, DELETE)]})
    check_value(stage, topic, "retention.ms", "604800000")
    check_value(stage, topic, "segment.ms", "2")
    change({resource: [AlterConfig("cleanup.policy", "compact", APPEND)]})
    check_value(stage, topic, "cleanup.policy", "delete,compact")
    change({resource: [AlterConfig("cleanup.policy", "delete", SUBTRACT)]})
    check_value(stage, topic, "cleanup.policy", "compact")
    change({resource: [AlterConfig("segment.ms", "3")]}, validate_only=True)
    check_value(stage, topic, "segment.ms", "2")


@essential
def test_replacing_configs_gives_the_others_their_defaults(stage: Stage) -> None:
    topic = stage.topic()
    resource = ConfigResource.topic(topic)
    stage.admin.alter_configs({resource: {"retention.ms": "1", "segment.ms": "2"}})
    stage.admin.alter_configs({resource: {"segment.ms": "3"}})
    check_value(stage, topic, "retention.ms", "604800000")
    check_value(stage, topic, "segment.ms", "3")
    stage.admin.alter_configs({resource: {}}, validate_only=True)
    check_value(stage, topic, "segment.ms", "3")


@essential
def test_a_value_that_is_not_valid_fails_its_resource_alone(stage: Stage) -> None:
    good, bad = ConfigResource.topic(stage.topic()), ConfigResource.topic(stage.topic())
    with pytest.raises(PartialFailureError) as error:
        stage.admin.incremental_alter_configs(
            {
                good: [AlterConfig("retention.ms", "5")],
                bad: [AlterConfig("retention.ms", "nonsense")],
            }
        )
    assert list(error.value.results) == [good]
    assert error.value.errors[bad].code is ErrorCode.INVALID_CONFIG
    check_value(stage, good.name, "retention.ms", "5")


@essential
def test_configs_of_what_is_not_there_are_an_error(stage: Stage) -> None:
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_configs([ConfigResource.topic(stage.new_name())])
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_configs([ConfigResource.broker(99)])
    assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def settle(stage: Stage, resource: ConfigResource, name: str, expected: str | None) -> ConfigEntry:
    """The config, as soon as the broker shows this value."""

    def entry() -> ConfigEntry:
        return stage.admin.describe_configs([resource])[resource][name]

    stage.comes_true(lambda: entry().value == expected)
    assert entry().value == expected
    return entry()


@essential
def test_groups_have_configs(stage: Stage) -> None:
    group = ConfigResource.group(stage.new_name())
    assert settle(stage, group, "consumer.session.timeout.ms", "45000").is_default
    change = stage.admin.incremental_alter_configs
    change({group: [AlterConfig("consumer.session.timeout.ms", "50000")]})
    entry = settle(stage, group, "consumer.session.timeout.ms", "50000")
    assert entry.source is ConfigSource.DYNAMIC_GROUP_CONFIG
    assert group in stage.admin.list_config_resources([ResourceType.GROUP])
    for name, wrong in (("consumer.session.timeout.ms", "1"), ("nonsense", "1")):
        with pytest.raises(KafkaError, match=name) as error:
            change({group: [AlterConfig(name, wrong)]})
        assert error.value.code is ErrorCode.INVALID_CONFIG
    change({group: [AlterConfig("consumer.session.timeout.ms", None, DELETE)]})
    assert settle(stage, group, "consumer.session.timeout.ms", "45000").is_default


@essential
def test_subscriptions_to_metrics_of_clients_are_configs(stage: Stage) -> None:
    metrics = ConfigResource.client_metrics(stage.new_name())
    change = stage.admin.incremental_alter_configs
    change({metrics: [AlterConfig("interval.ms", "5000")]})
    entry = settle(stage, metrics, "interval.ms", "5000")
    assert entry.source is ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    assert metrics in stage.admin.list_config_resources([ResourceType.CLIENT_METRICS])
    change({metrics: [AlterConfig("interval.ms", None, DELETE)]})
    stage.comes_true(lambda: metrics not in stage.admin.list_config_resources())
    assert metrics not in stage.admin.list_config_resources([ResourceType.CLIENT_METRICS])


@essential
def test_loggers_of_a_broker_have_levels(stage: Stage) -> None:
    loggers = ConfigResource.broker_loggers(stage.admin.describe_cluster().nodes[0].id)
    found = stage.admin.describe_configs([loggers])[loggers]
    assert {entry.source for entry in found.values()} == {ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG}
    assert found["root"].value in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


@essential
def test_all_resources_that_have_configs_are_listed(stage: Stage) -> None:
    topic = ConfigResource.topic(stage.topic())
    node_id = stage.admin.describe_cluster().nodes[0].id
    found = stage.admin.list_config_resources()
    assert {topic, ConfigResource.broker(node_id), ConfigResource.broker_loggers(node_id)} <= {
        *found
    }
    assert {each.type for each in stage.admin.list_config_resources([ResourceType.BROKER])} == {
        ResourceType.BROKER
    }


def test_a_resource_may_stand_alone_and_a_brokers_name_is_a_number(stage: Stage) -> None:
    resource = ConfigResource.topic(stage.topic())
    assert list(stage.admin.describe_configs(resource)) == [resource]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="its id"):
        stage.admin.describe_configs([ConfigResource.broker(1)._replace(name="one")])


def test_each_broker_is_asked_for_its_own_configs(
    three: ottla.Broker, admin_of_three: Admin
) -> None:
    resources = [ConfigResource.broker(node_id) for node_id in three.node_ids]
    found = admin_of_three.describe_configs(resources)
    node_ids = [found[resource]["node.id"].value for resource in resources]
    assert node_ids == ["1", "2", "3"]
