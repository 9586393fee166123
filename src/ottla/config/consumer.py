"""The options of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from ottla.config.client import ClientConfig
from ottla.config.client_not_served import CONSUMER_OPTIONS_NOT_SERVED
from ottla.config.durations import parse_duration_ms
from ottla.config.options import Importance, OptionType, option
from ottla.errors import ConfigError

_BY_DURATION = "by_duration:"
_ENCODING = "The encoding of text that the deserializer {} reads."


class OffsetResetKind(Enum):
    """Where reading starts in a partition without a position or committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


_RESETS = {kind.value: kind for kind in OffsetResetKind}
# Names that librdkafka takes as well.
_RESETS_OF_OTHERS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}


class OffsetReset(NamedTuple):
    """auto.offset.reset, with the time to go back for BY_DURATION."""

    kind: OffsetResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> OffsetReset:
        """Read `earliest`, `latest`, `none` or `by_duration:` with an ISO 8601 duration."""
        try:
            if text.startswith(_BY_DURATION):
                duration_ms = parse_duration_ms(text.removeprefix(_BY_DURATION))
                if duration_ms < 0:
                    raise ValueError(f"{text!r} goes back a negative time")
                return cls(OffsetResetKind.BY_DURATION, duration_ms)
            if text == OffsetResetKind.BY_DURATION.value:
                raise ValueError(f"{text!r} has no duration")
            return cls(_RESETS[text])
        except ValueError as error:
            raise cls._refusal(text, f" ({error})") from error
        except KeyError:
            meant = _RESETS_OF_OTHERS.get(text)
            raise cls._refusal(text, "" if meant is None else f"; you mean {meant}") from None

    @staticmethod
    def _refusal(text: str, why: str) -> ConfigError:
        return ConfigError(
            f"auto.offset.reset={text!r} is not valid: it must be earliest, latest, none or "
            f"by_duration:PnDTnHnMn.nS, as in by_duration:PT1H{why}"
        )


def _deserializer(what: str) -> Any:
    return option(
        OptionType.CLASS,
        "bytes",
        doc=f"What reads the bytes of a record's {what}.",
        importance=Importance.HIGH,
    )


def _list_option(doc: str) -> Any:
    return option(OptionType.CLASS, None, doc=doc)


@dataclass(frozen=True)
class ConsumerConfig(ClientConfig):
    """The options of one consumer; `enable_auto_commit` is what counts."""

    kind: ClassVar[str] = "consumer option"
    id_prefix: ClassVar[str] = "consumer"
    not_served: ClassVar[Mapping[str, str]] = CONSUMER_OPTIONS_NOT_SERVED

    allow_auto_create_topics: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether the broker may create a topic that is subscribed to and does not exist.",
    )
    auto_commit_interval_ms: int = option(
        OptionType.INT,
        5000,
        at_least=0,
        doc="How often offsets are committed with enable.auto.commit.",
        importance=Importance.LOW,
    )
    auto_offset_reset: str = option(
        OptionType.STRING,
        "latest",
        doc="Where reading starts without a committed offset, or when it is out of range: earliest, "
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
        doc="How long calls may take that have no timeout of their own.",
    )
    default_list_key_serde_inner: object = _list_option(
        "The deserializer of the items of a key that is a list."
    )
    default_list_key_serde_type: object = _list_option(
        "What a key that is a list becomes: list, tuple or another callable over its items."
    )
    default_list_value_serde_inner: object = _list_option(
        "The deserializer of the items of a value that is a list."
    )
    default_list_value_serde_type: object = _list_option(
        "What a value that is a list becomes: list, tuple or another callable over its items."
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
        doc="Whether the offsets of what poll returned before are committed from time to time; "
        "without group.id it is off unless it was given.",
    )
    exclude_internal_topics: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether a pattern skips internal topics.",
    )
    fetch_max_bytes: int = option(
        OptionType.INT,
        50 * 1024 * 1024,
        at_least=0,
        doc="How many bytes a broker may answer to one fetch; a first batch that is larger comes "
        "all the same.",
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
        doc="How many bytes a broker gathers before it answers a fetch.",
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
        "classic",
        choices=("classic", "consumer"),
        ignore_case=True,
        doc="How the group is managed: classic. The protocol of KIP-848, consumer, is not available.",
        importance=Importance.HIGH,
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
        doc="What sees records before poll returns them, and offsets when they are committed.",
        importance=Importance.LOW,
    )
    isolation_level: str = option(
        OptionType.STRING,
        "read_uncommitted",
        choices=("read_committed", "read_uncommitted"),
        doc="Whether records of transactions that are open or aborted are seen.",
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
        doc="How many bytes of a partition a broker may answer to one fetch; a first batch that is "
        "larger comes all the same.",
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
    session_timeout_ms: int = option(
        OptionType.INT,
        45_000,
        at_least=1,
        doc="How long the coordinator waits for a heartbeat before it gives the partitions to others.",
        importance=Importance.HIGH,
    )
    stall_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=0,
        doc="How long a partition with records to read may bring none before the consumer logs "
        "that it stalls and health() says so; 0 turns the watch off. Kafka has no such option.",
        importance=Importance.LOW,
    )
    value_deserializer: object = _deserializer("value")
    value_deserializer_encoding: str | None = option(
        OptionType.STRING,
        None,
        doc=_ENCODING.format("str of values"),
        importance=Importance.LOW,
    )

    def settle(self) -> None:
        """Without a group, offsets are committed nowhere."""
        super().settle()
        if self.group_id is None and "enable.auto.commit" not in self.given:
            # Kafka does this silently too: a consumer without a group expects no commits.
            object.__setattr__(self, "enable_auto_commit", False)

    def validate(self) -> None:
        """Check the rules between options."""
        super().validate()
        _ = self.offset_reset
        if self.group_protocol != "classic":
            raise ConfigError(
                f"group.protocol={self.group_protocol} is not available: remove it, groups use the "
                "classic protocol"
            )
        self._check_group()
        if self.fetch_min_bytes > self.fetch_max_bytes:
            raise ConfigError(
                f"fetch.min.bytes ({self.fetch_min_bytes}) is above fetch.max.bytes "
                f"({self.fetch_max_bytes}): lower it or raise the other"
            )
        # A fetch that finds nothing is answered after this time.
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
