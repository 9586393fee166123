"""The position of a consumer in one partition, and its states until it is valid (KIP-320)."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from ottla.config.offset_reset import OffsetReset, OffsetResetKind
from ottla.errors import IllegalStateError
from ottla.model import NO_LEADER

NO_EPOCH: Final = -1

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1


class LeaderAndEpoch(NamedTuple):
    """The leader of a partition and its epoch, by the metadata."""

    leader: int = NO_LEADER
    epoch: int = NO_EPOCH


UNKNOWN_LEADER: Final = LeaderAndEpoch()


class FetchPosition(NamedTuple):
    """The next offset to read, the epoch of the record before it, and the leader to read from."""

    offset: int
    offset_epoch: int = NO_EPOCH
    leader: LeaderAndEpoch = UNKNOWN_LEADER

    def __str__(self) -> str:
        return f"offset {self.offset} (epoch {self.offset_epoch})"


def reset_timestamp_ms(reset: OffsetReset, wall_clock_ms: int) -> int:
    """The timestamp of the ListOffsets request."""
    if reset.kind is OffsetResetKind.EARLIEST:
        return EARLIEST_TIMESTAMP
    if reset.kind is OffsetResetKind.LATEST:
        return LATEST_TIMESTAMP
    assert reset.kind is OffsetResetKind.BY_DURATION
    return max(0, wall_clock_ms - reset.duration_ms)


RESET_EARLIEST: Final = OffsetReset(OffsetResetKind.EARLIEST)
RESET_LATEST: Final = OffsetReset(OffsetResetKind.LATEST)


class FetchState(Enum):
    """The state of a position; records are fetched in FETCHING only."""

    INITIALIZING = "has no position yet"
    FETCHING = "has a valid position"
    AWAIT_RESET = "waits for an offset by ListOffsets"
    AWAIT_VALIDATION = "waits for OffsetForLeaderEpoch to confirm its position"


class Truncation(NamedTuple):
    """The log of a new leader diverges: records that were read before do not exist any more (KIP-320)."""

    position: FetchPosition
    diverging_offset: int | None
    diverging_epoch: int = NO_EPOCH


class AssignedPartition:
    """The state of one assigned partition."""

    __slots__ = (
        "fetch_state",
        "high_watermark",
        "is_lent",
        "last_stable_offset",
        "log_start_offset",
        "next_leader",
        "paused",
        "pending_revocation",
        "position",
        "preferred_replica",
        "preferred_replica_until_ms",
        "reset",
        "retry_at_ms",
    )

    def __init__(self) -> None:
        self.fetch_state = FetchState.INITIALIZING
        # Behind the records that polls have returned; set exactly in FETCHING and AWAIT_VALIDATION.
        self.position: FetchPosition | None = None
        self.paused = False
        self.pending_revocation = False
        # While records are lent to the program's thread, it alone changes the position.
        self.is_lent = False
        self.next_leader: LeaderAndEpoch | None = None
        self.reset: OffsetReset | None = None
        # When the next reset or validation may be tried; a request in flight sets it to the end of its timeout.
        self.retry_at_ms = 0.0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_replica: int | None = None
        self.preferred_replica_until_ms = 0.0

    @property
    def has_valid_position(self) -> bool:
        return self.fetch_state is FetchState.FETCHING

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be fetched, and returned by polls."""
        return (
            self.fetch_state is FetchState.FETCHING
            and not self.paused
            and not self.pending_revocation
        )

    def seek(self, position: FetchPosition) -> None:
        """Continue at `position`, which is validated first if both epochs are known."""
        self.reset = None
        self.retry_at_ms = 0.0
        self.position = position
        self.fetch_state = _state_after(position)

    def seek_validated(self, position: FetchPosition) -> None:
        """Continue at `position`, which needs no validation."""
        self.reset = None
        self.retry_at_ms = 0.0
        self.position = position
        self.fetch_state = FetchState.FETCHING

    def advance(self, offset: int, offset_epoch: int) -> None:
        """A poll returns the records below `offset`."""
        if self.fetch_state is not FetchState.FETCHING or self.position is None:
            raise IllegalStateError("a partition without a valid position cannot advance")
        self.position = FetchPosition(offset, offset_epoch, self.position.leader)

    def request_reset(self, reset: OffsetReset) -> None:
        """Forget the position, and have a new one looked up."""
        self.fetch_state = FetchState.AWAIT_RESET
        self.position = None
        self.reset = reset
        self.retry_at_ms = 0.0

    def complete_reset(self, reset: OffsetReset, position: FetchPosition) -> bool:
        """Take the position that was looked up; False if the program has sought in the meantime."""
        if self.fetch_state is not FetchState.AWAIT_RESET or self.reset != reset:
            return False
        self.seek(position)
        return True

    def follow_leader(self, current: LeaderAndEpoch) -> bool:
        """Take over the current leader; True if the position has to be validated by it."""
        if self.is_lent:
            self.next_leader = current
            return False
        if self.position is None or current.leader == NO_LEADER:
            return False
        if self.position.leader != current:
            self.position = self.position._replace(leader=current)
            self.fetch_state = _state_after(self.position)
            self.retry_at_ms = 0.0
            self.preferred_replica = None
        return self.fetch_state is FetchState.AWAIT_VALIDATION

    def end_loan(self) -> None:
        """The loop changes the position again; follow the leader that was found meanwhile."""
        self.is_lent = False
        leader, self.next_leader = self.next_leader, None
        if leader is not None:
            self.follow_leader(leader)

    def skip_validation(self) -> None:
        """The broker cannot validate positions (before Kafka 2.3)."""
        if self.fetch_state is FetchState.AWAIT_VALIDATION:
            self.fetch_state = FetchState.FETCHING
            self.retry_at_ms = 0.0

    def complete_validation(
        self,
        asked: FetchPosition,
        end_epoch: int,
        end_offset: int,
        default_reset: OffsetReset,
    ) -> Truncation | None:
        """Compare the position with the end of its epoch at the leader.

        If the log was truncated below the position, the position is reset, or the truncation is returned if
        auto.offset.reset is none.
        """
        if self.fetch_state is not FetchState.AWAIT_VALIDATION or self.position != asked:
            return None
        may_reset = default_reset.kind is not OffsetResetKind.NONE
        if end_offset == -1 or end_epoch == NO_EPOCH:
            if not may_reset:
                return Truncation(asked, None)
            self.request_reset(default_reset)
        elif end_offset < asked.offset:
            if not may_reset:
                return Truncation(asked, end_offset, end_epoch)
            self.seek_validated(FetchPosition(end_offset, end_epoch, asked.leader))
        else:
            self.skip_validation()
        return None

    def lag(self, *, committed_only: bool) -> int | None:
        """The number of offsets up to the end, if that is known."""
        end = self.last_stable_offset if committed_only else self.high_watermark
        if self.position is None or end is None:
            return None
        return max(0, end - self.position.offset)

    def prefer_replica(self, node_id: int, until_ms: float) -> None:
        """Fetch from a follower that the leader named (KIP-392)."""
        if self.preferred_replica != node_id:
            self.preferred_replica = node_id
            self.preferred_replica_until_ms = until_ms

    def replica_at(self, now_ms: float) -> int | None:
        """The follower to fetch from, until the leader's choice expires."""
        if self.preferred_replica is not None and now_ms > self.preferred_replica_until_ms:
            self.preferred_replica = None
        return self.preferred_replica

    def forget_replica(self) -> int | None:
        """Fetch from the leader again; returns the follower that was preferred."""
        replica, self.preferred_replica = self.preferred_replica, None
        return replica


def _state_after(position: FetchPosition) -> FetchState:
    # A position can only be validated if both epochs are known.
    if position.offset_epoch == NO_EPOCH or position.leader.epoch == NO_EPOCH:
        return FetchState.FETCHING
    return FetchState.AWAIT_VALIDATION
