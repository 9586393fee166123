"""Health of a consumer: partitions that make no progress, and the likely reasons."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.client.aio.consumer.fetcher import Fetcher
from ottla.client.aio.group.group import GroupMember
from ottla.client.aio.network.network import Network
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.metrics.health import ConsumerHealth
from ottla.client.state.consumer.positions import AssignedPartition
from ottla.client.state.consumer.stalls import StallWatch
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.topic_errors import topic_error_text
from ottla.config.consumer import ConsumerConfig
from ottla.model import NO_LEADER, TopicPartition

log = logging.getLogger("ottla.client")

_CHECKS_PER_TIMEOUT: Final = 4
# Shorter than this is not reported.
_UNREACHABLE_SECONDS: Final = 1.0


class Watchdog:
    """Logs a warning when partitions stall (stall.timeout.ms), with the likely reason."""

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        subscriptions: SubscriptionState,
        fetcher: Fetcher,
        group: GroupMember,
        metrics: ConsumerMetrics,
    ) -> None:
        self._config = config
        self._network = network
        self._subscriptions = subscriptions
        self._fetcher = fetcher
        self._group = group
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._watch = StallWatch(config.stall_timeout_ms, reads_committed=config.reads_committed)
        self._timer: asyncio.TimerHandle | None = None
        # Assigned partitions that do not exist by the last metadata, and whether a warning was logged.
        self._missing: dict[TopicPartition, bool] = {}
        network.on_update.append(lambda _: self._check_missing())
        self._schedule_check()

    def health(self) -> ConsumerHealth:
        """The state of the consumer now."""
        now_ms = self._now_ms()
        self._watch.look(self._subscriptions.states(), now_ms)
        reasons = tuple(
            f"{partition} has made no progress for {round(late_ms / 1000)} s: "
            f"{self._reason_of(partition)}"
            for partition, late_ms in self._watch.stalled(now_ms).items()
        )
        failure = self._network.failure
        if failure is not None:
            reasons += (f"the cluster refuses this client: {failure}",)
        reasons += self._general_problems()
        since_heartbeat = self._seconds_since(self._group.last_heartbeat_ms)
        if since_heartbeat is not None and since_heartbeat * 1000 > self._config.session_timeout_ms:
            reasons += (f"no heartbeat was answered for {round(since_heartbeat)} s",)
        return ConsumerHealth(
            ok=not reasons,
            reasons=reasons,
            seconds_since_poll=self._metrics.seconds_since_poll(),
            seconds_since_heartbeat=since_heartbeat,
            seconds_since_progress=self._seconds_since(self._metrics.last_progress_ms),
            seconds_without_broker=self._seconds_since(self._network.metadata.failing_since_ms),
            lag=self._metrics.lags(),
        )

    def _general_problems(self) -> tuple[str, ...]:
        """Problems that concern all partitions, or that keep the consumer from getting any."""
        reasons = [
            f"topic {topic}: {topic_error_text(code, topic)}"
            for topic, code in self._network.cluster.errors.items()
            if topic in self._subscriptions.metadata_topics()
        ]
        reasons += [
            missing
            for partition in self._subscriptions.assigned()
            if (missing := self._missing_partition(partition)) is not None
        ]
        if (fencing := self._group.fencing) is not None:
            reasons.append(f"the group has shut this member out: {fencing}")
        trouble = self._network.trouble
        if self._network.failure is None and trouble and not self._network.metadata.version:
            # No broker has ever answered: an address may be wrong.
            reasons.append(trouble.message[:1].lower() + trouble.message[1:])
            return tuple(reasons)
        silent = self._seconds_since(self._network.metadata.failing_since_ms)
        if self._network.failure is None and silent is not None and silent >= _UNREACHABLE_SECONDS:
            reasons.append(f"no broker has answered for {round(silent)} s: {self._network.trouble}")
        return tuple(reasons)

    def _missing_partition(self, partition: TopicPartition) -> str | None:
        """The warning for a topic that exists and has no such partition."""
        topic = self._network.cluster.topics.get(partition.topic)
        if topic is None or partition.partition < len(topic.partitions):
            return None
        return (
            f"partition {partition} does not exist: "
            f"the partitions of {topic.name} are 0 to {len(topic.partitions) - 1}"
        )

    def _check_missing(self) -> None:
        """Warn once of assigned partitions that do not exist: as in Kafka, polls return nothing from them.

        Only when a second metadata update confirms it: the first may be older than partitions that were just added.
        """
        before, self._missing = self._missing, {}
        for partition in self._subscriptions.assigned():
            missing = self._missing_partition(partition)
            if missing is None:
                continue
            self._missing[partition] = before.get(partition, False)
            if before.get(partition) is False:
                self._missing[partition] = True
                log.warning("%s: %s", self._config.client_id, missing)

    def close(self) -> None:
        """Stop the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule_check(self) -> None:
        if self._config.stall_timeout_ms > 0:
            period = self._config.stall_timeout_ms / 1000 / _CHECKS_PER_TIMEOUT
            self._timer = self._loop.call_later(period, self._check)

    def _check(self) -> None:
        now_ms = self._now_ms()
        self._watch.look(self._subscriptions.states(), now_ms)
        for partition, late_ms in self._watch.news(now_ms).items():
            state = self._subscriptions.state(partition)
            lag = state.lag(committed_only=self._config.reads_committed)
            log.warning(
                "%s: %s has made no progress for %d s (lag %s): %s",
                self._config.client_id,
                partition,
                round(late_ms / 1000),
                "unknown" if lag is None else lag,
                self._reason_of(partition),
            )
        self._schedule_check()

    def _reason_of(self, partition: TopicPartition) -> str:
        """The first of the known problems that explains it."""
        since_poll = self._metrics.seconds_since_poll()
        if since_poll is None:
            return "poll() was never called"
        if since_poll * 1000 >= self._config.stall_timeout_ms:
            return f"poll() was last called {round(since_poll)} s ago"
        if self._network.failure is not None:
            return str(self._network.failure)
        if self._subscriptions.uses_group and not self._group.has_coordinator:
            return f"the coordinator of group {self._group.group_id} cannot be found"
        leader = self._network.cluster.leader_of(*partition)
        if (missing := self._missing_partition(partition)) is not None:
            return missing
        if leader == NO_LEADER:
            error = self._network.cluster.errors.get(partition.topic)
            return "it has no leader" if error is None else f"its topic has {error.name}"
        state = self._subscriptions.state(partition)
        node = leader if state.preferred_replica is None else state.preferred_replica
        if self._network.connection_now(node) is None:
            return f"broker {self._network.name_of(node)} cannot be reached"
        return self._fetcher.last_errors.get(partition) or self._state_of(state)

    @staticmethod
    def _state_of(state: AssignedPartition) -> str:
        if not state.has_valid_position:
            return f"it {state.fetch_state.value}"
        return "fetches bring nothing"

    def _seconds_since(self, at_ms: float | None) -> float | None:
        return None if at_ms is None else (self._now_ms() - at_ms) / 1000

    def _now_ms(self) -> float:
        # The clock of the metrics is the loop's clock.
        return self._metrics.now_ms()
