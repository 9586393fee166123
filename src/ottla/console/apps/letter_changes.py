"""Replays and drops of dead letters: what they would do, and those that run, with their progress.

A change runs on a thread with the user's own connections until it is done, even if the user leaves. It goes on where
it was after a crash: what was moved is noted in the same transactions (`ottla.inspection.dead_letters.changes`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, Literal

from ottla.console.apps.letter_pages import LetterFilter
from ottla.console.apps.letter_session import LetterReaders, LetterSession, letter_problem
from ottla.console.clients import Clients
from ottla.console.http.errors import ApiError, api_error_of
from ottla.console.http.live import LiveEvents
from ottla.console.http.routes import ServerEvent
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.inspection.dead_letters.changes import (
    Counts,
    Drop,
    LetterChange,
    Replay,
    ReplayTargets,
    Target,
    create_done_topic,
    transactional_id_of,
)
from ottla.inspection.dead_letters.errors import LetterError
from ottla.inspection.dead_letters.letters import Letter, LetterSpan

if TYPE_CHECKING:
    from ottla.client.admin_model.topics import TopicDescription

logger = EventLog(__name__)

PROGRESS: Final = "letter_change"
MAX_RUNNING: Final = 4
MAX_KEPT: Final = 50
PREVIEW_SECONDS: Final = 60.0
TOLD_EVERY_SECONDS: Final = 0.2
STOP_SECONDS: Final = 10.0
FIRST_WAIT_SECONDS: Final = 1.5
"""How long the answer waits for a short change to end."""


class ChangeState(StrEnum):
    """Where a change is."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class ChangeSpec:
    """A change of the letters of a topic; `target` None drops them."""

    topic: str
    wanted: LetterFilter
    target: Target | None
    end_offsets: Mapping[int, int]
    """Letters from these offsets on are left alone, because they came after the preview."""

    @property
    def action(self) -> Literal["replay", "drop"]:
        return "drop" if self.target is None else "replay"


@dataclass(frozen=True)
class MovedCount:
    """How many letters of a partition go to a topic; None if they are dropped."""

    partition: int
    to: str | None
    count: int


@dataclass(frozen=True)
class ChangePlan:
    """What a change would do now."""

    topic: str
    action: Literal["replay", "drop"]
    total: int
    moved: list[MovedCount]
    end_offsets: dict[str, int]
    """By partition; the change is given these again, and leaves what comes later alone."""


@dataclass(frozen=True)
class LetterChangeView:
    """A change that runs or ran since the console started."""

    id: int
    topic: str
    action: Literal["replay", "drop"]
    state: ChangeState
    user: str
    began_at_ms: int
    ended_at_ms: int | None
    total: int | None
    """How many letters it will move, as the preview counted them."""
    moved_count: int
    moved: list[MovedCount]
    problem: str | None
    advice: str | None


class _TooLongError(Exception):
    """The preview has counted for long enough."""


class _Job:
    """A change on its thread; its fields are written by the loop only."""

    def __init__(self, number: int, user: str, spec: ChangeSpec, total: int | None) -> None:
        self.number: Final = number
        self.user: Final = user
        self.spec: Final = spec
        self.total: Final = total
        self.began_at_ms: Final = int(time.time() * 1000)
        self.ended_at_ms: int | None = None
        self.state = ChangeState.RUNNING
        self.counts: Counts = {}
        self.problem: ApiError | None = None
        self.stopping: Final = Event()
        self.ended: Final = asyncio.Event()

    @property
    def view(self) -> LetterChangeView:
        return LetterChangeView(
            id=self.number,
            topic=self.spec.topic,
            action=self.spec.action,
            state=self.state,
            user=self.user,
            began_at_ms=self.began_at_ms,
            ended_at_ms=self.ended_at_ms,
            total=self.total,
            moved_count=sum(self.counts.values()),
            moved=_moved(self.counts),
            problem=None if self.problem is None else self.problem.message,
            advice=None if self.problem is None else self.problem.advice,
        )


def _moved(counts: Counts) -> list[MovedCount]:
    return [
        MovedCount(partition, to or None, number)
        for (partition, to), number in sorted(counts.items())
    ]


