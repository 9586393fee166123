"""A group's offsets: commits that wait and commits that do not, automatic ones, and what was committed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.wakeup import Waiting
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.network.brokers import Network
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.state.group.group_offsets import (
    Offsets,
    TopicIds,
    commit_errors,
    commit_request,
    fetch_request,
    fetched_offsets,
    group_error,
)
from ottla.client.state.group.membership import AfterError, CommitFailure, Generation, Membership
from ottla.config.consumer import ConsumerConfig
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    KafkaError,
    RetriableError,
    TimedOutError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

log = logging.getLogger("ottla.client.group")

OnCommit = Callable[[Offsets, Exception | None], Any]
"""Called with the offsets of an asynchronous commit and what went wrong; may be a coroutine function."""


class CommitInterceptors(Protocol):
    """Who is told about commits that succeeded."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets are committed."""


class _Completion(NamedTuple):
    """An asynchronous commit that the user is still to be told about."""

    offsets: Offsets
    on_commit: OnCommit | None
    error: KafkaError | None


class Commits:
    """Commits and fetches offsets of one group for one consumer.

    Callbacks and interceptors run where the user waits: `run_callbacks` calls them, in the order of the commits.
    """

    def __init__(
        self,
        network: Network,
        link: CoordinatorLink,
        membership: Membership,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        interceptors: CommitInterceptors,
        wake: Callable[[], None],
    ) -> None:
        assert config.group_id is not None
        self._group_id = config.group_id
        self._config = config
        self._network = network
        self._link = link
        self._membership = membership
        self._subscriptions = subscriptions
        self._interceptors = interceptors
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._completed: deque[_Completion] = deque()
        self._in_flight: set[asyncio.Future[None]] = set()
        self._auto_commits = config.enable_auto_commit
        self.fencing: KafkaError | None = None
        """Why nothing can be committed any more."""
        self._next_auto_commit_ms = 0.0
        self.restart_auto_commit()

    # Commits

    async def commit(
        self, offsets: Offsets | None, deadline_ms: float, waiting: Waiting = nullcontext
    ) -> None:
        """Commit (all that was consumed) and wait; tries again until the deadline, or a wakeup ends `waiting`."""
        await self._commit(self._chosen(offsets), deadline_ms, deadline_ms, waiting)

    def _chosen(self, offsets: Offsets | None) -> Offsets:
        return self._subscriptions.all_consumed() if offsets is None else dict(offsets)

    async def _commit(
        self, offsets: Offsets, deadline_ms: float, found_by_ms: float, waiting: Waiting
    ) -> None:
        await self.run_callbacks()
        if not offsets:
            # Whoever waits for a commit learns about those before it, even if it has nothing to say itself.
            with waiting():
                await self._wait_for_answers(deadline_ms)
            await self._wait_for_callbacks(deadline_ms)
            return
        attempt = 0
        failure: RetriableError | None = None
        while True:
            with waiting():
                await self._link.ready(min(deadline_ms, found_by_ms))
                done = self._start(offsets, self._link.send)
                await asyncio.wait([done], timeout=max(0.0, self._left_s(deadline_ms)))
            # Those that were sent before this one, so that the order is kept.
            await self.run_callbacks()
            error = done.exception() if done.done() else failure
            if done.done() and error is None:
                await call_user(self._interceptors.on_commit, offsets)
                return
            if error is not None and not isinstance(error, RetriableError):
                raise error
            failure = error
            with waiting():
                is_time_left = await self._pause(attempt, deadline_ms)
            if not is_time_left:
                raise self._commit_timed_out(offsets, failure) from failure
            attempt += 1

    def commit_async(self, given: Offsets | None, on_commit: OnCommit | None) -> None:
        """Send the commit; `on_commit` is called when it is known what came of it."""
        offsets = self._chosen(given)
        if self.fencing is not None:
            raise self.fencing

        def completed(error: KafkaError | None) -> None:
            self._note_fencing(error)
            self._completed.append(_Completion(offsets, on_commit or _log_failure, error))

        self._send_async(offsets, completed)

    async def run_callbacks(self) -> None:
        """Tell the user about the asynchronous commits that are decided; raises what a callback raises."""
        if self.fencing is not None:
            raise self.fencing
        while self._completed:
            offsets, on_commit, error = self._completed.popleft()
            if error is None:
                await call_user(self._interceptors.on_commit, offsets)
            if on_commit is not None:
                await call_user(on_commit, offsets, error)

    async def finish(self, deadline_ms: float) -> None:
        """Give the commits that are under way the time that is left, and tell the user about them."""
        await self._wait_for_answers(deadline_ms)
        await self.run_callbacks()

    async def _wait_for_answers(self, deadline_ms: float) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=max(0.0, self._left_s(deadline_ms)))

    async def _wait_for_callbacks(self, deadline_ms: float) -> None:
        await self.finish(deadline_ms)
        if self._in_flight:
            raise TimedOutError(
                message="Asynchronous commits were not answered in time.",
                context={"api": "OffsetCommit", "group": self._group_id},
            )

    def _note_fencing(self, error: KafkaError | None) -> None:
        if error is not None and error.code is ErrorCode.FENCED_INSTANCE_ID:
            self.fencing = error

    def _send_async(
        self, offsets: Offsets, completed: Callable[[KafkaError | None], None]
    ) -> asyncio.Future[None]:
        done = self._start(offsets, self._link.send_when_found)
        self._in_flight.add(done)

        def finished(done: asyncio.Future[None]) -> None:
            self._in_flight.discard(done)
            error = None if done.cancelled() else done.exception()
            assert error is None or isinstance(error, Exception)
            completed(_as_kafka_error(error))
            self._wake()

        done.add_done_callback(finished)
        return done

    def _start(
        self, offsets: Offsets, send: Callable[..., asyncio.Future[Any]]
    ) -> asyncio.Future[None]:
        """Send one OffsetCommit; the future is done when it is known what came of it."""
        done: asyncio.Future[None] = self._loop.create_future()
        if not offsets:
            done.set_result(None)
            return done
        ids = TopicIds.of(self._network.cluster, offsets)
        sent = Generation()

        def build(version: int) -> OffsetCommitRequest:
            # The generation is that of the moment in which the request leaves.
            nonlocal sent
            sent, instance_id = self._speaking_for()
            if instance_id is not None and version < 7:
                raise no_static_members("OffsetCommit")
            return commit_request(self._group_id, sent, instance_id, offsets, ids, version)

        def answered(answer: asyncio.Future[OffsetCommitResponse]) -> None:
            if done.done():
                return
            try:
                self._read_commit(answer.result(), sent, ids)
            except asyncio.CancelledError:
                done.cancel()
            except Exception as error:
                done.set_exception(error)
                done.exception()
            else:
                done.set_result(None)

        send(OffsetCommitRequest, build, at_most=ids.at_most).add_done_callback(answered)
        return done

    def _speaking_for(self) -> tuple[Generation, str | None]:
        """In whose name a commit is sent; nobody's where the user assigns the partitions."""
        if not self._subscriptions.uses_group:
            return Generation(), None
        generation = self._membership.stable_generation
        if generation is not None:
            return generation, self._membership.group_instance_id
        if self._membership.is_rebalancing:
            raise self._rebalancing(
                "The group rebalances and this member has no new assignment yet", {}
            )
        if self._membership.polls_too_rarely:
            raise self._stale(ErrorCode.UNKNOWN_MEMBER_ID, {})
        if self._membership.is_fenced:
            raise exception_for(ErrorCode.FENCED_INSTANCE_ID, None, group=self._group_id)
        raise CommitFailedError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            "This consumer is no member of its group: it was removed, or has not joined yet. Call poll() to join.",
            {"group": self._group_id},
        )

    def _read_commit(self, response: OffsetCommitResponse, sent: Generation, ids: TopicIds) -> None:
        unauthorized: list[TopicPartition] = []
        for partition, code in commit_errors(response, ids):
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.append(partition)
            else:
                raise self._commit_error(partition, code, sent)
        if unauthorized:
            raise exception_for(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                None,
                api="OffsetCommit",
                partition=", ".join(map(str, unauthorized)),
            )

    def _commit_error(
        self, partition: TopicPartition, code: ErrorCode, sent: Generation
    ) -> KafkaError:
        where = {"api": "OffsetCommit", "partition": str(partition), "broker": self._link.broker}
        match self._membership.commit_failed(code, sent):
            case CommitFailure.REBALANCING:
                self._wake()
                return self._rebalancing("The group rebalances", where)
            case CommitFailure.STALE:
                self._wake()
                return self._stale(code, where)
            case AfterError.FIND_COORDINATOR:
                self._link.forget(f"OffsetCommit was answered with {code.name}")
            case AfterError.REFRESH_AND_RETRY:
                self._network.request_update()
        return exception_for(code, None, **where)

    def _rebalancing(self, what: str, where: Mapping[str, object]) -> KafkaError:
        return AbortableError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"{what}: call poll() to complete the rebalance, then commit again.",
            {"group": self._group_id, **where},
        )

    def _stale(self, code: ErrorCode, where: Mapping[str, object]) -> KafkaError:
        if self._membership.polls_too_rarely:
            why = (
                "This member has left the group by itself, because the time between two calls of poll() "
                f"was longer than max.poll.interval.ms = {self._config.max_poll_interval_ms}"
            )
        else:
            why = (
                "The group has rebalanced and may have given the partitions to another member. Usually the "
                "time between two calls of poll() was longer than max.poll.interval.ms"
            )
        advice = (
            "; process less between polls (lower max.poll.records) or raise max.poll.interval.ms."
        )
        return CommitFailedError(code, why + advice, {"group": self._group_id, **where})

    def _commit_timed_out(self, offsets: Offsets, error: BaseException | None) -> TimedOutError:
        named = ", ".join(map(str, offsets))
        why = "" if error is None else f" The last attempt failed: {error}"
        return TimedOutError(
            message=f"Offsets of {named} were not committed in time.{why}",
            context={"api": "OffsetCommit", "group": self._group_id},
        )

    # Automatic commits

    @property
    def next_auto_commit_ms(self) -> float | None:
        """When an automatic commit is due; None if they are off."""
        return self._next_auto_commit_ms if self._auto_commits else None

    def stop_auto_commit(self) -> None:
        """No more automatic commits."""
        self._auto_commits = False

    def restart_auto_commit(self) -> None:
        """The next automatic commit is a whole interval away."""
        self._next_auto_commit_ms = self._now_ms() + self._config.auto_commit_interval_ms

    def auto_commit_if_due(self) -> None:
        """Commit what was consumed, if it is time to."""
        if self._auto_commits and self._now_ms() >= self._next_auto_commit_ms:
            self.restart_auto_commit()
            self.start_auto_commit()

    def start_auto_commit(self) -> asyncio.Future[None]:
        """Send what was consumed; a failure is no error of the user's: the next commit makes it good."""
        offsets = self._subscriptions.all_consumed()

        def completed(error: KafkaError | None) -> None:
            if error is None:
                if offsets:
                    self._completed.append(_Completion(offsets, None, None))
            elif isinstance(error, RetriableError):
                log.debug("group %s: automatic commit failed, next soon: %s", self._group_id, error)
                retry_ms = self._now_ms() + self._config.retry_backoff_ms
                self._next_auto_commit_ms = min(self._next_auto_commit_ms, retry_ms)
            else:
                self._note_fencing(error)
                log.warning("group %s: automatic commit failed: %s", self._group_id, error)

        return self._send_async(offsets, completed)

    async def auto_commit_and_wait(self, deadline_ms: float, patience_ms: float | None) -> None:
        """The automatic commit of a consumer that closes, and looks for the coordinator for as long as that."""
        if not self._auto_commits:
            return
        found_by_ms = deadline_ms if patience_ms is None else self._now_ms() + patience_ms
        try:
            await self._commit(
                self._subscriptions.all_consumed(), deadline_ms, found_by_ms, nullcontext
            )
        except KafkaError as error:
            log.warning("group %s: automatic commit at close failed: %s", self._group_id, error)

    # What was committed

    async def committed(
        self, partitions: Collection[TopicPartition], deadline_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets; waits for transactions that are committing some of them (KIP-447)."""
        if not partitions:
            return {}
        attempt = 0
        failure: RetriableError | None = None
        while True:
            await self._link.ready(deadline_ms)
            try:
                found = await self._fetch(partitions, deadline_ms)
            except RetriableError as error:
                failure = error
            else:
                if found is not None:
                    return found
            if not await self._pause(attempt, deadline_ms):
                raise self._fetch_timed_out(partitions, failure) from failure
            attempt += 1

    async def _fetch(
        self, partitions: Collection[TopicPartition], deadline_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None] | None:
        """Ask once; None if no answer came by the deadline."""
        ids = TopicIds.of(self._network.cluster, partitions)

        def build(version: int) -> OffsetFetchRequest:
            return fetch_request(self._group_id, partitions, ids, version)

        answer = self._link.send(OffsetFetchRequest, build, at_most=ids.at_most)
        await asyncio.wait([answer], timeout=max(0.0, self._left_s(deadline_ms)))
        if not answer.done():
            return None
        response = answer.result()
        code = group_error(response, self._group_id)
        if code:
            if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                self._link.forget(f"OffsetFetch was answered with {code.name}")
            raise exception_for(
                code, None, api="OffsetFetch", group=self._group_id, broker=self._link.broker
            )
        try:
            found = fetched_offsets(response, self._group_id, ids)
        except RetriableError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                self._network.request_update()
            raise
        return {partition: found.get(partition) for partition in partitions}

    def _fetch_timed_out(
        self, partitions: Collection[TopicPartition], error: RetriableError | None
    ) -> TimedOutError:
        named = ", ".join(map(str, partitions))
        why = "" if error is None else f" The last attempt failed: {error}"
        return TimedOutError(
            message=f"The committed offsets of {named} were not found out in time.{why}",
            context={"api": "OffsetFetch", "group": self._group_id},
        )

    # Time

    async def _pause(self, attempt: int, deadline_ms: float) -> bool:
        """Wait before the next attempt; false if there is no time for one."""
        delay_ms = self._network.retry.delay_ms(attempt, random.random())
        if self._now_ms() + delay_ms >= deadline_ms:
            return False
        await asyncio.sleep(delay_ms / 1000)
        return True

    def _left_s(self, deadline_ms: float) -> float:
        return deadline_ms / 1000 - self._loop.time()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


def no_static_members(api: str) -> KafkaError:
    """What a broker before Kafka 2.3 makes of group.instance.id."""
    return exception_for(
        ErrorCode.UNSUPPORTED_VERSION,
        "The broker knows no static members: leave group.instance.id out.",
        api=api,
    )


def _as_kafka_error(error: Exception | None) -> KafkaError | None:
    if error is None or isinstance(error, KafkaError):
        return error
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error), {"api": "OffsetCommit"})


def _log_failure(offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        log.error("offsets of %s were not committed: %s", ", ".join(map(str, offsets)), error)
