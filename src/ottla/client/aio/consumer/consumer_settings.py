"""What a consumer's options mean for its parts."""

from __future__ import annotations

from typing import Any

from ottla.client.aio.network.brokers import Network
from ottla.client.plugins.list_serializer import ListDeserializer
from ottla.client.plugins.serializers import BytesDeserializer, Deserializer, FunctionDeserializer
from ottla.client.state.backoff import Backoff
from ottla.client.state.consumer.fetch_session import FetchSettings
from ottla.client.state.consumer.fetched_partition import Deserialize, ReadSettings
from ottla.client.state.metadata import MetadataState
from ottla.config.consumer import ConsumerConfig


def network_of(config: ConsumerConfig) -> Network:
    """The network, which creates topics only if the consumer may."""
    metadata = MetadataState(
        max_age_ms=config.metadata_max_age_ms,
        backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        creates_topics=config.allow_auto_create_topics,
    )
    return Network(config, metadata)


def fetch_settings(config: ConsumerConfig) -> FetchSettings:
    """How much is fetched at once."""
    return FetchSettings(
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        partition_max_bytes=config.max_partition_fetch_bytes,
        isolation_level=int(config.reads_committed),
        rack_id=config.client_rack,
    )


def read_settings(config: ConsumerConfig, key: Deserializer, value: Deserializer) -> ReadSettings:
    """How fetched bytes become records."""
    return ReadSettings(
        config.check_crcs, config.reads_committed, _deserialize(key), _deserialize(value)
    )


def _deserialize(deserializer: Deserializer) -> Deserialize | None:
    if type(deserializer) is BytesDeserializer:
        return None  # they are bytes already
    deserialize: Any = deserializer.deserialize
    return deserialize  # type: ignore[no-any-return]


def is_user_code(deserializer: Deserializer) -> bool:
    """Whether it has its place on the user's thread; ours are quick enough for the loop."""
    # These two call what they were given.
    wraps = isinstance(deserializer, FunctionDeserializer | ListDeserializer)
    return wraps or not type(deserializer).__module__.startswith("ottla.")
