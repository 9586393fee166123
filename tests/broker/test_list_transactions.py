"""ListTransactions (KIP-664) and what can be chosen from (KIP-994, KIP-1152)."""

from __future__ import annotations

import time
import uuid

import pytest
from tests.broker import txn_requests as ask
from tests.broker.requests import create, every_version_of, now_ms

from ottla.broker.requests.patterns import MAX_PATTERN_CHARS
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

EVERY_VERSION = pytest.mark.parametrize("version", every_version_of(ListTransactionsRequest))
Ids = dict[str, str]


@pytest.fixture
def ids(connection: RawConnection, topic: str) -> Ids:
    """Transactional ids by the state that they are in."""
    create(connection, topic, 2)
    prefix = f"tx-{uuid.uuid4().hex[:8]}"
    made = {
        state: f"{prefix}-{state}"
        for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
    }
    ask.await_coordinator(connection, prefix)
    for state, transactional_id in made.items():
        who = ask.become(connection, transactional_id)
        if state != "Empty":
            assert ask.send(connection, transactional_id, who, topic) is ErrorCode.NONE
        if state.startswith("Complete"):
            ask.end(connection, transactional_id, who, commits=state == "CompleteCommit")
            ask.await_state(connection, transactional_id, state)
    return made


@EVERY_VERSION
def test_every_id_is_listed_with_its_state(
    connection: RawConnection, ids: Ids, version: int
) -> None:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    answer = connection.call(request, ListTransactionsResponse, version)
    found = {one.transactional_id: one.transaction_state for one in answer.transaction_states}
    assert {name: found[name] for name in ids.values()} == {
        name: state for state, name in ids.items()
    }


@EVERY_VERSION
def test_states_can_be_chosen_and_unknown_ones_are_named(
    connection: RawConnection, ids: Ids, version: int
) -> None:
    def chosen(*states: str) -> set[str]:
        found = ask.list_ids(connection, version=version, state_filters=list(states))
        return found & set(ids.values())

    assert chosen("Ongoing") == {ids["Ongoing"]}
    assert chosen("Empty", "CompleteAbort") == {ids["Empty"], ids["CompleteAbort"]}
    assert chosen("PrepareEpochFence") == set()
    request = ListTransactionsRequest(state_filters=["Nope", "Empty"], producer_id_filters=[])
    answer = connection.call(request, ListTransactionsResponse, version)
    assert answer.unknown_state_filters == ["Nope"]
    assert {one.transaction_state for one in answer.transaction_states} == {"Empty"}
    only = ListTransactionsRequest(state_filters=["Nope"], producer_id_filters=[])
    assert connection.call(only, ListTransactionsResponse, version).transaction_states == []


@EVERY_VERSION
def test_producers_can_be_chosen(connection: RawConnection, ids: Ids, version: int) -> None:
    who = ask.describe(connection, ids["Ongoing"]).producer_id
    chosen = ask.list_ids(connection, version=version, producer_id_filters=[who, 999_999_999])
    assert chosen == {ids["Ongoing"]}
    assert (
        ask.list_ids(
            connection, version=version, producer_id_filters=[who], state_filters=["Empty"]
        )
        == set()
    )


@pytest.mark.parametrize("version", [1, 2])
def test_transactions_that_run_for_long_can_be_chosen(
    connection: RawConnection, ids: Ids, version: int
) -> None:
    started_ms = ask.describe(connection, ids["Ongoing"]).transaction_start_time_ms
    while now_ms() <= started_ms + 1:
        time.sleep(0.001)
    mine = set(ids.values())
    running = {"state_filters": ["Ongoing"]}
    assert ask.list_ids(connection, version=version, duration_filter=0, **running) & mine == {
        ids["Ongoing"]
    }
    assert ask.list_ids(connection, version=version, duration_filter=3_600_000) & mine == set()
    assert ask.list_ids(connection, version=version, duration_filter=-1) >= mine


def test_ids_can_be_chosen_by_a_pattern_of_the_whole_name(
    connection: RawConnection, ids: Ids
) -> None:
    name = ids["Ongoing"]
    assert ask.list_ids(connection, transactional_id_pattern=name) == {name}
    assert ask.list_ids(connection, transactional_id_pattern=name[:-1]) == set()
    assert ask.list_ids(connection, transactional_id_pattern=f"{name[:-1]}.") == {name}
    prefix = name.removesuffix("Ongoing")
    assert ask.list_ids(connection, transactional_id_pattern=f"{prefix}Complete.*") == {
        ids["CompleteCommit"],
        ids["CompleteAbort"],
    }
    assert ask.list_ids(connection, transactional_id_pattern="") >= set(ids.values())
    # Classes of Unicode's are programs of a thousand instructions each.
    assert ask.list_ids(connection, transactional_id_pattern=rf"{prefix}[\pL]+") == set(
        ids.values()
    )


@pytest.mark.parametrize(
    "pattern",
    ["(", "a" * (MAX_PATTERN_CHARS + 1), r"[^\pN\pL]" * 100, r"([^\pN\pL]{30}){30}", "(" * 900],
)
def test_patterns_that_are_none_or_too_large_are_refused(
    connection: RawConnection, pattern: str
) -> None:
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
    )
    answer = connection.call(request, ListTransactionsResponse, 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
