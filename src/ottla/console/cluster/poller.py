"""The one that asks the cluster, however many browsers look.

A round asks for what moves, every two seconds while a browser listens: brokers, groups and their offsets, the ends of
partitions that moved lately, open transactions. Idle partitions and groups take turns. The background asks for all
the rest, a piece at a time. Both pause for a multiple of the time that the cluster took, so that together they use at
most `MAX_SHARE` of it. All of it runs on a thread of its own; browsers get finished snapshots.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from ottla import in_process
from ottla.console.clients import Clients
from ottla.console.cluster.asking_thread import AskingThread
from ottla.console.cluster.cluster_questions import PERIODS, ClusterQuestions
from ottla.console.cluster.history import ClusterHistory
from ottla.console.cluster.known_cluster import KnownCluster
from ottla.console.cluster.shown_addresses import with_addresses
from ottla.console.cluster.snapshot import ClusterSnapshot, Part
from ottla.console.http.errors import ApiError
from ottla.console.http.live import LiveEvents
from ottla.console.http.routes import ServerEvent
from ottla.errors import KafkaError, OttlaError, RetriableError
from ottla.events import EventLog
from ottla.model import Endpoint

logger = EventLog(__name__)

WATCHED_SECONDS: Final = 2.0
UNWATCHED_SECONDS: Final = 30.0
# The console uses at most this part of a cluster's time: half of it by rounds, half by the background.
MAX_SHARE: Final = 1 / 10
_PAUSES: Final = 2 / MAX_SHARE - 1
MIN_PAUSE_SECONDS: Final = 0.05
MAX_PAUSE_SECONDS: Final = 60.0
# One slow round, as when a broker stalls, must not leave those who look with an old page.
MAX_ROUND_PAUSE_SECONDS: Final = 10.0
# A cluster that is away is tried again; one that refuses the console's login less often.
RETRY_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 10.0
# The first picture is taken without pauses; if that takes longer than this, what is known is shown already.
FIRST_VIEW_SECONDS: Final = 0.4
FIRST_PIECES: Final = 5
# How long a request waits for the first picture.
FIRST_WAIT_SECONDS: Final = 3.0
# Options of the poller's client, unless they are given: it asks again soon anyway.
_OPTIONS: Final[dict[str, object]] = {
    "retries": 1,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 3000,
    "socket.connection.setup.timeout.max.ms": 5000,
}

Measure = Callable[[], Mapping[str, float | None]]


class ClusterPoller:
    """Makes a snapshot of the cluster now and then: often while somebody looks, seldom otherwise."""

    def __init__(
        self,
        clients: Clients,
        live: LiveEvents,
        history: ClusterHistory,
        measure: Measure = dict,
        addresses: Mapping[int, Endpoint] | None = None,
    ) -> None:
        """`measure` returns what is measured elsewhere, by the names of the history's totals.

        `addresses` are for people, where the console reaches brokers without a network.
        """
        self._addresses = addresses or {}
        self._options = {**_OPTIONS, **clients.options}
        self._history = history
        self._live = live
        self._measure = measure
        self._thread = AskingThread("console poller")
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshot: ClusterSnapshot | None = None
        self._has_snapshot = asyncio.Event()
        self._hurry = asyncio.Event()
        self._background_hurry = asyncio.Event()
        self._was_watched = False
        self._reachable = asyncio.Event()
        # Of the newest answer; before the first one, since when the console has asked.
        self._answered_at_ms = _now_ms()
        # Of the thread.
        self._thread_clients: Clients | None = None
        self._questions: ClusterQuestions | None = None
        self._pictured: KnownCluster | None = None
        self._version = 0
        self._is_change_expected = False

    @property
    def snapshot(self) -> ClusterSnapshot | None:
        """The newest; None before the cluster answered for the first time."""
        return self._snapshot

    def current(self) -> ClusterSnapshot:
        """The newest; an error that says so before the cluster answered for the first time."""
        if self._snapshot is None:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the cluster has not answered yet",
                "the console goes on trying: look again in a moment",
            )
        return self._snapshot

    async def first(self) -> ClusterSnapshot:
        """The newest; a caller that comes before the first one waits a little for it."""
        if self._snapshot is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_WAIT_SECONDS):
                    await self._has_snapshot.wait()
        return self.current()

    def poll_soon(self) -> None:
        """Look at the cluster at once, because something was changed."""
        self._is_change_expected = True
        self._hurry.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._run_rounds()),
            loop.create_task(self._run_background()),
        ]

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:
            await self._thread.run(self._close())
            await self._thread.stop()

    # When

    async def _run_rounds(self) -> None:
        while True:
            await self._pause(await self._guarded(self._round()))

    async def _guarded(self, work: Coroutine[Any, Any, float]) -> float:
        """The pause after the work; a bug does not end the polling."""
        try:
            return await work
        except Exception as error:
            logger.bug("poll_failed", "the cluster cannot be polled: a bug", error)
            return WATCHED_SECONDS

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)
            self._hurry.clear()
            return
        rest = UNWATCHED_SECONDS - seconds
        if rest > 0 and self._reachable.is_set() and not self._live.watcher_count:
            watching = asyncio.ensure_future(self._live.wait_for_watcher())
            hurrying = asyncio.ensure_future(self._hurry.wait())
            both = {watching, hurrying}
            try:
                await asyncio.wait(both, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
            self._hurry.clear()

    async def _round(self) -> float:
        loop = asyncio.get_running_loop()

        def publish(found: ClusterSnapshot) -> None:
            loop.call_soon_threadsafe(self._publish, found)

        def hurry_background() -> None:
            loop.call_soon_threadsafe(self._background_hurry.set)

        is_watched = self._live.watcher_count > 0
        if is_watched and not self._was_watched:
            # What was told while nobody looked may be old.
            self._is_change_expected = True
        self._was_watched = is_watched
        try:
            took = await self._thread.run(
                self._ask_round(is_watched, self._measure(), publish, hurry_background)
            )
        except OttlaError as error:
            self._lost(error)
            return RETRY_SECONDS if isinstance(error, RetriableError) else REFUSED_SECONDS
        return pause_after_round(took)

    def _publish(self, found: ClusterSnapshot) -> None:
        self._snapshot = with_addresses(found, self._addresses)
        self._answered_at_ms = _now_ms()
        self._reachable.set()
        self._has_snapshot.set()
        self._live.send(
            ServerEvent(
                "snapshot",
                # All users are told: it has no name of a topic or a group.
                {"state": "connected", "version": found.version, "at_ms": found.at_ms},
            ),
            is_state=True,
        )

    def _lost(self, error: OttlaError) -> None:
        self._reachable.clear()
        self._history.add_gap(_now_ms())
        cause = error.__cause__
        reason = cause.message if isinstance(cause, KafkaError) else str(error)
        state = {
            "state": "unreachable",
            "reason": in_process.without_hosts(reason),
            "since_ms": self._answered_at_ms,
            "at_ms": None if self._snapshot is None else self._snapshot.at_ms,
        }
        self._live.send(ServerEvent("snapshot", state), is_state=True)

    async def _run_background(self) -> None:
        """Asks for a piece after the other; the next round shows what was told."""
        while True:
            await self._reachable.wait()
            self._background_hurry.clear()
            pause = await self._guarded(self._piece())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._background_hurry.wait(), pause)

    async def _piece(self) -> float:
        try:
            return await self._thread.run(self._ask_piece())
        except OttlaError:
            # The cluster is away, as the next round will say.
            return RETRY_SECONDS

    # On the thread

    async def _ask_round(
        self,
        is_watched: bool,
        measured: Mapping[str, float | None],
        publish: Callable[[ClusterSnapshot], None],
        hurry_background: Callable[[], None],
    ) -> float:
        """Returns how long the cluster took, without what is asked only once."""
        if self._questions is None:
            self._thread_clients = Clients(self._options)
            self._questions = ClusterQuestions(self._thread_clients.admin())
        questions = self._questions
        questions.is_watched = is_watched
        began = time.monotonic()
        await questions.ask_presence()
        if self._pictured is not questions.known:
            self._pictured = None
            await self._take_first_picture(questions, publish)
            self._pictured = questions.known
            began = time.monotonic()
        if self._is_change_expected:
            self._is_change_expected = False
            questions.ask_all_soon()
            await questions.ask_piece(Part.TOPICS)
            hurry_background()
        await questions.ask_movements()
        took = time.monotonic() - began
        found = self._next_snapshot(questions)
        self._history.add(found, {"round_trip_ms": questions.round_trip_ms, **measured})
        publish(found)
        return took

    def _next_snapshot(self, questions: ClusterQuestions) -> ClusterSnapshot:
        self._version += 1
        return questions.known.snapshot(self._version, _now_ms())

    async def _take_first_picture(
        self, questions: ClusterQuestions, publish: Callable[[ClusterSnapshot], None]
    ) -> None:
        """Ask for everything once; of a large cluster, show what is known already."""
        shown_at = time.monotonic()

        async def show() -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at > FIRST_VIEW_SECONDS:
                publish(self._next_snapshot(questions))
                shown_at = time.monotonic()

        await questions.ask_piece(Part.TOPICS)
        await show()
        await questions.ask_movements()
        await show()
        await questions.ask_all_ends(show)
        for part in [part for part in PERIODS if part is not Part.TOPICS]:
            # A part that takes more pieces goes on in the background, with pauses.
            for _ in range(FIRST_PIECES):
                if not questions.is_due(part):
                    break
                await questions.ask_piece(part)
                await show()

    async def _ask_piece(self) -> float:
        """Asks for a piece of the background, and returns the pause after it."""
        questions = self._questions
        if questions is None or self._pictured is None:
            return WATCHED_SECONDS
        part = questions.due_piece()
        if part is None:
            return max(MIN_PAUSE_SECONDS, questions.seconds_to_next_piece())
        began = time.monotonic()
        await questions.ask_piece(part)
        return _pause_after(time.monotonic() - began)

    async def _close(self) -> None:
        if self._thread_clients is not None:
            await self._thread_clients.close()


def pause_after_round(seconds: float) -> float:
    """While somebody looks."""
    return max(WATCHED_SECONDS, min(MAX_ROUND_PAUSE_SECONDS, _pause_after(seconds)))


def _pause_after(seconds: float) -> float:
    """So that the questions take no more than their share of the time."""
    return min(MAX_PAUSE_SECONDS, seconds * _PAUSES)


def _now_ms() -> int:
    return int(time.time() * 1000)
