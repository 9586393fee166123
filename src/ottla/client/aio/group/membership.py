"""Which kind of member a consumer is of its group."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.aio.group.classic_group import ClassicMember
from ottla.client.aio.group.commits import CommitInterceptors
from ottla.client.aio.group.group import GroupMember, Wake
from ottla.client.aio.group.ungrouped import Ungrouped
from ottla.client.aio.network.brokers import Network
from ottla.client.metrics.kafka_metrics import Metrics
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.consumer import ConsumerConfig
from ottla.core.assignors.model import Assignor


def member_for(
    network: Network,
    config: ConsumerConfig,
    subscriptions: SubscriptionState,
    assignors: Sequence[Assignor],
    interceptors: CommitInterceptors,
    wake: Wake,
    metrics: Metrics,
) -> GroupMember:
    """The member that the options ask for; `wake` is called when its `poll` has something to do."""
    if config.group_id is None:
        return Ungrouped()
    # group.protocol=consumer (KIP-848) gets its own GroupMember here; until then the options refuse it.
    return ClassicMember(network, config, subscriptions, assignors, interceptors, wake, metrics)
