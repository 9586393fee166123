"""The reader of batch queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.source.cluster import SourceCluster
from ottla.spark.source.limits import EARLIEST, LATEST, AtOffsets
from ottla.spark.source.offset_ranges import OffsetRange
from ottla.spark.source.range_reader import report_gap, report_loss
from ottla.spark.source.source_options import read_batch_options
from ottla.spark.source.source_tasks import check_schema, plan_tasks, read_task
from ottla.spark.source.stream_offsets import FoundPartitions


class BatchReader(DataSourceReader):
    """Reads the offsets between two positions, once."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        check_schema(given, schema)
        self._options = read_batch_options(given)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; their offsets are decided here."""
        cluster = SourceCluster(self._options)
        try:
            found = cluster.found_at_first()
            return plan_tasks(self._ranges(cluster, found), found.topic_ids, self._options)
        finally:
            cluster.close()

    def _ranges(self, cluster: SourceCluster, found: FoundPartitions) -> list[OffsetRange]:
        options = self._options
        starts = cluster.starts(options.start, found)
        stops = cluster.stops(options.end, found)
        # Offsets that the options name may be deleted already, or not be written yet.
        named_starts = options.start.offsets if isinstance(options.start, AtOffsets) else {}
        named_stops = options.end.offsets if isinstance(options.end, AtOffsets) else {}
        first = cluster.ends(named_starts, EARLIEST)
        last = cluster.ends(named_stops, LATEST)
        for each in sorted(first):
            if starts[each] < first[each]:
                report_loss(options, f"{each} begins at {first[each]}, not at {starts[each]}")
                starts[each] = first[each]
        for each in sorted(last):
            if stops[each] > last[each]:
                report_gap(options, f"{each} ends at {last[each]}, not at {stops[each]}")
                stops[each] = last[each]
        return [OffsetRange(each, starts[each], stops[each]) for each in found.partitions]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one task."""
        return read_task(partition, self._options)
