"""Whether the objects in the store are those that the sequencer knows, and whether they are whole.

A check runs beside brokers that write, take and delete objects. So every difference is looked at a second time, before
it is one.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.ports import DamagedError
from ottla.storage.shared.errors import ForeignClusterError, ObjectMissingError
from ottla.storage.shared.objects.cluster_identity import IDENTITY_KEY, check_identity
from ottla.storage.shared.objects.object_format import check_belongs, object_id_of, read_object
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.sequencer.records import ObjectState, StoredObject
from ottla.storage.shared.sequencer.sequencer import Sequencer

_ROWS_AT_ONCE: Final = 1000


class Difference(enum.Enum):
    """What is wrong with an object. Only an orphan costs no data."""

    MISSING = "batches refer to it, and the store does not have it"
    DAMAGED = "its bytes are not those that were written"
    FOREIGN = "it belongs to another cluster"
    ORPHAN = "the store has it, and nothing knows of it"


class CheckedObject(NamedTuple):
    """An object with a difference; `detail` says more."""

    key: str
    difference: Difference
    detail: str


@dataclass
class CheckCounts:
    """What was seen, by state; `late` are deleted ones that came back, which collection will delete again."""

    objects: dict[ObjectState, int] = field(default_factory=lambda: dict.fromkeys(ObjectState, 0))
    live_bytes: int = 0
    late: int = 0
    verified_bytes: int = 0


class StorageCheck:
    """A check of one store. `counts` grows while it runs."""

    def __init__(self, sequencer: Sequencer, objects: Objects, cluster_id: str) -> None:
        self._sequencer = sequencer
        self._objects = objects
        self._cluster_id = cluster_id
        self.counts = CheckCounts()

    async def compare(self) -> AsyncIterator[CheckedObject]:
        """Compares what the store lists with what the sequencer knows; ForeignClusterError if the store is another's.

        It needs memory for the keys of all objects.
        """
        await check_identity(self._objects, self._cluster_id)
        # First: every object in it was reserved before, and is known below, unless it was deleted meanwhile.
        listed = {each.key: each.size_bytes async for each in self._objects.list("")}
        listed.pop(IDENTITY_KEY, None)
        async for known in self._known():
            self.counts.objects[known.state] += 1
            size_bytes = listed.pop(known.key, None)
            if known.state is ObjectState.LIVE:
                self.counts.live_bytes += known.size_bytes
                found = await self._compare_live(known, size_bytes)
                if found is not None:
                    yield found
            elif known.state is ObjectState.DELETED and size_bytes is not None:
                self.counts.late += 1
        for key in listed:
            if await self._exists(key):
                what = "is not known" if object_id_of(key) is not None else "is not a key of ours"
                yield CheckedObject(key, Difference.ORPHAN, f"the key {what}")

    async def verify(self) -> AsyncIterator[CheckedObject]:
        """Reads all objects that batches refer to, one after the other, and verifies every byte."""
        await check_identity(self._objects, self._cluster_id)
        async for known in self._known():
            if known.state is ObjectState.LIVE:
                found = await self._verify(known)
                if found is not None and await self._is_live(known):
                    yield found

    async def _known(self) -> AsyncIterator[StoredObject]:
        after_id = -1
        while True:
            page = await self._sequencer.objects(after_id, _ROWS_AT_ONCE)
            for known in page:
                yield known
                after_id = known.object_id
            if len(page) < _ROWS_AT_ONCE:
                return

    async def _is_live(self, known: StoredObject) -> bool:
        page = await self._sequencer.objects(known.object_id - 1, 1)
        return any(
            each.object_id == known.object_id and each.state is ObjectState.LIVE for each in page
        )

    async def _compare_live(
        self, known: StoredObject, size_bytes: int | None
    ) -> CheckedObject | None:
        if size_bytes is None:
            # It may be newer than the list.
            if await self._exists(known.key) or not await self._is_live(known):
                return None
            return CheckedObject(known.key, Difference.MISSING, "the store does not have it")
        if size_bytes != known.size_bytes:
            detail = f"it has {size_bytes} bytes, {known.size_bytes} were written"
            return CheckedObject(known.key, Difference.DAMAGED, detail)
        return None

    async def _exists(self, key: str) -> bool:
        try:
            await self._objects.get_ranges(key, [(0, 1)])
        except ObjectMissingError:
            return False
        except DamagedError:
            return True  # without a byte
        return True

    async def _verify(self, known: StoredObject) -> CheckedObject | None:
        try:
            (data,) = await self._objects.get_ranges(known.key, [(0, known.size_bytes)])
            check_belongs(read_object(data).header, self._cluster_id, known.object_id)
        except ObjectMissingError as error:
            return CheckedObject(known.key, Difference.MISSING, str(error))
        except ForeignClusterError as error:
            return CheckedObject(known.key, Difference.FOREIGN, str(error))
        except DamagedError as error:
            return CheckedObject(known.key, Difference.DAMAGED, str(error))
        self.counts.verified_bytes += len(data)
        return None
