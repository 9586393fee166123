"""Bugs made on purpose in brokers on shared storage, which runs with real clients have to find.

Those of SQL are in `tests/storage/shared/sequencer/sql_bugs.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ottla.storage.shared.engine_metrics import LaneMetrics
from ottla.storage.shared.objects.object_format import ObjectWriter
from ottla.storage.shared.sequencer.records import AppendOutcome, WrittenObject
from ottla.storage.shared.session import Session
from ottla.storage.shared.write.commits import Commits, Placed
from ottla.storage.shared.write.uploads import ObjectRun, Uploaded, Uploads

LATE_SECONDS = 0.2


def _change(owner: object, name: str, value: object) -> None:
    """Puts a bug in the place of a method."""
    assert hasattr(owner, name)
    setattr(owner, name, value)


def acknowledge_before_commit() -> None:
    """What is appended counts as durable while its commit is under way."""
    commit_parts, settle_part = Commits.commit, Commits._settle

    async def commit(
        self: Commits, placed: Sequence[Placed], objects: Sequence[WrittenObject], lane: LaneMetrics
    ) -> None:
        for each in placed:
            settle_part(self, each.part, AppendOutcome.OK)
        await asyncio.sleep(LATE_SECONDS)
        await commit_parts(self, placed, objects, lane)

    def settled_already(self: Commits, part: Any, outcome: AppendOutcome) -> None:
        """The outcome comes too late."""

    _change(Commits, "commit", commit)
    _change(Commits, "_settle", settled_already)
    _change(Commits, "_fail", lambda self, placed, error: None)


def commit_before_put() -> None:
    """Rows refer to an object that is still being put."""
    late: set[asyncio.Task[None]] = set()

    async def upload(self: Uploads, runs: Sequence[ObjectRun]) -> Uploaded:
        object_id, key = await self._session.reserved_object()
        writer = ObjectWriter(self._session.cluster_id, object_id)
        positions = [writer.add(*run) for run in runs]
        size_bytes = writer.size_bytes
        data = writer.finish()

        async def put() -> None:
            await asyncio.sleep(LATE_SECONDS)
            await self._objects.put(key, data)

        task = asyncio.get_running_loop().create_task(put())
        late.add(task)
        task.add_done_callback(late.discard)
        return Uploaded(WrittenObject(object_id, size_bytes), positions)

    _change(Uploads, "upload", upload)


def lead_without_a_lease() -> None:
    """A broker answers clients however old its lease is."""
    _change(Session, "may_lead", lambda self: True)


SHARED_MUTANTS: dict[str, Callable[[], None]] = {
    mutant.__name__: mutant
    for mutant in (acknowledge_before_commit, commit_before_put, lead_without_a_lease)
}
