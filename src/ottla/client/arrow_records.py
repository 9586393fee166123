"""The result of `Consumer.poll_arrow`, and what `Producer.send_arrow` takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.client.model import OffsetAndMetadata
from ottla.client.plugins.interceptors import ConsumerInterceptors
from ottla.client.plugins.serializers import BytesDeserializer, Deserializer
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.records.arrow import RecordColumns


class ArrowStream(Protocol):
    """What exports Arrow's C streams: data frames of Polars and pandas, relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule of an ArrowArrayStream."""


ArrowRows: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream"
"""Rows to send, with the columns of records."""


class ArrowRecords:
    """Records of one poll as Arrow columns, partition after partition, each in the order of its log.

    It exports an Arrow stream: `polars.DataFrame(records)` and `duckdb.sql("FROM records")` read it without a copy.
    """

    __slots__ = ("batches", "next_offsets", "schema")

    def __init__(
        self,
        batches: list[Any],
        next_offsets: Mapping[TopicPartition, OffsetAndMetadata],
        schema: pa.Schema,
    ) -> None:
        self.schema = schema
        """The schema of the columns, also if there are no records."""
        self.batches = batches
        """`pyarrow.RecordBatch`es of the requested schema; none if there are no records."""
        self.next_offsets = next_offsets
        """The offsets to commit once these records are processed."""

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def to_table(self) -> pa.Table:
        """The records as one `pyarrow.Table`."""
        from ottla.records.arrow_schema import pa

        return pa.Table.from_batches(self.batches, self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The records for every library that reads Arrow's C streams."""
        return self.to_table().__arrow_c_stream__(requested_schema)


def columns_for(
    schema: Any,
    deserializers: Iterable[Deserializer],
    interceptors: ConsumerInterceptors,
    last: RecordColumns | None,
) -> RecordColumns:
    """The columns to fill, the last ones if they fit; an error if the consumer has deserializers or interceptors."""
    if interceptors or any(type(each) is not BytesDeserializer for each in deserializers):
        raise IllegalStateError(
            "poll_arrow returns keys and values as bytes: it needs a consumer without deserializers "
            "and interceptors"
        )
    from ottla.records.arrow import SCHEMA, RecordColumns

    wanted = SCHEMA if schema is None else schema
    # An error may have left rows behind that no poll returned.
    if last is not None and not last.row_count and last.schema.equals(wanted, check_metadata=True):
        return last
    return RecordColumns(wanted)
