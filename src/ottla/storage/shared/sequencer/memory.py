"""A sequencer in this process, for tests and the simulator: the rules of `postgres/sql/functions`, without PostgreSQL.

`MemorySequencerState` is what all brokers share, a `MemorySequencer` one broker's way to it. A call changes the state
in one step, between the two calls of its seam.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Protocol, TypeVar

from ottla.core.leader_epochs import EpochStart
from ottla.ports import (
    CatalogConflictError,
    Clock,
    FencedError,
    JsonValue,
    PartitionRef,
    UnclaimedLog,
    monotonic_ms,
)
from ottla.ports.errors import InUseError
from ottla.storage.shared.sequencer.limits import (
    DEFAULT_LEASE_MS,
    check_claim,
    check_parts,
    check_replacements,
)
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    BrokerDescription,
    CatalogChange,
    CatalogState,
    Claimed,
    Heartbeat,
    Holder,
    HolderChanges,
    MemberState,
    NotClaimed,
    ObjectState,
    OpenedPartition,
    PartAppend,
    PartitionEnd,
    Registration,
    Replacement,
    ReservedObject,
    StoredObject,
    StoredRun,
    WrittenObject,
)

T = TypeVar("T")

MAX_RUNS: Final = 256
TAIL_SLOTS: Final = 4
TURN_MS: Final = 120_000
MOVED_MS: Final = 60_000
GRACE_MS: Final = 600_000  # of what may still be written, or read
DAY_MS: Final = 86_400_000
KEPT_CHANGES: Final = 1000
ENDED: Final = "the session has ended: another broker took over, or the broker was removed"


class CallSeam(Protocol):
    """Where tests and the simulator delay calls and make them fail. `method` is the name of the call.

    A SequencerUnavailableError of `before` is a call that did not arrive, one of `after` an answer that was lost.
    """

    async def before(self, method: str) -> None: ...

    async def after(self, method: str) -> None: ...


@dataclass
class _Broker:
    node_id: int
    description: BrokerDescription
    session: uuid.UUID
    expires_ms: int
    steady_since_ms: int | None
    lease_ms: int
    ended: bool = False
    applied_revision: int = 0


@dataclass
class _Row:
    """A row of the tail. Runs keep no key: it is the object's."""

    slot: int
    run: StoredRun


@dataclass
class _Segment:
    run: StoredRun
    marks: bytes


@dataclass
class _Partition:
    ref: PartitionRef
    partition_id: int
    node_id: int = -1
    session: uuid.UUID | None = None
    epoch: int = 0
    start_offset: int = 0
    end_offset: int = 0
    tail_start: int = 0
    cleaned_offset: int | None = None
    wanted_node: int | None = None
    revision: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    rows: list[_Row] = field(default_factory=list)  # by offset, also those that no longer count
    segments: list[_Segment] = field(default_factory=list)

    def tail(self) -> list[StoredRun]:
        """The rows of the tail that count."""
        first = bisect.bisect_right(self.rows, self.tail_start, key=lambda row: row.run.end_offset)
        return [row.run for row in self.rows[first:]]

    def runs(self) -> list[StoredRun]:
        return [segment.run for segment in self.segments] + self.tail()

    def row_of(self, flush: uuid.UUID, end_offset: int) -> _Row | None:
        place = bisect.bisect_left(self.rows, end_offset, key=lambda row: row.run.end_offset)
        for row in self.rows[place : place + 1]:
            if row.run.end_offset == end_offset and row.run.flush == flush:
                return row
        return None


@dataclass
class _Object:
    object_id: int
    key: str
    session: uuid.UUID
    state: ObjectState
    since_ms: int
    size_bytes: int = 0

    def stored(self) -> StoredObject:
        return StoredObject(self.object_id, self.key, self.size_bytes, self.state)


