"""Keeps late requests of transaction version 1 inside of their own transaction.

Under version 1 every transaction of a producer has the same epoch, so that an EndTxn that arrives a transaction late
ends the wrong one, and no broker can tell: that is what version 2 was made for (KIP-890). Clients of version 1
therefore meet such delays only as far as the broker can do something about them: a late EndTxn or Produce arrives
before the next transaction of that producer and epoch begins, or when another producer has the id; a late
TxnOffsetCommit arrives before the transaction ends. Requests of version 2 are as late as they like.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from tests.history.frames import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Frame,
)

from ottla.core.turn import Producer

Owner = tuple[str, Producer]

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


class OneTransaction:
    """The passes that were given out, by whose transaction they are for."""

    def __init__(self) -> None:
        self._passes: dict[Owner, list[tuple[int, Pass]]] = {}
        self._has_ended: dict[Owner, bool] = {}

    async def enter(self, frame: Frame) -> Pass:
        """Takes note of a request; those whose time is over now are not delivered, or have been."""
        given = Pass()
        if frame.api_key not in (*LATE, *BEGINNING) or not frame.is_of_version_1:
            return given
        owner = frame.owner
        if frame.api_key == END_TXN:
            self._has_ended[owner] = True
            await self._end(owner, TXN_OFFSET_COMMIT)
        elif frame.api_key in BEGINNING and self._has_ended.pop(owner, False):
            await self._end(owner, *LATE)
        if frame.api_key in LATE:
            self._passes.setdefault(owner, []).append((frame.api_key, given))
        return given

    async def _end(self, owner: Owner, *api_keys: int) -> None:
        given = self._passes.pop(owner, [])
        self._passes[owner] = [one for one in given if one[0] not in api_keys]
        for api_key, one in given:
            if api_key in api_keys:
                one.is_over = True
                await one.is_delivered.wait()
