"""The data source that Spark knows as `ottla`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ottla.errors import ConfigError
from ottla.spark.runtime import daemon

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter


# All Python processes of Spark that plan, read or write load this module first.
daemon.quieten()


class OttlaDataSource(DataSource):
    """`format("ottla")`: the columns and the options of Spark's own Kafka source and sink."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "ottla"

    def schema(self) -> StructType:
        """The columns of the source. `load()` asks for them first, so wrong options are refused here."""
        from ottla.spark.source.source_options import check_for_any_query
        from ottla.spark.source.source_tasks import source_schema

        check_for_any_query(self.given)
        return source_schema(self.given)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a range of offsets once."""
        from ottla.spark.source.batch_reader import BatchReader

        return BatchReader(self.given, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read a stream."""
        from ottla.spark.source.stream_reader import RefusedReader, StreamReader

        try:
            return StreamReader(self.given, schema)
        except ConfigError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write the rows of a batch query."""
        from ottla.spark.sink.batch_writer import batch_writer

        return batch_writer(self.given, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Write micro-batches."""
        from ottla.spark.sink.writers import stream_writer

        return stream_writer(self.given, schema)

    @property
    def given(self) -> Mapping[str, str]:
        """The options as a plain dict with lower-case names."""
        return {name.lower(): value for name, value in self.options.items()}