class MemorySequencerState:
    """What the brokers of a cluster share. Leases end by its clock."""

    def __init__(
        self, *, clock: Clock, cluster_id: str = "memory", ids: random.Random | None = None
    ) -> None:
        self.clock = clock
        self.cluster_id = cluster_id
        self.ids = ids or random.Random()
        self.started_ms = monotonic_ms(clock) - DAY_MS
        self.next_node_id = 1
        self.brokers: dict[int, _Broker] = {}
        self.ended_sessions: dict[uuid.UUID, int] = {}
        self.tasks: dict[str, tuple[uuid.UUID, int]] = {}
        self.catalog: dict[str, str] = {}
        self.catalog_revision = 0
        self.forgotten_changes = 0
        self.changes: list[tuple[int, uuid.UUID, str]] = []
        self.holders_revision = 0
        self.forgotten_deletions = 0
        self.deletions: list[tuple[int, PartitionRef, int]] = []
        self.partitions: dict[int, _Partition] = {}
        self.by_ref: dict[tuple[uuid.UUID, int], _Partition] = {}
        self.next_partition_id = 1
        self.next_object_id = 1
        self.objects: dict[int, _Object] = {}
        self.released: list[int] = []
        self.tail_current = 0
        self.turned_ms = self.now_ms()
        self.next_slot_is_empty = True
        self.next_slot_moved_ms: int | None = None
        self.listeners: list[asyncio.Queue[str]] = []

    def now_ms(self) -> int:
        return monotonic_ms(self.clock)

    def new_uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.ids.getrandbits(128), version=4)

    def restart(self) -> None:
        """As a restart of the server: nobody may judge others before a lease's time is over."""
        self.started_ms = self.now_ms()
        self.tell("lost")

    def tell(self, news: str) -> None:
        for queue in self.listeners:
            queue.put_nowait(news)

    # Sessions.

    def broker_of(self, session: uuid.UUID) -> _Broker:
        for broker in self.brokers.values():
            if broker.session == session and not broker.ended:
                return broker
        raise FencedError(ENDED)

    def is_running(self, session: uuid.UUID) -> bool:
        return any(each.session == session and not each.ended for each in self.brokers.values())

    def end(self, broker: _Broker) -> None:
        broker.ended = True
        self.ended_sessions.setdefault(broker.session, self.now_ms())

    # Objects.

    def usable_objects(self, written: Iterable[WrittenObject]) -> set[int]:
        usable = (ObjectState.RESERVED, ObjectState.LIVE)
        found = (self.objects.get(each.object_id) for each in written)
        return {each.object_id for each in found if each is not None and each.state in usable}

    def settle_objects(self, written: Iterable[WrittenObject], used: set[int]) -> None:
        for each in written:
            known = self.objects.get(each.object_id)
            if known is not None and known.state is ObjectState.RESERVED:
                known.state = ObjectState.LIVE if each.object_id in used else ObjectState.DEAD
                known.size_bytes = each.size_bytes
                known.since_ms = self.now_ms()

    def release_objects(self, runs: Iterable[StoredRun]) -> None:
        found = {run.object_id for run in runs if run.object_id is not None}
        self.released += sorted(found)

    def is_referenced(self, object_id: int) -> bool:
        return any(
            run.object_id == object_id
            for partition in self.partitions.values()
            for run in partition.runs()
        )

    def with_key(self, run: StoredRun) -> StoredRun:
        if run.object_id is None:
            return run
        return run._replace(object_key=self.objects[run.object_id].key)

    # Partitions.

    def find(self, ref: PartitionRef) -> _Partition | None:
        return self.by_ref.get((ref.topic_id, ref.partition))

    def held(self, partition_id: int, epoch: int) -> _Partition | None:
        """The partition, if this is the epoch of its current claim."""
        found = self.partitions.get(partition_id)
        return found if found is not None and found.epoch == epoch else None

    def next_holders_revision(self) -> int:
        self.holders_revision += 1
        self.tell("holders")
        return self.holders_revision


