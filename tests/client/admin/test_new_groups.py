"""Groups of all types as the admin client reads them, and the order in which it asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from ottla.admin import GroupDescription, GroupState, GroupType
from ottla.client.aio.admin.answers import AT_COORDINATOR, Answers
from ottla.client.aio.admin.group_descriptions import (
    CONSUMER_TYPES,
    EVERY_TYPE,
    DescribeApi,
    describing,
    read_consumer_groups,
    read_streams_groups,
)
from ottla.client.aio.admin.requests import AdminRequests, name_of
from ottla.client.model import Node
from ottla.errors import ErrorCode, FatalError
from ottla.model import TopicPartition
from ottla.wire.messages import (
    consumer_group_describe,
    share_group_describe,
    streams_group_describe,
)
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from ottla.wire.types import ZERO_UUID

NODE = Node(3, "127.0.0.1", 9092)
CONSUMER, CLASSIC = "ConsumerGroupDescribe", "DescribeGroups"
SHARE, STREAMS = "ShareGroupDescribe", "StreamsGroupDescribe"


def owned(*numbers: int) -> consumer_group_describe.Assignment:
    found = consumer_group_describe.TopicPartitions(
        topic_id=ZERO_UUID, topic_name="orders", partitions=[*numbers]
    )
    return consumer_group_describe.Assignment(topic_partitions=[found])


def member_of(member_type: int = -1) -> consumer_group_describe.Member:
    return consumer_group_describe.Member(
        member_id="m-1",
        instance_id="static",
        rack_id="rack-7",
        member_epoch=7,
        client_id="kitchen",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="order.*",
        assignment=owned(2, 0),
        target_assignment=owned(0),
        member_type=member_type,
    )


def group_of(name: str, code: int = 0, member_type: int = -1) -> Any:
    return consumer_group_describe.DescribedGroup(
        error_code=code,
        group_id=name,
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=9,
        assignor_name="uniform",
        members=[member_of(member_type)],
    )


def answers_about() -> Answers[str, GroupDescription]:
    return Answers("DescribeGroups", "group", None, AT_COORDINATOR)


def test_members_of_consumer_groups_have_their_current_and_target_assignment() -> None:
    answers = answers_about()
    response = consumer_group_describe.ConsumerGroupDescribeResponse(
        groups=[group_of("new"), group_of("gone", ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    read_consumer_groups(response, NODE, answers)
    found = answers.results["new"]
    assert (found.state, found.type) == (GroupState.RECONCILING, GroupType.CONSUMER)
    assert (found.partition_assignor, found.coordinator) == ("uniform", NODE)
    assert (found.group_epoch, found.target_assignment_epoch) == (8, 9)
    (member,) = found.members
    assert (member.group_instance_id, member.client_id) == ("static", "kitchen")
    assert (member.rack_id, member.member_epoch) == ("rack-7", 7)
    assert member.assignment == (TopicPartition("orders", 2), TopicPartition("orders", 0))
    assert member.target_assignment == (TopicPartition("orders", 0),)
    assert (member.subscribed_topics, member.subscribed_topic_regex) == (("orders",), "order.*")
    assert answers.errors["gone"].code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("number", "expected"), [(-1, None), (0, GroupType.CLASSIC), (1, GroupType.CONSUMER)]
)
def test_members_say_which_protocol_they_use(number: int, expected: GroupType | None) -> None:
    answers = answers_about()
    response = consumer_group_describe.ConsumerGroupDescribeResponse(
        groups=[group_of("new", member_type=number)]
    )
    read_consumer_groups(response, NODE, answers)
    assert answers.results["new"].members[0].type is expected


def test_members_of_streams_groups_have_the_partitions_of_their_active_tasks() -> None:
    def tasks(subtopology: str, *numbers: int) -> streams_group_describe.TaskIds:
        return streams_group_describe.TaskIds(subtopology_id=subtopology, partitions=[*numbers])

    def assignment(*active: streams_group_describe.TaskIds) -> streams_group_describe.Assignment:
        return streams_group_describe.Assignment(
            active_tasks=[*active], standby_tasks=[tasks("0", 5)], warmup_tasks=[]
        )

    repartitioned = streams_group_describe.TopicInfo(
        name="by-table", partitions=2, replication_factor=1, topic_configs=[]
    )
    topology = streams_group_describe.Topology(
        epoch=1,
        subtopologies=[
            streams_group_describe.Subtopology(
                subtopology_id="0",
                source_topics=["orders"],
                repartition_sink_topics=["by-table"],
                state_changelog_topics=[],
                repartition_source_topics=[],
            ),
            streams_group_describe.Subtopology(
                subtopology_id="1",
                source_topics=[],
                repartition_sink_topics=[],
                state_changelog_topics=[],
                repartition_source_topics=[repartitioned],
            ),
        ],
    )
    member = streams_group_describe.Member(
        member_id="m-1",
        member_epoch=4,
        client_id="app",
        client_host="/127.0.0.1",
        topology_epoch=1,
        process_id="p",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=assignment(tasks("0", 0)),
        target_assignment=assignment(tasks("0", 0), tasks("1", 1)),
        is_classic=False,
    )
    group = streams_group_describe.DescribedGroup(
        error_code=0,
        group_id="app",
        group_state="NotReady",
        group_epoch=5,
        assignment_epoch=4,
        topology=topology,
        members=[member],
    )
    answers = answers_about()
    read_streams_groups(
        streams_group_describe.StreamsGroupDescribeResponse(groups=[group]), NODE, answers
    )
    found = answers.results["app"]
    assert (found.type, found.state) == (GroupType.STREAMS, GroupState.NOT_READY)
    assert (found.group_epoch, found.target_assignment_epoch) == (5, 4)
    (described,) = found.members
    assert described.assignment == (TopicPartition("orders", 0),)
    assert described.target_assignment == (
        TopicPartition("orders", 0),
        TopicPartition("by-table", 1),
    )
    assert described.subscribed_topics == ("orders", "by-table")


# The order of the APIs


class Coordinator:
    """A coordinator with groups of each type; it takes the place of the network."""

    def __init__(self, groups: Mapping[str, str], apis: tuple[str, ...]) -> None:
        self.groups = dict(groups)
        """The API that knows each group."""
        self.apis = apis
        self.asked: list[str] = []
        self.network = self
        self.cluster = self
        self.nodes = {NODE.id: NODE}
        self.before: Callable[[str], None] = lambda api: None

    async def connection(self, node: int) -> Coordinator:
        assert node == NODE.id
        return self

    def version_of(self, request: type[Any], at_most: int | None) -> int:
        if name_of(request) not in self.apis:
            raise FatalError(ErrorCode.UNSUPPORTED_VERSION)
        return 1

    async def send(
        self, connection: Coordinator, request: Any, version: int, limit_ms: float
    ) -> Any:
        api = name_of(type(request))
        self.before(api)
        self.asked.append(api)
        names = request.groups if api == CLASSIC else request.group_ids
        if api == CLASSIC:
            return DescribeGroupsResponse(groups=[self._classic(name) for name in names])
        messages = {
            CONSUMER: consumer_group_describe,
            SHARE: share_group_describe,
            STREAMS: streams_group_describe,
        }[api]
        response = {
            CONSUMER: consumer_group_describe.ConsumerGroupDescribeResponse,
            SHARE: share_group_describe.ShareGroupDescribeResponse,
            STREAMS: streams_group_describe.StreamsGroupDescribeResponse,
        }[api]
        return response(groups=[self._new(messages.DescribedGroup, name, api) for name in names])

    def _classic(self, name: str) -> DescribedGroup:
        known = self.groups.get(name) == CLASSIC
        return DescribedGroup(
            error_code=0 if known else ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=None if known else f"Group {name} is not a classic group.",
            group_id=name,
            group_state="Stable" if known else "Dead",
            protocol_type="connect" if name == "worker" else "consumer",
            protocol_data="",
            members=[],
        )

    def _new(self, described: Any, name: str, api: str) -> Any:
        known = self.groups.get(name) == api
        assignor = {} if api == STREAMS else {"assignor_name": ""}
        return described(
            error_code=0 if known else ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=None if known else f"{api} does not know group {name}.",
            group_id=name,
            group_state="Stable",
            group_epoch=1,
            assignment_epoch=1,
            members=[],
            **assignor,
        )

    def describe(
        self, apis: tuple[DescribeApi, ...], *groups: str
    ) -> Answers[str, GroupDescription]:
        answers = answers_about()
        ask = describing(cast(AdminRequests, self), apis, include_authorized_operations=False)

        async def run() -> None:
            await ask(NODE.id, [*groups], 1000.0, answers)

        asyncio.run(run())
        return answers


ALL_APIS = (CONSUMER, CLASSIC, SHARE, STREAMS)
GROUPS = {"new": CONSUMER, "old": CLASSIC, "shared": SHARE, "app": STREAMS, "worker": CLASSIC}


def test_groups_of_every_type_are_described_by_their_api() -> None:
    there = Coordinator(GROUPS, ALL_APIS)
    found = there.describe(EVERY_TYPE, *GROUPS)
    assert not found.errors
    assert {name: group.type for name, group in found.results.items()} == {
        "new": GroupType.CONSUMER,
        "old": GroupType.CLASSIC,
        "worker": GroupType.CLASSIC,
        "shared": GroupType.SHARE,
        "app": GroupType.STREAMS,
    }
    assert there.asked == [CONSUMER, CLASSIC, SHARE, STREAMS]


def test_no_api_is_asked_for_groups_that_are_described_already() -> None:
    there = Coordinator(GROUPS, ALL_APIS)
    assert list(there.describe(EVERY_TYPE, "new").results) == ["new"]
    assert there.asked == [CONSUMER]


def test_a_broker_that_knows_only_classic_groups_is_asked_for_those() -> None:
    there = Coordinator(GROUPS, (CLASSIC,))
    found = there.describe(EVERY_TYPE, "old", "gone")
    assert (list(found.results), there.asked) == (["old"], [CLASSIC])
    assert found.errors["gone"].code is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_first_api_says_why_there_is_no_such_group() -> None:
    found = Coordinator({}, ALL_APIS).describe(EVERY_TYPE, "gone")
    assert found.errors["gone"].code is ErrorCode.GROUP_ID_NOT_FOUND
    assert found.errors["gone"].message == "ConsumerGroupDescribe does not know group gone."


def test_a_group_that_changes_its_protocol_in_between_is_found() -> None:
    there = Coordinator({"moving": CLASSIC}, ALL_APIS)

    def migrate(api: str) -> None:
        if api == CLASSIC:
            there.groups["moving"] = CONSUMER

    there.before = migrate
    found = there.describe(CONSUMER_TYPES, "moving")
    assert found.results["moving"].type is GroupType.CONSUMER
    assert there.asked == [CONSUMER, CLASSIC, CONSUMER]


def test_only_consumer_groups_are_described_as_consumer_groups() -> None:
    found = Coordinator(GROUPS, ALL_APIS).describe(CONSUMER_TYPES, *GROUPS)
    assert set(found.results) == {"new", "old"}
    assert found.errors["worker"].code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert found.errors["shared"].code is ErrorCode.GROUP_ID_NOT_FOUND
