"""The options of a subscription to metrics of clients (KIP-714)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ottla.config.options import Config, OptionType, option

DEFAULT_INTERVAL_MS: Final = 300_000
# Not a range of the option: Kafka answers a number outside of it with another error than text that is no number.
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
# Every metric, instead of prefixes of names.
ALL_METRICS: Final = "*"
# What `match` can name of a client.
CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"
CLIENT_ATTRIBUTES: Final = (
    CLIENT_INSTANCE_ID,
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)


@dataclass(frozen=True)
class ClientMetricsConfig(Config):
    """Which clients push which of their metrics, and how often."""

    kind: ClassVar[str] = "client metrics option"

    interval_ms: int = option(
        OptionType.INT,
        DEFAULT_INTERVAL_MS,
        doc=f"How often a client pushes its metrics, from {MIN_INTERVAL_MS} to {MAX_INTERVAL_MS} ms; "
        "of several subscriptions, the shortest interval counts.",
        dynamic=True,
    )
    match: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        doc="The clients, as a list of attribute=pattern; a client has to match all of them. "
        f"The attributes are {', '.join(CLIENT_ATTRIBUTES)}. Every client, if it is empty.",
        dynamic=True,
    )
    metrics: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        doc="Prefixes of the names of metrics, or * for all of them. No metrics, if it is empty.",
        dynamic=True,
    )
