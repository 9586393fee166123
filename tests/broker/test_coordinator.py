"""The runtime of coordinators: nobody is told what is not durable, and a log that fails costs nothing that is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.broker.coordinated import Bench, every, run, settle
from tests.core.group.topics import EveryTopic

import ottla.broker.coordination.coordinator as runtime
from ottla.broker.coordination import machine_log
from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.coordination.machine_log import BATCH_BYTES
from ottla.broker.partitions.shard import Shard
from ottla.core.group.consumer.events import PatternResolved
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import CommitSender, FetchedOffset, Joined, NewOffsets
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.ports import StorageError, StorageFullError
from ottla.records.batch import build_batch
from ottla.records.control import MarkerType
from ottla.records.record import Record
from ottla.wire.types import MalformedMessageError

# Answers


def test_an_answer_waits_until_what_was_decided_is_durable() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        asked = bench.commit(1)
        await settle()
        assert bench.machine.fetch("g", "orders", 0).offset == 1
        assert not asked.done()
        bench.log.appends[0].set_result(None)
        assert await asked == [None]

    run(scenario)


def test_who_reads_what_is_not_durable_waits_for_it_too() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        order: list[str] = []
        written = bench.commit(1)
        await settle()
        read = bench.ask(lambda machine, turn: machine.fetch("g", "orders", 0).offset)
        await settle()
        for name, asked in (("read", read), ("written", written)):
            asked.add_done_callback(lambda _, name=name: order.append(name))
        assert not read.done()
        bench.log.appends[0].set_result(None)
        assert await read == 1
        await settle()
        assert order == ["written", "read"]

    run(scenario)


def test_answers_keep_their_order_although_the_log_does_not() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        asked = []
        for value in range(3):
            asked.append(bench.commit(value))
            await settle()
        assert len(bench.log.appends) == 3
        bench.log.appends[2].set_result(None)
        bench.log.appends[1].set_result(None)
        await settle()
        assert [one.done() for one in asked] == [False, False, False]
        bench.log.appends[0].set_result(None)
        await settle()
        assert [one.done() for one in asked] == [True, True, True]

    run(scenario)


def test_what_is_asked_at_once_is_appended_once() -> None:
    async def scenario() -> None:
        bench = Bench()
        asked = [bench.commit(value, group=f"g{value}") for value in range(5)]
        assert await asyncio.gather(*asked) == [[None]] * 5
        assert [count for _, count in bench.batches()] == [5]

    run(scenario)


class Receiver:
    """What a connection is told, in a list that several share."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def keep_place_for(self, response: Any, place: str) -> None:
        response.receiver, response.place = self, place

    def take_response(self, place: Any, response: Any) -> None:
        self.told.append(f"{self.name}: {place} {response}")

    def take_failure(self, error: Exception) -> None:
        self.told.append(f"{self.name}: {error}")

    def send_responses(self) -> None:
        self.told.append(f"{self.name} sends")


def test_each_connection_sends_once_when_a_turn_is_durable() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        told: list[str] = []
        first, second = Receiver("first", told), Receiver("second", told)
        for place, receiver in enumerate((first, second, first)):
            receiver.keep_place_for(bench.commit(place), f"place {place}")
        await settle()
        assert told == []
        bench.log.appends[0].set_result(None)
        await settle()
        assert told == [
            "first: place 0 [None]",
            "second: place 1 [None]",
            "first: place 2 [None]",
            "first sends",
            "second sends",
        ]

    run(scenario)


class MarkingBench(Bench):
    """With effects, as coordinators of transactions have: markers, and then a turn for the end."""

    def __init__(self, told: list[str]) -> None:
        self.told = told
        super().__init__()

    def _perform(self, coordinator: Coordinator[GroupMachine], effect: Any) -> None:
        self.told.append(f"{effect} written")
        self.ask(lambda machine, turn: self.told.append("the transaction has ended"))


def test_a_client_is_told_when_the_markers_are_written_and_the_end_has_its_turn() -> None:
    async def scenario() -> None:
        told: list[str] = []
        bench = MarkingBench(told)

        def decide(machine: GroupMachine, turn: Turn) -> str:
            turn.then("markers")
            return "committed"

        Receiver("client", told).keep_place_for(bench.ask(decide), "place")
        await asyncio.sleep(0)
        assert told == ["client: place committed", "markers written"]
        # What the client asks next is received in a later turn of the loop than this one.
        await asyncio.sleep(0)
        assert told[2:] == ["client sends", "the transaction has ended"]

    run(scenario)


