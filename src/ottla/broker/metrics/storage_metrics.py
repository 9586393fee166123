"""The metrics of a storage that brokers share, for Prometheus: of the engine of this process."""

from __future__ import annotations

from typing import Final

from ottla.exposition import Metric, Page
from ottla.storage.shared.store import SharedStore

FLUSH_BYTES = Metric(
    "ottla_storage_flush_size_bytes",
    "histogram",
    "Bytes of what is committed together, by lane: inline in the database, or objects.",
)
FLUSH_WAIT = Metric(
    "ottla_storage_flush_wait_seconds",
    "histogram",
    "How long a flush waits for more records before it is sent, by lane.",
)
COMMIT = Metric(
    "ottla_storage_commit_duration_seconds",
    "histogram",
    "How long PostgreSQL takes for a commit, by lane.",
)
UNSETTLED = Metric(
    "ottla_storage_unsettled_bytes",
    "gauge",
    "Bytes that were appended and are not known to be durable yet, by lane.",
)
PUT = Metric(
    "ottla_storage_put_duration_seconds", "histogram", "How long the object store takes for a put."
)
HEDGED_PUTS = Metric(
    "ottla_storage_hedged_puts_total",
    "counter",
    "Puts that took so long that another was made beside.",
)
FAILED_PUTS = Metric("ottla_storage_failed_puts_total", "counter", "Puts that failed.")
REPEATED_COMMITS = Metric(
    "ottla_storage_repeated_commits_total",
    "counter",
    "Commits that were sent again, because no answer came.",
)
ANSWERS = Metric(
    "ottla_storage_refused_appends_total",
    "counter",
    "Appends that a commit did not make, by reason: already (an earlier try has), fenced (another broker has claimed "
    "the partition), misplaced (a part before it is missing).",
)
READS = Metric(
    "ottla_storage_reads_total",
    "counter",
    "Reads, by where the records were: tail (memory), cold (memory, of what was fetched), fetched.",
)
FETCHED = Metric(
    "ottla_storage_fetched_bytes_total",
    "counter",
    "Bytes that were fetched from the object store or the database to be read.",
)
HEARTBEAT = Metric(
    "ottla_storage_heartbeat_duration_seconds",
    "histogram",
    "How long a renewal of the broker's lease takes.",
)
FAILED_HEARTBEATS = Metric(
    "ottla_storage_failed_heartbeats_total", "counter", "Renewals of the lease that failed."
)
LEASE = Metric(
    "ottla_storage_lease_remaining_seconds",
    "gauge",
    "For how long the broker may serve without another heartbeat; 0 if its lease has passed.",
)
LOST_SESSIONS = Metric(
    "ottla_storage_lost_sessions_total",
    "counter",
    "Sessions that the storage has ended, because this broker was away for longer than its lease.",
)
OPENING = Metric(
    "ottla_storage_opening_duration_seconds",
    "histogram",
    "From the claim of a partition until it is open.",
)
CONSOLIDATED = Metric(
    "ottla_storage_consolidated_logs_total",
    "counter",
    "How often the newest rows of a partition were rewritten as a segment.",
)


def add_storage(page: Page, store: SharedStore) -> None:
    """What the engine has counted."""
    counts = store.metrics
    for lane, of_lane in (("inline", counts.inline), ("objects", counts.objects)):
        page.add(FLUSH_BYTES, of_lane.flush_bytes, lane=lane)
        page.add(FLUSH_WAIT, of_lane.wait_seconds, lane=lane)
        page.add(COMMIT, of_lane.commit_seconds, lane=lane)
        page.add(UNSETTLED, of_lane.unsettled_bytes, lane=lane)
    page.add(PUT, counts.put_seconds)
    page.add(HEDGED_PUTS, counts.hedged_puts)
    page.add(FAILED_PUTS, counts.failed_puts)
    page.add(REPEATED_COMMITS, counts.repeated_commits)
    for reason, count in (
        ("already", counts.already_answers),
        ("fenced", counts.fenced_answers),
        ("misplaced", counts.misplaced_answers),
    ):
        page.add(ANSWERS, count, reason=reason)
    for place, count in (
        ("tail", counts.tail_hits),
        ("cold", counts.cold_hits),
        ("fetched", counts.cold_loads),
    ):
        page.add(READS, count, place=place)
    page.add(FETCHED, counts.cold_bytes)
    page.add(HEARTBEAT, counts.heartbeat_seconds)
    page.add(FAILED_HEARTBEATS, counts.failed_heartbeats)
    page.add(LEASE, max(0.0, store.session.lease_slack_seconds))
    page.add(LOST_SESSIONS, counts.lost_sessions)
    page.add(OPENING, counts.opening_seconds)
    page.add(CONSOLIDATED, counts.consolidated_logs)


ALL: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
