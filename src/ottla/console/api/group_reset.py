"""Resetting the committed offsets of a group: a preview, and then exactly that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Literal

from ottla.client.admin_model.groups import GroupDescription
from ottla.client.admin_model.offsets import OffsetSpec
from ottla.client.admin_model.topics import TopicDescription
from ottla.client.aio.admin.client import Admin
from ottla.console.access.roles import Role
from ottla.console.api.groups import committed_of, describe
from ottla.console.groups.reset_plans import ResetOffsetsPlan, reset_plan
from ottla.console.http.errors import ApiError, bad_request
from ottla.console.http.routes import Call, Route
from ottla.console.topics.change_plans import counted
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.inspection.offset_reset import (
    NothingToShiftError,
    Offsets,
    ResetTarget,
    ShiftBy,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    commits_offsets,
    is_active,
    offsets_to_list,
    plan_reset,
)
from ottla.model import TopicPartition

MAX_PARTITIONS: Final = 10_000
MAX_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True)
class NewOffset:
    """A line of the preview: what is committed now, and what is to be."""

    topic: str
    partition: int
    before_offset: int | None
    after_offset: int


@dataclass(frozen=True)
class ResetBody:
    """Where a group is to go on. Without `preview`, `offsets` are those of the preview, and the rest is not used."""

    id: str
    to: Literal["earliest", "latest", "offset", "time", "shift"] = "earliest"
    topics: list[str] = field(default_factory=list)
    """Those to reset; all that the group has committed offsets of if none is given."""
    offset: int | None = None
    """With to=offset the offset; with to=shift how many to go on, or back."""
    at_ms: int | None = None
    """With to=time."""
    offsets: list[NewOffset] = field(default_factory=list)
    preview: bool = True


@dataclass(frozen=True)
class ResetAnswer:
    """The plan of a preview; or what was done."""

    plan: ResetOffsetsPlan | None
    done: str | None = None


async def reset(call: Call[None, ResetBody]) -> ResetAnswer:
    """Commit other offsets for a group without members."""
    body = call.body
    group = await describe(call, body.id)
    _check_group(group)
    committed = {key: each.offset for key, each in (await committed_of(call, body.id)).items()}
    if body.preview:
        return ResetAnswer(await _plan(call, committed))
    if not 0 < len(body.offsets) <= MAX_PARTITIONS:
        raise bad_request(
            f"give the offsets of the preview, of {MAX_PARTITIONS:,} partitions at most"
        )
    for each in body.offsets:
        if not 0 <= each.after_offset <= MAX_OFFSET:
            raise bad_request(f"{each.after_offset} is no offset")
        if committed.get(TopicPartition(each.topic, each.partition)) != each.before_offset:
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"the group has committed something else for {each.topic}-{each.partition} since this was "
                "shown: nothing was done",
                "look at it again",
            )
    wanted = {
        TopicPartition(each.topic, each.partition): each.after_offset for each in body.offsets
    }
    await call.identity.clients.admin().alter_consumer_group_offsets(body.id, wanted)
    call.console.poller.poll_soon()
    return ResetAnswer(
        None, f"{body.id} goes on from other offsets in {counted(len(wanted), 'partition')}"
    )


def _check_group(group: GroupDescription) -> None:
    if not commits_offsets(group):
        raise bad_request(
            f"{group.group_id} has no offsets to reset: its members do not commit any"
        )
    if is_active(group):
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"{group.group_id} has {counted(len(group.members), 'member')}, which would go on from their own "
            "positions",
            "stop its consumers first",
        )


async def _plan(call: Call[None, ResetBody], committed: Offsets) -> ResetOffsetsPlan:
    body, admin = call.body, call.identity.clients.admin()
    target = _target(body)
    names = sorted(set(body.topics) or {key.topic for key in committed})
    if not names:
        raise bad_request(f"{body.id} has committed nothing", "say which topics to reset")
    partitions, gone = await _partitions(admin, names)
    if isinstance(target, ShiftBy):
        partitions = [each for each in partitions if each in committed]
    if not partitions:
        raise bad_request("there is no partition to reset", "do these topics exist?")
    if len(partitions) > MAX_PARTITIONS:
        raise bad_request(f"these are {len(partitions):,} partitions", "reset topic by topic")
    specs = {*offsets_to_list(target), OffsetSpec.EARLIEST, OffsetSpec.LATEST}
    listed = {spec: await _listed(admin, partitions, spec) for spec in sorted(specs)}
    try:
        found = plan_reset(body.id, target, partitions, committed, listed)
    except NothingToShiftError as error:
        raise bad_request(str(error)) from error
    return reset_plan(body.id, found, committed, listed, gone)


def _target(body: ResetBody) -> ResetTarget:
    if body.to in ("offset", "shift") and body.offset is None:
        raise bad_request(f"to={body.to} needs an offset")
    if body.offset is not None and abs(body.offset) > MAX_OFFSET:
        raise bad_request(f"{body.offset} is no offset")
    match body.to:
        case "earliest":
            return ToEarliest()
        case "latest":
            return ToLatest()
        case "offset":
            return ToOffset(body.offset or 0)
        case "shift":
            return ShiftBy(body.offset or 0)
    if body.at_ms is None or not 0 <= body.at_ms <= MAX_OFFSET:
        raise bad_request("to=time needs at_ms, a time in milliseconds")
    return ToTime(body.at_ms)


async def _partitions(admin: Admin, names: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions of topics, and the topics that do not exist."""
    wanted = list(names)
    found: Mapping[str, TopicDescription]
    try:
        found = await admin.describe_topics(wanted)
    except KafkaError as error:
        found, errors = _parts_of(error, wanted)
        for each in errors.values():
            if each.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise each from error
    partitions = [
        TopicPartition(name, each.partition)
        for name, description in found.items()
        for each in description.partitions
    ]
    return partitions, [name for name in wanted if name not in found]


def _parts_of(
    error: KafkaError, names: Sequence[str]
) -> tuple[dict[str, TopicDescription], dict[str, KafkaError]]:
    """What was found in spite of an error, and the error of each of the others."""
    if isinstance(error, PartialFailureError):
        return error.results, error.errors
    if len(names) == 1:
        return {}, {names[0]: error}
    raise error


async def _listed(admin: Admin, partitions: Sequence[TopicPartition], spec: int) -> Offsets:
    found = await admin.list_offsets(dict.fromkeys(partitions, spec))
    return {each: found[each].offset for each in partitions}


ROUTES: Final = [
    Route(
        "POST",
        "/api/group/reset-offsets",
        reset,
        "Let a group go on from other offsets",
        body=ResetBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
]