def test_a_connection_whose_request_was_cancelled_is_told_nothing() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        told: list[str] = []
        asked = bench.commit(1)
        Receiver("gone", told).keep_place_for(asked, "place")
        await settle()
        asked.cancel()
        bench.log.appends[0].set_result(None)
        assert await bench.ask(lambda machine, turn: "the next") == "the next"
        assert told == []

    run(scenario)


def test_a_response_that_cannot_be_made_ends_its_connection_only() -> None:
    async def scenario() -> None:
        bench = Bench()
        told: list[str] = []

        def fail(result: Any) -> Any:
            raise MalformedMessageError(f"no response of {result}")

        broken: Any = bench.coordinator.ask(lambda machine, turn, _: 7, fail)
        Receiver("broken", told).keep_place_for(broken, "place")
        Receiver("other", told).keep_place_for(bench.commit(1), "place")
        await settle()
        assert told == [
            "broken: no response of 7",
            "other: place [None]",
            "broken sends",
            "other sends",
        ]

    run(scenario)


def test_who_cannot_wait_is_answered_now_after_those_who_came_before() -> None:
    async def scenario() -> None:
        bench = Bench()
        before = bench.commit(1)
        found = bench.ask_now(lambda machine, turn: machine.fetch("g", "orders", 0).offset)
        assert found == 1
        assert before.done()
        assert await bench.commit(2) == [None]
        assert [count for _, count in bench.batches()] == [1, 1]

    run(scenario)


def test_who_cannot_wait_waits_nevertheless_for_what_is_not_durable() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        written = bench.commit(1)
        read = bench.ask_now(lambda machine, turn: machine.fetch("g", "orders", 0).offset)
        assert not written.done()
        assert not read.done()
        bench.log.appends[0].set_result(None)
        assert await read == 1

    run(scenario)


def test_who_cannot_wait_is_told_when_the_coordinator_fails_or_is_gone() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.error = StorageError("broken")
        failed = bench.ask_now(
            lambda machine, turn: machine.commit(
                turn, CommitSender("g"), [NewOffsets("orders", [0], [1], [-1], [""])]
            )
        )
        assert isinstance(failed, Refused)
        assert bench.coordinator.is_gone
        assert bench.ask_now(lambda machine, turn: 42) == Refused(ErrorCode.NOT_COORDINATOR)

    run(scenario)


def test_an_answer_that_needs_nothing_written_comes_without_the_log() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        assert await bench.ask(lambda machine, turn: 42) == 42
        assert bench.batches() == []

    run(scenario)


def test_a_client_that_went_away_does_not_keep_the_others_from_their_answers() -> None:
    async def scenario() -> None:
        bench = Bench()
        gone, other = bench.commit(1), bench.commit(2)
        gone.cancel()
        assert await other == [None]

    run(scenario)


def test_a_parked_request_is_answered_when_its_time_comes() -> None:
    async def scenario() -> None:
        bench = Bench(initial_rebalance_delay_ms=1000)
        asked = bench.join("a")
        await settle()
        assert not asked.done()
        joined = await asyncio.wait_for(asked, 30)
        assert isinstance(joined, Joined)
        assert joined.generation == 1

    run(scenario)