class MemorySequencer:
    """Implements Sequencer for one broker, or for as many as like to share it."""

    def __init__(
        self,
        state: MemorySequencerState,
        seam: CallSeam | None = None,
        lease_ms: int = DEFAULT_LEASE_MS,
    ) -> None:
        self._state = state
        self._seam = seam
        self._lease_ms = lease_ms

    @property
    def cluster_id(self) -> str:
        return self._state.cluster_id

    async def _call(self, method: str, change: Callable[[], T]) -> T:
        if self._seam is not None:
            await self._seam.before(method)
        answer = change()
        if self._seam is not None:
            await self._seam.after(method)
        return answer

    # Sessions.

    async def register(self, broker: BrokerDescription) -> Registration:
        return await self._call("register", lambda: self._register(broker))

    def _register(self, broker: BrokerDescription) -> Registration:
        state, now = self._state, self._state.now_ms()
        known = [
            each
            for each in state.brokers.values()
            if each.description.name == broker.name or each.node_id == broker.node_id
        ]
        for each in known:
            if not each.ended and each.expires_ms > now:
                raise InUseError(
                    f'a broker with the name "{each.description.name}" and the node id {each.node_id} is running:'
                    f" its lease lasts for {each.expires_ms - now} ms more"
                )
        named = [each.node_id for each in known if each.description.name == broker.name]
        node_id = broker.node_id
        if node_id is None:
            node_id = named[0] if named else state.next_node_id
        for each in known:
            state.end(each)
            del state.brokers[each.node_id]
        made = _Broker(
            node_id=node_id,
            description=broker,
            session=state.new_uuid(),
            expires_ms=now + self._lease_ms,
            steady_since_ms=None,
            lease_ms=self._lease_ms,
        )
        state.brokers[node_id] = made
        state.next_node_id = max(state.next_node_id, node_id + 1)
        return Registration(node_id, made.session, self._lease_ms, state.cluster_id)

    async def heartbeat(
        self, session: uuid.UUID, applied_revision: int, object_count: int
    ) -> Heartbeat:
        return await self._call(
            "heartbeat", lambda: self._heartbeat(session, applied_revision, object_count)
        )

    def _heartbeat(self, session: uuid.UUID, applied_revision: int, object_count: int) -> Heartbeat:
        state, now = self._state, self._state.now_ms()
        own = state.broker_of(session)
        if own.expires_ms <= now:
            own.steady_since_ms = now
        own.expires_ms = now + self._lease_ms
        own.lease_ms = self._lease_ms
        if own.applied_revision != applied_revision:
            own.applied_revision = applied_revision
            state.tell("applied")
        return Heartbeat(
            lease_ms=self._lease_ms,
            members=[_member(state.brokers[node_id], now) for node_id in sorted(state.brokers)],
            catalog_revision=state.catalog_revision,
            holders_revision=state.holders_revision,
            objects=[self._reserve(session) for _ in range(object_count)],
        )

    def _reserve(self, session: uuid.UUID) -> ReservedObject:
        state = self._state
        object_id, token = state.next_object_id, f"{state.ids.getrandbits(72):018x}"
        state.next_object_id += 1
        key = f"{token[:2]}/{object_id}-{token[2:]}"
        state.objects[object_id] = _Object(
            object_id, key, session, ObjectState.RESERVED, state.now_ms()
        )
        return ReservedObject(object_id, key)

    async def end_session(self, session: uuid.UUID) -> None:
        await self._call("end_session", lambda: self._end_session(session))

    def _end_session(self, session: uuid.UUID) -> None:
        if self._state.is_running(session):
            self._state.end(self._state.broker_of(session))
            self._state.tell("holders")

    async def remove_broker(self, node_id: int) -> bool:
        return await self._call("remove_broker", lambda: self._remove_broker(node_id))

    def _remove_broker(self, node_id: int) -> bool:
        state = self._state
        broker = state.brokers.get(node_id)
        if broker is None or (not broker.ended and broker.expires_ms > state.now_ms()):
            return False
        state.end(broker)
        del state.brokers[node_id]
        return True

    async def describe_broker(self, session: uuid.UUID, broker: BrokerDescription) -> None:
        await self._call("describe_broker", lambda: self._describe_broker(session, broker))

    def _describe_broker(self, session: uuid.UUID, broker: BrokerDescription) -> None:
        own = self._state.broker_of(session)
        own.description = broker._replace(name=own.description.name)

    # The catalog.

    async def load_catalog(self) -> CatalogState:
        return await self._call("load_catalog", self._load_catalog)

    def _load_catalog(self) -> CatalogState:
        entries = {key: json.loads(text) for key, text in self._state.catalog.items()}
        return CatalogState(self._state.catalog_revision, entries)

    async def catalog_changes(self, after_revision: int) -> Sequence[CatalogChange]:
        return await self._call("catalog_changes", lambda: self._catalog_changes(after_revision))

    def _catalog_changes(self, after_revision: int) -> Sequence[CatalogChange]:
        if after_revision < self._state.forgotten_changes:
            raise FencedError(
                f"the changes of the catalog after revision {after_revision} are no longer kept"
            )
        return [
            CatalogChange(revision, json.loads(text))
            for revision, _, text in self._state.changes
            if revision > after_revision
        ]

    async def commit_catalog(
        self,
        session: uuid.UUID,
        commit: uuid.UUID,
        changes: Mapping[str, JsonValue],
        expected_revision: int,
    ) -> int:
        return await self._call(
            "commit_catalog",
            lambda: self._commit_catalog(session, commit, changes, expected_revision),
        )

    def _commit_catalog(
        self,
        session: uuid.UUID,
        commit: uuid.UUID,
        changes: Mapping[str, JsonValue],
        expected_revision: int,
    ) -> int:
        state = self._state
        if any(each[:2] == (expected_revision + 1, commit) for each in state.changes):
            return expected_revision + 1
        state.broker_of(session)
        if state.catalog_revision != expected_revision:
            raise CatalogConflictError(
                f"the catalog is at revision {state.catalog_revision}, not {expected_revision}"
            )
        for key, value in changes.items():
            state.catalog.pop(key, None)
            if value is not None:
                state.catalog[key] = json.dumps(value)
        state.catalog_revision += 1
        state.changes.append((state.catalog_revision, commit, json.dumps(dict(changes))))
        if expected_revision % 100 == 0:
            self._forget_changes(expected_revision - KEPT_CHANGES)
        state.tell("catalog")
        return state.catalog_revision

    def _forget_changes(self, revision: int) -> None:
        """Those that every session has applied; a broker that is silent for a day loads the catalog anew."""
        state, now = self._state, self._state.now_ms()
        applied = [
            each.applied_revision
            for each in state.brokers.values()
            if not each.ended and each.expires_ms > now - DAY_MS
        ]
        revision = min([revision, *applied])
        state.changes = [each for each in state.changes if each[0] > revision]
        state.forgotten_changes = max(state.forgotten_changes, revision)

    # Who holds what.

    async def holders(self, after_revision: int) -> HolderChanges:
        return await self._call("holders", lambda: self._holders(after_revision))

    def _holders(self, after_revision: int) -> HolderChanges:
        state = self._state
        if after_revision < state.forgotten_deletions:
            after_revision = 0
        changed = [
            each
            for each in state.partitions.values()
            if each.revision > after_revision and each.epoch > 0
        ]
        return HolderChanges(
            revision=state.holders_revision,
            changed=[
                Holder(
                    ref=each.ref,
                    partition_id=each.partition_id,
                    node_id=each.node_id,
                    session=each.session,
                    epoch=each.epoch,
                    wanted_node=each.wanted_node,
                )
                for each in sorted(changed, key=lambda each: (each.revision, each.partition_id))
            ],
            deleted=[ref for at, ref, _ in state.deletions if at > after_revision > 0],
            is_complete=after_revision <= 0,
        )

    async def claim(
        self, session: uuid.UUID, refs: Sequence[PartitionRef], catalog_revision: int
    ) -> Sequence[Claimed | NotClaimed]:
        check_claim(refs)
        return await self._call("claim", lambda: self._claim(session, refs, catalog_revision))

    def _claim(
        self, session: uuid.UUID, refs: Sequence[PartitionRef], catalog_revision: int
    ) -> Sequence[Claimed | NotClaimed]:
        state = self._state
        if catalog_revision != state.catalog_revision:
            return [NotClaimed.STALE] * len(refs)
        own = state.broker_of(session)
        partitions = [state.find(ref) or self._new_partition(ref) for ref in refs]
        self._end_expired_holders(own, partitions)
        taken = [
            each
            for each in partitions
            if each.session in (None, session) or not state.is_running(each.session)
        ]
        if taken:
            revision = state.next_holders_revision()
            for each in taken:
                each.epoch += 1
                each.session, each.node_id = session, own.node_id
                each.wanted_node = None
                each.revision = revision
        claimed = {each.partition_id for each in taken}
        return [
            Claimed(ref, each.partition_id, each.epoch, each.start_offset, each.end_offset)
            if each.partition_id in claimed
            else NotClaimed.HELD
            for ref, each in zip(refs, partitions, strict=True)
        ]

    def _new_partition(self, ref: PartitionRef) -> _Partition:
        state = self._state
        made = _Partition(ref, state.next_partition_id)
        state.next_partition_id += 1
        state.partitions[made.partition_id] = made
        state.by_ref[ref.topic_id, ref.partition] = made
        return made

    def _end_expired_holders(self, own: _Broker, partitions: Sequence[_Partition]) -> None:
        state, now = self._state, self._state.now_ms()
        steady_ms = max(state.started_ms, own.steady_since_ms or state.started_ms)
        if now - steady_ms < own.lease_ms:
            return
        holders = {each.session for each in partitions}
        for broker in state.brokers.values():
            is_holder = broker.session in holders and broker is not own
            if is_holder and not broker.ended and broker.expires_ms <= now:
                state.end(broker)

    async def release(self, session: uuid.UUID, wanted: Mapping[int, int | None]) -> None:
        await self._call("release", lambda: self._release(session, wanted))

    def _release(self, session: uuid.UUID, wanted: Mapping[int, int | None]) -> None:
        state = self._state
        found = [state.partitions.get(partition_id) for partition_id in wanted]
        held = [each for each in found if each is not None and each.session == session]
        if held:
            revision = state.next_holders_revision()
            for each in held:
                each.session = None
                each.wanted_node = wanted[each.partition_id]
                each.revision = revision

    async def delete(self, refs: Sequence[PartitionRef]) -> None:
        await self._call("delete", lambda: self._delete(refs))

    def _delete(self, refs: Sequence[PartitionRef]) -> None:
        state = self._state
        found = [each for each in map(state.find, refs) if each is not None]
        if not found:
            return
        revision = state.next_holders_revision()
        state.release_objects(run for each in found for run in each.runs())
        for each in found:
            if state.partitions.pop(each.partition_id, None) is not None:
                del state.by_ref[each.ref.topic_id, each.ref.partition]
                state.deletions.append((revision, each.ref, state.now_ms()))

    async def notifications(self) -> AsyncIterator[str]:
        news: asyncio.Queue[str] = asyncio.Queue()
        self._state.listeners.append(news)
        try:
            yield "lost"
            while True:
                yield await news.get()
        finally:
            self._state.listeners.remove(news)

    # A claimed partition.

    async def ends(self, partition_ids: Sequence[int]) -> Mapping[int, PartitionEnd]:
        return await self._call("ends", lambda: self._ends(partition_ids))

    def _ends(self, partition_ids: Sequence[int]) -> Mapping[int, PartitionEnd]:
        partitions = self._state.partitions
        found = [partitions[each] for each in partition_ids if each in partitions]
        return {each.partition_id: PartitionEnd(each.epoch, each.end_offset) for each in found}

    async def open(self, partition_id: int, epoch: int) -> OpenedPartition:
        return await self._call("open", lambda: self._open(partition_id, epoch))

    def _open(self, partition_id: int, epoch: int) -> OpenedPartition:
        state = self._state
        partition = state.held(partition_id, epoch)
        if partition is None:
            raise FencedError("the partition was claimed again, or deleted")
        return OpenedPartition(
            epochs=list(partition.epochs),
            snapshots=sorted(partition.snapshots.items(), reverse=True),
            cleaned_offset=partition.cleaned_offset,
            segments=[
                state.with_key(each.run)._replace(data=None, headers=b"")
                for each in partition.segments
            ],
            tail=[state.with_key(run)._replace(data=None) for run in partition.tail()],
        )

    async def append(
        self,
        session: uuid.UUID,
        flush: uuid.UUID,
        objects: Sequence[WrittenObject],
        parts: Sequence[PartAppend],
    ) -> Sequence[AppendOutcome]:
        check_parts(objects, parts)
        return await self._call("append", lambda: self._append(flush, objects, parts))

    def _append(
        self, flush: uuid.UUID, objects: Sequence[WrittenObject], parts: Sequence[PartAppend]
    ) -> Sequence[AppendOutcome]:
        usable = self._state.usable_objects(objects)
        outcomes = [self._append_part(flush, usable, part) for part in parts]
        stored = (AppendOutcome.OK, AppendOutcome.ALREADY)
        used = {
            part.object_id
            for part, outcome in zip(parts, outcomes, strict=True)
            if outcome in stored and part.object_id is not None
        }
        self._state.settle_objects(objects, used)
        return outcomes

    def _append_part(self, flush: uuid.UUID, usable: set[int], part: PartAppend) -> AppendOutcome:
        state = self._state
        partition = state.partitions.get(part.partition_id)
        if partition is None:
            return AppendOutcome.FENCED
        if partition.row_of(flush, part.end_offset) is not None:
            return AppendOutcome.ALREADY
        if partition.epoch != part.epoch or (
            part.object_id is not None and part.object_id not in usable
        ):
            return AppendOutcome.FENCED
        if partition.end_offset != part.base_offset:
            return AppendOutcome.MISPLACED
        if not partition.epochs or partition.epochs[-1].epoch != part.epoch:
            partition.epochs.append(EpochStart(part.epoch, part.base_offset))
        run = StoredRun(
            base_offset=part.base_offset,
            end_offset=part.end_offset,
            epoch=part.epoch,
            flush=flush,
            object_id=part.object_id,
            object_key=None,
            position=part.position,
            size_bytes=part.size_bytes,
            max_timestamp_ms=part.max_timestamp_ms,
            headers=bytes(part.headers),
            aborted=bytes(part.aborted),
            data=None if part.data is None else bytes(part.data),
            written_ms=state.clock.now_ms(),
        )
        partition.rows.append(_Row(state.tail_current, run))
        partition.end_offset = part.end_offset
        return AppendOutcome.OK

    async def trim(self, starts: Sequence[tuple[int, int, int]]) -> Sequence[bool]:
        return await self._call("trim", lambda: [self._trim(*start) for start in starts])

    def _trim(self, partition_id: int, epoch: int, start_offset: int) -> bool:
        state = self._state
        partition = state.held(partition_id, epoch)
        if partition is None or start_offset > partition.end_offset:
            return False
        if start_offset <= partition.start_offset:
            return True
        state.release_objects(run for run in partition.runs() if run.end_offset <= start_offset)
        for run in partition.tail():
            if run.end_offset <= start_offset:
                partition.tail_start = run.end_offset
        partition.segments = [
            each for each in partition.segments if each.run.end_offset > start_offset
        ]
        partition.start_offset = start_offset
        while len(partition.epochs) > 1 and partition.epochs[1].start_offset <= start_offset:
            del partition.epochs[0]
        return True

    async def save_snapshot(self, partition_id: int, epoch: int, offset: int, data: bytes) -> bool:
        return await self._call(
            "save_snapshot", lambda: self._save_snapshot(partition_id, epoch, offset, data)
        )

    def _save_snapshot(self, partition_id: int, epoch: int, offset: int, data: bytes) -> bool:
        partition = self._state.held(partition_id, epoch)
        if partition is None or offset > partition.end_offset:
            return False
        partition.snapshots[offset] = bytes(data)
        for older in sorted(partition.snapshots)[:-2]:
            del partition.snapshots[older]
        return True

    async def save_cleaned_offset(self, partition_id: int, epoch: int, offset: int) -> bool:
        return await self._call(
            "save_cleaned_offset", lambda: self._save_cleaned_offset(partition_id, epoch, offset)
        )

    def _save_cleaned_offset(self, partition_id: int, epoch: int, offset: int) -> bool:
        partition = self._state.held(partition_id, epoch)
        if partition is None:
            return False
        partition.cleaned_offset = offset
        return True

    async def replace(
        self, replacements: Sequence[Replacement], objects: Sequence[WrittenObject]
    ) -> Sequence[bool]:
        check_replacements(replacements, objects)
        return await self._call("replace", lambda: self._replace(replacements, objects))

    def _replace(
        self, replacements: Sequence[Replacement], objects: Sequence[WrittenObject]
    ) -> Sequence[bool]:
        usable = self._state.usable_objects(objects)
        answers = [self._replace_one(each, usable) for each in replacements]
        used = {
            segment.object_id
            for each, done in zip(replacements, answers, strict=True)
            for segment in each.segments
            if done and segment.object_id is not None
        }
        self._state.settle_objects(objects, used)
        return answers

    def _replace_one(self, change: Replacement, usable: set[int]) -> bool:
        partition = self._state.held(change.partition_id, change.epoch)
        if partition is None or change.start_offset > partition.tail_start:
            return False
        runs = partition.runs()
        gone = [
            run
            for run in runs
            if run.end_offset > change.start_offset and run.end_offset <= change.end_offset
        ]
        if not gone or (gone[0].base_offset, gone[-1].end_offset) != change[2:4]:
            return False
        if any(
            each.object_id is not None and each.object_id not in usable for each in change.segments
        ):
            return False
        written_ms = max(run.written_ms for run in gone)
        self._state.release_objects(gone)
        kept = [each for each in partition.segments if each.run not in gone]
        made = [
            _Segment(
                StoredRun(
                    base_offset=each.base_offset,
                    end_offset=each.end_offset,
                    epoch=-1,
                    flush=None,
                    object_id=each.object_id,
                    object_key=None,
                    position=each.position,
                    size_bytes=each.size_bytes,
                    max_timestamp_ms=each.max_timestamp_ms,
                    headers=b"",
                    aborted=bytes(each.aborted),
                    data=None if each.data is None else bytes(each.data),
                    written_ms=written_ms,
                ),
                bytes(each.marks),
            )
            for each in change.segments
        ]
        partition.segments = sorted(kept + made, key=lambda each: each.run.end_offset)
        partition.tail_start = max(partition.tail_start, change.end_offset)
        return True

    async def abandon_objects(self, object_ids: Sequence[int]) -> None:
        await self._call("abandon_objects", lambda: self._abandon_objects(object_ids))

    def _abandon_objects(self, object_ids: Sequence[int]) -> None:
        written = [WrittenObject(object_id, 0) for object_id in object_ids]
        self._state.settle_objects(written, set())

    # Reading.

    async def read_runs(
        self, partition_id: int, offset: int, max_bytes: int
    ) -> Sequence[StoredRun]:
        return await self._call(
            "read_runs", lambda: self._read_runs(partition_id, offset, max_bytes)
        )

    def _runs_from(self, partition_id: int, offset: int) -> list[StoredRun]:
        partition = self._state.partitions.get(partition_id)
        if partition is None:
            return []
        runs = [run for run in partition.runs() if run.end_offset > offset]
        return [self._state.with_key(run) for run in runs[:MAX_RUNS]]

    def _read_runs(self, partition_id: int, offset: int, max_bytes: int) -> Sequence[StoredRun]:
        found: list[StoredRun] = []
        size_bytes = 0
        for run in self._runs_from(partition_id, offset):
            if size_bytes >= max_bytes and size_bytes > 0:
                break
            found.append(run._replace(headers=b""))
            size_bytes += run.size_bytes
        return found

    async def run_headers(
        self, partition_id: int, offset: int, end_offset: int
    ) -> Sequence[StoredRun]:
        return await self._call(
            "run_headers",
            lambda: [
                run._replace(data=None)
                for run in self._runs_from(partition_id, offset)
                if run.base_offset < end_offset
            ],
        )

    async def segment_marks(self, partition_id: int, base_offset: int) -> bytes | None:
        return await self._call(
            "segment_marks", lambda: self._segment_marks(partition_id, base_offset)
        )

    def _segment_marks(self, partition_id: int, base_offset: int) -> bytes | None:
        partition = self._state.partitions.get(partition_id)
        for each in [] if partition is None else partition.segments:
            if each.run.base_offset == base_offset:
                return each.marks
        return None

    async def unclaimed(self, refs: Sequence[PartitionRef]) -> Mapping[PartitionRef, UnclaimedLog]:
        return await self._call("unclaimed", lambda: self._unclaimed(refs))

    def _unclaimed(self, refs: Sequence[PartitionRef]) -> Mapping[PartitionRef, UnclaimedLog]:
        found: dict[PartitionRef, UnclaimedLog] = {}
        for ref in refs:
            partition = self._state.find(ref)
            if partition is not None:
                runs = partition.runs()
                found[ref] = UnclaimedLog(
                    sum(run.size_bytes for run in runs),
                    runs[0].max_timestamp_ms if runs else -1,
                    partition.start_offset,
                    partition.end_offset,
                )
        return found

    # Housekeeping.

    async def take_task(self, session: uuid.UUID, task: str, lease_ms: int) -> bool:
        return await self._call("take_task", lambda: self._take_task(session, task, lease_ms))

    def _take_task(self, session: uuid.UUID, task: str, lease_ms: int) -> bool:
        state, now = self._state, self._state.now_ms()
        state.broker_of(session)
        known = state.tasks.get(task)
        if known is not None:
            holder, until_ms = known
            if holder != session and until_ms > now and state.is_running(holder):
                return False
        state.tasks[task] = (session, now + lease_ms)
        return True

    async def turn_tail(self) -> bool:
        return await self._call("turn_tail", self._turn_tail)

    def _turn_tail(self) -> bool:
        state, now = self._state, self._state.now_ms()
        following = (state.tail_current + 1) % TAIL_SLOTS
        if state.next_slot_is_empty:
            if now >= state.turned_ms + TURN_MS:
                state.tail_current, state.turned_ms = following, now
                state.next_slot_is_empty, state.next_slot_moved_ms = False, None
        elif state.next_slot_moved_ms is None:
            self._move_stragglers(following)
            state.next_slot_moved_ms = now
        elif now >= state.next_slot_moved_ms + MOVED_MS:
            for partition in state.partitions.values():
                partition.rows = [row for row in partition.rows if row.slot != following]
            state.next_slot_is_empty = True
        return True

    def _move_stragglers(self, slot: int) -> None:
        for partition in self._state.partitions.values():
            for row in partition.rows:
                if row.slot == slot and row.run.end_offset > partition.tail_start:
                    row.slot = self._state.tail_current

    async def find_garbage(self, max_count: int) -> Sequence[StoredObject]:
        return await self._call("find_garbage", lambda: self._find_garbage(max_count))

    def _find_garbage(self, max_count: int) -> Sequence[StoredObject]:
        state, now = self._state, self._state.now_ms()
        for broker in state.brokers.values():
            if not broker.ended and broker.expires_ms < now - GRACE_MS:
                state.end(broker)
        self._give_up_reserved(max_count)
        candidates, state.released = state.released[:max_count], state.released[max_count:]
        for object_id in candidates:
            known = state.objects.get(object_id)
            if known is None:
                continue
            if known.state is ObjectState.LIVE and not state.is_referenced(object_id):
                known.state, known.since_ms = ObjectState.DEAD, now
        old = [each for each in state.deletions if each[2] < now - DAY_MS]
        if old:
            state.forgotten_deletions = max(state.forgotten_deletions, old[-1][0])
            state.deletions = state.deletions[len(old) :]
        waits = {ObjectState.DEAD: GRACE_MS, ObjectState.DELETED: DAY_MS}
        due = [
            each
            for each in state.objects.values()
            if each.state in waits and each.since_ms < now - waits[each.state]
        ]
        return [each.stored() for each in sorted(due, key=attrgetter("since_ms"))[:max_count]]

    def _give_up_reserved(self, max_count: int) -> None:
        """Of sessions that ended long ago: an append needs the state `reserved`, so it is one or the other."""
        state, now = self._state, self._state.now_ms()
        ended = {session for session, at in state.ended_sessions.items() if at < now - GRACE_MS}
        reserved = [
            each
            for each in state.objects.values()
            if each.state is ObjectState.RESERVED and each.session in ended
        ]
        for each in reserved[:max_count]:
            each.state, each.since_ms = ObjectState.DEAD, now
        if len(reserved) <= max_count:
            for session in ended:
                del state.ended_sessions[session]

    async def note_deleted(self, object_ids: Sequence[int]) -> None:
        await self._call("note_deleted", lambda: self._note_deleted(object_ids))

    def _note_deleted(self, object_ids: Sequence[int]) -> None:
        state, now = self._state, self._state.now_ms()
        for object_id in object_ids:
            known = state.objects.get(object_id)
            if known is None:
                continue
            if known.state is ObjectState.DELETED and known.since_ms < now - DAY_MS:
                del state.objects[object_id]
            elif known.state is ObjectState.DEAD:
                known.state, known.since_ms = ObjectState.DELETED, now

    async def objects(self, after_id: int, max_count: int) -> Sequence[StoredObject]:
        return await self._call(
            "objects",
            lambda: [
                self._state.objects[each].stored()
                for each in sorted(self._state.objects)
                if each > after_id
            ][:max_count],
        )

    async def close(self) -> None:
        """The state stays."""


def _member(broker: _Broker, now_ms: int) -> MemberState:
    description = broker.description
    return MemberState(
        node_id=broker.node_id,
        name=description.name,
        session=broker.session,
        endpoints=dict(description.endpoints),
        advertised=dict(description.advertised),
        peer=description.peer,
        rack=description.rack,
        is_live=not broker.ended and broker.expires_ms > now_ms,
        applied_revision=broker.applied_revision,
        certificate=description.certificate,
    )
