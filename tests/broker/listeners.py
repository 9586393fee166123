"""A listener for connections that a test makes without sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.broker.clock import SystemClock
from ottla.broker.network.listener import Listener
from ottla.broker.options import NodeOptions
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.broker.security.connection_rates import ConnectionRates
from ottla.broker.security.quotas import NodeQuotas
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import DEFAULT_LISTENER, ListenerConfig, ListenerSettings
from ottla.core.catalog import Catalog
from ottla.core.security.quotas.rates import TokenBucket
from ottla.core.security.quotas.table import QuotaTable
from ottla.core.security.quotas.usage import Usage
from ottla.model import Endpoint


def plaintext_listener() -> Listener:
    settings = ListenerSettings(DEFAULT_LISTENER, "PLAINTEXT", Endpoint("127.0.0.1", 0), None)
    return Listener(settings, ListenerConfig())


def node_without_quotas() -> Any:
    """As much of a node as a connection without quotas needs."""
    options = NodeOptions(BrokerConfig(), Catalog({}))
    quotas = NodeQuotas(QuotaTable(), options, SystemClock(), Usage(TokenBucket))
    return SimpleNamespace(
        unsettled=UnsettledBytes(),
        quotas=quotas,
        connection_rates=ConnectionRates(options, quotas),
        options=options,
    )
