"""JSON of the control API: the fields that a request may have, and what answers look like."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ConfigError
from ottla.inspection.json_lines import JsonRecordFormatter
from ottla.model import TopicPartition
from ottla.testing.clock import BrokerClock
from ottla.testing.faults import DiskFault, Fault, NetworkPartition
from ottla.testing.request_log import LoggedRequest

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription
    from ottla.client.admin_model.transactions import TransactionDescription
    from ottla.client.model import ConsumerRecord

JsonObject = dict[str, Any]


# What requests carry.


@dataclass(frozen=True)
class Field:
    """A field of a request's JSON: the types that it may have, and how an error calls them."""

    types: tuple[type, ...]
    description: str
    is_required: bool = False
    # Of a list: the types that its elements may have.
    element_types: tuple[type, ...] = ()

    def accepts(self, value: object) -> bool:
        # bool is an int in Python, and not in JSON.
        if isinstance(value, list) and list in self.types:
            return all(type(each) in self.element_types for each in value)
        return type(value) in self.types


TEXT: Final = Field((str,), "a string")
NEEDED_TEXT: Final = Field((str,), "a string", is_required=True)
WHOLE: Final = Field((int,), "a whole number")
NUMBER: Final = Field((int, float), "a number")
NAME_OR_CODE: Final = Field((str, int), "a name or a number of Kafka's")
DURATION: Final = Field((str, int, float), 'a duration such as "5s", or a number of seconds')
NEEDED_DURATION: Final = Field(DURATION.types, DURATION.description, is_required=True)
NEEDED_MOMENT: Final = Field((str, int, float), "a time or seconds since 1970", is_required=True)
TEXTS: Final = Field((list,), "a list of strings", is_required=True, element_types=(str,))
ONE_OR_MORE_TEXTS: Final = Field((str, list), "a string or a list of them", element_types=(str,))
ONE_OR_MORE_WHOLE: Final = Field(
    (int, list), "a whole number or a list of them", element_types=(int,)
)

_TARGET: Final = {
    "topic": TEXT,
    "partition": WHOLE,
    "group": TEXT,
    "transactional_id": TEXT,
    "client_id": TEXT,
    "node": WHOLE,
}
FAULT: Final = {
    "api": TEXT,
    "error": NAME_OR_CODE,
    "drop": TEXT,
    "delay": DURATION,
    "times": WHOLE,
    "skip": WHOLE,
    "probability": NUMBER,
    "seed": WHOLE,
    **_TARGET,
}
SCRIPT: Final = {"api": NEEDED_TEXT, "outcomes": TEXTS, **_TARGET}
NETWORK_PARTITION: Final = {"client_id": ONE_OR_MORE_TEXTS, "node": ONE_OR_MORE_WHOLE}
SLOW_DISK: Final = {"delay": NEEDED_DURATION}
ADVANCE: Final = {"duration": NEEDED_DURATION}
SET_CLOCK: Final = {"moment": NEEDED_MOMENT}
LEADERSHIP: Final = {
    "topic": NEEDED_TEXT,
    "partition": Field((int,), "a whole number", is_required=True),
}
EXACTLY_ONCE: Final = {"source": NEEDED_TEXT, "sink": NEEDED_TEXT, "by": TEXT}
LAG_ZERO: Final = {"group": NEEDED_TEXT, "topic": TEXT, "timeout": DURATION}


def parse_body(body: bytes) -> JsonObject:
    """The object in the body of a request; without a body an empty one."""
    try:
        found = (
            json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_without_doubles)
            if body.strip()
            else {}
        )
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError("the body has to be an object of JSON")
    return found


def _without_doubles(pairs: list[tuple[str, object]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"{counts.most_common(1)[0][0]!r} is there twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def check_fields(given: Mapping[str, object], fields: Mapping[str, Field]) -> JsonObject:
    """The fields of a request that say something: null is as if a field were not there."""
    for name, value in given.items():
        field = fields.get(name)
        if field is None:
            raise ConfigError(f"there is no field {name!r}{_advice(name, fields)}")
        if value is not None and not field.accepts(value):
            raise ConfigError(f"{name} is {json.dumps(value)}: it has to be {field.description}")
    said = {name: value for name, value in given.items() if value is not None}
    for name, field in fields.items():
        if field.is_required and name not in said:
            raise ConfigError(f"{name} is missing: it has to be {field.description}")
    return said


def _advice(name: str, fields: Mapping[str, Field]) -> str:
    nearest = get_close_matches(name, fields, 1)
    if nearest:
        return f": did you mean {nearest[0]}?"
    return f": there are {', '.join(fields)}" if fields else ": the body has to be empty"


# What answers carry.


def describe_fault(number: int, fault: Fault | NetworkPartition | DiskFault) -> JsonObject:
    if isinstance(fault, NetworkPartition):
        return {
            "id": number,
            "kind": "network partition",
            "client_ids": sorted(fault.client_ids),
            "nodes": sorted(fault.nodes),
        }
    if isinstance(fault, DiskFault):
        kind = "full disk" if fault.is_full else "slow disk"
        return {"id": number, "kind": kind, "delay_seconds": fault.delay_seconds}
    return {
        "id": number,
        "kind": "requests",
        "target": {name: value for name, value in vars(fault.target).items() if value is not None},
        "outcomes": [str(outcome) for outcome in fault.outcomes],
        "times": fault.times,
        "hits": fault.hits,
        "is_over": fault.is_over,
    }


def describe_clock(clock: BrokerClock) -> JsonObject:
    now = clock.now
    return {
        "now": now.isoformat(timespec="milliseconds"),
        "now_ms": round(now.timestamp() * 1000),
        "is_frozen": clock.is_frozen,
    }


def describe_records(records: Sequence[ConsumerRecord[Any, Any]]) -> list[JsonObject]:
    """As `ottla consume -o json` writes them, and seeds have them."""
    line_of = JsonRecordFormatter()
    return [json.loads(line_of(record)) for record in records]


def describe_group(group: GroupDescription) -> JsonObject:
    return {
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "partition_assignor": group.partition_assignor,
        "coordinator": group.coordinator.id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "assignment": describe_partitions(member.assignment),
            }
            for member in group.members
        ],
    }


def describe_transaction(transaction: TransactionDescription) -> JsonObject:
    return {
        "state": transaction.state.value,
        "coordinator": transaction.coordinator_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "transaction_timeout_ms": transaction.transaction_timeout_ms,
        "transaction_start_time_ms": transaction.transaction_start_time_ms,
        "partitions": describe_partitions(transaction.partitions),
    }


def describe_partitions(partitions: Sequence[TopicPartition]) -> list[JsonObject]:
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


def describe_request(request: LoggedRequest) -> JsonObject:
    return {
        "number": request.number,
        "at_ms": request.at_ms,
        "node": request.node_id,
        "api": request.api,
        "version": request.version,
        "client_id": request.client_id,
        "names": [
            {name: value for name, value in named._asdict().items() if value is not None}
            for named in request.named
        ],
        "is_answered": request.is_answered,
        "errors": request.errors,
        "lost": request.lost,
        "fault": request.fault,
        "seconds": request.seconds,
        "text": str(request),
    }
