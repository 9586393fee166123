"""What must hold of every history; docs/history-checker.md says it in words.

A copy of a value is `NAME<VALUE`: a value that is sent is unique, and says what it is a copy of.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from tests.history.digest import Digest, Outcome, Place, Polled, Seek, Transaction, digest
from tests.history.events import READ_COMMITTED, READ_UNCOMMITTED, Event

COPY_OF = "<"
NEVER_COMMITTED = -1
UNFINISHED = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class Kind(Enum):
    """Every anomaly that is looked for."""

    TWO_VALUES = "an offset has two values"
    NEVER_SENT = "a value was read that nobody sent"
    DUPLICATE = "a value is there twice"
    LOST = "a write of a committed transaction is not there"
    MISPLACED = "a write is not where the producer was told, or in another partition"
    ABORTED_READ = "a value of an aborted transaction was read"
    TORN = "a part of a transaction is there, the rest is not"
    OUT_OF_ORDER = "a producer's writes to a partition are in another order"
    BACKWARDS = "a poll went back"
    SKIPPED = "a poll left out what was to be seen"
    STALE_POSITION = "a committed offset was forgotten"
    WRONG_POSITION = "a committed offset that nobody committed"
    APART = "offsets and output have not moved together"
    NOT_STABLE = "the last stable offset has not reached the high watermark"
    UNFINISHED = "a transaction has not ended"


class Anomaly(NamedTuple):
    """What is wrong, and where."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind.name} ({self.kind.value}): {self.text}"


def check(history: Iterable[Event]) -> list[Anomaly]:
    """Every anomaly of a history."""
    found = digest(history)
    return [anomaly for look in CHECKS for anomaly in look(found)]


class Sighting(NamedTuple):
    """A value at an offset, as somebody read it or a producer was told."""

    place: Place
    offset: int
    value: str
    who: str
    is_told: bool


def _sightings(found: Digest) -> Iterator[Sighting]:
    for isolation, places in found.final.items():
        for place, records in places.items():
            for offset, value in records:
                yield Sighting(place, offset, value, f"the last {isolation} read", False)
    for reader in found.readers.values():
        for step in reader.steps:
            if isinstance(step, Polled):
                yield Sighting(step.place, step.offset, step.value, reader.name, False)
    for transaction in found.transactions.values():
        who = f"the producer of {transaction}"
        for value, offset in transaction.acknowledged.items():
            if offset >= 0:  # clients do not always know the offset of what was sent twice
                yield Sighting(transaction.sent[value], offset, value, who, True)


def one_value_per_offset(found: Digest) -> Iterator[Anomaly]:
    """All who saw an offset saw the same value; a value is at one offset, and was sent there."""
    values: dict[tuple[Place, int], Sighting] = {}
    offsets: dict[str, Sighting] = {}
    for value in found.sent_twice:
        yield Anomaly(Kind.DUPLICATE, f"{value} was sent twice: the run itself is wrong")
    for seen in _sightings(found):
        place, offset, value, who, is_told = seen
        other = values.setdefault((place, offset), seen)
        if other.value != value:
            yield Anomaly(
                Kind.TWO_VALUES,
                f"{place} at {offset}: {other.value} for {other.who}, {value} for {who}",
            )
        first = offsets.setdefault(value, seen)
        if (first.place, first.offset) != (place, offset):
            yield Anomaly(
                Kind.MISPLACED if is_told or first.is_told else Kind.DUPLICATE,
                f"{value} is at {first.place} {first.offset} for {first.who}, "
                f"and at {place} {offset} for {who}",
            )
        transaction = found.owner.get(value)
        if transaction is None:
            yield Anomaly(Kind.NEVER_SENT, f"{value} at {place} {offset} for {who}")
        elif transaction.sent[value] != place:
            yield Anomaly(
                Kind.MISPLACED, f"{value} is in {place}, and was sent to {transaction.sent[value]}"
            )


