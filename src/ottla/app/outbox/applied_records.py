"""Which records of a listener have been applied to the database: each at most once, whoever tries.

A listener that works on a partition in order moves the partition's row in the table of offsets, on the condition that
it is not beyond the record yet. One that works out of order, or that has retry topics, adds a row for each record to
the inbox. Both are statements of the transaction that has the effect: if another process was faster, also one that has
been given the partition meanwhile, no row changes, and the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.app.outbox.database_session import Rows, Steps
from ottla.app.outbox.statements import Tables
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.app.delivery.unit import Unit


class RecordPlace(NamedTuple):
    """A record by its first place: the source topic, not a retry topic."""

    topic: str
    topic_id: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"


class AlreadyAppliedError(OttlaError):
    """The effect of these records is in the database: the transaction was rolled back. The app handles it itself."""

    def __init__(self, places: Sequence[RecordPlace]) -> None:
        super().__init__(f"applied before: {', '.join(map(str, places))}")
        self.places = frozenset(places)


class HandlerDelivery:
    """One call of a handler, with the records that its database transaction applies."""

    def __init__(
        self, group: str, places: Sequence[RecordPlace], unit: Unit, *, has_inbox: bool
    ) -> None:
        self.group = group
        self.places = places
        self.unit = unit
        self.has_inbox = has_inbox
        self.refusal: str | None = None
        """Why no transaction can be entered in this call."""
        self.is_applied = False
        """Whether a transaction of this call was committed."""

    def steps(self, tables: Tables, now_ms: int) -> Steps[None]:
        """Note the records as applied; AlreadyAppliedError if some of them are."""
        applied: list[RecordPlace] = []
        for partition in {
            (each.topic, each.topic_id, each.partition): None for each in self.places
        }:
            row = _row(self.group, *partition)
            places = [each for each in self.places if each[:3] == partition]
            offsets = sorted(each.offset for each in places)
            if self.has_inbox:
                noted = yield from _add_to_inbox(tables, row, offsets, now_ms)
                applied += [each for each in places if each.offset not in noted]
            else:
                next_offset = yield from _advance(tables, row, offsets, now_ms)
                applied += [each for each in places if each.offset < next_offset]
        if applied:
            raise AlreadyAppliedError(applied)


CURRENT_DELIVERY: Final[ContextVar[HandlerDelivery | None]] = ContextVar(
    "ottla_app_delivery", default=None
)


def _row(group: str, topic: str, topic_id: str, partition: int) -> Mapping[str, Any]:
    return {
        "consumer_group": group,
        "topic": topic,
        "topic_id": topic_id,
        "partition_number": partition,
    }


def _add_to_inbox(
    tables: Tables, row: Mapping[str, Any], offsets: Sequence[int], now_ms: int
) -> Steps[set[int]]:
    noted = set()
    for offset in offsets:
        added: Rows = yield tables.add_to_inbox(row, offset, now_ms)
        if added.changed == 1:
            noted.add(offset)
    return noted


def _advance(
    tables: Tables, row: Mapping[str, Any], offsets: Sequence[int], now_ms: int
) -> Steps[int]:
    """Move the offset behind the records; returns below which offset records were applied before."""
    first, end = offsets[0], offsets[-1] + 1
    moved: Rows = yield tables.advance(row, first, end, now_ms)
    if moved.changed == 0:
        moved = yield tables.start(row, end, now_ms)
    if moved.changed == 0:
        # The row is there, beyond the record or made a moment ago by another process.
        moved = yield tables.advance(row, first, end, now_ms)
    if moved.changed:
        return first
    found: Rows = yield tables.next_offset(row)
    next_offset: int = found.rows[0][0]
    return max(next_offset, first + 1)


def read_next_offsets(
    tables: Tables, group: str, partitions: Sequence[tuple[str, str, int]]
) -> Steps[dict[tuple[str, int], int]]:
    """Where the database is in partitions, given as (topic, topic id, number); without those that it does not know."""
    found = {}
    for topic, topic_id, partition in partitions:
        rows: Rows = yield tables.next_offset(_row(group, topic, topic_id, partition))
        if rows.rows:
            found[topic, partition] = int(rows.rows[0][0])
    return found
