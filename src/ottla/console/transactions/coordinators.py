"""What transaction coordinators are asked: all their ids, not too often, and some of them in detail."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.admin_model.transactions import TransactionDescription, TransactionListing
from ottla.client.aio.admin.client import Admin
from ottla.console.clients import Clients
from ottla.core.catalog import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode, KafkaError, OttlaError, PartialFailureError
from ottla.inspection.transactions import without_vanished

# A coordinator that has not answered in this time is not there.
ASK_SECONDS: Final = 10.0
MIN_AGE_SECONDS: Final = 2.0
# As for the poller: a listing that took a second is used for twenty.
MAX_SHARE: Final = 1 / 20


async def describe_existing(
    admin: Admin, names: Collection[str]
) -> Mapping[str, TransactionDescription]:
    """The descriptions of transactional ids, without those that no longer exist."""
    if not names:
        return {}
    try:
        return await admin.describe_transactions(names, timeout=ASK_SECONDS)
    except KafkaError as error:
        return without_vanished(error)


async def silent_coordinators(admin: Admin) -> str | None:
    """Why a coordinator may know a transaction that the console was not told of; None if all have told everything.

    A listing has only the ids that the console may describe, of coordinators whose partitions have a leader.
    """
    try:
        topic = (await admin.describe_topics([TRANSACTIONS_TOPIC], timeout=ASK_SECONDS))[
            TRANSACTIONS_TOPIC
        ]
    except KafkaError as error:
        # Before the first transactional producer there is no such topic, and no coordinator.
        is_missing = _code_of(error, TRANSACTIONS_TOPIC) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None if is_missing else f"{TRANSACTIONS_TOPIC} cannot be described: {error}"
    away = [str(each.partition) for each in topic.partitions if each.leader is None]
    if away:
        return f"{TRANSACTIONS_TOPIC} has no leader for partition {', '.join(away)}"
    # A name that no ACL can mean: who may describe this one may describe what no ACL denies.
    nobodys = f"console-{secrets.token_hex(16)}"
    try:
        await admin.describe_transactions([nobodys], timeout=ASK_SECONDS)
    except KafkaError as error:
        code = _code_of(error, nobodys)
        if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return "the console's user may not describe all transactional ids"
        if code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return str(error)
    return None


def _code_of(error: KafkaError, subject: str) -> ErrorCode:
    cause = error.errors.get(subject) if isinstance(error, PartialFailureError) else None
    return (cause or error).code


async def names_of_producers(admin: Admin, producer_ids: Collection[int]) -> dict[int, str]:
    """The transactional ids of producers, by producer id; those without one are left out."""
    if not producer_ids:
        return {}
    listed = await admin.list_transactions(producer_ids=sorted(producer_ids), timeout=ASK_SECONDS)
    return {listing.producer_id: name for name, listing in listed.items()}


@dataclass(frozen=True)
class TransactionalIds:
    """All transactional ids that the coordinators remember."""

    listings: Mapping[str, TransactionListing] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Which coordinators did not answer."""


class TransactionalIdLister:
    """Lists the ids for all browsers: one question at a time, and not again while the answer is young."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._latest = TransactionalIds()
        self._fresh_until = 0.0
        self._asking = asyncio.Lock()

    async def ids(self) -> TransactionalIds:
        """All ids."""
        async with self._asking:
            began = time.monotonic()
            if began >= self._fresh_until:
                self._latest = await _list(self._clients.admin())
                took = time.monotonic() - began
                self._fresh_until = began + max(MIN_AGE_SECONDS, took / MAX_SHARE)
            return self._latest

    def forget(self) -> None:
        """Ask again next time, because something was changed."""
        self._fresh_until = 0.0


async def _list(admin: Admin) -> TransactionalIds:
    try:
        return TransactionalIds(await admin.list_transactions(timeout=ASK_SECONDS))
    except PartialFailureError as error:
        problems = [f"broker {broker}: {cause}" for broker, cause in error.errors.items()]
        return TransactionalIds(error.results, tuple(problems))
    except OttlaError as error:
        return TransactionalIds(problems=(f"transactional ids are not known: {error}",))
