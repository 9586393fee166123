"""The producer ids that this process gives out: each block is reserved durably before its first id is used."""

from __future__ import annotations

import asyncio

from ottla.broker.catalog_changes import CatalogChanges, Decision
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.core.catalog import Catalog
from ottla.core.outcomes import Refused


class ProducerIds:
    """A block, and the next one, which is reserved in the background where the catalog takes its time."""

    def __init__(self, catalog: Catalog, changes: CatalogChanges) -> None:
        self._catalog = catalog
        self._changes = changes
        self._block = range(0)
        self._next = range(0)
        self._reserving: asyncio.Future[None] | None = None

    def take(self) -> int | None:
        """An id that was never used; None if none can be had now."""
        if not self._block:
            self._block, self._next = self._next, range(0)
        if not self._block:
            self.reserve()
            self._block, self._next = self._next, range(0)
            if not self._block:
                return None
        producer_id, self._block = self._block[0], self._block[1:]
        if self._reserving is not None and not self._next and self._reserving.done():
            # The catalog takes its time.
            self.reserve()
        return producer_id

    def take_later(self) -> NowOrLater[int | None]:
        """As `take`; waits if a block has to be reserved first."""
        producer_id = self.take()
        if producer_id is not None or self._reserving is None or self._reserving.done():
            return producer_id
        return then(self._reserving, lambda _: self.take())

    def reserve(self) -> NowOrLater[None]:
        """Reserves the next block, unless that is under way."""
        if self._reserving is not None and not self._reserving.done():
            return self._reserving

        blocks: list[range] = []

        def decide() -> Decision[None]:
            block, changes = self._catalog.reserve_producer_ids()
            blocks.append(block)
            return Decision(changes, None)

        def made(refused: Refused | None) -> None:
            if refused is None:
                self._next = blocks[-1]

        reserved = then(self._changes.make(decide), made)
        self._reserving = reserved if isinstance(reserved, asyncio.Future) else None
        return reserved
