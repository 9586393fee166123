"""What the sink knows of the micro-batch at hand: the plan in Spark's checkpoint, and notes of its driver's sources."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from typing import Final

from ottla.client.blocking.admin import Admin
from ottla.errors import ConfigError
from ottla.spark.sink.plan_witness import is_contradicted, noted_pipeline
from ottla.spark.sink.progress import Marker, MicroBatch, Records, SourceRange, marker_group
from ottla.spark.sink.query_checkpoint import (
    NO_PLAN,
    Checkpoint,
    CheckpointError,
    FromKafka,
    Pin,
    Plan,
    check_unchanged,
    find_checkpoint,
    open_files,
)
from ottla.spark.sink.sink_options import SinkSettings
from ottla.spark.sink.task_messages import own_folder

log = logging.getLogger("ottla.spark")

NO_MICRO_BATCHES: Final = (
    "format('ottla') writes micro-batches, and this query is processed continuously: use "
    "trigger(processingTime=...) or trigger(availableNow=True)"
)
# The marker of a micro-batch that was planned within this time has not expired: groups keep offsets for seven days.
_YOUNG_MS: Final = 24 * 3600 * 1000

# Checkpoints that could not be read and need not be; each is tried once in a process, which may take long.
_closed: set[str | None] = set()


def newest_plan(settings: SinkSettings) -> Pin | None:
    """The plan of the micro-batch that is about to run; None if the checkpoint's place is not known yet.

    Spark has written it just before. Read now, because later it may be that of another instance.
    """
    location = settings.location
    if location is None or (location in _closed and not settings.commits_source_offsets):
        return None
    try:
        checkpoint = Checkpoint(location, open_files(location, settings.storage))
        number = _newest_number(checkpoint)
        return None if number is None else Pin(number, _plan_in(checkpoint, settings, number))
    except CheckpointError as error:
        if settings.commits_source_offsets:
            raise
        _let_be(location, error)
        return None


def refuse_continuous(settings: SinkSettings) -> None:
    """As far as the checkpoint tells; one that cannot be read is nobody's concern here."""
    if settings.location is not None and settings.location not in _closed:
        try:
            _newest_number(
                Checkpoint(settings.location, open_files(settings.location, settings.storage))
            )
        except CheckpointError:
            _closed.add(settings.location)


def _newest_number(checkpoint: Checkpoint) -> int | None:
    """That of the newest plan; None where there is no checkpoint.

    Continuous processing is refused: its tasks are planned before any offsets are, those of a micro-batch after. Later
    is too late. Its tasks do not call `write`, and Spark only logs what `commit` raises.
    """
    number = checkpoint.newest()
    if number is None and checkpoint.query() is not None and not checkpoint.is_planned(0):
        raise ConfigError(NO_MICRO_BATCHES)
    return number


def plan_of(
    settings: SinkSettings, query: str, root: str | None, number: int, pin: Pin | None = None
) -> Plan:
    """What Spark's checkpoint says of a micro-batch; what it said when the tasks were planned has to be the same."""
    place = settings.location or root
    if place in _closed and not settings.commits_source_offsets:
        return NO_PLAN if pin is None or pin.number != number else pin.plan
    try:
        found = find_checkpoint(
            query, settings.location, root, settings.query_name, settings.storage
        )
        # Without a pin of this micro-batch there is nothing to compare. A later one is another instance's.
        if pin is None or pin.number < number:
            plan = _plan_in(found, settings, number)
        else:
            check_unchanged(found, pin, number)
            plan = pin.plan
        if is_contradicted(plan.sources, own_folder()):
            raise found.is_anothers(number)
        return plan._replace(keeps_state=number == 0 and found.keeps_state())
    except CheckpointError as error:
        if settings.commits_source_offsets:
            raise
        _let_be(place, error)
        return NO_PLAN if pin is None or pin.number != number else pin.plan


def check_names_agree(settings: SinkSettings, plan: Plan) -> None:
    """Refuse a source of this driver that has another pipeline's name: it would go on where that one ended."""
    others = plan.from_kafka.ranges if plan.from_kafka is not None else ()
    for source in (*plan.sources, *others):
        noted = noted_pipeline(source, own_folder())
        if noted and noted != settings.pipeline:
            raise names_differ(noted, settings.pipeline)


def names_differ(of_source: str, of_sink: str | None) -> ConfigError:
    """The source and the sink of one pipeline have different names."""
    has = "has none" if of_sink is None else f"has pipeline={of_sink!r}"
    return ConfigError(
        f"the source has pipeline={of_source!r}, and the sink {has}: give both the same name. The progress is kept "
        "under that of the sink, and the source looks there if the checkpoint is lost"
    )


def is_read_by_us_here(source: SourceRange) -> bool:
    """Whether a source of ours in this driver reads what another one may have planned."""
    return noted_pipeline(source, own_folder()) is not None


def micro_batch(
    settings: SinkSettings,
    query: str,
    number: int,
    records: Iterable[Records],
    plan: Plan,
    is_read_by_us: Callable[[SourceRange], bool],
) -> MicroBatch:
    """What is to be committed."""
    return MicroBatch(
        query,
        number,
        records,
        plan.digest,
        plan.sources,
        plan.keeps_state,
        plan.from_kafka is not None and _is_first(settings, query, plan.from_kafka, is_read_by_us),
    )


def _is_first(
    settings: SinkSettings,
    query: str,
    found: FromKafka,
    is_read_by_us: Callable[[SourceRange], bool],
) -> bool:
    """Whether a query comes from Spark's own connector with this micro-batch: then it has no marker (ADR 0031)."""
    if found.ranges:
        # Interrupted under the other source; that one with our sink would have a marker, which may have expired.
        moving = [each for each in found.ranges if each.start != each.end]
        return bool(moving) and all(map(is_read_by_us, moving))
    age_ms = math.inf if found.planned_ms is None else time.time() * 1000 - found.planned_ms
    former = {name for name in found.groups if name is not None and name != settings.pipeline}
    return age_ms < _YOUNG_MS and not any(_was_written_as(settings, each, query) for each in former)


def _was_written_as(settings: SinkSettings, pipeline: str, query: str) -> bool:
    """Whether the query has a marker under a name that it had when the micro-batch was planned."""
    group = marker_group(pipeline)
    with Admin(settings.admin) as admin:
        kept = admin.list_consumer_group_offsets([group], require_stable=True)[group].values()
    return any(Marker.from_offset(each, group).query == query for each in kept if each is not None)


def _plan_in(checkpoint: Checkpoint, settings: SinkSettings, number: int) -> Plan:
    """The plan, or only what tells it from others."""
    if settings.commits_source_offsets:
        return checkpoint.plan(number)
    try:
        return checkpoint.plan(number)._replace(sources=())
    except CheckpointError:
        return Plan(checkpoint.digest(number), ())


def _let_be(place: str | None, error: CheckpointError) -> None:
    _closed.add(place)
    log.warning(
        "The checkpoint is not read, so that one which is older than the output may not be noticed: %s",
        error,
    )
