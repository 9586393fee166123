"""Collection of objects that nothing refers to.

The sequencer decides what is garbage, in its transactions. What is done here is only the deletion, by one broker at a
time and in small steps, each of which may be repeated: what was deleted and not noted comes again.
"""

from __future__ import annotations

import uuid
from typing import Final

from ottla.ports import DamagedError
from ottla.storage.shared.objects.object_format import object_id_of
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.sequencer.sequencer import Sequencer

COLLECT_TASK: Final = "collect_objects"
LEASE_MS: Final = 120_000
# To be deleted in one request, and in one round: a round must not take longer than its lease.
OBJECTS_AT_ONCE: Final = 500
MAX_OBJECTS: Final = 10_000


async def collect_garbage(sequencer: Sequencer, objects: Objects, session: uuid.UUID) -> int:
    """Deletes objects that may be deleted now, up to MAX_OBJECTS, unless another broker does it; returns how many."""
    count = 0
    while count < MAX_OBJECTS:
        if not await sequencer.take_task(session, COLLECT_TASK, LEASE_MS):
            break
        garbage = await sequencer.find_garbage(OBJECTS_AT_ONCE)
        for each in garbage:
            if object_id_of(each.key) != each.object_id:
                raise DamagedError(
                    f"object {each.object_id} has the key {each.key!r} of something else: it is not deleted"
                )
        if garbage:
            await objects.delete([each.key for each in garbage])
            await sequencer.note_deleted([each.object_id for each in garbage])
        count += len(garbage)
        if len(garbage) < OBJECTS_AT_ONCE:
            break
    return count
