"""A broker of the cluster: its identity, its addresses, and the services that its handlers use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.access import Operation, topic
from ottla.broker.cluster import Cluster
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.groups import forget_deleted_topics, group_kind
from ottla.broker.coordination.subscription_patterns import SubscriptionPatterns
from ottla.broker.coordination.transaction_markers import MarkerSender
from ottla.broker.coordination.transactions import transaction_kind
from ottla.broker.loop.pause_aware_clock import Uptime
from ottla.broker.members import address_for
from ottla.broker.options import NodeOptions
from ottla.broker.partitions.led_partitions import LedPartitions
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.broker.requests.answer_timeouts import AnswerTimeouts
from ottla.broker.security.audit import AuditLog
from ottla.broker.security.authorizer import Authorizer
from ottla.broker.security.caller import Caller
from ottla.broker.security.connection_rates import ConnectionRates
from ottla.broker.security.quotas import NodeQuotas
from ottla.broker.security.standard_authorizer import authorizer_of
from ottla.broker.telemetry.telemetry import Telemetry
from ottla.broker.topics import Topics
from ottla.config.broker import BrokerConfig
from ottla.core.fetch_session import FetchSessions
from ottla.model import Endpoint


class Node:
    """One broker: `topics`, `partitions`, `options` and the coordinators are its services."""

    def __init__(self, cluster: Cluster, static_config: BrokerConfig) -> None:
        self.cluster = cluster
        self.node_id = static_config.node_id
        # The addresses on which it listens, by the names of listeners, and those that clients get instead.
        self.endpoints: dict[str, Endpoint] = {}
        self.advertised = {
            listener.name: listener.advertised
            for listener in static_config.all_listeners
            if listener.advertised is not None
        }
        self.options = NodeOptions(static_config, cluster.catalog)
        self.audit = AuditLog(self.node_id, cluster.clock.monotonic_seconds())
        self.authorizer: Authorizer = authorizer_of(
            self.options.config, cluster.catalog.acls, self.audit
        )
        self.quotas = NodeQuotas(
            cluster.catalog.quotas, self.options, cluster.clock, cluster.mutation_usage
        )
        self.connection_rates = ConnectionRates(self.options, self.quotas)
        self.topics = Topics(cluster, self.options)
        self.unsettled = UnsettledBytes()
        self.answer_timeouts = AnswerTimeouts()
        self.partitions = LedPartitions(self.node_id, cluster, self.options, self.unsettled)
        config = self.options.config
        self.sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.telemetry = Telemetry(self.node_id, cluster, self.options)
        # Whether its metrics are served: only then are clients asked for theirs.
        self.has_metrics_page = False
        # Asked before requests and periodic work, where leadership is for a time: whether the lease lasts.
        self.may_lead: Callable[[], bool] | None = None
        self._is_suspended = False
        self.uptime = Uptime(cluster.clock.monotonic_seconds)
        self.patterns = SubscriptionPatterns(cluster.catalog, cluster.share, self._may_describe)
        self.groups = Coordinators(
            group_kind(self.options, cluster.catalog, self.patterns.problem),
            cluster=cluster,
            topics=self.topics,
            partitions=self.partitions,
            options=self.options,
            uptime=self.uptime,
            check_lease=self.check_lease,
            perform=self.patterns.search,
            prepare=partial(forget_deleted_topics, cluster.catalog),
        )
        self.transactions = Coordinators(
            transaction_kind(config, cluster),
            cluster=cluster,
            topics=self.topics,
            partitions=self.partitions,
            options=self.options,
            uptime=self.uptime,
            check_lease=self.check_lease,
            perform=MarkerSender(self.node_id, cluster).send,
        )

    def check_lease(self) -> None:
        """Suspends all that only a leader or coordinator may do, when its lease has passed; or resumes it."""
        if self.may_lead is None or self.may_lead() is not self._is_suspended:
            return
        self._is_suspended = not self._is_suspended
        for part in (self.partitions, self.groups, self.transactions):
            if self._is_suspended:
                part.suspend()
            else:
                part.resume()

    def _may_describe(self, caller: object, topic_name: str) -> bool:
        """Whether a caller may know of a topic that its pattern matches."""
        if self.authorizer.is_open:
            return True
        return isinstance(caller, Caller) and self.authorizer.allows(
            caller, Operation.DESCRIBE, topic(topic_name), logs_denied=False
        )

    def address_for(self, caller: Caller) -> Endpoint:
        """The address of this node for a client that has connected to the same listener of some node."""
        found = address_for(caller.local, caller.listener, self.endpoints, self.advertised)
        return caller.local if found is None else found

    def catch_up(self) -> None:
        """Does what is due by a clock that was moved; the jump counts as time that has passed, not as a pause."""
        self.uptime.watch()
        self.groups.wake()
        self.transactions.wake()

    def tick(self) -> None:
        """Does the periodic work of the services; to be called about once a second."""
        self.uptime.now_ms()
        self.check_lease()
        self.partitions.retry_offline()
        self.groups.load_soon()
        self.transactions.load_soon()
        self.telemetry.tick()
        self.quotas.forget_idle()
        self.connection_rates.forget_idle()
        self.audit.tick(self.cluster.clock.monotonic_seconds())
