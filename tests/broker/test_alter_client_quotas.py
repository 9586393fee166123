"""AlterClientQuotas: sets and removes quotas, and refuses what Kafka refuses, in its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.broker.conftest import Starter
from tests.broker.processes import ServeProcess
from tests.broker.quota_requests import SPECIFIED, Names, alter, describe, entry, set_quotas
from tests.broker.requests import session_with
from tests.lasting import LASTING

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

ANN, APP = {"user": "ann"}, {"client-id": "app"}
RATE = {"producer_byte_rate": 1024.0}


@pytest.fixture(scope="module")
def module_broker() -> Iterator[ottla.Broker]:
    """Quotas would slow down the tests that share the broker of the session."""
    with ottla.Broker(LASTING) as running:
        yield running


@pytest.fixture
def connection(module_broker: ottla.Broker) -> Iterator[RawConnection]:
    with session_with(module_broker) as connected:
        for names, quotas in describe(connected):
            alter(connected, entry(names, dict.fromkeys(quotas)))
        yield connected


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_changed_and_removed(connection: RawConnection, version: int) -> None:
    names: Names = {"client-id": "app/%2F=ü", "user": None}
    ok = [(names, ErrorCode.NONE, None)]
    both = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert alter(connection, entry(names, both), version=version) == ok
    assert describe(connection, version=version) == [(names, both)]
    changed = {"producer_byte_rate": None, "consumer_byte_rate": 7.0}
    assert alter(connection, entry(names, changed), version=version) == ok
    left = {"request_percentage": 12.5, "consumer_byte_rate": 7.0}
    assert describe(connection, version=version) == [(names, left)]
    assert alter(connection, entry(names, dict.fromkeys(left)), version=version) == ok
    assert describe(connection, version=version) == []


def test_what_is_only_validated_is_not_changed(connection: RawConnection) -> None:
    assert alter(connection, entry(ANN, RATE), validate_only=True) == [(ANN, ErrorCode.NONE, None)]
    assert describe(connection) == []


def test_a_quota_that_was_not_set_can_be_removed(connection: RawConnection) -> None:
    set_quotas(connection, ANN, producer_byte_rate=None, no_such_key=None)
    assert describe(connection) == []


def test_one_refused_entity_does_not_keep_others_from_being_changed(
    connection: RawConnection,
) -> None:
    outcomes = alter(connection, entry(ANN, {"producer_byte_rate": -1.0}), entry(APP, RATE))
    assert outcomes == [
        (ANN, ErrorCode.INVALID_REQUEST, "Quota producer_byte_rate must be greater than 0"),
        (APP, ErrorCode.NONE, None),
    ]
    assert describe(connection) == [(APP, RATE)]


def test_the_second_change_of_an_entity_is_refused(connection: RawConnection) -> None:
    both: Names = {"user": "ann", "client-id": None}
    twice = entry(both, RATE)
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=ann})"
    assert alter(connection, twice, twice) == [(both, ErrorCode.INVALID_REQUEST, text)]
    # As in Kafka, the first one was made.
    assert describe(connection) == [(both, RATE)]


def test_a_key_that_is_named_twice_is_refused(connection: RawConnection) -> None:
    twice = entry(ANN, RATE)
    twice.ops *= 2
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={user=ann})"
    assert alter(connection, twice) == [(ANN, ErrorCode.INVALID_REQUEST, text)]


@pytest.mark.parametrize(
    ("names", "quotas", "text"),
    [
        ({}, RATE, "Invalid empty client quota entity"),
        ({"user": ""}, RATE, "Empty user not supported"),
        ({"machine": "x"}, RATE, "Unhandled client quota entity type: machine"),
        (
            {"ip": "127.0.0.1", "user": "ann"},
            RATE,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (
            {"ip": "no such host"},
            {"connection_creation_rate": 1.0},
            "no such host is not a valid IP or resolvable host.",
        ),
        ({"ip": None}, RATE, "Invalid configuration key producer_byte_rate"),
        (
            ANN,
            {"connection_creation_rate": 1.0},
            "Invalid configuration key connection_creation_rate",
        ),
        (ANN, {"no_such_key": 1.0}, "Invalid configuration key no_such_key"),
        (ANN, {"consumer_byte_rate": 0.0}, "Quota consumer_byte_rate must be greater than 0"),
        (
            ANN,
            {"request_percentage": float("nan")},
            "Quota request_percentage must be greater than 0",
        ),
        (ANN, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (
            ANN,
            {"producer_byte_rate": 1e19},
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            {"ip": None},
            {"connection_creation_rate": 2.0**31},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (
            ANN,
            {"controller_mutation_rate": float("inf")},
            "Proposed value for controller_mutation_rate is too large for a DOUBLE.",
        ),
    ],
)
def test_kafkas_reasons(
    connection: RawConnection, names: Names, quotas: Mapping[str, float], text: str
) -> None:
    assert alter(connection, entry(names, quotas)) == [(names, ErrorCode.INVALID_REQUEST, text)]
    assert describe(connection) == []


def test_quotas_survive_a_restart(start: Starter) -> None:
    first = start()
    with session_with(first) as connection:
        set_quotas(connection, {"user": "ann", "client-id": "a/b=c%2F"}, request_percentage=0.1)
        set_quotas(connection, {"ip": "::ffff:10.0.0.9"}, connection_creation_rate=3)
        set_quotas(connection, ANN, producer_byte_rate=5)
        set_quotas(connection, ANN, producer_byte_rate=None)
        before = describe(connection)
        assert len(before) == 2
    first.stop()
    with session_with(start()) as connection:
        assert describe(connection) == before


def test_quotas_survive_kill_9(serve_process: ServeProcess) -> None:
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        set_quotas(connection, ANN, producer_byte_rate=5)
    serve_process.kill()
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        assert describe(connection, ("user", SPECIFIED, None)) == [
            (ANN, {"producer_byte_rate": 5.0})
        ]
