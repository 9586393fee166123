"""OffsetCommit: what is refused, and what looks as if it should be."""

from __future__ import annotations

from typing import Any

from tests.broker import group_requests as ask
from tests.broker.group_errors.stage import (
    FIRST_COMMIT_WITH_INSTANCE,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONGEST,
    PARTITIONS,
    Act,
    Situation,
    Stage,
    in_long_group,
    since,
    without_group,
)
from tests.broker.group_requests import Position

from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest


def _committing(**details: Any) -> Act:
    return lambda stage, version: stage.commit(version, **details)


def _anonymously_to_members(stage: Stage, version: int) -> ErrorCode:
    stage.stable()
    return stage.commit(version)


OLD_COMMIT = tuple(range(2, 9))
NAMED_COMMIT = tuple(range(2, 10))
COMMITTING = [
    Situation(
        OffsetCommitRequest,
        "no group id",
        "NONE",
        lambda stage, version: without_group(stage).commit(version),
    ),
    Situation(
        OffsetCommitRequest,
        "the longest group id",
        "NONE",
        lambda stage, version: in_long_group(stage).commit(version),
    ),
    Situation(OffsetCommitRequest, "no member", "NONE", _committing()),
    Situation(
        OffsetCommitRequest,
        "a member id without a generation",
        "NONE",
        lambda stage, version: stage.commit(version, stage.stranger()._replace(generation=-1)),
    ),
    Situation(
        OffsetCommitRequest,
        "a generation of a group that does not exist, as older clients know it",
        "ILLEGAL_GENERATION",
        lambda stage, version: stage.commit(version, stage.stranger()),
        OLD_COMMIT,
    ),
    Situation(
        OffsetCommitRequest,
        "a generation of a group that does not exist",
        "GROUP_ID_NOT_FOUND",
        lambda stage, version: stage.commit(version, stage.stranger()),
        since(OffsetCommitRequest, 9),
    ),
    Situation(
        OffsetCommitRequest,
        "not a member",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.commit(version, stage.stable()._replace(member_id="stranger")),
    ),
    Situation(
        OffsetCommitRequest,
        "the longest member id",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.commit(version, stage.stable()._replace(member_id=LONGEST)),
    ),
    Situation(
        OffsetCommitRequest,
        "nobody in particular, while there are members",
        "UNKNOWN_MEMBER_ID",
        _anonymously_to_members,
    ),
    Situation(
        OffsetCommitRequest,
        "a member without its generation",
        "ILLEGAL_GENERATION",
        lambda stage, version: stage.commit(version, stage.stable()._replace(generation=-1)),
    ),
    *(
        Situation(
            OffsetCommitRequest,
            f"generation {generation}",
            "ILLEGAL_GENERATION",
            lambda stage, version, generation=generation: stage.commit(  # type: ignore[misc]
                version, stage.stable()._replace(generation=generation)
            ),
        )
        for generation in (INT_MIN, 0, 2, INT_MAX)
    ),
    Situation(
        OffsetCommitRequest,
        "a member whose session is over",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.commit(version, stage.expired()),
    ),
    Situation(
        OffsetCommitRequest,
        "a member that has not synced",
        "REBALANCE_IN_PROGRESS",
        lambda stage, version: stage.commit(version, stage.completing()),
    ),
    Situation(
        OffsetCommitRequest,
        "a member that has to join again",
        "NONE",
        lambda stage, version: stage.commit(version, stage.preparing()),
    ),
    Situation(
        OffsetCommitRequest,
        "a static member whose place is taken",
        "FENCED_INSTANCE_ID",
        lambda stage, version: stage.commit(version, stage.fenced()),
        since(OffsetCommitRequest, FIRST_COMMIT_WITH_INSTANCE),
    ),
    Situation(
        OffsetCommitRequest,
        "an instance id that the group does not know",
        "UNKNOWN_MEMBER_ID",
        lambda stage, version: stage.commit(version, stage.stable()._replace(instance_id="other")),
        since(OffsetCommitRequest, FIRST_COMMIT_WITH_INSTANCE),
    ),
    Situation(
        OffsetCommitRequest,
        "a topic that does not exist",
        "UNKNOWN_TOPIC_OR_PARTITION",
        _committing(topic="no-such-topic"),
        NAMED_COMMIT,
    ),
    Situation(
        OffsetCommitRequest,
        "a topic id that does not exist",
        "UNKNOWN_TOPIC_ID",
        _committing(topic="no-such-topic"),
        since(OffsetCommitRequest, ask.TOPIC_IDS_SINCE),
    ),
    Situation(
        OffsetCommitRequest,
        "the longest topic name",
        "UNKNOWN_TOPIC_OR_PARTITION",
        _committing(topic=LONGEST),
        NAMED_COMMIT,
    ),
    *(
        Situation(
            OffsetCommitRequest,
            f"partition {partition} of {PARTITIONS}",
            "UNKNOWN_TOPIC_OR_PARTITION",
            _committing(partition=partition),
        )
        for partition in (INT_MIN, -1, PARTITIONS, INT_MAX)
    ),
    *(
        Situation(OffsetCommitRequest, f"offset {offset}", "NONE", _committing(position=offset))
        for offset in (-(1 << 63), -1, LONG_MAX)
    ),
    Situation(
        OffsetCommitRequest,
        "an absurd leader epoch",
        "NONE",
        _committing(position=Position(5, "", INT_MIN)),
    ),
    Situation(
        OffsetCommitRequest,
        "metadata at the limit",
        "NONE",
        _committing(position=Position(5, "m" * 4096)),
    ),
    Situation(
        OffsetCommitRequest,
        "metadata above the limit",
        "OFFSET_METADATA_TOO_LARGE",
        _committing(position=Position(5, "m" * 4097)),
    ),
    Situation(
        OffsetCommitRequest,
        "metadata whose characters are at the limit and whose bytes are above",
        "NONE",
        _committing(position=Position(5, "é" * 4096)),
    ),
    Situation(OffsetCommitRequest, "no metadata", "NONE", _committing(position=Position(5, None))),
    *(
        Situation(
            OffsetCommitRequest,
            f"a retention time of {retention_ms} ms",
            "NONE",
            _committing(retention_time_ms=retention_ms),
            (2, 3, 4),
        )
        for retention_ms in (-(1 << 63), -2, 0, LONG_MAX)
    ),
]
