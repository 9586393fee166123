"""Which rows of an outbox the relay sent last, as a record of a compacted topic in the same Kafka transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.client.admin_model.topics import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TOPIC_NAME_CHARS, TopicPartition

if TYPE_CHECKING:
    from ottla.app.listening.clients import Clients

_VERSION: Final = 1
_SEGMENT_BYTES: Final = 1024 * 1024
_FIRST_LOOK_RECORDS: Final = 100
_POLL_SECONDS: Final = 0.2
_END: Final = ".outbox"


def position_topic(app_name: str) -> str:
    """The topic for the positions of an app's relays: `billing.outbox`."""
    legal = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in app_name
    )
    if legal == app_name and len(legal) + len(_END) <= TOPIC_NAME_CHARS:
        return f"{app_name}{_END}"
    digest = hashlib.sha256(app_name.encode()).hexdigest()[:12]
    return f"{legal[: TOPIC_NAME_CHARS - len(digest) - len(_END) - 1]}-{digest}{_END}"


@dataclass(frozen=True)
class RelayPosition:
    """The rows of the last committed Kafka transaction.

    Ids alone would not do: a database that was restored from a backup gives the same ids to other rows. The digest is
    over the random tokens of the rows too.
    """

    ids: tuple[int, ...]
    digest: str

    @classmethod
    def of(cls, tokens: Mapping[int, int]) -> Self:
        """The position after rows with these tokens by id."""
        ids = tuple(sorted(tokens))
        text = ",".join(f"{each}:{tokens[each]}" for each in ids)
        return cls(ids, hashlib.sha256(text.encode()).hexdigest())

    def encode(self) -> bytes:
        """As the value of a record; ids as ranges."""
        ranges: list[list[int]] = []
        for each in self.ids:
            if ranges and ranges[-1][1] == each:
                ranges[-1][1] = each + 1
            else:
                ranges.append([each, each + 1])
        fields = {"version": _VERSION, "ranges": ranges, "digest": self.digest}
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The reverse; ValueError for garbage."""
        fields = json.loads(value)
        if not isinstance(fields, dict) or fields.get("version") != _VERSION:
            raise ValueError("the position of the relay is not of version 1")
        ids = [each for start, end in fields["ranges"] for each in range(start, end)]
        return cls(tuple(ids), fields["digest"])


async def create_position_topic(clients: Clients, topic: str) -> None:
    """Create the topic if it is missing."""
    configs: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "segment.bytes": str(_SEGMENT_BYTES),
    }
    try:
        await clients.admin.create_topics([NewTopic(topic, num_partitions=1, configs=configs)])
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_position(clients: Clients, topic: str, outbox_id: str) -> RelayPosition | None:
    """The last committed position of an outbox; call it after the transactional id was fenced."""
    options: dict[str, Any] = {
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    partition = TopicPartition(topic, 0)
    consumer = clients.consumer(options)
    try:
        start = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.assign([partition])
        # Nearly always among the last records; further back only if other outboxes of the app are busier.
        look = _FIRST_LOOK_RECORDS
        while True:
            at = max(start, end - look)
            consumer.seek(partition, at)
            found: bytes | None = None
            while await consumer.position(partition) < end:
                for record in await consumer.poll(_POLL_SECONDS):
                    if record.key == outbox_id.encode() and record.offset < end:
                        found = record.value
            if found is not None:
                return RelayPosition.decode(found)
            if at == start:
                return None
            look *= 10
    finally:
        await consumer.close()
