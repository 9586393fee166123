"""ListGroups: every group, or those of certain states and types."""

from __future__ import annotations

import pytest
from tests.broker import group_requests as ask
from tests.broker.conftest import Starter
from tests.broker.requests import create, every_version_of, session_with

from ottla.client.raw import RawConnection
from ottla.wire.messages.list_groups import ListGroupsRequest

VERSIONS = every_version_of(ListGroupsRequest)
STATE_SINCE, TYPE_SINCE = 4, 5


@pytest.fixture
def groups(connection: RawConnection, group: str, topic: str) -> dict[str, str]:
    """Groups of several kinds, by their state."""
    create(connection, topic)
    names = {
        state: f"{group}-{state}"
        for state in ("Stable", "Empty", "CompletingRebalance", "only-offsets", "no-consumers")
    }
    ask.enter(connection, names["Stable"])
    member = ask.enter(connection, names["Empty"])
    ask.leave(connection, names["Empty"], (member.member_id, None))
    ask.join_fully(connection, names["CompletingRebalance"])
    ask.commit(connection, names["only-offsets"], {(topic, 0): 1})
    ask.enter(connection, names["no-consumers"], protocol_type="connect", protocols={"v1": b""})
    return names


@pytest.mark.parametrize("version", VERSIONS)
def test_every_group_is_listed(
    connection: RawConnection, groups: dict[str, str], version: int
) -> None:
    found = ask.list_groups(connection, version=version)
    expected = {
        "Stable": ("consumer", "Stable"),
        "Empty": ("consumer", "Empty"),
        "CompletingRebalance": ("consumer", "CompletingRebalance"),
        "only-offsets": ("", "Empty"),
        "no-consumers": ("connect", "Stable"),
    }
    for kind, (protocol_type, state) in expected.items():
        assert found[groups[kind]] == (
            protocol_type,
            state if version >= STATE_SINCE else "",
            "classic" if version >= TYPE_SINCE else "",
        )


@pytest.mark.parametrize("version", range(STATE_SINCE, VERSIONS[-1] + 1))
@pytest.mark.parametrize(
    ("states", "kinds"),
    [
        (["stable"], {"Stable", "no-consumers"}),
        (["EMPTY", "Dead"], {"Empty", "only-offsets"}),
        (["PreparingRebalance", "completingrebalance"], {"CompletingRebalance"}),
        (["no such state"], set()),
    ],
)
def test_states_in_any_case(
    connection: RawConnection,
    groups: dict[str, str],
    version: int,
    states: list[str],
    kinds: set[str],
) -> None:
    found = ask.list_groups(connection, version=version, states=states)
    assert {kind for kind, name in groups.items() if name in found} == kinds


@pytest.mark.parametrize(
    ("types", "count"), [(["CLASSIC"], 5), (["consumer", "Share"], 0), (["classic", "x"], 5)]
)
def test_types_in_any_case(
    connection: RawConnection, groups: dict[str, str], types: list[str], count: int
) -> None:
    found = ask.list_groups(connection, types=types)
    assert len(set(found) & set(groups.values())) == count
    both = ask.list_groups(connection, types=types, states=["Stable"])
    assert len(set(both) & set(groups.values())) == (2 if count else 0)


def test_without_groups_the_list_is_empty_and_nothing_is_created(start: Starter) -> None:
    with session_with(start()) as connection:
        for version in VERSIONS:
            assert ask.list_groups(connection, version=version) == {}


def test_groups_are_listed_after_a_restart_before_anybody_asks_for_one(
    start: Starter, topic: str
) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        ask.await_coordinator(connection)
        for number in range(20):
            ask.commit(connection, f"g{number}", {(topic, 0): 1})
    broker.stop()
    with session_with(start()) as connection:
        assert len(ask.list_groups(connection)) == 20