# Trouble


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StorageError("broken"), ErrorCode.NOT_COORDINATOR),
        (StorageFullError("full"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_when_an_append_fails_everybody_is_told_and_the_next_one_knows_what_is_true(
    error: StorageError, told: ErrorCode
) -> None:
    async def scenario() -> None:
        bench = Bench(initial_rebalance_delay_ms=60_000)
        await bench.commit(1)
        before = bench.machine.durable_state()
        parked = bench.join("a")
        await settle()
        bench.log.error = error
        failed, other = bench.commit(2), bench.commit(3, group="h")
        assert await every(failed, other, parked) == [Refused(told)] * 3
        assert bench.machine.durable_state() != before
        assert bench.discarded == [bench.coordinator]
        assert bench.coordinator not in bench.shard.waiters
        assert bench.commit(4) == Refused(ErrorCode.NOT_COORDINATOR)
        bench.claim()
        assert bench.machine.durable_state() == before
        assert await bench.commit(5) == [None]

    run(scenario)


def test_when_the_log_says_later_that_it_failed_everybody_is_told() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        first = bench.commit(1)
        await settle()
        second = bench.commit(2)
        await settle()
        bench.log.appends[0].set_exception(StorageError("broken"))
        assert await every(first, second) == [Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 2
        bench.log.appends[1].set_exception(StorageError("broken"))
        await settle()
        assert len(bench.discarded) == 1

    run(scenario)


def test_a_decision_that_fails_is_undone_by_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.commit(1)
        before = bench.machine.durable_state()
        other = bench.commit(2)

        def fail(machine: GroupMachine, turn: Turn) -> None:
            raise RuntimeError("a bug")

        failed = bench.ask(fail)
        # Whoever asked something else in the same turn did nothing wrong.
        errors = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_COORDINATOR)
        expected = [Refused(error) for error in errors]
        assert await every(failed, other) == expected
        bench.start()
        assert bench.machine.durable_state() == before

    with caplog.at_level(logging.CRITICAL, logger=runtime.__name__):
        run(scenario)


def test_what_cannot_be_said_in_a_record_is_undone_by_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.commit(1)
        before = bench.machine.durable_state()
        # A string of a record has 32767 bytes at most.
        failed = bench.commit(2, group="x" * 40_000)
        assert await asyncio.wait_for(failed, 5) == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        bench.start()
        assert bench.machine.durable_state() == before

    with caplog.at_level(logging.CRITICAL, logger=runtime.__name__):
        run(scenario)


def test_a_write_that_takes_too_long_is_answered_with_what_is_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        bench = Bench(write_timeout_ms=1)
        bench.log.is_slow = True
        late = bench.commit(1)
        assert await asyncio.wait_for(late, 5) == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        bench.log.appends[0].set_result(None)
        await settle()
        bench.log.is_slow = False
        assert await bench.commit(2) == [None]
        assert not bench.coordinator.is_gone

    run(scenario)
    assert "offsets.commit.timeout.ms" in caplog.text


def test_when_the_partition_goes_elsewhere_those_who_wait_are_told() -> None:
    async def scenario() -> None:
        bench = Bench(initial_rebalance_delay_ms=60_000)
        bench.log.is_slow = True
        parked = bench.join("a")
        await settle()
        written = bench.commit(1, group="h")
        await settle()
        queued = bench.commit(2, group="h")
        bench.shard.release_waiters()
        assert await every(parked, queued) == [Refused(ErrorCode.NOT_COORDINATOR)] * 2
        assert bench.discarded == [bench.coordinator]
        # What is in the log already counts: an error would have the client do it again.
        assert not written.done()
        bench.log.appends[0].set_result(None)
        assert await every(written) == [[None]]
        assert len(bench.batches()) == 1
        assert bench.commit(3) == Refused(ErrorCode.NOT_COORDINATOR)

    run(scenario)


def test_an_append_that_goes_wrong_in_no_known_way_is_undone_by_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.commit(1)
        before = bench.machine.durable_state()

        def append(shard: Shard, data: bytes, now_ms: int) -> None:
            raise MemoryError("no room for this")

        with monkeypatch.context() as patched:
            patched.setattr(Shard, "append_own", append)
            assert await every(bench.commit(2)) == [Refused(ErrorCode.UNKNOWN_SERVER_ERROR)]
        bench.start()
        assert bench.machine.durable_state() == before

    with caplog.at_level(logging.CRITICAL, logger=runtime.__name__):
        run(scenario)


def test_an_answer_that_cannot_be_made_costs_nobody_else_his() -> None:
    async def scenario() -> None:
        bench = Bench()

        def respond(result: object) -> None:
            raise ValueError("a bug")

        broken: Any = bench.coordinator.ask(lambda machine, turn, _: 1, respond)
        asked = bench.commit(1)
        assert await every(asked) == [[None]]
        with pytest.raises(ValueError, match="a bug"):
            await broken

    run(scenario)


# Loading


def test_the_next_coordinator_knows_all_that_was_written() -> None:
    async def scenario() -> None:
        bench = Bench()
        for value in range(5):
            await bench.commit(value, count=3)
        await bench.join("a")
        before = bench.machine.durable_state()
        bench.start()
        assert bench.coordinator.is_loaded
        assert bench.machine.durable_state() == before

    run(scenario)


def test_a_long_log_is_replayed_in_slices_and_others_have_their_turn() -> None:
    async def scenario() -> None:
        bench = Bench()
        for value in range(4):
            await bench.commit(value, group=f"g{value}", count=400)
        before = bench.machine.durable_state()
        bench.start()
        assert not bench.coordinator.is_loaded
        assert bench.commit(9) == Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        found = bench.ask_when_loaded(lambda machine, turn: machine.durable_state())
        await asyncio.sleep(0)
        assert not bench.coordinator.is_loaded
        assert not found.done()
        assert await found == before
        assert await bench.commit(9) == [None]

    run(scenario)


def test_a_partition_that_goes_elsewhere_while_it_is_replayed_is_given_up() -> None:
    async def scenario() -> None:
        bench = Bench()
        for value in range(4):
            await bench.commit(value, count=400)
        bench.start()
        waiting = bench.ask_when_loaded(lambda machine, turn: None)
        bench.shard.release_waiters()
        assert await waiting == Refused(ErrorCode.NOT_COORDINATOR)
        await settle()
        assert not bench.coordinator.is_loaded
        assert bench.commit(9) == Refused(ErrorCode.NOT_COORDINATOR)
        late = bench.ask_when_loaded(lambda machine, turn: None)
        assert late == Refused(ErrorCode.NOT_COORDINATOR)

    run(scenario)


def test_records_of_other_kinds_are_left_alone() -> None:
    async def scenario() -> None:
        bench = Bench()
        now_ms = bench.clock.now_ms()
        kinds = [Record(0, now_ms, b"\0\x0blater", b"?"), Record(1, now_ms, None, b"no key")]
        bench.shard.append_own(build_batch(kinds), now_ms)
        await bench.commit(1)
        before = bench.machine.durable_state()
        bench.start()
        assert bench.machine.durable_state() == before

    run(scenario)


def test_a_log_that_cannot_be_read_gives_the_coordinator_up() -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.commit(1)

        def unreadable(key: object, value: object) -> Any:
            raise MalformedMessageError("garbage")

        settings = bench.settings()
        settings = settings._replace(codec=settings.codec._replace(decode=unreadable))
        made = Coordinator(
            bench.shard,
            GroupMachine(bench.config, EveryTopic()),
            settings,
            lambda one: None,
        )
        assert made.is_gone
        assert made not in bench.shard.waiters

    run(scenario)


# Batches


def test_what_a_large_turn_writes_is_split_and_answered_when_all_of_it_is_durable() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.log.is_slow = True
        asked = bench.commit(1, count=300, metadata="x" * 4000)
        await settle()
        batches = bench.batches()
        assert sum(count for _, count in batches) == 300
        assert len(batches) == len(bench.log.appends) == 3
        assert all(header.size_bytes < BATCH_BYTES + 10_000 for header, _ in batches)
        for append in bench.log.appends:
            assert not asked.done()
            append.set_result(None)
            await settle()
        assert await asked == [None] * 300
        before = bench.machine.durable_state()
        bench.start()
        found = bench.ask_when_loaded(lambda machine, turn: machine.durable_state())
        assert await found == before

    run(scenario)


def test_events_that_belong_together_are_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        bench = Bench()

        def decide(machine: GroupMachine, turn: Turn) -> None:
            for name in "abc":
                machine._write(turn, PatternResolved(name, "t.*", frozenset(), 1, 0))
            turn.keep_together(1)
            machine._write(turn, PatternResolved("d", "t.*", frozenset(), 1, 0))

        await bench.ask(decide)
        assert [count for _, count in bench.batches()] == [1, 2, 1]

    monkeypatch.setattr(machine_log, "BATCH_BYTES", 1)
    run(scenario)


def test_what_is_in_a_transaction_has_batches_of_its_own() -> None:
    async def scenario() -> None:
        bench = Bench()
        asked = [
            bench.commit(1),
            bench.commit_in_transaction(7, 2),
            bench.commit_in_transaction(7, 3),
            bench.commit_in_transaction(8, 4),
            bench.commit(5),
        ]
        await asyncio.gather(*asked)
        found = [
            (header.is_transactional, header.producer_id, header.producer_epoch, count)
            for header, count in bench.batches()
        ]
        assert found == [(False, -1, -1, 1), (True, 7, 3, 2), (True, 8, 3, 1), (False, -1, -1, 1)]

    run(scenario)


def test_markers_are_applied_when_the_log_is_replayed() -> None:
    async def scenario() -> None:
        bench = Bench()
        for producer_id in (7, 8, 9):
            await bench.commit_in_transaction(producer_id, producer_id * 10)
        now_ms = bench.clock.now_ms()
        bench.shard.append_marker(MarkerType.COMMIT, 7, 3, 0, 1, now_ms)
        bench.shard.append_marker(MarkerType.ABORT, 8, 3, 0, 1, now_ms)
        bench.start()
        fetched = [bench.machine.fetch_stable("g", "orders", at) for at in (7, 8, 9)]
        unstable = Refused(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert fetched == [FetchedOffset(70), FetchedOffset(-1), unstable]

    run(scenario)
