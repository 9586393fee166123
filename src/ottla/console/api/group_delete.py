"""Deleting a group, or its committed offsets in some topics: a preview, and then exactly that."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from ottla.client.admin_model.groups import GroupDescription
from ottla.console.access.roles import Role
from ottla.console.api.groups import committed_of, describe
from ottla.console.api.topic_changes import wait_until_polled
from ottla.console.groups.delete_plans import DeletionPlan, group_deletion, offset_deletion
from ottla.console.groups.standing import topics_read_by
from ottla.console.http.errors import ApiError, bad_request
from ottla.console.http.routes import Call, Route
from ottla.console.topics.change_plans import counted
from ottla.inspection.offset_reset import is_active
from ottla.model import TopicPartition

MAX_TOPICS: Final = 1_000


@dataclass(frozen=True)
class DeleteGroupBody:
    """A group to delete; without `preview`, `fingerprint` has to be that of the preview."""

    id: str
    preview: bool = True
    fingerprint: str | None = None


@dataclass(frozen=True)
class DeleteOffsetsBody:
    """The topics whose offsets a group forgets; without `preview`, `fingerprint` has to be that of the preview."""

    id: str
    topics: list[str]
    preview: bool = True
    fingerprint: str | None = None


@dataclass(frozen=True)
class DeletionAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: DeletionPlan
    done: str | None = None


async def delete_group(call: Call[None, DeleteGroupBody]) -> DeletionAnswer:
    """Delete a group without members, and all its committed offsets."""
    body = call.body
    visible = await call.visible()
    described = await describe(call, body.id)
    if is_active(described):
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"{body.id} has {counted(len(described.members), 'member')}: a group with members is not deleted",
            "stop its consumers first",
        )
    plan = group_deletion(
        body.id,
        await _committed(call, body.id),
        visible.snapshot,
        may_have_hidden=not visible.is_everything,
    )
    if body.preview:
        return DeletionAnswer(plan)
    _check_same(plan, body.fingerprint)
    await call.identity.clients.admin().delete_consumer_groups([body.id])
    await wait_until_polled(call.console, lambda snapshot: body.id not in snapshot.groups)
    return DeletionAnswer(plan, f"deleted the group {body.id}")


async def delete_offsets(call: Call[None, DeleteOffsetsBody]) -> DeletionAnswer:
    """Delete the committed offsets of a group in topics that its members do not read."""
    body = call.body
    topics = frozenset(body.topics)
    if not 0 < len(topics) <= MAX_TOPICS:
        raise bad_request(f"give 1 to {MAX_TOPICS:,} topics")
    visible = await call.visible()
    described = await describe(call, body.id)
    _check_not_read(described, topics)
    committed = {
        key: offset
        for key, offset in (await _committed(call, body.id)).items()
        if key.topic in topics
    }
    if not committed:
        raise bad_request(f"{body.id} has committed nothing in {_named(sorted(topics))}")
    plan = offset_deletion(body.id, committed, visible.snapshot)
    if body.preview:
        return DeletionAnswer(plan)
    _check_same(plan, body.fingerprint)
    await call.identity.clients.admin().delete_consumer_group_offsets(body.id, list(committed))
    call.console.poller.poll_soon()
    return DeletionAnswer(plan, f"deleted {counted(len(committed), 'offset')} of {body.id}")


def _check_not_read(described: GroupDescription, topics: frozenset[str]) -> None:
    read = sorted(topics & topics_read_by(described))
    if read:
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"{_named(read)} is read by members of {described.group_id}, which would commit again",
            "stop its consumers first",
        )


def _named(topics: list[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{topics[0]} and {len(topics) - 1} more topics"


async def _committed(call: Call[Any, Any], group: str) -> dict[TopicPartition, int]:
    return {key: each.offset for key, each in (await committed_of(call, group)).items()}


def _check_same(plan: DeletionPlan, fingerprint: str | None) -> None:
    if plan.fingerprint != fingerprint:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "the group has committed something else since this was shown: nothing was deleted",
            "look at it again",
        )


ROUTES: Final = [
    Route(
        "POST",
        "/api/group/delete",
        delete_group,
        "Delete a group with its offsets",
        body=DeleteGroupBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
    Route(
        "POST",
        "/api/group/delete-offsets",
        delete_offsets,
        "Delete the offsets of a group in some topics",
        body=DeleteOffsetsBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
]
