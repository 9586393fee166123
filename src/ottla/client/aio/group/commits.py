"""Commits of a consumer: those that wait and retry, and asynchronous ones with their callbacks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.wakeup import Interruptible
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts, OnCommit
from ottla.client.aio.group.offset_commit import CommittingMember, OffsetCommits
from ottla.client.state.group.group_offsets import Offsets
from ottla.errors import ErrorCode, KafkaError, RetriableError, TimedOutError

log = logging.getLogger("ottla.client.group")


class _Completion(NamedTuple):
    """An asynchronous commit whose callback has to be called."""

    offsets: Offsets
    on_commit: OnCommit | None
    error: KafkaError | None


class Commits:
    """Commits offsets for one consumer.

    Callbacks and interceptors run in calls of the user: `run_callbacks` calls them, in the order of the commits.
    """

    def __init__(
        self, parts: MemberParts, coordinator: CoordinatorLink, member: CommittingMember
    ) -> None:
        self._group_id = parts.group_id
        self._subscriptions = parts.subscriptions
        self._interceptors = parts.interceptors
        self._wake = parts.wake
        self._coordinator = coordinator
        self._requests = OffsetCommits(parts, coordinator, member)
        self._loop = asyncio.get_running_loop()
        self._completed: deque[_Completion] = deque()
        self._in_flight: set[asyncio.Future[None]] = set()
        self.fencing: KafkaError | None = None
        """The error that ended this membership for good."""

    # Commits that wait

    async def commit(
        self,
        offsets: Offsets | None,
        deadline_ms: float,
        interruptible: Interruptible = nullcontext,
    ) -> None:
        """Commit these offsets, or everything consumed; retry until the deadline."""
        chosen = self._chosen(offsets)
        await self.commit_and_wait(chosen, deadline_ms, deadline_ms, interruptible)

    async def commit_and_wait(
        self,
        offsets: Offsets,
        deadline_ms: float,
        lookup_deadline_ms: float,
        interruptible: Interruptible = nullcontext,
    ) -> None:
        """Commit; the coordinator has to be found by the second deadline."""
        await self.run_callbacks()
        if not offsets:
            await self._wait_for_earlier(deadline_ms, interruptible)
            return
        attempt = 0
        failure: RetriableError | None = None
        while True:
            with interruptible():
                await self._coordinator.wait_until_known(min(deadline_ms, lookup_deadline_ms))
                done = self._requests.start(offsets, self._coordinator.send)
                await self._coordinator.answered_by(done, deadline_ms)
            # Callbacks of commits that were sent before this one come first.
            await self.run_callbacks()
            error = done.exception() if done.done() else failure
            if done.done() and error is None:
                await call_user(self._interceptors.on_commit, offsets)
                return
            if error is not None and not isinstance(error, RetriableError):
                raise error
            failure = error
            with interruptible():
                may_retry = await self._coordinator.back_off(attempt, deadline_ms)
            if not may_retry:
                raise self._timed_out(offsets, failure) from failure
            attempt += 1

    async def _wait_for_earlier(self, deadline_ms: float, interruptible: Interruptible) -> None:
        """A commit without offsets still waits for the asynchronous commits before it, and calls their callbacks."""
        with interruptible():
            await self._wait_for_answers(deadline_ms)
        await self.finish(deadline_ms)
        if self._in_flight:
            raise TimedOutError(
                message="Asynchronous commits were not answered in time.",
                context={"api": "OffsetCommit", "group": self._group_id},
            )

    def _timed_out(self, offsets: Offsets, error: BaseException | None) -> TimedOutError:
        named = ", ".join(map(str, offsets))
        why = "" if error is None else f" The last attempt failed: {error}"
        return TimedOutError(
            message=f"Offsets of {named} were not committed in time.{why}",
            context={"api": "OffsetCommit", "group": self._group_id},
        )

    # Asynchronous commits

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None:
        """Send the commit; `run_callbacks` calls `on_commit` once it is answered."""
        if self.fencing is not None:
            raise self.fencing
        chosen = self._chosen(offsets)

        def completed(error: KafkaError | None) -> None:
            self.note_fencing(error)
            self._completed.append(_Completion(chosen, on_commit or _log_failure, error))

        self.send_async(chosen, completed)

    def send_async(
        self, offsets: Offsets, completed: Callable[[KafkaError | None], None]
    ) -> asyncio.Future[None]:
        """Send a commit as soon as the coordinator is known; call `completed` on the loop with its outcome."""
        done = self._requests.start(offsets, self._coordinator.send_when_found)
        self._in_flight.add(done)

        def finished(done: asyncio.Future[None]) -> None:
            self._in_flight.discard(done)
            error = None if done.cancelled() else done.exception()
            assert error is None or isinstance(error, Exception)
            completed(_as_kafka_error(error))
            self._wake()

        done.add_done_callback(finished)
        return done

    def note_success(self, offsets: Offsets) -> None:
        """Have `run_callbacks` call the interceptors for an automatic commit."""
        self._completed.append(_Completion(offsets, None, None))

    def note_fencing(self, error: KafkaError | None) -> None:
        """Remember an error after which nothing can be committed any more."""
        if error is not None and error.code is ErrorCode.FENCED_INSTANCE_ID:
            self.fencing = error

    async def run_callbacks(self) -> None:
        """Call interceptors and callbacks of the asynchronous commits that were answered; raises what they raise."""
        if self.fencing is not None:
            raise self.fencing
        while self._completed:
            offsets, on_commit, error = self._completed.popleft()
            if error is None:
                await call_user(self._interceptors.on_commit, offsets)
            if on_commit is not None:
                await call_user(on_commit, offsets, error)

    async def finish(self, deadline_ms: float) -> None:
        """Wait for the answers of asynchronous commits until the deadline, and call their callbacks."""
        await self._wait_for_answers(deadline_ms)
        await self.run_callbacks()

    async def _wait_for_answers(self, deadline_ms: float) -> None:
        if self._in_flight:
            left_seconds = max(0.0, deadline_ms / 1000 - self._loop.time())
            await asyncio.wait(self._in_flight, timeout=left_seconds)

    def _chosen(self, offsets: Offsets | None) -> Offsets:
        return self._subscriptions.all_consumed() if offsets is None else dict(offsets)


def _as_kafka_error(error: Exception | None) -> KafkaError | None:
    if error is None or isinstance(error, KafkaError):
        return error
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error), {"api": "OffsetCommit"})


def _log_failure(offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        log.error("offsets of %s were not committed: %s", ", ".join(map(str, offsets)), error)
