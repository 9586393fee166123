"""The session of a broker: its lease, what it learns with every heartbeat, and the objects that it may write.

The lease lasts from before a heartbeat was sent, by a clock that no suspension stops. So this broker knows that its
lease has run out before the sequencer does. Safety does not rest on it: the epoch of every claim is compared with each
append. The deadline only keeps a broker from answering clients out of what may be old.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ottla.events import EventLog
from ottla.ports import FencedError, StorageError
from ottla.ports.errors import InUseError
from ottla.storage.shared.boot_clock import boot_seconds
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.errors import SequencerUnavailableError
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.records import (
    BrokerDescription,
    Heartbeat,
    MemberState,
    Registration,
    ReservedObject,
)
from ottla.storage.shared.sequencer.sequencer import Sequencer

logger = EventLog(__name__)

# While the last session has ended, and the next has not begun.
_NO_SESSION: Final = uuid.UUID(int=0)


class Session:
    """One session after the other: when the sequencer has ended one, the next is begun."""

    def __init__(
        self,
        sequencer: Sequencer,
        broker: BrokerDescription,
        registration: Registration,
        registered_at: float,
        options: SharedOptions,
        metrics: EngineMetrics,
        boot_clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """`registered_at` is the boot time before the registration was sent."""
        self._sequencer = sequencer
        self._broker = broker._replace(node_id=registration.node_id)
        self._options = options
        self._metrics = metrics
        self._clock = boot_clock
        self.id: uuid.UUID = registration.session
        self.node_id = registration.node_id
        self.cluster_id = registration.cluster_id
        self._deadline = self._deadline_of(registered_at, registration.lease_ms)
        self._members: Sequence[MemberState] = ()
        self.catalog_revision = 0  # the newest that is known to exist
        self.holders_revision = 0
        # The revision of the catalog by which this broker acts.
        self.applied_revision = 0
        self._reserved: deque[ReservedObject] = deque()
        self._is_unavailable = False
        # Why that is: another session has the name.
        self._is_name_taken = False
        # The sequencer has forgotten revisions that this process knows, by which its copies are wrong for good.
        self._has_gone_back = False
        self._wake = asyncio.Event()
        self._beaten: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ended = False
        # Callbacks. `lost`: the session has ended, and another one has begun. `reconnected`: the sequencer answers
        # again. `answered`: a heartbeat has told of newer revisions, perhaps.
        self.lost: list[Callable[[], None]] = []
        self.reconnected: list[Callable[[], None]] = []
        self.members_changed: list[Callable[[], None]] = []
        self.answered: list[Callable[[], None]] = []

    def _deadline_of(self, began: float, lease_ms: int) -> float:
        return began + lease_ms / 1000 - self._options.lease_slack_seconds

    # What the broker asks.

    def may_lead(self) -> bool:
        """Whether the lease lasts for certain."""
        return self._clock() < self._deadline and not self._has_gone_back

    @property
    def lease_slack_seconds(self) -> float:
        """How long the lease lasts yet; negative if it may have run out."""
        return self._deadline - self._clock()

    @property
    def members(self) -> Sequence[MemberState]:
        """All brokers that the sequencer knows, this one among them, as of the last heartbeat."""
        return self._members

    async def describe(self, change: Callable[[BrokerDescription], BrokerDescription]) -> None:
        """Replaces what the other brokers are told of this one."""
        described = change(self._broker)
        await self._sequencer.describe_broker(self.id, described)
        self._broker = described
        await self.beat()

    async def reserved_object(self) -> ReservedObject:
        """An object that this session may write."""
        while not self._reserved:
            await self.beat()
            if not self._reserved:
                raise SequencerUnavailableError("no objects could be reserved")
        found = self._reserved.popleft()
        if len(self._reserved) < self._options.objects_reserved // 4:
            self._wake.set()
        return found

    # Its life.

    def start(self) -> None:
        """Begins to send heartbeats, and to listen to notifications."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._beat_on()), loop.create_task(self._listen())]

    async def end(self) -> None:
        """Ends the session cleanly; its partitions were released before."""
        self._is_ended = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._deadline = float("-inf")
        with suppress(StorageError):
            await self._sequencer.end_session(self.id)

    def abandon(self) -> None:
        """Stops as a kill would."""
        self._is_ended = True
        self._deadline = float("-inf")
        for task in self._tasks:
            task.cancel()

    def wake(self) -> None:
        """Has the next heartbeat sent at once: the others wait for what it says."""
        self._wake.set()

    async def _beat_on(self) -> None:
        loop = asyncio.get_running_loop()
        pause_seconds = self._options.first_retry_seconds
        while not self._is_ended:
            if await self._beat_safely():
                pause_seconds = self._options.first_retry_seconds
                timer = loop.call_later(self._options.heartbeat_seconds, self._wake.set)
                try:
                    await self._wake.wait()
                finally:
                    timer.cancel()
            else:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, self._options.last_retry_seconds)

    async def _beat_safely(self) -> bool:
        """A bug in what follows a heartbeat must not end the lease."""
        try:
            return await self.beat()
        except Exception as error:
            logger.bug("heartbeat_impossible", "a heartbeat has failed", error)
            return False

    async def _listen(self) -> None:
        """Asks at once for what another broker has changed; heartbeats find what notifications miss."""
        while not self._is_ended:
            with suppress(StorageError):
                await self._wake_at_news()
            await asyncio.sleep(self._options.last_retry_seconds)

    async def _wake_at_news(self) -> None:
        news = aiter(self._sequencer.notifications())
        try:
            async for _ in news:
                # A cancellation that met a notification may be lost.
                if self._is_ended:
                    return
                self._wake.set()
        finally:
            close = getattr(news, "aclose", None)
            if close is not None:
                await close()

    async def beat(self) -> bool:
        """Sends a heartbeat, or waits for the one that is under way; whether it was answered."""
        if self._beaten is not None:
            await asyncio.wait([self._beaten])
            return not self._is_unavailable
        self._beaten = asyncio.get_running_loop().create_future()
        self._wake.clear()
        try:
            return await self._beat()
        finally:
            self._beaten.set_result(None)
            self._beaten = None

    async def _beat(self) -> bool:
        wanted = max(0, self._options.objects_reserved - len(self._reserved))
        began = self._clock()
        try:
            answer = await self._sequencer.heartbeat(self.id, self.applied_revision, wanted)
        except FencedError:
            await self._begin_again()
            return not self._is_unavailable
        except StorageError as error:
            self._failed(error)
            return False
        self._metrics.heartbeat_seconds.observe(self._clock() - began)
        self._deadline = self._deadline_of(began, answer.lease_ms)
        self._answered(answer)
        return True

    def _failed(self, error: StorageError) -> None:
        self._metrics.failed_heartbeats += 1
        is_name_taken = isinstance(error, InUseError)
        if self._is_unavailable and is_name_taken == self._is_name_taken:
            return
        self._is_unavailable, self._is_name_taken = True, is_name_taken
        if is_name_taken:
            logger.warning(
                "broker_name_taken",
                "another process serves as this broker, which leads nothing until that one has ended: %(reason)s",
                reason=str(error),
            )
        else:
            logger.warning(
                "storage_unavailable",
                "the store does not answer: %(reason)s",
                reason=str(error),
            )

    def _answered(self, answer: Heartbeat) -> None:
        self._reserved.extend(answer.objects)
        has_members_changed = list(self._members) != list(answer.members)
        self._members = answer.members
        self._check_revisions(answer)
        self.catalog_revision = max(self.catalog_revision, answer.catalog_revision)
        self.holders_revision = max(self.holders_revision, answer.holders_revision)
        if self._is_unavailable:
            self._is_unavailable = self._is_name_taken = False
            logger.info("storage_available", "the store answers again")
            _call(self.reconnected)
        if has_members_changed:
            _call(self.members_changed)
        _call(self.answered)

    def _check_revisions(self, answer: Heartbeat) -> None:
        """Heartbeats follow each other, so that their revisions only rise, unless the database went back in time."""
        if self._has_gone_back or (
            answer.catalog_revision >= self.catalog_revision
            and answer.holders_revision >= self.holders_revision
        ):
            return
        self._has_gone_back = True
        logger.error(
            "storage_went_back",
            "node %(node_id)d leads nothing until it is started anew: the store was at revision %(catalog_revision)d of"
            " the catalog and %(holders_revision)d of the claims, and is at %(new_catalog_revision)d and"
            " %(new_holders_revision)d after a restored backup, or a failover to a copy that had not everything",
            node_id=self.node_id,
            catalog_revision=self.catalog_revision,
            holders_revision=self.holders_revision,
            new_catalog_revision=answer.catalog_revision,
            new_holders_revision=answer.holders_revision,
        )
        _call(self.lost)

    async def _begin_again(self) -> None:
        """The sequencer has ended the session: its claims are over, and the broker registers anew."""
        if self.id != _NO_SESSION:
            self.id = _NO_SESSION
            self._deadline = float("-inf")
            self._reserved.clear()
            self._metrics.lost_sessions += 1
            logger.warning(
                "session_lost",
                "node %(node_id)d was away for so long that its session has ended: it claims its partitions anew",
                node_id=self.node_id,
            )
            _call(self.lost)
        began = self._clock()
        try:
            made = await self._sequencer.register(self._broker)
        except StorageError as error:
            self._failed(error)
            return
        self.id = made.session
        self._deadline = self._deadline_of(began, made.lease_ms)


def _call(callbacks: Sequence[Callable[[], None]]) -> None:
    for callback in list(callbacks):
        callback()
