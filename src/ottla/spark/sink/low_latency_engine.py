"""The low-latency engine: the driver takes a micro-batch's rows as Arrow columns, encodes and commits them itself.

Small micro-batches cost mostly the Python processes of the sink, which Spark asks one after the other: one that plans,
one for each task, one that commits. Here is none of them (`foreachBatch`). The commit is the same, with the same
guarantees: Spark repeats the last micro-batch after a crash, and its marker tells whether it was committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigError, OttlaError
from ottla.spark.pipeline.failure_policy import (
    BY_CLASS,
    MicroBatchLostError,
    NextStep,
    PipelineError,
    judge,
)
from ottla.spark.sink.micro_batch_commit import Committer
from ottla.spark.sink.progress import Records, TakenOverError
from ottla.spark.sink.sink_options import EXACTLY_ONCE, SinkSettings, read_stream_settings
from ottla.spark.sink.sink_plan import micro_batch, newest_plan, plan_of
from ottla.spark.sink.writers import QUERY, encoded, pinned_counts, target_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_RAISED: Final[Mapping[NextStep, type[OttlaError]]] = {
    NextStep.LEAVE: TakenOverError,
    NextStep.RESTART: MicroBatchLostError,
    NextStep.STOP: PipelineError,
    NextStep.NEW_DRIVER: PipelineError,
}
_MOST_LETTERS: Final = 1000


def check_delivery(settings: SinkSettings) -> None:
    """Refuse what this engine does not do."""
    if settings.delivery != EXACTLY_ONCE:
        raise ConfigError(
            f"engine='low-latency' is exactly-once, and delivery is {settings.delivery}: remove one of them"
        )


class DriverSink:
    """What `foreachBatch` calls: writes each micro-batch once and as a whole, whatever fails."""

    def __init__(
        self, given: Mapping[str, str], schema: StructType, *, source_is_ours: bool = False
    ) -> None:
        # What sources note (`plan_witness`) is for processes of Spark's Java, of which this one is none.
        self._source_is_ours = source_is_ours
        options = {name.lower(): value for name, value in given.items()}
        self._settings = read_stream_settings(options, schema)
        check_delivery(self._settings)
        # What is wrong with the topics shows at the start.
        pinned_counts(self._settings)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Commit a micro-batch, unless that has happened before."""
        try:
            self._commit(rows, number)
        except Exception as error:
            # Spark searches the whole text of an error for patterns; its stack is too small for a long one of its own.
            failure = judge(type(error).__name__, f"{_name_of(error)}: {error}")
            raise _RAISED[failure.next](failure.reason[:_MOST_LETTERS]) from None

    def _commit(self, rows: DataFrame, number: int) -> None:
        settings = self._settings
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY)
        if query is None:
            raise OttlaError(f"Spark does not tell to which query micro-batch {number} belongs")
        # Before the rows are made: later it may be the plan of another instance.
        pin = newest_plan(settings)
        counts = pinned_counts(settings)
        columns = rows.toArrow().to_batches()
        records = (
            Records(each.topic, each.partition, each.data)
            for each in encoded(settings, counts, columns, number)
        )
        plan = plan_of(settings, query, None, number, pin)
        batch = micro_batch(
            settings, query, number, records, plan, lambda source: self._source_is_ours
        )
        Committer(target_of(settings, query)).commit(batch)


def _name_of(error: Exception) -> str:
    """The class of an error, or the one above it that says what to do."""
    names = [each.__name__ for each in type(error).__mro__]
    return next((name for name in names if name in BY_CLASS), names[0])
