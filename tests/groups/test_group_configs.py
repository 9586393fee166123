"""What options of the broker and of the group set for members of the new protocol: sessions, heartbeats, sizes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.groups.brokers import Running, one_node
from tests.groups.conftest import Topics
from tests.groups.history import History
from tests.groups.members import change_group_config
from tests.groups.raw_consumer_member import RawConsumerMember
from tests.groups.raw_member import BrokenError

SESSION_MS = 2_000
BROKERS_HEARTBEAT_MS, HEARTBEAT_MS = 200, 300

NewRaw = Callable[[Running, str, str], RawConsumerMember]


@pytest.fixture
def group_id() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_raw(ottla_topic: str) -> Iterator[NewRaw]:
    """Makes members whose connections end with the test."""
    with ExitStack() as stack:

        def new(running: Running, group_id: str, name: str) -> RawConsumerMember:
            server = running.bootstrap_servers.split(",")[0]
            found = RawConsumerMember(
                server, group_id, ottla_topic, name, History(), random.Random(name)
            )
            stack.callback(found.close)
            return found

        yield new


def test_the_groups_session_timeout_ends_the_membership_of_the_silent(
    running: Running, topics: Topics, group_id: str, new_raw: NewRaw, ottla_topic: str
) -> None:
    topics.create(ottla_topic, 2)
    change_group_config(
        running.bootstrap_servers, group_id, **{"consumer.session.timeout.ms": SESSION_MS}
    )
    well, silent = (new_raw(running, group_id, name) for name in ("well", "silent"))

    def members() -> set[str]:
        return set(topics.describe(group_id).assignment)

    with running.frozen():
        silent.join()
        well.join()
        running.let_pass(SESSION_MS / 2)
        well.heartbeat()
        assert members() == {well.member_id, silent.member_id}
        running.let_pass(SESSION_MS / 2)
        well.heartbeat()
        running.let_pass(SESSION_MS / 4)
        assert members() == {well.member_id}
    with pytest.raises(BrokenError, match="UNKNOWN_MEMBER_ID"):
        silent.heartbeat()
    well.leave()


def test_the_groups_heartbeat_interval_is_told_to_its_members(
    running: Running, topics: Topics, group_id: str, new_raw: NewRaw, ottla_topic: str
) -> None:
    topics.create(ottla_topic, 1)
    member = new_raw(running, group_id, "one")
    member.join()
    assert member.interval_ms == BROKERS_HEARTBEAT_MS
    change_group_config(
        running.bootstrap_servers, group_id, **{"consumer.heartbeat.interval.ms": HEARTBEAT_MS}
    )
    member.heartbeat()
    assert member.interval_ms == HEARTBEAT_MS
    member.leave()


def test_a_full_group_takes_nobody_until_somebody_leaves(
    tmp_path: Path, group_id: str, new_raw: NewRaw, ottla_topic: str
) -> None:
    with one_node(tmp_path, {"group.consumer.max.size": 2}) as running:
        Topics(running.bootstrap_servers).create(ottla_topic, 3)
        one, two, three = (new_raw(running, group_id, name) for name in ("one", "two", "three"))
        one.join()
        two.join()
        with pytest.raises(BrokenError, match="GROUP_MAX_SIZE_REACHED"):
            three.join()
        # Those who are in stay in.
        one.heartbeat()
        two.leave()
        three.join()
        one.leave()
        three.leave()
