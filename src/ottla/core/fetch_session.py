"""Fetch sessions (KIP-227): the consumer names its partitions once, then only changes; the broker does the same."""

from __future__ import annotations

import uuid
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 0x7FFFFFFF
IDLE_MS = 120_000  # after this time without use a session may be evicted
MAX_PARTITIONS = 1 << 18  # of all sessions together

Key = tuple[str | uuid.UUID, int]


@dataclass(slots=True)
class FetchTarget:
    """A partition that a consumer reads, and what the last response said about it."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_start_offset: int = -1

    def record_response(
        self, is_error: bool, high_watermark: int, start_offset: int, has_records: bool
    ) -> bool:
        """Remembers the offsets in a response; returns whether an incremental response has to contain the partition."""
        changed = (
            has_records
            or is_error
            or high_watermark != self.told_high_watermark
            or start_offset != self.told_start_offset
        )
        # After an error the partition is mentioned once more when the error is gone.
        self.told_high_watermark = -1 if is_error else high_watermark
        self.told_start_offset = start_offset
        return changed


@dataclass(slots=True)
class FetchSession:
    """The partitions that one consumer reads."""

    session_id: int
    uses_topic_ids: bool
    last_used_ms: int
    owner: Hashable  # the connection that it ends with
    next_epoch: int = 1
    targets: dict[Key, FetchTarget] = field(default_factory=dict)

    def update(self, targets: Iterable[tuple[Key, FetchTarget]], forgotten: Iterable[Key]) -> None:
        for key, target in targets:
            known = self.targets.get(key)
            if known is None:
                self.targets[key] = target
                continue
            known.fetch_offset = target.fetch_offset
            known.max_bytes = target.max_bytes
            known.leader_epoch = target.leader_epoch
            known.last_fetched_epoch = target.last_fetched_epoch
        for key in forgotten:
            self.targets.pop(key, None)

    def move_back(self, key: Key) -> None:
        """Lets the other partitions come first in the next fetch: a busy partition must not starve them."""
        target = self.targets.pop(key, None)
        if target is not None:
            self.targets[key] = target


@dataclass(slots=True)
class FetchContext:
    """The partitions of a fetch; `session` is None outside of a session.

    `denied` are the topics that the reader may not read, as their keys have them.
    """

    targets: list[tuple[Key, FetchTarget]]
    session: FetchSession | None
    is_incremental: bool
    denied: Container[str | uuid.UUID] = ()

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    def mentions(self, key: Key, has_records: bool, is_changed: bool) -> bool:
        """Whether the response mentions a partition; one with records comes last in the session from now on."""
        if self.session is not None and has_records:
            self.session.move_back(key)
        return is_changed or not self.is_incremental


class FetchSessions:
    """The sessions of a broker, at most `max.incremental.fetch.session.cache.slots` and `MAX_PARTITIONS`."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        # Ordered by last use, the longest unused first.
        self._sessions: dict[int, FetchSession] = {}
        self._owned: dict[Hashable, set[int]] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def open(
        self,
        session_id: int,
        epoch: int,
        targets: Sequence[tuple[Key, FetchTarget]],
        forgotten: Sequence[Key],
        uses_topic_ids: bool,
        now_ms: int,
        fresh_id: int,
        owner: Hashable = None,
    ) -> FetchContext | Refused:
        """Begins, continues or ends a session as the request asks; a new session gets `fresh_id`."""
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(session_id)
            session = None
            if epoch == INITIAL_EPOCH and targets and self._has_room(len(targets), now_ms):
                session = FetchSession(fresh_id, uses_topic_ids, now_ms, owner)
            if session is None:
                return FetchContext(list(dict(targets).items()), None, False)
            session.update(targets, ())
            self._keep(session)
            return FetchContext(list(session.targets.items()), session, False)
        found = self._sessions.get(session_id)
        if found is None:
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.next_epoch != epoch:
            return Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != uses_topic_ids:
            return Refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._end(session_id)
        if self._partitions + len(found.targets) + len(targets) > MAX_PARTITIONS:
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        found.update(targets, forgotten)
        found.next_epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        found.last_used_ms = now_ms
        found.owner = owner
        if not found.targets:
            return FetchContext([], None, False)
        self._keep(found)
        return FetchContext(list(found.targets.items()), found, True)

    def targets_of(self, session_id: int) -> list[FetchTarget]:
        """The partitions of a session; none if there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.targets.values())

    def discard(self, context: FetchContext) -> None:
        """Ends a session of which the client does not learn."""
        if context.session is not None and not context.is_incremental:
            self._end(context.session.session_id)

    def end_of(self, owner: Hashable) -> None:
        """Ends the sessions of a connection."""
        for session_id in self._owned.pop(owner, ()):
            self._partitions -= len(self._sessions.pop(session_id).targets)

    def _keep(self, session: FetchSession) -> None:
        self._sessions[session.session_id] = session
        self._owned.setdefault(session.owner, set()).add(session.session_id)
        self._partitions += len(session.targets)

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._partitions -= len(session.targets)
        owned = self._owned[session.owner]
        owned.remove(session_id)
        if not owned:
            del self._owned[session.owner]

    def _has_room(self, partitions: int, now_ms: int) -> bool:
        """Whether there is room for a session; evicts an idle one for it."""
        if self._slots <= 0 or self._partitions + partitions > MAX_PARTITIONS:
            return False
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.last_used_ms < IDLE_MS:
                return False
            self._end(oldest.session_id)
        return True
