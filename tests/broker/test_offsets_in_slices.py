"""OffsetFetch of all that a group has committed: others have their turn while a long answer is made."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

from tests.core.group.groups import Groups, offset

from ottla.broker.handlers import offset_fetch
from ottla.broker.handlers.offset_fetch import OFFSETS_PER_STEP
from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.node import Node
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorizer import OpenAuthorizer
from ottla.broker.security.caller import Caller
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

TOPIC = "orders"
COMMITS = 20 * OFFSETS_PER_STEP
HERE = Endpoint("127.0.0.1", 1)
ONE_GROUP, MANY_GROUPS = 7, 9


class Coordinator:
    """A node that coordinates one group and answers at once; every look at its clock is a second later."""

    def __init__(self) -> None:
        self.groups = Groups()
        cluster = SimpleNamespace(
            share=LoopShare(itertools.count(1).__next__), catalog=SimpleNamespace(topics={})
        )
        node = SimpleNamespace(cluster=cluster, groups=self, authorizer=OpenAuthorizer())
        self._node = cast(Node, node)

    def ask(self, group_id: str, decide: Any, respond: Any) -> Any:
        return respond(decide(self.groups.machine, None, None))

    def fetch(self, version: int, partitions: list[int] | None) -> Any:
        topics = None
        if partitions is not None:
            topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=partitions)]
        if version == ONE_GROUP:
            request = OffsetFetchRequest(
                group_id="g", topics=cast(Any, topics), require_stable=True
            )
        else:
            group = OffsetFetchRequestGroup(group_id="g", topics=topics)
            request = OffsetFetchRequest(groups=[group], require_stable=True)
        return offset_fetch.handle(
            self._node, request, RequestContext(version, "c", Caller(HERE, HERE))
        )


def errors_of(response: OffsetFetchResponse) -> dict[int, int]:
    (topic,) = response.groups[0].topics if response.groups else response.topics
    return {found.partition_index: found.error_code for found in topic.partitions}


def test_others_have_their_turn_while_all_offsets_are_answered() -> None:
    async def fetch(version: int) -> None:
        coordinator = Coordinator()
        for partition in range(COMMITS):
            coordinator.groups.commit(offset(TOPIC, partition, 5))
        response = asyncio.ensure_future(coordinator.fetch(version, None))
        turns = 0
        while not response.done():
            await asyncio.sleep(0)
            turns += 1
        # They are sorted by topic, then the answer is made of them.
        assert turns >= 2 * COMMITS / OFFSETS_PER_STEP
        assert errors_of(response.result()) == dict.fromkeys(range(COMMITS), 0)

    for version in (ONE_GROUP, MANY_GROUPS):
        asyncio.run(fetch(version))


def test_what_is_asked_for_by_partition_is_answered_at_once() -> None:
    coordinator = Coordinator()
    coordinator.groups.commit(offset(TOPIC, 0, 5))
    for version in (ONE_GROUP, MANY_GROUPS):
        assert errors_of(coordinator.fetch(version, [0, 1])) == {0: 0, 1: 0}


def test_offsets_that_a_transaction_may_change_are_not_stable_among_all() -> None:
    async def fetch(version: int) -> None:
        coordinator = Coordinator()
        coordinator.groups.commit(offset(TOPIC, 0, 5), offset(TOPIC, 1, 5))
        coordinator.groups.commit_in_transaction(1, offset(TOPIC, 1, 6))
        expected = {0: ErrorCode.NONE, 1: ErrorCode.UNSTABLE_OFFSET_COMMIT}
        assert errors_of(await coordinator.fetch(version, None)) == expected

    for version in (ONE_GROUP, MANY_GROUPS):
        asyncio.run(fetch(version))
