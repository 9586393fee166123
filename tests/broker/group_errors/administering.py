"""What administrators ask: offsets, deletions, descriptions, coordinators."""

from __future__ import annotations

from tests.broker import group_requests as ask
from tests.broker.group_errors.stage import (
    INT_MAX,
    LONGEST,
    PARTITIONS,
    Act,
    Situation,
    Stage,
    after,
    in_long_group,
    since,
    without_group,
)

from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

FETCHING = [
    Situation(
        OffsetFetchRequest,
        "no group id",
        "NONE",
        lambda stage, version: without_group(stage).fetch_offsets(version, stage.topic, 1),
        tuple(range(1, 10)),
    ),
    *(
        Situation(
            OffsetFetchRequest,
            f"{what} of a group that does not exist",
            "NONE",
            lambda stage, version, topic=topic, partition=partition: stage.fetch_offsets(  # type: ignore[misc]
                version, topic or stage.topic, partition
            ),
            tuple(range(1, 10)),
        )
        for what, topic, partition in (
            ("a topic", None, 0),
            ("a topic that does not exist", "no-such-topic", 0),
            ("the longest topic name", LONGEST, 0),
            ("a negative partition", None, -1),
            ("a partition that does not exist", None, INT_MAX),
        )
    ),
]


def _delete_what_somebody_reads(stage: Stage, _: int) -> ErrorCode:
    name = stage.topic.encode()
    subscription = bytes.fromhex("0000 00000001") + len(name).to_bytes(2, "big") + name
    stage.stable(protocols={"range": subscription + bytes.fromhex("ffffffff")})
    return stage.delete_offsets()


def _delete_of_other_members(stage: Stage, _: int) -> ErrorCode:
    stage.stable(protocol_type="connect", protocols={"v1": b""})
    return stage.delete_offsets()


def _delete_what_nobody_reads(stage: Stage, _: int) -> ErrorCode:
    stage.stable()
    return stage.delete_offsets()


def _delete_after_commit(topic: str | None = None, partition: int = 0) -> Act:
    def act(stage: Stage, _: int) -> ErrorCode:
        assert stage.commit(9) is ErrorCode.NONE
        return stage.delete_offsets(topic, partition)

    return act


DELETING = [
    Situation(
        OffsetDeleteRequest,
        "no group id",
        "INVALID_GROUP_ID",
        lambda stage, _: without_group(stage).delete_offsets(),
    ),
    Situation(
        OffsetDeleteRequest,
        "a group that does not exist",
        "GROUP_ID_NOT_FOUND",
        lambda stage, _: stage.delete_offsets(),
    ),
    Situation(
        OffsetDeleteRequest,
        "a topic that does not exist, of a group that does not exist",
        "GROUP_ID_NOT_FOUND",
        lambda stage, _: stage.delete_offsets("no-such-topic"),
    ),
    Situation(
        OffsetDeleteRequest,
        "a topic that the group reads",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        _delete_what_somebody_reads,
    ),
    Situation(
        OffsetDeleteRequest,
        "a topic that the group does not read",
        "NONE",
        _delete_what_nobody_reads,
    ),
    Situation(
        OffsetDeleteRequest,
        "a group with members that are not consumers",
        "NON_EMPTY_GROUP",
        _delete_of_other_members,
    ),
    Situation(
        OffsetDeleteRequest,
        "a topic that does not exist",
        "UNKNOWN_TOPIC_OR_PARTITION",
        _delete_after_commit("no-such-topic"),
    ),
    Situation(
        OffsetDeleteRequest,
        "a partition that does not exist",
        "UNKNOWN_TOPIC_OR_PARTITION",
        _delete_after_commit(partition=PARTITIONS),
    ),
    Situation(
        OffsetDeleteRequest,
        "a negative partition",
        "UNKNOWN_TOPIC_OR_PARTITION",
        _delete_after_commit(partition=-1),
    ),
    Situation(
        OffsetDeleteRequest,
        "a partition without an offset",
        "NONE",
        _delete_after_commit(partition=1),
    ),
    Situation(
        DeleteGroupsRequest,
        "no group id",
        "GROUP_ID_NOT_FOUND",
        lambda stage, version: (
            ask.delete_groups(stage.connection, ""),
            without_group(stage).delete_group(version),
        )[1],
    ),
    Situation(
        DeleteGroupsRequest,
        "a group that does not exist",
        "GROUP_ID_NOT_FOUND",
        lambda stage, version: stage.delete_group(version),
    ),
    Situation(
        DeleteGroupsRequest,
        "the longest group id",
        "GROUP_ID_NOT_FOUND",
        lambda stage, version: in_long_group(stage).delete_group(version),
    ),
    Situation(
        DeleteGroupsRequest,
        "a group with members",
        "NON_EMPTY_GROUP",
        after(Stage.stable, lambda stage, version: stage.delete_group(version)),
    ),
    Situation(
        DeleteGroupsRequest,
        "a group whose members are gone",
        "NONE",
        after(Stage.expired, lambda stage, version: stage.delete_group(version)),
    ),
]


DESCRIBING = [
    Situation(
        DescribeGroupsRequest,
        "a group that does not exist, as older clients know it",
        "NONE",
        lambda stage, version: stage.describe(version),
        tuple(range(6)),
    ),
    Situation(
        DescribeGroupsRequest,
        "a group that does not exist",
        "GROUP_ID_NOT_FOUND",
        lambda stage, version: stage.describe(version),
        (6,),
    ),
    Situation(
        DescribeGroupsRequest,
        "the longest group id",
        "GROUP_ID_NOT_FOUND",
        lambda stage, version: in_long_group(stage).describe(version),
        (6,),
        kafka="UNKNOWN_SERVER_ERROR",
        why="the message quotes the name, which is cut here so that the message fits",
    ),
    Situation(
        FindCoordinatorRequest,
        "no group id",
        "NONE",
        lambda stage, version: stage.find(version, "", ask.GROUP_KEY),
    ),
    Situation(
        FindCoordinatorRequest,
        "the longest group id",
        "NONE",
        lambda stage, version: stage.find(version, LONGEST, ask.GROUP_KEY),
    ),
    *(
        Situation(
            FindCoordinatorRequest,
            f"a key of type {key_type}",
            "INVALID_REQUEST",
            lambda stage, version, key_type=key_type: stage.find(version, "g", key_type),  # type: ignore[misc]
            since(FindCoordinatorRequest, 1),
        )
        for key_type in (-1, 3, 127)
    ),
]
