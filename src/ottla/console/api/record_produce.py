"""Producing one record, with a preview of what it leads to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from ottla.client.admin_model.acls import AclOperation
from ottla.console.access.roles import Role
from ottla.console.api.topic_changes import cleanup_policy_of, describe_for
from ottla.console.http.errors import ApiError, bad_request
from ottla.console.http.routes import Call, Route
from ottla.console.records.new_record import (
    NewRecord,
    ProducePlan,
    WrittenData,
    WrittenHeader,
    new_record,
    produce_plan,
)

PRODUCE_SECONDS: Final = 15.0
MAX_RECORD_BYTES: Final = 16 << 20
_OPTIONS: Final = {
    "acks": "all",
    "linger_ms": 0,
    "max_block_ms": 10_000,
    "request_timeout_ms": 5_000,
    "delivery_timeout_ms": 10_000,
    "max_request_size": MAX_RECORD_BYTES,
}


@dataclass(frozen=True)
class ProduceBody:
    """A record; null stands for a key or a value that is null."""

    key: WrittenData | None = None
    value: WrittenData | None = None
    headers: list[WrittenHeader] = field(default_factory=list)
    partition: int | None = None
    """Null: the one that the key chooses, or any."""
    timestamp_ms: int | None = None
    """Null: now."""
    preview: bool = True


@dataclass(frozen=True)
class ProducedRecord:
    """Where the record is."""

    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True)
class ProduceAnswer:
    """The plan; and where the record is, if it was not a preview."""

    plan: ProducePlan
    done: ProducedRecord | None = None


async def produce(call: Call[None, ProduceBody]) -> ProduceAnswer:
    """Write one record."""
    body = call.body
    admin = call.identity.clients.admin()
    found = await describe_for(admin, call.path["topic"], AclOperation.WRITE)
    if found.is_internal:
        raise bad_request(
            f"{found.name} is internal: the console writes no records into it",
            "groups and transactions of the whole cluster are kept there",
        )
    if body.timestamp_ms is not None and not 0 <= body.timestamp_ms < 1 << 63:
        raise bad_request("timestamp_ms is 0 or more and has 63 bits, or is null for now")
    record = new_record(body.key, body.value, body.headers)
    plan = produce_plan(
        record,
        found.name,
        body.partition,
        len(found.partitions),
        await cleanup_policy_of(admin, found.name),
    )
    if body.preview:
        return ProduceAnswer(plan)
    done = await _send(call, record, plan)
    call.console.poller.poll_soon()
    return ProduceAnswer(plan, done)


async def _send(
    call: Call[None, ProduceBody], record: NewRecord, plan: ProducePlan
) -> ProducedRecord:
    async with call.identity.clients.producer(**_OPTIONS) as producer:
        try:
            async with asyncio.timeout(PRODUCE_SECONDS):
                sent = await producer.send(
                    plan.topic,
                    record.value,
                    record.key,
                    partition=plan.partition,
                    headers=record.headers,
                    timestamp_ms=call.body.timestamp_ms,
                )
                at = await sent
        except TimeoutError:
            raise ApiError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"the cluster did not acknowledge the record within {PRODUCE_SECONDS:.0f} s: it may be written, or not",
                "look for it before you send it again",
            ) from None
    return ProducedRecord(at.partition, at.offset, at.timestamp_ms)


ROUTES: Final = [
    Route(
        "POST",
        "/api/topics/{topic}/records",
        produce,
        "Write a record",
        body=ProduceBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
]
