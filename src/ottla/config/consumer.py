"""The options of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.config.client import ClientConfig
from ottla.config.offset_reset import OffsetReset
from ottla.config.options import Importance, OptionType, option
from ottla.config.unsupported_client_options import UNSUPPORTED_CONSUMER_OPTIONS
from ottla.errors import ConfigError

CONSUMER_PROTOCOL: Final = "consumer"
CLASSIC_PROTOCOL: Final = "classic"

# What cannot be given with a protocol.
_OF_ONE_PROTOCOL: Final[Mapping[str, tuple[str, ...]]] = {
    CLASSIC_PROTOCOL: ("group.remote.assignor",),
    CONSUMER_PROTOCOL: (
        "heartbeat.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    ),
}

_ENCODING = "The encoding that the deserializer {} uses."


def _deserializer(what: str) -> Any:
    return option(
        OptionType.CLASS,
        "bytes",
        doc=f"The deserializer of the {what}s of records.",
        importance=Importance.HIGH,
    )


def _list_option(doc: str) -> Any:
    return option(OptionType.CLASS, None, doc=doc)


@dataclass(frozen=True)
class ConsumerConfig(ClientConfig):
    """The options of one consumer; `enable_auto_commit` is the effective value."""

    kind: ClassVar[str] = "consumer option"
    id_prefix: ClassVar[str] = "consumer"
    unsupported: ClassVar[Mapping[str, str]] = UNSUPPORTED_CONSUMER_OPTIONS

    allow_auto_create_topics: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether the broker may create a topic that the consumer subscribes to and that does not exist.",
    )
    auto_commit_interval_ms: int = option(
        OptionType.INT,
        5000,
        at_least=0,
        doc="How often enable.auto.commit commits offsets.",
        importance=Importance.LOW,
    )
    auto_offset_reset: str = option(
        OptionType.STRING,
        "latest",
        doc="Where the consumer starts without a committed offset, or if it is out of range: earliest, "
        "latest, by_duration:PnDTnHnMn.nS (that long ago), or none, which is an error.",
    )
    check_crcs: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether the checksums of batches are verified.",
        importance=Importance.LOW,
    )
    client_rack: str = option(
        OptionType.STRING,
        "",
        doc="Where the consumer is, so that it can read from a replica nearby (KIP-392).",
        importance=Importance.LOW,
    )
    default_api_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=0,
        doc="The timeout of calls that are given none.",
    )
    default_list_key_serde_inner: object = _list_option(
        "The deserializer of the items of a key that is a list."
    )
    default_list_key_serde_type: object = _list_option(
        "The type of a key that is a list: list, tuple or another callable over its items."
    )
    default_list_value_serde_inner: object = _list_option(
        "The deserializer of the items of a value that is a list."
    )
    default_list_value_serde_type: object = _list_option(
        "The type of a value that is a list: list, tuple or another callable over its items."
    )
    deserializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str"),
        importance=Importance.LOW,
    )
    enable_auto_commit: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether poll commits the offsets of the records that it returned before, every "
        "auto.commit.interval.ms; without group.id the default is false.",
    )
    exclude_internal_topics: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether a subscription by pattern skips internal topics.",
    )
    fetch_max_bytes: int = option(
        OptionType.INT,
        50 * 1024 * 1024,
        at_least=0,
        doc="The most bytes in the response to one fetch; a first batch that is larger is "
        "returned all the same.",
    )
    fetch_max_wait_ms: int = option(
        OptionType.INT,
        500,
        at_least=0,
        doc="How long a broker waits for fetch.min.bytes.",
        importance=Importance.LOW,
    )
    fetch_min_bytes: int = option(
        OptionType.INT,
        1,
        at_least=0,
        doc="How many bytes a broker collects before it answers a fetch.",
        importance=Importance.HIGH,
    )
    group_id: str | None = option(
        OptionType.STRING,
        None,
        doc="The group whose members share the partitions; subscribe and commit need one.",
        importance=Importance.HIGH,
    )
    group_instance_id: str | None = option(
        OptionType.STRING,
        None,
        doc="The name of a static member (KIP-345), which keeps its partitions over a restart.",
    )
    group_protocol: str = option(
        OptionType.STRING,
        CLASSIC_PROTOCOL,
        choices=(CLASSIC_PROTOCOL, CONSUMER_PROTOCOL),
        ignore_case=True,
        doc="How the group is managed: classic, where members assign the partitions, or consumer (KIP-848), where "
        "the broker does.",
        importance=Importance.HIGH,
    )
    group_remote_assignor: str | None = option(
        OptionType.STRING,
        None,
        doc="The assignor of the broker, with group.protocol=consumer; without it, the broker's first one.",
    )
    heartbeat_interval_ms: int = option(
        OptionType.INT,
        3000,
        at_least=1,
        doc="How often the consumer tells the coordinator that it is alive; below "
        "session.timeout.ms, and usually a third of it.",
        importance=Importance.HIGH,
    )
    interceptor_classes: tuple[object, ...] = option(
        OptionType.CLASS,
        (),
        many=True,
        doc="Code that is called with records before poll returns them, and with committed offsets.",
        importance=Importance.LOW,
    )
    isolation_level: str = option(
        OptionType.STRING,
        "read_uncommitted",
        choices=("read_committed", "read_uncommitted"),
        doc="Whether poll returns records of open and aborted transactions.",
    )
    key_deserializer: object = _deserializer("key")
    key_deserializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str of keys"),
        importance=Importance.LOW,
    )
    max_partition_fetch_bytes: int = option(
        OptionType.INT,
        1024 * 1024,
        at_least=0,
        doc="The most bytes of one partition in the response to one fetch; a first batch that "
        "is larger is returned all the same.",
        importance=Importance.HIGH,
    )
    max_poll_interval_ms: int = option(
        OptionType.INT,
        300_000,
        at_least=1,
        doc="How long may pass between polls before the consumer leaves its group.",
    )
    max_poll_records: int = option(
        OptionType.INT,
        500,
        at_least=1,
        doc="How many records a poll returns at most.",
    )
    partition_assignment_strategy: tuple[object, ...] = option(
        OptionType.CLASS,
        ("range", "cooperative-sticky"),
        many=True,
        doc="The assignors that this member can use, the preferred one first.",
    )
    # Kafka's default is 65536: ADR 0075.
    receive_buffer_bytes: int = option(
        OptionType.INT,
        -1,
        at_least=-1,
        doc="The size of the receive buffer of sockets; -1 leaves it to the operating system, which lets it grow. "
        "Kafka's 65536 make the broker wait for the consumer in the middle of every large response.",
    )
    session_timeout_ms: int = option(
        OptionType.INT,
        45_000,
        at_least=1,
        doc="How long the coordinator waits for a heartbeat before it removes the member from the group.",
        importance=Importance.HIGH,
    )
    stall_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=0,
        doc="How long a partition that has records may return none before the consumer logs "
        "that it stalls and health() reports it; 0 disables the check. Kafka has no such option.",
        importance=Importance.LOW,
    )
    value_deserializer: object = _deserializer("value")
    value_deserializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str of values"),
        importance=Importance.LOW,
    )

    def adjust_defaults(self) -> None:
        """Without a group, offsets cannot be committed: enable.auto.commit is off."""
        super().adjust_defaults()
        if self.group_id is None and "enable.auto.commit" not in self.given:
            # Kafka does this silently too: a consumer without a group expects no commits.
            object.__setattr__(self, "enable_auto_commit", False)

    def validate(self) -> None:
        """Check the rules between options."""
        super().validate()
        _ = self.offset_reset
        self._check_protocol()
        self._check_group()
        if self.fetch_min_bytes > self.fetch_max_bytes:
            raise ConfigError(
                f"fetch.min.bytes ({self.fetch_min_bytes}) is above fetch.max.bytes "
                f"({self.fetch_max_bytes}): lower it or raise the other"
            )
        # A broker without new records answers after fetch.max.wait.ms.
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigError(
                f"fetch.max.wait.ms ({self.fetch_max_wait_ms}) is not below request.timeout.ms "
                f"({self.request_timeout_ms}): lower it or raise the other"
            )

    @property
    def offset_reset(self) -> OffsetReset:
        """auto.offset.reset, parsed."""
        return OffsetReset.parse(self.auto_offset_reset)

    @property
    def reads_committed(self) -> bool:
        """Whether records of open and aborted transactions are hidden."""
        return self.isolation_level == "read_committed"

    def default_client_id(self, number: int) -> str:
        """As in Kafka, with the group's id if there is one."""
        if self.group_id is None:
            return super().default_client_id(number)
        return f"{self.id_prefix}-{self.group_id}-{self.group_instance_id or number}"

    def _check_protocol(self) -> None:
        """Refuse options of the other group protocol."""
        given = [name for name in _OF_ONE_PROTOCOL[self.group_protocol] if name in self.given]
        if given:
            other = next(name for name in _OF_ONE_PROTOCOL if name != self.group_protocol)
            advice = (
                "the broker decides: set it there, for all groups or for this one"
                if self.group_protocol == CONSUMER_PROTOCOL
                else "members assign the partitions: use partition.assignment.strategy"
            )
            raise ConfigError(
                f"{', '.join(given)} cannot be given with group.protocol={self.group_protocol}: "
                f"remove {'it' if len(given) == 1 else 'them'}, {advice}; or use group.protocol={other}"
            )

    def _check_group(self) -> None:
        if self.group_id is None:
            if self.enable_auto_commit:
                raise ConfigError(
                    "enable.auto.commit=true needs a group: give group.id, or remove it"
                )
            if self.group_instance_id is not None:
                raise ConfigError("group.instance.id needs a group: give group.id, or remove it")
        elif not self.group_id.strip():
            raise ConfigError("group.id is empty: give a name, or remove it")
        if self.group_instance_id == "":
            raise ConfigError("group.instance.id is empty: give a name, or remove it")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) is not below "
                f"session.timeout.ms ({self.session_timeout_ms}): lower it or raise the other"
            )
        if not self.partition_assignment_strategy:
            raise ConfigError(
                "partition.assignment.strategy is empty: name an assignor, or remove it"
            )
