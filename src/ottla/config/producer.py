"""The options of a producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.config.client import ClientConfig
from ottla.config.options import INT_MAX, Importance, OptionType, option
from ottla.config.unsupported_client_options import UNSUPPORTED_PRODUCER_OPTIONS
from ottla.errors import ConfigError

MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5
"""How many recent batches of a producer a broker remembers per partition."""

_ENCODING = "The encoding that the serializer {} uses."


def _serializer(what: str) -> Any:
    return option(
        OptionType.CLASS,
        "bytes",
        doc=f"The serializer of the {what}s of records.",
        importance=Importance.HIGH,
    )


def _level(codec: str, default: int, at_least: int, at_most: int, also: int | None = None) -> Any:
    return option(
        OptionType.INT,
        default,
        at_least=at_least,
        at_most=at_most,
        also=also,
        doc=f"The level of {codec} when compression.type is {codec}.",
    )


@dataclass(frozen=True)
class ProducerConfig(ClientConfig):
    """The options of one producer; `enable_idempotence` is the effective value."""

    kind: ClassVar[str] = "producer option"
    id_prefix: ClassVar[str] = "producer"
    unsupported: ClassVar[Mapping[str, str]] = UNSUPPORTED_PRODUCER_OPTIONS

    acks: str = option(
        OptionType.STRING,
        "all",
        choices=("all", "-1", "0", "1"),
        doc="Which brokers must confirm a record: none (0), the leader (1), or all in-sync "
        "replicas (all).",
        importance=Importance.LOW,
    )
    batch_size: int = option(
        OptionType.INT,
        16_384,
        at_least=0,
        doc="How many bytes of records for a partition are collected in one batch; a larger record "
        "gets a batch of its own, with 0 every record does.",
    )
    buffer_memory: int = option(
        OptionType.LONG,
        32 * 1024 * 1024,
        # Kafka accepts 0, with which every send fails.
        at_least=1,
        doc="How many bytes of records may wait to be sent; a send that finds no room waits up to "
        "max.block.ms.",
        importance=Importance.HIGH,
    )
    compression_gzip_level: int = _level("gzip", -1, 1, 9, also=-1)
    compression_lz4_level: int = _level("lz4", 9, 1, 17)
    compression_type: str = option(
        OptionType.STRING,
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        doc="How batches are compressed.",
        importance=Importance.HIGH,
    )
    compression_zstd_level: int = _level("zstd", 3, -131_072, 22)
    default_list_key_serde_inner: object = option(
        OptionType.CLASS,
        None,
        doc="The serializer of the items of a key that is a list.",
    )
    default_list_value_serde_inner: object = option(
        OptionType.CLASS,
        None,
        doc="The serializer of the items of a value that is a list.",
    )
    delivery_timeout_ms: int = option(
        OptionType.INT,
        120_000,
        at_least=0,
        doc="How long a record may take from send until its outcome is known, with all "
        "retries; at least linger.ms and request.timeout.ms together.",
    )
    enable_idempotence: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether retries can neither duplicate nor reorder records. It needs acks=all, retries "
        "and at most 5 requests in flight; unless it was given, it is off where these do not hold.",
        importance=Importance.LOW,
    )
    interceptor_classes: tuple[object, ...] = option(
        OptionType.CLASS,
        (),
        many=True,
        doc="Code that is called with records before they are serialized, and with their outcomes.",
        importance=Importance.LOW,
    )
    key_serializer: object = _serializer("key")
    key_serializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str of keys"),
        importance=Importance.LOW,
    )
    linger_ms: int = option(
        OptionType.LONG,
        5,
        at_least=0,
        doc="How long a batch that is not full waits for more records.",
    )
    max_block_ms: int = option(
        OptionType.LONG,
        60_000,
        at_least=0,
        doc="How long send, partitions_for and the calls about transactions may block.",
    )
    max_in_flight_requests_per_connection: int = option(
        OptionType.INT,
        5,
        at_least=1,
        doc="How many requests without an answer a connection may have.",
        importance=Importance.LOW,
    )
    max_request_size: int = option(
        OptionType.INT,
        1024 * 1024,
        at_least=0,
        doc="The largest request, and so the largest record, in bytes before compression.",
    )
    metadata_max_idle_ms: int = option(
        OptionType.LONG,
        300_000,
        at_least=5000,
        doc="How long the producer keeps the metadata of a topic to which it sends nothing.",
        importance=Importance.LOW,
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether records without a key go more often to brokers that take them faster "
        "(KIP-794).",
        importance=Importance.LOW,
    )
    partitioner_availability_timeout_ms: int = option(
        OptionType.LONG,
        0,
        at_least=0,
        doc="How long a broker may be unable to take batches before records without a key avoid "
        "its partitions; 0 is never.",
        importance=Importance.LOW,
    )
    partitioner_class: object = option(
        OptionType.CLASS,
        None,
        doc="Code that chooses the partition of a record; by default a hash of the key or, without a "
        "key, one partition for about batch.size bytes and then another.",
    )
    partitioner_ignore_keys: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether the default partitioner treats all records as if they had no key.",
    )
    receive_buffer_bytes: int = option(
        OptionType.INT,
        32_768,
        at_least=-1,
        doc="The size of the receive buffer of sockets; -1 leaves it to the operating system.",
    )
    retries: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=0,
        doc="How often a batch is sent again; delivery.timeout.ms is usually the better limit.",
        importance=Importance.HIGH,
    )
    serializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str"),
        importance=Importance.LOW,
    )
    transaction_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=1,
        doc="How long a transaction may be open before the coordinator aborts it.",
        importance=Importance.LOW,
    )
    transaction_two_phase_commit_enable: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether transactions stay open until an outside decision (KIP-939); not "
        "available, only false is accepted.",
        importance=Importance.LOW,
    )
    transactional_id: str | None = option(
        OptionType.STRING,
        None,
        doc="The id of the producer's transactions; a producer of the same id that "
        "starts later fences this one.",
        importance=Importance.LOW,
    )
    value_serializer: object = _serializer("value")
    value_serializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str of values"),
        importance=Importance.LOW,
    )

    def adjust_defaults(self) -> None:
        """Adjust the defaults of idempotence and timeouts to the options that were given."""
        super().adjust_defaults()
        self._adjust_delivery_timeout()
        obstacle = self._obstacle_to_idempotence()
        if obstacle is not None and "enable.idempotence" not in self.given:
            if self.transactional_id is not None:
                raise ConfigError(f"transactional.id needs idempotence, and so {obstacle}")
            self._replace_default("enable.idempotence", False, f"it would need {obstacle}")

    def _adjust_delivery_timeout(self) -> None:
        needed_ms = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms >= needed_ms:
            return
        left_ms = self.delivery_timeout_ms - self.linger_ms
        if "delivery.timeout.ms" not in self.given:
            self._replace_default(
                "delivery.timeout.ms",
                min(needed_ms, INT_MAX),
                "linger.ms and request.timeout.ms together are above the default",
            )
        elif "request.timeout.ms" not in self.given and left_ms > 0:
            self._replace_default(
                "request.timeout.ms",
                left_ms,
                "delivery.timeout.ms was given and is below linger.ms and the default together",
            )

    def validate(self) -> None:
        """Check the rules between options."""
        super().validate()
        if self.transactional_id == "":
            raise ConfigError("transactional.id is empty: give a name, or remove it")
        if self.enable_idempotence:
            obstacle = self._obstacle_to_idempotence()
            if obstacle is not None:
                raise ConfigError(f"enable.idempotence=true needs {obstacle}")
        elif self.transactional_id is not None:
            raise ConfigError(
                "transactional.id needs enable.idempotence=true: remove enable.idempotence=false"
            )
        needed_ms = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < min(needed_ms, INT_MAX):
            raise ConfigError(
                f"delivery.timeout.ms ({self.delivery_timeout_ms}) is below linger.ms and "
                f"request.timeout.ms together ({needed_ms}): raise it, or lower one of them"
            )
        if self.batch_size > self.buffer_memory:
            raise ConfigError(
                f"batch.size ({self.batch_size}) is above buffer.memory ({self.buffer_memory}): "
                "lower it or raise the other"
            )
        if self.transaction_two_phase_commit_enable:
            raise ConfigError(
                "transaction.two.phase.commit.enable=true is not available: remove it, transactions "
                "end by commit, abort or timeout"
            )

    @property
    def required_acks(self) -> int:
        """acks as the protocol has it: -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)

    def default_client_id(self, number: int) -> str:
        """As in Kafka, that of a transactional producer contains its transactional id."""
        return f"{self.id_prefix}-{self.transactional_id or number}"

    def _obstacle_to_idempotence(self) -> str | None:
        """The option that makes idempotence impossible; None if there is none."""
        if self.required_acks != -1:
            return f"acks=all: change acks, which is {self.acks}"
        if self.retries == 0:
            return "retries: raise retries, which is 0"
        if self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
            return (
                f"at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE} requests in flight: lower "
                "max.in.flight.requests.per.connection, which is "
                f"{self.max_in_flight_requests_per_connection}"
            )
        return None
