"""Configs of a group (KIP-848): what they are, which values are refused, and when they take effect."""

from __future__ import annotations

from tests.groups.kafka_answers.members import Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import APPEND, Stage

from ottla.wire.messages.incremental_alter_configs import AlterableConfig

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"


@script
def the_heartbeat_interval_of_a_group_is_told_to_its_members(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    stage.set_config({HEARTBEAT: "7000"})
    member.beat()
    stage.describe_config(HEARTBEAT)
    stage.set_config({HEARTBEAT: None})
    member.beat()
    stage.describe_config(HEARTBEAT)


@script
def configs_can_be_set_before_the_group_is_there(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config({HEARTBEAT: "6000"})
    stage.describe_config(HEARTBEAT)
    Consumer(stage, "A").join(topic)


@script
def the_consumer_configs_of_a_group(stage: Stage) -> None:
    stage.describe_config(SESSION, HEARTBEAT, INTERVAL)
    stage.describe_config(SESSION, synonyms=False)


@script
def a_config_that_does_not_exist(stage: Stage) -> None:
    stage.set_config({"no.such.config": "1"})
    stage.set_config({"session.timeout.ms": "1"})
    stage.describe_config("no.such.config")


@script
def a_value_that_is_no_number(stage: Stage) -> None:
    stage.set_config({SESSION: "soon"})
    stage.set_config({SESSION: ""})
    stage.set_config({SESSION: "1.5"})
    stage.set_config({SESSION: "99999999999"})


@script
def values_below_the_least(stage: Stage) -> None:
    stage.set_config({SESSION: "0"})
    stage.set_config({SESSION: "-1"})
    stage.set_config({HEARTBEAT: "0"})
    stage.set_config({INTERVAL: "-1"})


@script
def a_session_timeout_out_of_bounds(stage: Stage) -> None:
    stage.set_config({SESSION: "499"})
    stage.set_config({SESSION: "60001"})
    stage.set_config({SESSION: "60000"})
    stage.describe_config(SESSION)


@script
def a_heartbeat_interval_out_of_bounds(stage: Stage) -> None:
    stage.set_config({HEARTBEAT: "99"})
    stage.set_config({HEARTBEAT: "15001"})
    stage.set_config({HEARTBEAT: "15000"})


@script
def an_assignment_interval_out_of_bounds(stage: Stage) -> None:
    stage.set_config({INTERVAL: "15001"})
    stage.set_config({INTERVAL: "15000"})
    stage.describe_config(INTERVAL)


@script
def a_session_must_be_longer_than_the_heartbeat_interval(stage: Stage) -> None:
    stage.set_config({SESSION: "500"})
    stage.set_config({SESSION: "4000", HEARTBEAT: "4000"})
    stage.set_config({SESSION: "4000", HEARTBEAT: "3999"})
    stage.set_config({HEARTBEAT: "5000"})
    stage.set_config({SESSION: None})
    stage.describe_config(SESSION, HEARTBEAT)


@script
def a_numeric_config_cannot_be_appended_to(stage: Stage) -> None:
    change = AlterableConfig(name=SESSION, config_operation=APPEND, value="1")
    stage.alter_config([change], "append to the session timeout")
    change = AlterableConfig(name=SESSION, config_operation=0, value=None)
    stage.alter_config([change], "set to null")
    twice = AlterableConfig(name=SESSION, config_operation=0, value="50000")
    stage.alter_config([twice, twice], "one config twice")


@script
def configs_of_a_group_without_a_name(stage: Stage) -> None:
    stage.set_config({SESSION: "50000"}, group="")
    stage.describe_config(SESSION, group="")


@script
def configs_outlive_the_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config({HEARTBEAT: "6000"})
    member = Consumer(stage, "A")
    member.join(topic)
    member.leave()
    stage.delete_group()
    stage.describe_config(HEARTBEAT)
    member.join(topic)
