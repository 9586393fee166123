"""A fetched partition: which of its records a consumer sees, and reading them bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client.model import ConsumerRecord, Headers
from ottla.client.plugins.serializers import LookupPending
from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.errors import AbortableError, DeserializationError, ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import (
    DEFAULT_LIMIT_BYTES,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    BatchHeader,
    TimestampType,
    crc_matches,
    payload,
    read_batch,
    read_header,
)
from ottla.records.client_kernel import RecordsReader, whole_batches
from ottla.records.control import MarkerType, parse_marker_type
from ottla.records.errors import CorruptRecordsError, UnsupportedMagicError
from ottla.records.legacy import upgrade_legacy
from ottla.records.record import Buffer
from ottla.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from ottla.records.arrow import RecordColumns

# No position is there, so an element with this offset is dropped.
_NOWHERE: Final = -1

Deserialize = Callable[[str, Headers, bytes], object]
"""From topic, headers and bytes to a key or value; not called for None."""


class ReadSettings(NamedTuple):
    """How records are read: check.crcs, isolation.level, the deserializers, and what tools see in addition."""

    check_crcs: bool = True
    read_committed: bool = False
    key_of: Deserialize | None = None
    value_of: Deserialize | None = None
    shows_control: bool = False
    shows_aborted: bool = False


class FetchedPartition:
    """The response for one partition, from which records are taken in parts.

    `next_offset` is the offset behind the records that were taken.
    """

    def __init__(
        self,
        partition: TopicPartition,
        fetch_offset: int,
        data: PartitionData,
        settings: ReadSettings,
    ) -> None:
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.next_offset = fetch_offset
        self.last_epoch = -1
        self.data = data
        self.is_consumed = False
        self.is_lent = False
        """Whether the program's thread reads it: its offset is ahead of the position at times."""
        self.record_count = 0
        self.size_bytes = 0 if data.records is None else len(data.records)
        self._settings = settings
        self._position = 0
        self._end, self._last_header, self._broken = _complete_batches(
            partition, fetch_offset, data
        )
        # That of the batch at the position, once it was read.
        self._header: BatchHeader | None = None
        self._reader: RecordsReader[ConsumerRecord] | None = None
        self._is_marked = False
        self._deserializes = settings.key_of is not None or settings.value_of is not None
        # Records that were read, and are not deserialized yet.
        self._raw: list[ConsumerRecord] = []
        self._aborted_ids: set[int] = set()
        self._aborted = sorted(
            ((txn.first_offset, txn.producer_id) for txn in data.aborted_transactions or ()),
            reverse=True,
        )

    @property
    def error(self) -> ErrorCode:
        """The error code of the partition."""
        return ErrorCode(self.data.error_code)

    @property
    def end_offset(self) -> int | None:
        """Where the next fetch starts; None if an error has to be handled first."""
        if self.data.error_code or self._broken is not None:
            return None
        if self._last_header is None:
            return self.fetch_offset
        return max(self._last_header.last_offset + 1, self.fetch_offset)

    def drop(self) -> None:
        """Release the records that were not taken."""
        self.is_consumed = True
        self._reader = None
        self._end = self._position
        self._raw = []

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """The next records, at most `max_records`.

        A record that cannot be read raises when it is the next one, every time until the program seeks past it.
        """
        records: list[ConsumerRecord] = []
        try:
            while len(records) < max_records:
                part = self._next_part(max_records - len(records))
                if part is None:
                    break
                records = part if not records else records + part
        except (CorruptRecordsError, DeserializationError, AbortableError) as error:
            # The records before it are returned first.
            if not records:
                if isinstance(error, CorruptRecordsError):
                    raise corrupt_error(self.partition, self.next_offset, str(error)) from error
                raise
        except Exception:
            raise
        except BaseException:
            # Ctrl-C, perhaps behind records that were read and not counted: all that is left is fetched again.
            self.next_offset = _NOWHERE
            raise
        self.record_count += len(records)
        if self._position >= self._end and self._broken is None:
            self.is_consumed = True
        return records

    def take_columns(self, columns: RecordColumns, end_offset: int) -> int:
        """Add the records before `end_offset` to columns; returns how many there were.

        A record that cannot be read raises as in `take`.
        """
        self._reader = None
        before = columns.row_count
        start_offset = self.next_offset
        try:
            while self._position < self._end and self.next_offset < end_offset:
                if not self._take_plain(columns, end_offset):
                    self._take_batch(columns, end_offset)
            if self._position >= self._end and self._broken is not None:
                raise self._broken
        except (CorruptRecordsError, AbortableError) as error:
            if self.next_offset == start_offset:
                if isinstance(error, CorruptRecordsError):
                    raise corrupt_error(self.partition, self.next_offset, str(error)) from error
                raise
        taken = columns.row_count - before
        self.record_count += taken
        if self._position >= self._end and self._broken is None:
            self.is_consumed = True
        return taken

    def _take_plain(self, columns: RecordColumns, end_offset: int) -> bool:
        """Read the next batches in one call, as far as nothing has to be decided for one; False if there are none."""
        assert self.data.records is not None
        may_be_aborted = self._settings.read_committed and (self._aborted or self._aborted_ids)
        appended = columns.append_plain(
            self.data.records,
            self._position,
            *self.partition,
            start_offset=self.next_offset,
            end_offset=end_offset,
            checks_crcs=self._settings.check_crcs,
            takes_transactional=not may_be_aborted,
        )
        if appended is None:
            return False
        self._position, self.next_offset, self.last_epoch = appended
        self._header = None
        return True

    def _take_batch(self, columns: RecordColumns, end_offset: int) -> None:
        """Read the next batch, or its records before the end offset."""
        position, header = self._position, self._next_header()
        if header.base_offset < end_offset:
            self._check(position, header)
            self.last_epoch = header.partition_leader_epoch
            if not self._is_aborted(position, header) and not header.is_control:
                assert self.data.records is not None
                columns.append(
                    self.data.records,
                    position,
                    header,
                    *self.partition,
                    start_offset=self.next_offset,
                    end_offset=end_offset,
                )
        if header.last_offset < end_offset:
            self._finish_batch()
        else:
            # The rest of the batch is behind the end offset.
            self.next_offset = end_offset

    def _next_part(self, max_records: int) -> list[ConsumerRecord] | None:
        """Some records of one batch, perhaps none; None behind the last batch."""
        if self._raw:
            return self._deserialized(max_records)
        reader = self._reader or self._next_reader()
        if reader is None:
            return None
        part = reader.read(max_records)
        if self._is_marked:
            header = self._next_header()
            part = [MarkedRecord.of(record, header) for record in part]
        elif part and self._deserializes:
            self._raw = part
            if reader.done:
                self._reader = None
            return self._deserialized(max_records)
        if part:
            self.next_offset = part[-1].offset + 1
        if reader.done:
            self._finish_batch()
        return part

    def _deserialized(self, max_records: int) -> list[ConsumerRecord]:
        """Records with deserialized keys and values."""
        records: list[ConsumerRecord] = []
        key_of, value_of = self._settings.key_of, self._settings.value_of
        topic = self.partition.topic
        try:
            for raw in self._raw[:max_records]:
                key, value = raw.key, raw.value
                if key_of is not None and key is not None:
                    key = key_of(topic, raw.headers, key)
                if value_of is not None and value is not None:
                    value = value_of(topic, raw.headers, value)
                records.append(tuple.__new__(ConsumerRecord, (*raw[:5], key, value, *raw[7:])))
        except Exception as error:
            if not records:
                if isinstance(error, LookupPending | KafkaError):
                    raise  # no fault of the record: a schema registry is asked first, or did not answer
                raise self._undeserializable(self._raw[0], error) from error
        self._raw = self._raw[len(records) :]
        self.next_offset = records[-1].offset + 1
        if not self._raw and self._reader is None:
            self._finish_batch()
        return records

    def _undeserializable(self, raw: ConsumerRecord, error: Exception) -> DeserializationError:
        what, data = "value", raw.value
        key_of = self._settings.key_of
        if key_of is not None and raw.key is not None:
            try:
                key_of(raw.topic, raw.headers, raw.key)
            except Exception:
                what, data = "key", raw.key
        return DeserializationError(
            f"The {what} of a record cannot be deserialized: {error}. "
            "Seek past the record to go on without it.",
            self.partition,
            raw.offset,
            data,
        )

    def _finish_batch(self) -> None:
        # Compaction may remove the last record of a batch and keep its last offset: continuing behind that offset
        # avoids fetching the same batch for ever.
        header = self._next_header()
        self.next_offset = max(self.next_offset, header.last_offset + 1)
        self._position += header.size_bytes
        self._header = None
        self._reader = None

    def _next_header(self) -> BatchHeader:
        """The header of the batch at the position."""
        if self._header is None:
            assert self.data.records is not None
            self._header = read_header(self.data.records, self._position)
        return self._header

    def _next_reader(self) -> RecordsReader[ConsumerRecord] | None:
        """The reader of the next batch that the consumer sees; None behind the last one."""
        while self._position < self._end:
            position, header = self._position, self._next_header()
            self._check(position, header)
            self.last_epoch = header.partition_leader_epoch
            # Also called for control batches, which end aborted transactions.
            self._is_marked = self._is_aborted(position, header) or header.is_control
            if self._is_marked and not self._shows(header):
                self._finish_batch()
                continue
            self._reader = self._read(position, header)
            return self._reader
        if self._broken is not None:
            raise self._broken
        return None

    def _shows(self, header: BatchHeader) -> bool:
        """Whether a tool asked for batches of this kind."""
        settings = self._settings
        return settings.shows_control if header.is_control else settings.shows_aborted

    def _check(self, position: int, header: BatchHeader) -> None:
        assert self.data.records is not None
        if self._settings.check_crcs and not crc_matches(self.data.records, position, header):
            raise CorruptRecordsError(
                f"the checksum of the batch at offset {header.base_offset} is wrong"
            )

    def _is_aborted(self, position: int, header: BatchHeader) -> bool:
        """Whether a batch is part of an aborted transaction; called for each batch in order."""
        if not self._settings.read_committed or header.producer_id == NO_PRODUCER_ID:
            return False
        while self._aborted and self._aborted[-1][0] <= header.last_offset:
            self._aborted_ids.add(self._aborted.pop()[1])
        if header.is_control:
            if self._marker_type(position) is MarkerType.ABORT:
                self._aborted_ids.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborted_ids

    def _marker_type(self, position: int) -> MarkerType | None:
        assert self.data.records is not None
        records = read_batch(self.data.records, position)
        return parse_marker_type(records[0].key) if records else None

    def _read(self, position: int, header: BatchHeader) -> RecordsReader[ConsumerRecord]:
        assert self.data.records is not None
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        epoch = header.partition_leader_epoch
        return RecordsReader(
            ConsumerRecord,
            payload(self.data.records, position, header, DEFAULT_LIMIT_BYTES),
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if is_append_time else None,
            self.partition.topic,
            self.partition.partition,
            epoch if epoch >= 0 else None,
            self.next_offset,
        )


