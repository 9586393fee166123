"""Valid requests of every served API at every version, whose values make sense to a broker."""

from __future__ import annotations

import random
import uuid
from typing import Any, NamedTuple

from ottla.broker.requests.apis import SERVED
from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.declare import Field, fields_of
from ottla.wire.framing import frame_request
from ottla.wire.types import ZERO_UUID, BytesType, Fixed, RecordsType, StringType, UuidType

TOPICS = ("fuzz-a", "fuzz-b", "fuzz-missing", "fuzz.new", "__consumer_offsets", "", ".", "bad name")
OPTIONS = (
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "flush.messages",
    "cleanup.policy",
    "preallocate",
    "no.such.option",
)
OPTION_VALUES = ("1", "-1", "100", "1048576", "zstd", "LogAppendTime", "compact", "", "nonsense")
INTEGERS = (-1, 0, 1, 2, 7, 127, 1000)
SMALL_INTEGERS = (-1, 0, 1, 2)
LIMITS = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1),
    "i": (-(2**31), 2**31 - 1),
    "I": (0, 2**32 - 1),
    "q": (-(2**63), 2**63 - 1),
}
# A fetch that waits for weeks only costs the fuzzer time.
TAME = {"max_wait_ms"}
# What a field that is named like this holds; other integers are any of INTEGERS.
BY_NAME: dict[str, tuple[Any, ...]] = {
    "acks": (-1, 1, 0, 2),
    "config_operation": (0, 1, 2, 3),
    "controller_epoch": (0,),
    "count": (1, 3, 4),
    "coordinator_keys": ("g", "t"),
    "index": (0, 1, 2, 9),
    "key_type": (0, 1, 2),
    "max_wait_ms": (0, 0, 0, 1),
    "num_partitions": (-1, 1, 3, 0),
    "offset": (-1, 0, 1, 3, 50),
    "partition": (0, 1, 2, 9, -1),
    "partition_index": (0, 1, 2, 9, -1),
    "replication_factor": (-1, 1, 3),
    "resource_name": (*TOPICS, "1", ""),
    "resource_type": (2, 2, 2, 8, 4, 0),
    "session_epoch": (-1, 0, 1),
    "session_id": (0, 1),
    "timeout_ms": (0, 100, -1),
    "timestamp": (-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
}


class Seed(NamedTuple):
    """A frame, with its size, and what it is; `is_extreme` if its values are no client's."""

    frame: bytes
    api_key: int
    version: int
    is_extreme: bool


def sample_batches(rng: random.Random) -> list[bytes]:
    """Record batches of every codec and size, as producers send them."""
    made = []
    for codec in Codec:
        for count in (1, 2, 40):
            records = [
                Record(
                    number,
                    1_700_000_000_000 + rng.randrange(1000),
                    rng.choice([None, b"", b"key"]),
                    rng.choice([None, b"", rng.randbytes(rng.randrange(60))]),
                    rng.choice([(), (("h", b"v"), ("empty", None))]),
                )
                for number in range(count)
            ]
            made.append(build_batch(records, codec=codec))
            made.append(
                build_batch(
                    records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=count
                )
            )
    return made


class Generator:
    """Makes messages from their declarations; `wild_share` of their values are extreme."""

    def __init__(
        self, rng: random.Random, topic_ids: list[uuid.UUID], wild_share: float = 0.0
    ) -> None:
        self._rng = rng
        self._wild_share = wild_share
        self._topic_ids = [*topic_ids, ZERO_UUID, uuid.UUID(int=5)]
        self._batches = sample_batches(rng)

    def message(self, cls: type, version: int) -> Any:
        fields = {
            field.name: self._field(cls, field, version)
            for field in fields_of(cls)
            if field.present_in(version)
        }
        return cls(**fields)

    def _field(self, cls: type, field: Field, version: int) -> Any:
        rng = self._rng
        nullable = field.type.is_nullable and version >= field.presence.nullable_since
        if nullable and rng.random() < 0.25:
            return None
        if field.default is not None and field.tagged_in(version) and rng.random() < 0.7:
            return field.default()
        if not field.type.is_list:
            return self._element(cls, field, version)
        count = rng.choice((0, 1, 1, 1, 2, 3))
        return [self._element(cls, field, version) for _ in range(count)]

    def _element(self, cls: type, field: Field, version: int) -> Any:
        rng = self._rng
        element = field.type.element
        if isinstance(element, type):
            return self.message(element, version)
        if rng.random() < self._wild_share and field.name not in TAME:
            return self._extreme(element)
        named = BY_NAME.get(field.name)
        match element:
            case Fixed("?"):
                return rng.random() < 0.5
            case Fixed("d"):
                return rng.choice((0.0, 1.5))
            case Fixed(letter):
                lowest, highest = LIMITS[letter]
                values = named or (SMALL_INTEGERS if letter == "b" else INTEGERS)
                return rng.choice([value for value in values if lowest <= value <= highest])
            case UuidType():
                return rng.choice(self._topic_ids)
            case StringType():
                return rng.choice(named or _texts(cls, field.name))
            case RecordsType():
                return rng.choice(self._batches)
            case BytesType():
                return rng.randbytes(rng.randrange(20))
        raise AssertionError(f"no values for {element}")

    def _extreme(self, element: Any) -> Any:
        rng = self._rng
        match element:
            case Fixed("?"):
                return rng.random() < 0.5
            case Fixed("d"):
                return rng.choice((float("nan"), float("inf"), -1e308))
            case Fixed(letter):
                lowest, highest = LIMITS[letter]
                return rng.choice((lowest, highest, 0, rng.randint(lowest, highest)))
            case UuidType():
                return uuid.UUID(int=rng.getrandbits(128))
            case StringType():
                return rng.choice(
                    ("", "x" * 249, "x" * 250, "é" * 200, "\0", "../../x", "a\nb", "💥")
                )
        return rng.randbytes(rng.randrange(100))


def _texts(cls: type, name: str) -> tuple[str, ...]:
    if name == "configuration_keys" or (name == "name" and "Config" in cls.__name__):
        return OPTIONS
    if name == "value":
        return OPTION_VALUES
    return TOPICS


def build_corpus(rng: random.Random, topic_ids: list[uuid.UUID], per_version: int) -> list[Seed]:
    """Frames of every served API and version: ordinary ones, and as many with extreme values."""
    ordinary, extreme = Generator(rng, topic_ids), Generator(rng, topic_ids, 0.2)
    return [
        Seed(
            frame_request(generator.message(api.request, version), version, 0, "fuzz"),
            api.key,
            version,
            generator is extreme,
        )
        for generator in (ordinary, extreme)
        for api in SERVED.values()
        for version in range(api.first_version, api.last_version + 1)
        for _ in range(per_version)
    ]