class LetterChanges:
    """The changes of a console, one at a time on each topic."""

    def __init__(
        self, readers: LetterReaders, live: LiveEvents, when_moved: Callable[[], None]
    ) -> None:
        self._readers = readers
        self._live = live
        self._when_moved = when_moved
        self._numbers = count(1)
        self._jobs: deque[_Job] = deque()
        self._is_closed = False

    def all(self) -> list[LetterChangeView]:
        """The newest first."""
        return [job.view for job in reversed(self._jobs)]

    async def plan(self, clients: Clients, spec: ChangeSpec) -> ChangePlan:
        """What a change would do now."""
        deadline = time.monotonic() + PREVIEW_SECONDS

        def wanted(letter: Letter) -> bool:
            if time.monotonic() > deadline:
                raise _TooLongError
            return spec.wanted.accepts(letter)

        def work(session: LetterSession) -> ChangePlan:
            topic = session.topic(spec.topic)
            ends = session.consumer.end_offsets(
                [(spec.topic, info.partition) for info in topic.partitions]
            )
            limits = {place.partition: end for place, end in ends.items()}
            span = LetterSpan(_partitions(spec.wanted), limits)
            counts = _change(session, topic, spec, wanted, span).count()
            return ChangePlan(
                topic=spec.topic,
                action=spec.action,
                total=sum(counts.values()),
                moved=_moved(counts),
                end_offsets={str(partition): end for partition, end in limits.items()},
            )

        try:
            return await self._readers.run(clients, work)
        except _TooLongError:
            raise ApiError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"counting the letters took more than {PREVIEW_SECONDS:.0f} seconds",
                "choose fewer partitions, or use `ottla app dlt`",
            ) from None

    async def begin(
        self, user: str, clients: Clients, spec: ChangeSpec, total: int | None
    ) -> LetterChangeView:
        """Start a change, and wait a moment for its end."""
        running = [job for job in self._jobs if job.state is ChangeState.RUNNING]
        for job in running:
            if job.spec.topic == spec.topic:
                raise ApiError(
                    HTTPStatus.CONFLICT,
                    f"{job.user} has begun a {job.spec.action} of letters of {spec.topic}",
                    "wait for its end, or stop it",
                )
        if self._is_closed or len(running) >= MAX_RUNNING:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{MAX_RUNNING} changes of dead letters run already",
                "try again when one has ended",
            )
        job = _Job(next(self._numbers), user, spec, total)
        self._jobs.append(job)
        while len(self._jobs) > MAX_KEPT and self._jobs[0].state is not ChangeState.RUNNING:
            self._jobs.popleft()
        loop = asyncio.get_running_loop()
        # A daemon: a cluster that does not answer must not keep the console from ending.
        Thread(
            target=self._run, args=(loop, clients, job), name="console-letters-change", daemon=True
        ).start()
        self._tell(job)
        await asyncio.wait(
            [waiting := loop.create_task(job.ended.wait())], timeout=FIRST_WAIT_SECONDS
        )
        waiting.cancel()
        return job.view

    def stop(self, number: int) -> LetterChangeView | None:
        """Ask a change to end after the transaction that it is in; None if there is no such change."""
        for job in self._jobs:
            if job.number == number:
                job.stopping.set()
                return job.view
        return None

    def topic_of(self, number: int) -> str | None:
        """The topic of a change."""
        return next((job.spec.topic for job in self._jobs if job.number == number), None)

    async def close(self) -> None:
        """Stop all changes; each ends after the transaction that it is in."""
        self._is_closed = True
        running = [job for job in self._jobs if job.state is ChangeState.RUNNING]
        for job in running:
            job.stopping.set()
        if running:
            waiting = [asyncio.create_task(job.ended.wait()) for job in running]
            await asyncio.wait(waiting, timeout=STOP_SECONDS)
            for each in waiting:
                each.cancel()

    # On the thread

    def _run(self, loop: asyncio.AbstractEventLoop, clients: Clients, job: _Job) -> None:
        problem: ApiError | None = None
        counts: Counts = {}
        try:
            with LetterSession(clients) as session:
                counts = self._execute(loop, session, job)
        except LetterError as error:
            problem = letter_problem(error)
        except OttlaError as error:
            problem = api_error_of(error)
        except Exception as error:
            logger.bug("console_failed", "a change of dead letters failed: this is a bug", error)
            problem = ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the console failed: its log says more"
            )
        _call(loop, self._ended, job, counts or job.counts, problem)

    def _execute(
        self, loop: asyncio.AbstractEventLoop, session: LetterSession, job: _Job
    ) -> Counts:
        spec = job.spec
        topic = session.topic(spec.topic)
        create_done_topic(session.admin, topic)
        span = LetterSpan(_partitions(spec.wanted), spec.end_offsets)
        change = _change(session, topic, spec, spec.wanted.accepts, span)
        told_at = time.monotonic()

        def goes_on() -> bool:
            nonlocal told_at
            if time.monotonic() - told_at > TOLD_EVERY_SECONDS:
                told_at = time.monotonic()
                _call(loop, self._progressed, job, dict(change.counts))
            return not job.stopping.is_set()

        with session.clients.blocking_producer(
            transactional_id=transactional_id_of(spec.topic), acks="all"
        ) as producer:
            try:
                return change.execute(producer, goes_on)
            except Exception:
                _call(loop, self._progressed, job, dict(change.counts))
                raise

    # On the loop

    def _progressed(self, job: _Job, counts: Counts) -> None:
        job.counts = counts
        self._tell(job)

    def _ended(self, job: _Job, counts: Counts, problem: ApiError | None) -> None:
        job.counts = counts
        job.problem = problem
        job.ended_at_ms = int(time.time() * 1000)
        if problem is not None:
            job.state = ChangeState.FAILED
        elif job.stopping.is_set() and sum(counts.values()) != job.total:
            job.state = ChangeState.STOPPED
        else:
            job.state = ChangeState.DONE
        job.ended.set()
        self._tell(job)
        self._when_moved()

    def _tell(self, job: _Job) -> None:
        self._live.send(ServerEvent(PROGRESS, job.view, topics=(job.spec.topic,)))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *given: object) -> None:
    try:
        loop.call_soon_threadsafe(function, *given)
    except RuntimeError:
        # The console has ended in the meantime.
        logger.debug("console_change_untold", "a change of letters ended after the console")


def _partitions(wanted: LetterFilter) -> frozenset[int]:
    if wanted.places is None:
        return wanted.partitions
    return frozenset(each.partition for each in wanted.places)


def _change(
    session: LetterSession,
    topic: TopicDescription,
    spec: ChangeSpec,
    wanted: Callable[[Letter], bool],
    span: LetterSpan,
) -> LetterChange:
    if spec.target is None:
        return Drop(session.reader, topic, wanted, session.admin, span)
    targets = ReplayTargets(session.admin, topic.name, spec.target)
    return Replay(session.reader, topic, wanted, targets, span)
