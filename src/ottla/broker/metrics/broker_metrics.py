"""The metrics of a broker, for Prometheus."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Final

from ottla.broker.cluster import Cluster
from ottla.broker.internals.process_identity import IDENTITY
from ottla.broker.loop.loop_monitor import LoopMonitor
from ottla.broker.metrics import storage_metrics
from ottla.broker.metrics.topic_extents import SLICE, TopicExtent, topic_extents
from ottla.broker.network.server import Server
from ottla.broker.node import Node
from ottla.broker.security.logins import Logins
from ottla.broker.security.standard_authorizer import StandardAuthorizer
from ottla.broker.telemetry.client_series import Dropped
from ottla.core.group.classic.group import ClassicState
from ottla.core.group.consumer.group import ConsumerState
from ottla.core.security.quotas.entities import CLIENT_KINDS, QuotaKind
from ottla.core.txn.states import TxnState as TransactionState
from ottla.errors import ErrorCode
from ottla.exposition import Metric, Page, rendered_labels
from ottla.records import kernel
from ottla.storage.shared.store import SharedStore
from ottla.version import VERSION

# The number of topics with series of their own; the others share one, under a name that no topic can have.
MAX_TOPICS: Final = 5000
OTHERS: Final = "(others)"

BUILD = Metric("ottla_build_info", "gauge", "The version that runs, as labels; always 1.")
REQUESTS = Metric("ottla_requests_total", "counter", "Requests that were received, by API.")
ERRORS = Metric(
    "ottla_request_errors_total",
    "counter",
    "Errors in responses, by API and error; one response may have an error for each partition.",
)
IN_FLIGHT = Metric(
    "ottla_requests_in_flight",
    "gauge",
    "Requests without an answer yet, by API: fetches that wait for records, members that wait for others.",
)
DURATION = Metric(
    "ottla_request_duration_seconds",
    "histogram",
    "From a request to its answer, by API; what a fetch or a join waits is part of it.",
)
RECEIVED = Metric("ottla_received_bytes_total", "counter", "Bytes that clients sent.")
SENT = Metric("ottla_sent_bytes_total", "counter", "Bytes that were sent to clients.")
CONNECTIONS = Metric("ottla_connections", "gauge", "Connections that are open.")
UNSETTLED = Metric(
    "ottla_unsettled_bytes",
    "gauge",
    "Appended bytes that are not durable yet and not shown to readers.",
)
WAITING_PRODUCERS = Metric(
    "ottla_connections_waiting_to_produce",
    "gauge",
    "Connections that are not read because 64 MiB of appended bytes are not durable yet.",
)
ACCEPTED = Metric("ottla_connections_accepted_total", "counter", "Connections that were accepted.")
REFUSED = Metric(
    "ottla_connections_refused_total", "counter", "Connections that a limit did not allow."
)
FAULTED = Metric(
    "ottla_connections_faulted_total",
    "counter",
    "Connections that were closed for what the client sent.",
)
LOGINS = Metric(
    "ottla_logins_total",
    "counter",
    "Logins by SASL, by result: succeeded, failed, reauthenticated, reauthentication_failed; "
    "session_expired for connections that were closed because their clients did not authenticate again.",
)
PENDING_LOGINS = Metric(
    "ottla_pending_logins",
    "gauge",
    "Connections whose clients have not authenticated themselves yet.",
)
LOGINS_GIVEN_UP = Metric(
    "ottla_logins_given_up_total",
    "counter",
    "Connections that were closed because a login took too long, or was the oldest of too many.",
)
DECISIONS = Metric(
    "ottla_authorizations_total",
    "counter",
    "What the authorizer decided about attempts of clients, by result: allowed or denied.",
)
ACLS = Metric("ottla_acls", "gauge", "ACLs.")
THROTTLED = Metric(
    "ottla_throttled_total",
    "counter",
    "Requests whose client had to wait, by the quota that it exceeded; for connection_creation_rate, connections.",
)
THROTTLE_TIME = Metric(
    "ottla_throttle_seconds_total", "counter", "How long clients had to wait, by the quota."
)
QUOTA_CLIENTS = Metric(
    "ottla_quota_clients",
    "gauge",
    "Clients with a quota whose use is measured; clients that share a quota count as one.",
)
PARTITIONS = Metric("ottla_partitions", "gauge", "Partitions that the node leads.")
OFFLINE = Metric(
    "ottla_offline_partitions", "gauge", "Partitions that the node leads and cannot open."
)
UNCLEANABLE = Metric(
    "ottla_uncleanable_partitions",
    "gauge",
    "Partitions that the node leads and does not compact, because they are damaged.",
)
FAILED_COORDINATORS = Metric(
    "ottla_failed_coordinators",
    "gauge",
    "Partitions of internal topics whose groups or transactions cannot be loaded, by topic.",
)
GROUPS = Metric(
    "ottla_groups", "gauge", "Groups that the node coordinates, by their protocol and state."
)
REBALANCES = Metric(
    "ottla_group_rebalances_total",
    "counter",
    "Rebalances: generations of classic groups that began, and epochs of groups of the consumer protocol.",
)
# The events that begin a rebalance, by the protocol of the group.
_REBALANCE_EVENTS: Final = {"classic": "group_forming", "consumer": "group_rebalances"}
TRANSACTIONS = Metric(
    "ottla_transactional_ids",
    "gauge",
    "Transactional ids that the node coordinates, by the state of their last transaction.",
)
SYNCS = Metric(
    "ottla_log_sync_duration_seconds",
    "histogram",
    "How long it took to bring appended records to the disk (fdatasync), each time.",
)
LOOP_HELD = Metric(
    "ottla_loop_held_seconds_max",
    "gauge",
    "The longest that callbacks held the event loop, so that all clients waited, in the last one to two minutes.",
)
TOPICS = Metric("ottla_topics", "gauge", "Topics, those of the broker itself included.")
TOPIC_PARTITIONS = Metric("ottla_topic_partitions", "gauge", "Partitions of a topic.")
TOPIC_BYTES = Metric("ottla_topic_size_bytes", "gauge", "Size of the segments of a topic.")
TOPIC_STARTS = Metric(
    "ottla_topic_start_offsets", "gauge", "Start offsets of a topic's partitions, added up."
)
TOPIC_ENDS = Metric(
    "ottla_topic_end_offsets",
    "gauge",
    "End offsets of a topic's partitions, added up: how much it grows is how much was written to it.",
)
CLIENT_INSTANCES = Metric(
    "ottla_client_metrics_instances",
    "gauge",
    "Clients that ask which metrics to push, or push them.",
)
CLIENT_SERIES = Metric(
    "ottla_client_metrics_series", "gauge", "Series that clients have pushed, on this page."
)
CLIENT_POINTS_DROPPED = Metric(
    "ottla_client_metrics_dropped_total",
    "counter",
    "Numbers that clients have pushed and that are not on this page, by reason.",
)
CLIENT_INFO = Metric(
    "ottla_client_info", "gauge", "A client that has pushed metrics, as labels; always 1."
)
CPU = Metric("process_cpu_seconds_total", "counter", "Processor time, of user and system.")
MEMORY = Metric("process_resident_memory_bytes", "gauge", "Resident memory.")
FILES = Metric("process_open_fds", "gauge", "Open file descriptors.")
MAX_FILES = Metric("process_max_fds", "gauge", "How many file descriptors may be open.")
STARTED = Metric("process_start_time_seconds", "gauge", "When the process began, as Unix time.")


async def page_of(
    cluster: Cluster,
    servers: Mapping[int, Server],
    loop_monitor: LoopMonitor,
    common: Mapping[str, str],
) -> Page:
    """Collects all metrics; the loop serves requests in between. `common` are labels of all of them."""
    page = Page(**common)
    kind = "compiled" if kernel.COMPILED else "pure"
    page.add(BUILD, 1, version=VERSION, python=platform.python_version(), kernel=kind)
    for server in list(servers.values()):
        _add_requests(page, server)
        _add_node(page, server)
    page.add(SYNCS, cluster.store.syncs)
    if isinstance(cluster.store, SharedStore):
        storage_metrics.add_storage(page, cluster.store)
    page.add(LOOP_HELD, loop_monitor.held_seconds_max)
    page.add(TOPICS, len(cluster.catalog.topics))
    page.add(ACLS, len(cluster.catalog.acls))
    await _add_topics(page, cluster)
    for server in list(servers.values()):
        await _add_clients(page, server.node)
    add_process(page)
    return page


def _add_requests(page: Page, server: Server) -> None:
    node = str(server.node.node_id)
    # An API that was not used has no series: there are forty, and clients use ten.
    for counts in server.api_counts:
        if counts.received:
            page.add(REQUESTS, counts.received, node=node, api=counts.name)
            page.add(IN_FLIGHT, counts.waiting, node=node, api=counts.name)
            page.add(DURATION, counts.seconds, node=node, api=counts.name)
            for code, count in sorted(counts.errors.items()):
                page.add(ERRORS, count, node=node, api=counts.name, error=ErrorCode(code).name)


def _add_logins(page: Page, logins: Logins, node: str) -> None:
    if not logins.by_listener:
        return
    page.add(PENDING_LOGINS, len(logins.pending), node=node)
    page.add(LOGINS_GIVEN_UP, logins.pending.given_up, node=node)
    for name, listener in logins.by_listener.items():
        for result, count in listener.counts.by_result().items():
            page.add(LOGINS, count, node=node, listener=name, result=result)


def _add_node(page: Page, server: Server) -> None:
    node, traffic = server.node, server.traffic
    label = str(node.node_id)
    page.add(RECEIVED, traffic.received_bytes, node=label)
    page.add(SENT, traffic.sent_bytes, node=label)
    page.add(CONNECTIONS, server.connection_count, node=label)
    page.add(UNSETTLED, server.node.unsettled.total, node=label)
    page.add(WAITING_PRODUCERS, server.node.unsettled.waiting_count, node=label)
    page.add(ACCEPTED, traffic.accepted, node=label)
    page.add(REFUSED, traffic.refused, node=label)
    page.add(FAULTED, traffic.faulted, node=label)
    _add_logins(page, server.logins, label)
    if isinstance(node.authorizer, StandardAuthorizer):
        page.add(DECISIONS, node.authorizer.allowed_count, node=label, result="allowed")
        page.add(DECISIONS, node.authorizer.denied_count, node=label, result="denied")
    _add_quotas(page, node)
    page.add(PARTITIONS, _led_count(node), node=label)
    page.add(OFFLINE, len(node.partitions.offline_partitions()), node=label)
    page.add(UNCLEANABLE, len(node.partitions.uncleanable), node=label)
    for coordinators in (node.groups, node.transactions):
        failed = len(coordinators.failed)
        page.add(FAILED_COORDINATORS, failed, node=label, topic=coordinators.topic_name)
    _add_groups(page, node)
    transactions = Counter[TransactionState]()
    for machine in node.transactions.machines():
        transactions.update(machine.count_states())
    for state in TransactionState:
        if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
            page.add(TRANSACTIONS, transactions[state], node=label, state=state.title)


def _add_quotas(page: Page, node: Node) -> None:
    label, throttles = str(node.node_id), node.quotas.throttles
    for kind in QuotaKind:
        page.add(THROTTLED, throttles.requests[kind], node=label, quota=kind.value)
        page.add(THROTTLE_TIME, throttles.waited_ms[kind] / 1000, node=label, quota=kind.value)
    for kind in CLIENT_KINDS:
        page.add(QUOTA_CLIENTS, node.quotas.tracked(kind), node=label, quota=kind.value)


def _add_groups(page: Page, node: Node) -> None:
    label = str(node.node_id)
    classic = Counter[ClassicState]()
    consumer = Counter[ConsumerState]()
    for machine in node.groups.machines():
        classic.update(machine.count_states())
        consumer.update(machine.count_consumer_states())
    for state in ClassicState:
        if state is not ClassicState.DEAD:
            page.add(GROUPS, classic[state], node=label, protocol="classic", state=state.value)
    for consumer_state in ConsumerState:
        count = consumer[consumer_state]
        page.add(GROUPS, count, node=label, protocol="consumer", state=consumer_state.value)
    for protocol, event in _REBALANCE_EVENTS.items():
        page.add(REBALANCES, node.groups.event_counts[event], node=label, protocol=protocol)


def _led_count(node: Node) -> int:
    cluster = node.cluster
    topics = cluster.catalog.topics.values()
    if cluster.leads_everything:
        return sum(topic.partition_count for topic in topics)
    return sum(
        cluster.leader_of(topic, partition) == node.node_id
        for topic in topics
        for partition in range(topic.partition_count)
    )


async def _add_topics(page: Page, cluster: Cluster) -> None:
    number = 0
    others = TopicExtent(0, 0, 0, 0)
    async for topic, found in topic_extents(cluster):
        number += 1
        if number <= MAX_TOPICS:
            _add_topic(page, topic.name, found)
        else:
            others = others.plus(found)
    if others.partitions:
        _add_topic(page, OTHERS, others)


async def _add_clients(page: Page, node: Node) -> None:
    """What clients have pushed."""
    label, series = str(node.node_id), node.telemetry.series
    page.add(CLIENT_INSTANCES, len(node.telemetry.instances), node=label)
    page.add(CLIENT_SERIES, series.count, node=label)
    for reason in Dropped:
        page.add(CLIENT_POINTS_DROPPED, series.dropped[reason], node=label, reason=reason.value)
    for labels in series.clients():
        page.add_rendered(CLIENT_INFO, rendered_labels(labels), 1)
    for number, (metric, text, value) in enumerate(series.samples()):
        page.add_rendered(metric, text, value)
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)


def _add_topic(page: Page, name: str, found: TopicExtent) -> None:
    page.add(TOPIC_PARTITIONS, found.partitions, topic=name)
    page.add(TOPIC_BYTES, found.size_bytes, topic=name)
    page.add(TOPIC_STARTS, found.start_offsets, topic=name)
    page.add(TOPIC_ENDS, found.end_offsets, topic=name)


def add_process(page: Page) -> None:
    """The metrics of this process that have the same names for all programs."""
    used = os.times()
    page.add(CPU, used.user + used.system)
    page.add(STARTED, IDENTITY.started_seconds)
    page.add(MAX_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        page.add(MEMORY, pages * resource.getpagesize())
        page.add(FILES, len(os.listdir("/proc/self/fd")))
    except OSError:
        # Not on Linux: the peak, in bytes on macOS.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        page.add(MEMORY, most if sys.platform == "darwin" else most * 1024)


ALL: Final = (
    *(value for value in list(globals().values()) if isinstance(value, Metric)),
    *storage_metrics.ALL,
)
