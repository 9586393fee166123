"""What transaction coordinators are asked: all their ids, not too often, and some of them in detail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.admin_model.transactions import TransactionDescription, TransactionListing
from ottla.client.aio.admin.client import Admin
from ottla.console.clients import Clients
from ottla.errors import KafkaError, OttlaError, PartialFailureError
from ottla.inspection.transactions import without_vanished

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
        return await admin.describe_transactions(names)
    except KafkaError as error:
        return without_vanished(error)


async def names_of_producers(admin: Admin, producer_ids: Collection[int]) -> dict[int, str]:
    """The transactional ids of producers, by producer id; those without one are left out."""
    if not producer_ids:
        return {}
    listed = await admin.list_transactions(producer_ids=sorted(producer_ids))
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
        return TransactionalIds(await admin.list_transactions())
    except PartialFailureError as error:
        problems = [f"broker {broker}: {cause}" for broker, cause in error.errors.items()]
        return TransactionalIds(error.results, tuple(problems))
    except OttlaError as error:
        return TransactionalIds(problems=(f"transactional ids are not known: {error}",))
