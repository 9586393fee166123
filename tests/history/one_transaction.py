"""Keeps late requests of transaction version 1 where the broker can tell that they are late.

Under version 1 every transaction of a producer has the same epoch, so that an EndTxn that arrives a transaction late
ends the wrong one, and no broker can tell: that is what version 2 was made for (KIP-890). Clients of version 1
therefore meet such delays only as far as the broker can do something about them:

- a late EndTxn arrives before the next transaction of that producer and epoch begins,
- a late TxnOffsetCommit arrives before its transaction ends,
- a late Produce arrives before another transaction of that producer and epoch has its partition, be it through an
  AddPartitionsToTxn that is late itself,

or whenever another producer has the id. Requests of version 2 are as late as they like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from tests.history.digest import Place
from tests.history.frames import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Frame,
)

from ottla.core.turn import ProducerIdentity

Owner = tuple[str, ProducerIdentity]

LATE = (PRODUCE, END_TXN, TXN_OFFSET_COMMIT)
BEGINNING = (ADD_PARTITIONS, ADD_OFFSETS)


class Pass:
    """Whether a request may still be delivered; held while it is."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_delivered = asyncio.Event()
        self.is_delivered.set()

    def __enter__(self) -> None:
        self.is_delivered.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_delivered.set()


@dataclass(eq=False)
class Given:
    """A pass and what it is for."""

    allows: Pass
    api_key: int
    places: frozenset[Place]
    is_of_earlier: bool = False


class OneTransaction:
    """The passes that were given out, by whose transaction they are for."""

    def __init__(self) -> None:
        self._passes: dict[Owner, list[Given]] = {}
        self._has_ended: dict[Owner, bool] = {}

    async def enter(self, frame: Frame) -> Pass:
        """Takes note of a request; those whose time is over now are not delivered, or have been."""
        given = Pass()
        if frame.api_key not in (*LATE, *BEGINNING) or not frame.is_of_version_1:
            return given
        owner = frame.owner
        if frame.api_key == END_TXN:
            self._has_ended[owner] = True
            await self._end(owner, lambda one: one.api_key == TXN_OFFSET_COMMIT)
        elif frame.api_key in BEGINNING:
            await self._begin(owner, frame)
        if frame.api_key in LATE:
            made = Given(given, frame.api_key, frame.places)
            self._passes.setdefault(owner, []).append(made)
        return given

    async def arrive_late(self, frame: Frame) -> None:
        """A request is about to be delivered late: what begins or extends a transaction does so now."""
        if frame.api_key in BEGINNING and frame.is_of_version_1:
            await self._begin(frame.owner, frame)

    async def _begin(self, owner: Owner, frame: Frame) -> None:
        if self._has_ended.pop(owner, False):
            for one in self._passes.get(owner, []):
                one.is_of_earlier = True
            await self._end(owner, lambda one: one.api_key == END_TXN)
        await self._end(
            owner, lambda one: one.is_of_earlier and not one.places.isdisjoint(frame.places)
        )

    async def _end(self, owner: Owner, is_meant: Callable[[Given], bool]) -> None:
        given = self._passes.pop(owner, [])
        ending = [one for one in given if is_meant(one)]
        self._passes[owner] = [one for one in given if one not in ending]
        for one in ending:
            one.allows.is_over = True
            await one.allows.is_delivered.wait()