def no_lost_write(found: Digest) -> Iterator[Anomaly]:
    """A commit that was acknowledged makes everything visible for good."""
    visible = found.finally_visible()
    for transaction in found.transactions.values():
        if transaction.outcome is Outcome.COMMITTED:
            lost = [value for value in transaction.sent if value not in visible]
            if lost:
                yield Anomaly(
                    Kind.LOST,
                    f"{transaction} has committed; {len(lost)} of {len(transaction.sent)} are lost: {lost[0]} ...",
                )


def no_aborted_read(found: Digest) -> Iterator[Anomaly]:
    """Nobody who reads committed data sees the value of a transaction that has not committed, at any time."""
    seen: dict[str, str] = dict.fromkeys(found.finally_visible(), "the last read")
    for reader in found.readers.values():
        if reader.isolation == READ_COMMITTED:
            polled = [step.value for step in reader.steps if isinstance(step, Polled)]
            seen.update(dict.fromkeys(polled, reader.name))
    for value, who in seen.items():
        transaction = found.owner.get(value)
        if transaction is not None and transaction.outcome is Outcome.ABORTED:
            yield Anomaly(Kind.ABORTED_READ, f"{who} read {value} of {transaction}")


def no_torn_transaction(found: Digest) -> Iterator[Anomaly]:
    """Of a transaction whose outcome is not known everything is there, or nothing."""
    visible = found.finally_visible()
    seen = {
        step.value
        for reader in found.readers.values()
        if reader.isolation == READ_COMMITTED
        for step in reader.steps
        if isinstance(step, Polled)
    }
    for transaction in found.transactions.values():
        if transaction.outcome is not Outcome.UNKNOWN:
            continue
        there = [value for value in transaction.sent if value in visible]
        # What a reader saw once has been committed, even if it is gone now.
        shown = [value for value in transaction.sent if value in visible or value in seen]
        if shown and len(there) < len(transaction.sent):
            missing = [value for value in transaction.sent if value not in visible]
            yield Anomaly(
                Kind.TORN, f"{transaction}: {shown[0]} was seen, {missing[0]} is not there"
            )


def order_is_kept(found: Digest) -> Iterator[Anomaly]:
    """What one producer sent to a partition has rising offsets, aborted or not."""
    where = {
        value: offset
        for records in found.final.get(READ_UNCOMMITTED, {}).values()
        for offset, value in records
    }
    lines: dict[tuple[str, Place], list[str]] = {}
    for transaction in found.transactions.values():
        for value, place in transaction.sent.items():
            if value in where:
                lines.setdefault((transaction.worker, place), []).append(value)
    for (worker, place), values in lines.items():
        for before, after in pairwise(values):
            if where[before] > where[after]:
                yield Anomaly(
                    Kind.OUT_OF_ORDER,
                    f"{worker} sent {before} before {after}; in {place} they are at "
                    f"{where[before]} and {where[after]}",
                )


def polls_go_on(found: Digest) -> Iterator[Anomaly]:
    """A reader sees rising offsets, and everything between them that is to be seen at its isolation level."""
    for reader in found.readers.values():
        final = found.final.get(reader.isolation, {})
        next_offset: dict[Place, int] = {}
        for step in reader.steps:
            if isinstance(step, Seek):
                next_offset[step.place] = step.offset
                continue
            place, offset, _ = step
            start = next_offset.get(place, 0)
            if offset < start:
                yield Anomaly(
                    Kind.BACKWARDS, f"{reader.name}: {place} at {offset}, expected from {start} on"
                )
            left_out = [
                value for at, value in _between(final.get(place, []), start, offset) if at < offset
            ]
            if left_out:
                yield Anomaly(
                    Kind.SKIPPED,
                    f"{reader.name}: {place} from {start} to {offset} without {left_out}",
                )
            next_offset[place] = offset + 1


def _between(
    records: list[tuple[int, str]], start_offset: int, end_offset: int
) -> list[tuple[int, str]]:
    first = bisect_left(records, (start_offset, ""))
    last = bisect_left(records, (end_offset, ""))
    return records[first:last]


