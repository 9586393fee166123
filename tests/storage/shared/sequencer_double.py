"""A sequencer in this process with as much of the rules as the engine's tests need."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.core.leader_epochs import EpochStart
from ottla.ports import (
    CatalogConflictError,
    FencedError,
    JsonValue,
    PartitionRef,
    UnclaimedLog,
)
from ottla.ports.errors import InUseError
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
    OpenedPartition,
    PartAppend,
    PartitionEnd,
    Registration,
    Replacement,
    ReservedObject,
    SegmentWrite,
    StoredObject,
    StoredRun,
    WrittenObject,
)

LEASE_MS = 3000


@dataclass
class _Broker:
    description: BrokerDescription
    node_id: int
    session: uuid.UUID
    expires_at: float
    applied: int = 0
    ended: bool = False


@dataclass
class _Row:
    base: int
    end: int
    epoch: int
    flush: uuid.UUID | None
    object_id: int | None
    position: int
    size: int
    timestamp: int
    headers: bytes
    aborted: bytes
    data: bytes | None
    written: int
    marks: bytes = b""


@dataclass
class _Partition:
    ref: PartitionRef
    id: int
    epoch: int = 0
    session: uuid.UUID | None = None
    node_id: int = -1
    wanted: int | None = None
    start: int = 0
    end: int = 0
    cleaned: int | None = None
    revision: int = 0
    rows: list[_Row] = field(default_factory=list)  # segments (without flush), then the tail
    epochs: list[EpochStart] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)


class SharedState:
    """What all brokers of a test share."""

    def __init__(self) -> None:
        self.cluster_id = "A" * 22
        self.brokers: dict[uuid.UUID, _Broker] = {}
        self.partitions: dict[int, _Partition] = {}
        self.deleted: list[tuple[int, PartitionRef]] = []
        self.catalog: dict[str, JsonValue] = {}
        self.changes: list[CatalogChange] = []
        self.commits: dict[uuid.UUID, int] = {}
        self.revision = 0
        self.holders_revision = 0
        self.next_object = 1
        self.keys: dict[int, str] = {}
        self.dead: set[int] = set()
        self.now = time.monotonic
        self.listeners: list[asyncio.Queue[str]] = []

    def tell(self, what: str) -> None:
        for queue in self.listeners:
            queue.put_nowait(what)


class SequencerDouble:
    """Implements Sequencer."""

    def __init__(self, state: SharedState) -> None:
        self.state = state

    async def register(self, broker: BrokerDescription) -> Registration:
        state = self.state
        node_id = broker.node_id
        for known in state.brokers.values():
            same = known.description.name == broker.name or known.node_id == node_id
            if same and not known.ended:
                if known.expires_at > state.now():
                    raise InUseError("another session has a lease")
                known.ended = True
            if known.description.name == broker.name and node_id is None:
                node_id = known.node_id
        if node_id is None:
            node_id = 1 + max((known.node_id for known in state.brokers.values()), default=0)
        session = uuid.uuid4()
        state.brokers[session] = _Broker(
            broker, node_id, session, state.now() + LEASE_MS / 1000, state.revision
        )
        return Registration(node_id, session, LEASE_MS, state.cluster_id)

    def _live(self, session: uuid.UUID) -> _Broker:
        broker = self.state.brokers.get(session)
        if broker is None or broker.ended:
            raise FencedError("the session has ended")
        return broker

    async def heartbeat(
        self, session: uuid.UUID, applied_revision: int, object_count: int
    ) -> Heartbeat:
        state = self.state
        broker = self._live(session)
        broker.expires_at = state.now() + LEASE_MS / 1000
        if broker.applied != applied_revision:
            broker.applied = applied_revision
            state.tell("applied")
        reserved = []
        for _ in range(object_count):
            key = f"objects/{state.next_object}"
            state.keys[state.next_object] = key
            reserved.append(ReservedObject(state.next_object, key))
            state.next_object += 1
        members = [
            MemberState(
                node_id=each.node_id,
                name=each.description.name,
                session=each.session,
                endpoints=each.description.endpoints,
                advertised=each.description.advertised,
                peer=each.description.peer,
                rack=each.description.rack,
                is_live=not each.ended and each.expires_at > state.now(),
                applied_revision=each.applied,
            )
            for each in state.brokers.values()
            if not each.ended
        ]
        return Heartbeat(LEASE_MS, members, state.revision, state.holders_revision, reserved)

    async def end_session(self, session: uuid.UUID) -> None:
        self.state.brokers[session].ended = True

    async def remove_broker(self, node_id: int) -> bool:
        raise NotImplementedError

    async def describe_broker(self, session: uuid.UUID, broker: BrokerDescription) -> None:
        self._live(session).description = broker

    async def load_catalog(self) -> CatalogState:
        return CatalogState(self.state.revision, dict(self.state.catalog))

    async def catalog_changes(self, after_revision: int) -> Sequence[CatalogChange]:
        return [each for each in self.state.changes if each.revision > after_revision]

    async def commit_catalog(
        self,
        session: uuid.UUID,
        commit: uuid.UUID,
        changes: Mapping[str, JsonValue],
        expected_revision: int,
    ) -> int:
        state = self.state
        if commit in state.commits:
            return state.commits[commit]
        self._live(session)
        if state.revision != expected_revision:
            raise CatalogConflictError(f"the catalog is at revision {state.revision}")
        state.revision += 1
        state.commits[commit] = state.revision
        state.changes.append(CatalogChange(state.revision, dict(changes)))
        for key, value in changes.items():
            if value is None:
                state.catalog.pop(key, None)
            else:
                state.catalog[key] = value
        state.tell("catalog")
        return state.revision

    async def holders(self, after_revision: int) -> HolderChanges:
        state = self.state
        return HolderChanges(
            state.holders_revision,
            [
                Holder(each.ref, each.id, each.node_id, each.session, each.epoch, each.wanted)
                for each in state.partitions.values()
                if each.revision > after_revision
            ],
            [ref for revision, ref in state.deleted if revision > after_revision],
            after_revision == 0,
        )

    async def claim(
        self, session: uuid.UUID, refs: Sequence[PartitionRef], catalog_revision: int
    ) -> Sequence[Claimed | NotClaimed]:
        state = self.state
        broker = self._live(session)
        if catalog_revision != state.revision:
            return [NotClaimed.STALE for _ in refs]
        found: list[Claimed | NotClaimed] = []
        state.holders_revision += 1
        for ref in refs:
            partition = self._find(ref)
            if partition is None:
                number = 1 + max(state.partitions, default=0)
                partition = state.partitions[number] = _Partition(ref, number)
            holder = None if partition.session is None else state.brokers[partition.session]
            if holder is not None and holder.session != session and not holder.ended:
                if holder.expires_at > state.now():
                    found.append(NotClaimed.HELD)
                    continue
                holder.ended = True
            partition.epoch += 1
            partition.session, partition.node_id = session, broker.node_id
            partition.wanted = None
            partition.revision = state.holders_revision
            found.append(
                Claimed(ref, partition.id, partition.epoch, partition.start, partition.end)
            )
        state.tell("holders")
        return found

    def _find(self, ref: PartitionRef) -> _Partition | None:
        return next((each for each in self.state.partitions.values() if each.ref == ref), None)

    async def release(self, session: uuid.UUID, wanted: Mapping[int, int | None]) -> None:
        state = self.state
        state.holders_revision += 1
        for partition_id, node_id in wanted.items():
            partition = state.partitions.get(partition_id)
            if partition is not None and partition.session == session:
                partition.session, partition.wanted = None, node_id
                partition.revision = state.holders_revision
        state.tell("holders")

    async def notifications(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self.state.listeners.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self.state.listeners.remove(queue)

    async def ends(self, partition_ids: Sequence[int]) -> Mapping[int, PartitionEnd]:
        known = self.state.partitions
        return {
            each: PartitionEnd(known[each].epoch, known[each].end)
            for each in partition_ids
            if each in known
        }

    def _claimed(self, partition_id: int, epoch: int) -> _Partition | None:
        partition = self.state.partitions.get(partition_id)
        return partition if partition is not None and partition.epoch == epoch else None

    async def open(self, partition_id: int, epoch: int) -> OpenedPartition:
        partition = self._claimed(partition_id, epoch)
        if partition is None:
            raise FencedError("claimed anew")
        segments = [self._run(row, headers=False) for row in partition.rows if row.flush is None]
        tail = [self._run(row, headers=True) for row in partition.rows if row.flush is not None]
        return OpenedPartition(
            list(partition.epochs),
            sorted(partition.snapshots.items(), reverse=True),
            partition.cleaned,
            [run._replace(data=None) for run in segments],
            [run._replace(data=None) for run in tail],
        )

    def _run(self, row: _Row, *, headers: bool) -> StoredRun:
        return StoredRun(
            base_offset=row.base,
            end_offset=row.end,
            epoch=row.epoch,
            flush=row.flush,
            object_id=row.object_id,
            object_key=None if row.object_id is None else self.state.keys[row.object_id],
            position=row.position,
            size_bytes=row.size,
            max_timestamp_ms=row.timestamp,
            headers=row.headers if headers else b"",
            aborted=row.aborted,
            data=row.data,
            written_ms=row.written,
        )

    async def append(
        self,
        session: uuid.UUID,
        flush: uuid.UUID,
        objects: Sequence[WrittenObject],
        parts: Sequence[PartAppend],
    ) -> Sequence[AppendOutcome]:
        outcomes = []
        for part in parts:
            partition = self.state.partitions.get(part.partition_id)
            rows = [] if partition is None else partition.rows
            if any(row.flush == flush and row.end == part.end_offset for row in rows):
                outcomes.append(AppendOutcome.ALREADY)
            elif (
                partition is None
                or partition.epoch != part.epoch
                or (part.object_id is not None and part.object_id in self.state.dead)
            ):
                outcomes.append(AppendOutcome.FENCED)
            elif partition.end != part.base_offset:
                outcomes.append(AppendOutcome.MISPLACED)
            else:
                if not partition.epochs or partition.epochs[-1].epoch != part.epoch:
                    partition.epochs.append(EpochStart(part.epoch, part.base_offset))
                rows.append(
                    _Row(
                        base=part.base_offset,
                        end=part.end_offset,
                        epoch=part.epoch,
                        flush=flush,
                        object_id=part.object_id,
                        position=part.position,
                        size=part.size_bytes,
                        timestamp=part.max_timestamp_ms,
                        headers=part.headers,
                        aborted=part.aborted,
                        data=part.data,
                        written=time.time_ns() // 1_000_000,
                    )
                )
                partition.end = part.end_offset
                outcomes.append(AppendOutcome.OK)
        return outcomes

    async def trim(self, starts: Sequence[tuple[int, int, int]]) -> Sequence[bool]:
        answers = []
        for partition_id, epoch, start in starts:
            partition = self._claimed(partition_id, epoch)
            if partition is None or start > partition.end:
                answers.append(False)
                continue
            partition.start = max(start, partition.start)
            partition.rows = [row for row in partition.rows if row.end > partition.start]
            answers.append(True)
        return answers

    async def save_snapshot(self, partition_id: int, epoch: int, offset: int, data: bytes) -> bool:
        partition = self._claimed(partition_id, epoch)
        if partition is None or offset > partition.end:
            return False
        kept = sorted({**partition.snapshots, offset: data}.items())
        partition.snapshots = dict(kept[-2:])
        return True

    async def save_cleaned_offset(self, partition_id: int, epoch: int, offset: int) -> bool:
        partition = self._claimed(partition_id, epoch)
        if partition is None:
            return False
        partition.cleaned = offset
        return True

    async def replace(
        self, replacements: Sequence[Replacement], objects: Sequence[WrittenObject]
    ) -> Sequence[bool]:
        return [self._replace(each) for each in replacements]

    def _replace(self, wanted: Replacement) -> bool:
        partition = self._claimed(wanted.partition_id, wanted.epoch)
        if partition is None:
            return False
        start, end = wanted.start_offset, wanted.end_offset
        old = [row for row in partition.rows if start <= row.base and row.end <= end]
        if not old or old[0].base != start or old[-1].end != end:
            return False
        at = partition.rows.index(old[0])
        if old[0].flush is not None and at > 0 and partition.rows[at - 1].flush is not None:
            return False
        written = max(row.written for row in old)
        made = [_segment(each, written) for each in wanted.segments]
        partition.rows[at : at + len(old)] = made
        return True

    async def abandon_objects(self, object_ids: Sequence[int]) -> None:
        self.state.dead.update(object_ids)

    async def delete(self, refs: Sequence[PartitionRef]) -> None:
        state = self.state
        state.holders_revision += 1
        for ref in refs:
            partition = self._find(ref)
            if partition is not None:
                del state.partitions[partition.id]
                state.deleted.append((state.holders_revision, ref))
        state.tell("holders")

    async def read_runs(
        self, partition_id: int, offset: int, max_bytes: int
    ) -> Sequence[StoredRun]:
        partition = self.state.partitions.get(partition_id)
        found: list[StoredRun] = []
        size = 0
        for row in [] if partition is None else partition.rows:
            if row.end > offset:
                found.append(self._run(row, headers=False))
                size += row.size
                if size >= max_bytes:
                    break
        return found

    async def run_headers(
        self, partition_id: int, offset: int, end_offset: int
    ) -> Sequence[StoredRun]:
        raise NotImplementedError

    async def segment_marks(self, partition_id: int, base_offset: int) -> bytes | None:
        for row in self.state.partitions[partition_id].rows:
            if row.flush is None and row.base == base_offset:
                return row.marks
        return None

    async def unclaimed(self, refs: Sequence[PartitionRef]) -> Mapping[PartitionRef, UnclaimedLog]:
        found = {}
        for ref in refs:
            partition = self._find(ref)
            if partition is not None:
                rows = partition.rows
                found[ref] = UnclaimedLog(
                    sum(row.size for row in rows),
                    rows[0].timestamp if rows else -1,
                    partition.start,
                    partition.end,
                )
        return found

    async def take_task(self, session: uuid.UUID, task: str, lease_ms: int) -> bool:
        return True

    async def turn_tail(self) -> bool:
        return True

    async def find_garbage(self, max_count: int) -> Sequence[StoredObject]:
        return []

    async def note_deleted(self, object_ids: Sequence[int]) -> None:
        pass

    async def objects(self, after_id: int, max_count: int) -> Sequence[StoredObject]:
        return []

    async def close(self) -> None:
        pass


def _segment(write: SegmentWrite, written: int) -> _Row:
    return _Row(
        base=write.base_offset,
        end=write.end_offset,
        epoch=-1,
        flush=None,
        object_id=write.object_id,
        position=write.position,
        size=write.size_bytes,
        timestamp=write.max_timestamp_ms,
        headers=b"",
        aborted=write.aborted,
        data=write.data,
        written=written,
        marks=write.marks,
    )
