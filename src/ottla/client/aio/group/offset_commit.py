"""One OffsetCommit: the member for which it commits, its request, and what the answer means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts
from ottla.client.state.group.group_offsets import (
    Offsets,
    TopicIds,
    commit_errors,
    commit_request,
)
from ottla.client.state.group.membership import (
    AfterError,
    CommitFailure,
    Generation,
    check_static_member,
)
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    KafkaError,
    RetriableError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

Send = Callable[..., asyncio.Future[Any]]
"""`CoordinatorLink.send` or `CoordinatorLink.send_when_found`."""


class CommittingMember(Protocol):
    """The state of a member, as far as it decides about commits."""

    group_instance_id: str | None
    poll_timed_out: bool

    @property
    def is_fenced(self) -> bool:
        """Whether another member uses this group.instance.id."""

    @property
    def stable_generation(self) -> Generation | None:
        """The generation to commit with; None while the member has no assignment."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member waits for its next assignment."""

    @property
    def checked_generation(self) -> Generation | None:
        """The member id and epoch that OffsetFetch is sent with; None if the coordinator does not check them."""

    def commit_failed(self, code: int, sent: Generation) -> AfterError | CommitFailure:
        """The coordinator refused a commit for one of its partitions."""


class OffsetCommits:
    """Sends OffsetCommit requests, one at a time; retries are the caller's business."""

    def __init__(
        self, parts: MemberParts, coordinator: CoordinatorLink, member: CommittingMember
    ) -> None:
        self._parts = parts
        self._coordinator = coordinator
        self._member = member
        self._loop = asyncio.get_running_loop()

    def start(self, offsets: Offsets, send: Send) -> asyncio.Future[None]:
        """Send one OffsetCommit; the future ends with its outcome."""
        done: asyncio.Future[None] = self._loop.create_future()
        if not offsets:
            done.set_result(None)
            return done
        ids = TopicIds.of(self._parts.network.cluster, offsets)
        sent = Generation()

        def build(version: int) -> OffsetCommitRequest:
            # The generation at the moment when the request is sent, which may be after a lookup.
            nonlocal sent
            sent, instance_id = self._identity()
            check_static_member("OffsetCommit", instance_id, version)
            return commit_request(self._parts.group_id, sent, instance_id, offsets, ids, version)

        def answered(answer: asyncio.Future[OffsetCommitResponse]) -> None:
            if done.done():
                return
            try:
                self._read(answer.result(), sent, ids)
            except asyncio.CancelledError:
                done.cancel()
            except Exception as error:
                done.set_exception(error)
                done.exception()
            else:
                done.set_result(None)

        send(OffsetCommitRequest, build, at_most=ids.at_most).add_done_callback(answered)
        return done

    def _identity(self) -> tuple[Generation, str | None]:
        """Generation and group.instance.id to commit with; neither if partitions are assigned manually."""
        if not self._parts.subscriptions.uses_group:
            return Generation(), None
        generation = self._member.stable_generation
        if generation is not None:
            return generation, self._member.group_instance_id
        if self._member.is_rebalancing:
            raise self._rebalancing(
                "The group rebalances and this member has no new assignment yet", {}
            )
        if self._member.poll_timed_out:
            raise self._stale(ErrorCode.UNKNOWN_MEMBER_ID, {})
        if self._member.is_fenced:
            raise exception_for(ErrorCode.FENCED_INSTANCE_ID, None, group=self._parts.group_id)
        raise CommitFailedError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            "This consumer is no member of its group: it was removed, or has not joined yet. Call poll() to join.",
            {"group": self._parts.group_id},
        )

    def _read(self, response: OffsetCommitResponse, sent: Generation, ids: TopicIds) -> None:
        unauthorized: list[TopicPartition] = []
        for partition, code in commit_errors(response, ids):
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.append(partition)
            else:
                raise self._error(partition, code, sent)
        if unauthorized:
            raise exception_for(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                None,
                api="OffsetCommit",
                partition=", ".join(map(str, unauthorized)),
            )

    def _error(self, partition: TopicPartition, code: ErrorCode, sent: Generation) -> KafkaError:
        where = {
            "api": "OffsetCommit",
            "partition": str(partition),
            "broker": self._coordinator.broker,
        }
        match self._member.commit_failed(code, sent):
            case CommitFailure.REBALANCING:
                self._parts.wake()
                return self._rebalancing("The group rebalances", where)
            case CommitFailure.STALE:
                self._parts.wake()
                return self._stale(code, where)
            case AfterError.FIND_COORDINATOR:
                self._coordinator.forget(f"OffsetCommit was answered with {code.name}")
            case AfterError.REFRESH_AND_RETRY:
                self._parts.network.request_update()
            case AfterError.RETRY if code is ErrorCode.STALE_MEMBER_EPOCH:
                return RetriableError(code, None, where)
        return exception_for(code, None, **where)

    def _rebalancing(self, what: str, where: Mapping[str, object]) -> KafkaError:
        return AbortableError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"{what}: call poll() to complete the rebalance, then commit again.",
            {"group": self._parts.group_id, **where},
        )

    def _stale(self, code: ErrorCode, where: Mapping[str, object]) -> KafkaError:
        if self._member.poll_timed_out:
            why = (
                "This member has left the group by itself, because the time between two calls of poll() "
                f"was longer than max.poll.interval.ms = {self._parts.config.max_poll_interval_ms}"
            )
        else:
            why = (
                "The group has rebalanced and may have given the partitions to another member. Usually the "
                "time between two calls of poll() was longer than max.poll.interval.ms"
            )
        advice = (
            "; process less between polls (lower max.poll.records) or raise max.poll.interval.ms."
        )
        return CommitFailedError(code, why + advice, {"group": self._parts.group_id, **where})