def positions_are_true(found: Digest) -> Iterator[Anomaly]:
    """A committed offset that somebody is told is the last one, or that of a commit whose outcome is not known yet."""
    by_place: dict[tuple[str, Place], list[Transaction]] = {}
    for transaction in found.transactions.values():
        for key in transaction.offsets:
            by_place.setdefault(key, []).append(transaction)
    for position in found.positions:
        key = (position.group, position.place)
        committing = by_place.get(key, [])
        least = max(
            (one.offsets[key] for one in committing if _committed_before(one, position.began)),
            default=NEVER_COMMITTED,
        )
        if position.offset < least:
            yield Anomaly(
                Kind.STALE_POSITION,
                f"{position.worker} was told {position.offset} for {position.group} on "
                f"{position.place}, after {least} had been committed",
            )
        possible = {one.offsets[key] for one in committing if one.outcome is not Outcome.ABORTED}
        if position.offset != NEVER_COMMITTED and position.offset not in possible:
            yield Anomaly(
                Kind.WRONG_POSITION,
                f"{position.worker} was told {position.offset} for {position.group} on {position.place}",
            )


def _committed_before(transaction: Transaction, when: float) -> bool:
    return transaction.committed_at is not None and transaction.committed_at < when


def offsets_and_output_move_together(found: Digest) -> Iterator[Anomaly]:
    """Below a group's committed offset everything is copied once, above it nothing is."""
    visible = found.finally_visible()
    final = found.final.get(READ_COMMITTED, {})
    for group, source, target in found.copying:
        copies: dict[str, str] = {}
        for value, (place, _) in visible.items():
            if place.topic != target:
                continue
            original = value.partition(COPY_OF)[2]
            if original in copies:
                yield Anomaly(
                    Kind.APART, f"{original} was copied to {copies[original]} and {value}"
                )
            copies[original] = value
        for place, records in final.items():
            if place.topic != source:
                continue
            committed = found.committed.get((group, place), 0)
            for offset, value in records:
                copy = copies.pop(value, None)
                if offset < committed and copy is None:
                    yield Anomaly(
                        Kind.APART,
                        f"{group} has committed {committed} of {place}, without a copy of {value} at {offset}",
                    )
                if offset >= committed and copy is not None:
                    yield Anomaly(
                        Kind.APART,
                        f"{group} has committed {committed} of {place}, and {copy} copies what is at {offset}",
                    )
        for original, copy in copies.items():
            yield Anomaly(Kind.APART, f"{copy} copies {original}, which is not there")
    for transaction in found.transactions.values():
        if transaction.outcome is Outcome.COMMITTED:
            for key, offset in transaction.offsets.items():
                if found.committed.get(key, NEVER_COMMITTED) < offset:
                    yield Anomaly(
                        Kind.STALE_POSITION,
                        f"{transaction} committed {offset} for {key[0]} on {key[1]}, "
                        f"at the end it is {found.committed.get(key)}",
                    )


def everything_is_stable(found: Digest) -> Iterator[Anomaly]:
    """When all is healed, no transaction is open and nothing holds readers back."""
    for place, (high_watermark, last_stable_offset) in found.end_offsets.items():
        if last_stable_offset != high_watermark:
            yield Anomaly(
                Kind.NOT_STABLE, f"{place}: {last_stable_offset}, high watermark {high_watermark}"
            )
    for transactional_id, state in found.states.items():
        if state in UNFINISHED:
            yield Anomaly(Kind.UNFINISHED, f"{transactional_id} is in {state}")


CHECKS: tuple[Callable[[Digest], Iterator[Anomaly]], ...] = (
    one_value_per_offset,
    no_lost_write,
    no_aborted_read,
    no_torn_transaction,
    order_is_kept,
    polls_go_on,
    positions_are_true,
    offsets_and_output_move_together,
    everything_is_stable,
)
