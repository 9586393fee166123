"""Where a consumer reads on in one partition, and what has to happen before it may (KIP-320)."""

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
    """Who leads a partition, as far as the metadata says."""

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
    """What to ask ListOffsets for."""
    if reset.kind is OffsetResetKind.EARLIEST:
        return EARLIEST_TIMESTAMP
    if reset.kind is OffsetResetKind.LATEST:
        return LATEST_TIMESTAMP
    assert reset.kind is OffsetResetKind.BY_DURATION
    return max(0, wall_clock_ms - reset.duration_ms)


RESET_EARLIEST: Final = OffsetReset(OffsetResetKind.EARLIEST)
RESET_LATEST: Final = OffsetReset(OffsetResetKind.LATEST)


class FetchState(Enum):
    """What a partition waits for before records are fetched."""

    INITIALIZING = "has no position yet"
    FETCHING = "has a valid position"
    AWAIT_RESET = "waits for an offset by ListOffsets"
    AWAIT_VALIDATION = "waits for OffsetForLeaderEpoch to confirm its position"


class Truncation(NamedTuple):
    """Records that were read before have gone: the log of a new leader diverges (KIP-320)."""

    position: FetchPosition
    diverging_offset: int | None
    diverging_epoch: int = NO_EPOCH


class AssignedPartition:
    """What a consumer knows of one partition that it reads."""

    __slots__ = (
        "fetch_state",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
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
        # Of what was handed to the user; set exactly in FETCHING and AWAIT_VALIDATION.
        self.position: FetchPosition | None = None
        self.paused = False
        self.pending_revocation = False
        self.reset: OffsetReset | None = None
        # No reset or validation is tried before; a request in flight moves it on by its timeout.
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
        """Whether records may be fetched for it and given to the user."""
        return (
            self.fetch_state is FetchState.FETCHING
            and not self.paused
            and not self.pending_revocation
        )

    def seek(self, position: FetchPosition) -> None:
        """Go on at `position`, which is validated first if both epochs are known."""
        self.reset = None
        self.retry_at_ms = 0.0
        self.position = position
        self.fetch_state = _state_after(position)

    def seek_validated(self, position: FetchPosition) -> None:
        """Go on at `position`, which needs no validation."""
        self.reset = None
        self.retry_at_ms = 0.0
        self.position = position
        self.fetch_state = FetchState.FETCHING

    def advance(self, offset: int, offset_epoch: int) -> None:
        """The user was given everything below `offset`."""
        if self.fetch_state is not FetchState.FETCHING or self.position is None:
            raise IllegalStateError("a partition without a valid position cannot advance")
        self.position = FetchPosition(offset, offset_epoch, self.position.leader)

    def request_reset(self, reset: OffsetReset) -> None:
        """Have the position looked up; what was it before is forgotten."""
        self.fetch_state = FetchState.AWAIT_RESET
        self.position = None
        self.reset = reset
        self.retry_at_ms = 0.0

    def complete_reset(self, reset: OffsetReset, position: FetchPosition) -> bool:
        """Use the offset found, unless the user sought elsewhere in the meantime."""
        if self.fetch_state is not FetchState.AWAIT_RESET or self.reset != reset:
            return False
        self.seek(position)
        return True

    def follow_leader(self, current: LeaderAndEpoch) -> bool:
        """Take note of the current leader; true if the position has to be validated with it."""
        if self.position is None or current.leader == NO_LEADER:
            return False
        if self.position.leader != current:
            self.position = self.position._replace(leader=current)
            self.fetch_state = _state_after(self.position)
            self.retry_at_ms = 0.0
            self.preferred_replica = None
        return self.fetch_state is FetchState.AWAIT_VALIDATION

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
        """Compare with where the leader says that our epoch ends; a truncation if nobody resets it."""
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
        """How many offsets are left to read, if that is known."""
        end = self.last_stable_offset if committed_only else self.high_watermark
        if self.position is None or end is None:
            return None
        return max(0, end - self.position.offset)

    def prefer_replica(self, node_id: int, until_ms: float) -> None:
        """Read from a follower that the leader named (KIP-392)."""
        if self.preferred_replica != node_id:
            self.preferred_replica = node_id
            self.preferred_replica_until_ms = until_ms

    def replica_at(self, now_ms: float) -> int | None:
        """The follower to read from, while the leader's advice is not too old."""
        if self.preferred_replica is not None and now_ms > self.preferred_replica_until_ms:
            self.preferred_replica = None
        return self.preferred_replica

    def forget_replica(self) -> int | None:
        """Read from the leader again; returns the follower that was preferred."""
        replica, self.preferred_replica = self.preferred_replica, None
        return replica


def _state_after(position: FetchPosition) -> FetchState:
    # Without both epochs there is nothing to compare.
    if position.offset_epoch == NO_EPOCH or position.leader.epoch == NO_EPOCH:
        return FetchState.FETCHING
    return FetchState.AWAIT_VALIDATION
