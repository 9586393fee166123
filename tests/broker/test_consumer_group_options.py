"""What each option of the consumer protocol does; the table of options is in test_options_have_effect.py."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as classic
from tests.broker.consumer_group_requests import JOIN, ConsumerMember, describe, heartbeat
from tests.broker.requests import create, eventually, on_loop, session_with, set_options
from tests.broker.test_incremental_alter_configs import SET, resource
from tests.broker.test_incremental_alter_configs import ask as alter
from tests.broker.test_options_have_effect import CONSUMER_GROUP_OPTIONS

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker

BROKER, GROUP = 4, 32
JOINING: dict[str, Any] = {
    "owned": {},
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
}


def probe_heartbeat_interval(connection: RawConnection, broker: Broker) -> object:
    return ConsumerMember(connection, "g", "t").join().heartbeat_interval_ms


def probe_session_timeout(connection: RawConnection, broker: Broker) -> object:
    """Whether a member is still there after 47 s, by a clock that stands still otherwise."""
    member = ConsumerMember(connection, "g", "t")
    member.join()
    broker.clock.advance("47s")
    return member.error()


def probe_assignors(connection: RawConnection, broker: Broker) -> object:
    ConsumerMember(connection, "g", "t").join()
    named = heartbeat(connection, "h", "m", JOIN, server_assignor="uniform", **JOINING)
    return describe(connection, "g").assignor_name, ErrorCode(named.error_code)


def probe_max_size(connection: RawConnection, broker: Broker) -> object:
    ConsumerMember(connection, "g", "t").join()
    return ErrorCode(heartbeat(connection, "g", "second", JOIN, **JOINING).error_code)


def probe_protocols(connection: RawConnection, broker: Broker) -> object:
    answer = heartbeat(connection, "g", "m", JOIN, **JOINING)
    assert answer.error_message is None
    described = describe(connection, "g").error_code
    return ErrorCode(answer.error_code), ErrorCode(described)


def probe_migration(connection: RawConnection, broker: Broker) -> object:
    """What becomes of a member of the consumer protocol that joins a classic group."""
    subscription = bytes.fromhex("0000 00000001 0001 74 ffffffff")  # to t
    assignment = bytes.fromhex("0000 00000001 0001 74 00000001 00000000 ffffffff")
    classic.enter(connection, "g", protocols=[("range", subscription)], assignment=assignment)
    return ErrorCode(heartbeat(connection, "g", "m", JOIN, **JOINING).error_code)


def probe_assignment_interval(connection: RawConnection, broker: Broker) -> object:
    """Whether a second member is assigned partitions 1.5 s after the first."""
    first = ConsumerMember(connection, "g", "t")
    first.join()
    broker.clock.advance("1.5s")
    ConsumerMember(connection, "g", "t").join()
    found = describe(connection, "g")
    return found.assignment_epoch == found.group_epoch


def probe_refresh(connection: RawConnection, broker: Broker) -> object:
    """Whether the topics of a pattern are looked up again after 20 s although none was created."""
    member = ConsumerMember(connection, "g", subscribed_topic_regex="t")
    member.join()

    def is_resolved() -> bool:
        member.beat()
        return bool(member.owned)

    def last_search(running: Any) -> tuple[bool, int]:
        """Whether topics are searched for now, and when they were last."""
        group = running.node.groups.find("g").machine.consumers.groups["g"]
        return group.is_resolving, group.patterns["t"].resolved_at_ms

    assert eventually(is_resolved)
    before = on_loop(broker, last_search)
    broker.clock.advance("20s")
    member.beat()
    return on_loop(broker, last_search) != before


def altered(connection: RawConnection, option: str, value: str) -> ErrorCode:
    return ErrorCode(set_options(connection, "g", {option: value}, GROUP))


def limit(option: str, value: str) -> Any:
    return lambda connection, broker: altered(connection, option, value)


NONE, INVALID_CONFIG = ErrorCode.NONE, ErrorCode.INVALID_CONFIG
MAX_SIZE, UNSUPPORTED = ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNSUPPORTED_VERSION
HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
INTERVAL = "consumer.assignment.interval.ms"
# What is seen without the option, and with its value in the table of all options.
PROBES: dict[str, tuple[Any, object, object]] = {
    "group.consumer.assignment.interval.ms": (probe_assignment_interval, True, False),
    "group.consumer.assignors": (
        probe_assignors, ("uniform", NONE), ("range", ErrorCode.UNSUPPORTED_ASSIGNOR)
    ),
    "group.consumer.heartbeat.interval.ms": (probe_heartbeat_interval, 5000, 6000),
    "group.consumer.max.assignment.interval.ms": (limit(INTERVAL, "2001"), NONE, INVALID_CONFIG),
    "group.consumer.max.heartbeat.interval.ms": (limit(HEARTBEAT, "6001"), NONE, INVALID_CONFIG),
    "group.consumer.max.session.timeout.ms": (limit(SESSION, "50001"), NONE, INVALID_CONFIG),
    "group.consumer.max.size": (probe_max_size, NONE, MAX_SIZE),
    "group.consumer.migration.policy": (
        probe_migration, NONE, ErrorCode.GROUP_ID_NOT_FOUND
    ),
    "group.consumer.min.assignment.interval.ms": (limit(INTERVAL, "400"), NONE, INVALID_CONFIG),
    "group.consumer.min.heartbeat.interval.ms": (limit(HEARTBEAT, "1000"), INVALID_CONFIG, NONE),
    "group.consumer.min.session.timeout.ms": (limit(SESSION, "6000"), INVALID_CONFIG, NONE),
    "group.consumer.regex.refresh.interval.ms": (probe_refresh, False, True),
    "group.consumer.session.timeout.ms": (
        probe_session_timeout, ErrorCode.UNKNOWN_MEMBER_ID, NONE
    ),
    "group.coordinator.rebalance.protocols": (
        probe_protocols, (NONE, NONE), (UNSUPPORTED, UNSUPPORTED)
    ),
}  # fmt: skip
# Kafka's defaults, where an embedded broker has others.
DEFAULTS = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
}


def test_every_option_is_probed() -> None:
    assert set(PROBES) == set(CONSUMER_GROUP_OPTIONS)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("is_set", [False, True])
def test_an_option_has_effect(name: str, is_set: bool) -> None:
    probe, without, seen = PROBES[name]
    options = {**DEFAULTS, **({name: CONSUMER_GROUP_OPTIONS[name]} if is_set else {})}
    with Broker(options) as broker, session_with(broker) as connection:
        broker.clock.freeze()
        classic.await_coordinator(connection)
        create(connection, "t", 2)
        assert probe(connection, broker) == (seen if is_set else without)


def test_the_interval_between_assignments_changes_at_run_time() -> None:
    """It is the only one of these options that Kafka lets a running broker change."""
    name = "group.consumer.assignment.interval.ms"
    with Broker(DEFAULTS) as broker, session_with(broker) as connection:
        broker.clock.freeze()
        classic.await_coordinator(connection)
        create(connection, "t", 2)
        (result,) = alter(connection, resource(BROKER, "1", (name, SET, "2000")))
        assert result.error_code == NONE
        assert probe_assignment_interval(connection, broker) is False
        (result,) = alter(connection, resource(BROKER, "1", (name, SET, "15001")))
        assert result.error_code == INVALID_CONFIG
