"""Commits of workers at the supervisor: who is told, and when they are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from ottla.broker.workers import catalog_commits
from ottla.broker.workers.catalog_commits import HANGING_APPLY_SECONDS, CatalogCommits
from ottla.broker.workers.messages import (
    Applied,
    CatalogCopy,
    Changed,
    Commit,
    Committed,
    Conflicted,
    Message,
    NotCommitted,
)
from ottla.broker.workers.worker_channel import FRESH_SECONDS
from ottla.ports import JsonValue, StorageError
from ottla.storage.memory.store import MemoryCatalog

HOURS = 3600.0
HANG_SECONDS = 2.0


class Stage:
    """A catalog, and workers that note what they are told."""

    def __init__(self, apply_seconds: float = HOURS) -> None:
        self.catalog = MemoryCatalog()
        self.commits = CatalogCommits(self.catalog, apply_seconds)
        self.told: dict[int, list[Message]] = {}

    def start(self, node_id: int) -> None:
        self.told[node_id] = []
        self.commits.add(node_id, self.told[node_id].append)

    def serve(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.start(node_id)
            self.commits.serves(node_id)

    async def answers(self, node_id: int) -> list[Message]:
        for _ in range(3):  # a future's callbacks
            await asyncio.sleep(0)
        kinds = Committed, Conflicted, NotCommitted
        return [each for each in self.told[node_id] if isinstance(each, kinds)]


def run(test: Callable[[Stage], Awaitable[None]], apply_seconds: float = HOURS) -> None:
    async def all_of_it() -> None:
        stage = Stage(apply_seconds)
        await test(stage)
        stage.commits.close()

    asyncio.run(all_of_it())


def test_a_commit_is_answered_when_every_live_worker_acts_by_it() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.start(3)  # has no clients yet
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        for node_id in (1, 2, 3):
            assert stage.told[node_id] == [CatalogCopy(0, {}), Changed(1, {"a": 1})]
        stage.commits.applied(1, Applied(1))
        assert await stage.answers(1) == []
        stage.commits.applied(2, Applied(1))
        assert await stage.answers(1) == [Committed(7, 1)]
        assert await stage.answers(2) == []

    run(test)


def test_a_worker_that_has_ended_is_not_waited_for() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        stage.commits.applied(1, Applied(1))
        stage.commits.remove(2)
        assert await stage.answers(1) == [Committed(7, 1)]

    run(test)


def test_a_worker_that_is_started_again_acts_by_what_it_is_started_with() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        stage.commits.remove(2)
        stage.serve(2)
        assert stage.told[2] == [CatalogCopy(1, {"a": 1})]
        stage.commits.applied(1, Applied(1))
        assert await stage.answers(1) == [Committed(7, 1)]

    run(test)


def test_a_new_process_gets_no_answers_of_its_predecessor() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        stage.commits.remove(1)
        stage.serve(1)
        stage.commits.applied(2, Applied(1))
        assert await stage.answers(1) == []

    run(test)


def test_a_worker_that_does_not_answer_is_given_up_waiting_for() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        stage.commits.applied(1, Applied(1))
        await asyncio.wait_for(stage.commits.applied_by_all(), 60)
        assert await stage.answers(1) == [Committed(7, 1)]

    run(test, apply_seconds=0.0)


def test_a_worker_that_hangs_holds_up_one_commit_and_others_only_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalog_commits, "HANGING_APPLY_SECONDS", 0.05)

    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        stage.commits.applied(1, Applied(1))
        await asyncio.wait_for(stage.commits.applied_by_all(), 60)
        # Worker 2 has had its time: the next commit does not give it the same time again.
        began = time.monotonic()
        stage.commits.commit(1, Commit(8, {"a": 2}, 1))
        stage.commits.applied(1, Applied(2))
        assert (await stage.answers(1))[-1] == Committed(7, 1), (
            "a worker that wakes up catches up first"
        )
        await asyncio.wait_for(stage.commits.applied_by_all(), 60)
        assert (await stage.answers(1))[-1] == Committed(8, 2)
        assert time.monotonic() - began < HANG_SECONDS
        # It has said something: it does not hang any more.
        stage.commits.applied(2, Applied(1))
        stage.commits.commit(1, Commit(9, {"a": 3}, 2))
        stage.commits.applied(1, Applied(3))
        assert (await stage.answers(1))[-1] == Committed(8, 2)
        stage.commits.applied(2, Applied(3))
        assert (await stage.answers(1))[-1] == Committed(9, 3)

    run(test, apply_seconds=HANG_SECONDS)


def test_no_worker_serves_by_a_catalog_for_which_it_is_not_waited_any_more() -> None:
    assert FRESH_SECONDS < HANGING_APPLY_SECONDS / 2


def test_of_two_decisions_at_one_revision_the_second_is_refused() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        stage.commits.commit(2, Commit(9, {"a": 2}, 0))
        # It is told the change before the conflict, so that it decides by it.
        assert stage.told[2][-2:] == [Changed(1, {"a": 1}), Conflicted(9, 1)]
        assert dict(stage.catalog.entries()) == {"a": 1}

    run(test)


def test_what_cannot_be_written_is_refused_and_told_to_nobody() -> None:
    class FullCatalog(MemoryCatalog):
        def commit(self, changes: object, expected_revision: int) -> int:
            raise StorageError("the disk is full")

    async def test(stage: Stage) -> None:
        stage.commits = CatalogCommits(FullCatalog())
        stage.serve(1, 2)
        stage.commits.commit(1, Commit(7, {"a": 1}, 0))
        assert stage.told[1][1:] == [NotCommitted(7, "the disk is full")]
        assert stage.told[2][1:] == []

    run(test)


def test_workers_are_told_of_changes_in_the_order_of_revisions() -> None:
    async def test(stage: Stage) -> None:
        stage.serve(1, 2)
        for number in range(5):
            changes: dict[str, JsonValue] = {"a": number}
            stage.commits.commit(1 + number % 2, Commit(number, changes, number))
        seen = partial(filter, lambda each: isinstance(each, Changed))
        for node_id in (1, 2):
            revisions = [each.revision for each in seen(stage.told[node_id])]
            assert revisions == [1, 2, 3, 4, 5]
        stage.commits.applied(1, Applied(5))
        stage.commits.applied(2, Applied(5))
        assert await stage.answers(2) == [Committed(1, 2), Committed(3, 4)]

    run(test)