def corrupt_error(partition: TopicPartition, offset: int, why: str) -> AbortableError:
    """The error of records that cannot be read; a retry does not help."""
    return AbortableError(
        ErrorCode.CORRUPT_MESSAGE,
        f"The records cannot be read: {why}. Seek past them to go on without them.",
        {"api": "Fetch", "partition": partition, "offset": offset},
    )


def _complete_batches(
    partition: TopicPartition, fetch_offset: int, data: PartitionData
) -> tuple[int, BatchHeader | None, AbortableError | None]:
    """Where the complete batches end, the header of the last one, and the error behind it, if there are any."""
    records = data.records
    if not records or data.error_code:
        return 0, None, None
    end, last = whole_batches(records)
    last_header = read_header(records, last) if end else None
    try:
        # Brokers may cut the last batch off at the size limit.
        if len(records) - end >= HEADER_BYTES or _is_legacy(records, end):
            read_header(records, end)
    except UnsupportedMagicError:
        return _upgraded_batches(partition, fetch_offset, data)
    except CorruptRecordsError as error:
        at = last_header.last_offset + 1 if last_header is not None else fetch_offset
        return end, last_header, corrupt_error(partition, at, str(error))
    if last_header is None:
        why = f"the broker sent {len(records)} bytes without a complete batch"
        return end, None, corrupt_error(partition, fetch_offset, why)
    return end, last_header, None


def _is_legacy(records: Buffer, position: int) -> bool:
    """Whether a message of an old format follows, which may be smaller than the header of a batch."""
    return len(records) - position > MAGIC_AT and records[position + MAGIC_AT] < MAGIC


def _upgraded_batches(
    partition: TopicPartition, fetch_offset: int, data: PartitionData
) -> tuple[int, BatchHeader | None, AbortableError | None]:
    """Like `_complete_batches`, for records in the formats before Kafka 0.11."""
    assert data.records is not None
    try:
        data.records = memoryview(upgrade_legacy(data.records))
    except CorruptRecordsError as error:
        return 0, None, corrupt_error(partition, fetch_offset, str(error))
    return _complete_batches(partition, fetch_offset, data)
