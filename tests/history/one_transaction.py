"""Keeps late requests of transaction version 1 inside of their own transaction.

Under version 1 every transaction of a producer has the same epoch, so that an EndTxn that arrives a transaction late
ends the wrong one, and no broker can tell: that is what version 2 was made for (KIP-890). Clients of version 1
therefore meet such delays only as far as the broker can do something about them: a late EndTxn arrives before the next
transaction of that producer and epoch begins, or when another producer has the id; a late TxnOffsetCommit arrives
before the transaction ends. Requests of version 2 are as late as they like.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from tests.history.frames import ADD_OFFSETS, ADD_PARTITIONS, END_TXN, TXN_OFFSET_COMMIT, Frame

from ottla.core.turn import Producer

Owner = tuple[str, Producer]

# After a request of the first kind has come, one of the second kind must not arrive any more.
ENDS_THE_TIME_OF = {
    ADD_PARTITIONS: END_TXN,
    ADD_OFFSETS: END_TXN,
    END_TXN: TXN_OFFSET_COMMIT,
}


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
    """The passes that were given out."""

    def __init__(self) -> None:
        self._passes: dict[tuple[int, Owner], list[Pass]] = {}

    async def enter(self, frame: Frame) -> Pass:
        """Takes note of a request; those whose time is over now are not delivered, or have been."""
        given = Pass()
        if frame.api_key not in (*ENDS_THE_TIME_OF, TXN_OFFSET_COMMIT) or not frame.is_of_version_1:
            return given
        owner = frame.owner
        if frame.api_key in ENDS_THE_TIME_OF:
            for other in self._passes.pop((ENDS_THE_TIME_OF[frame.api_key], owner), []):
                other.is_over = True
                await other.is_delivered.wait()
        if frame.api_key in (END_TXN, TXN_OFFSET_COMMIT):
            self._passes.setdefault((frame.api_key, owner), []).append(given)
        return given
