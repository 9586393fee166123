"""Random claims, appends, repetitions, trims and replacements, against a model of what a log is."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.shared.sequencer.backends import (
    Backend,
    MemoryBackend,
    Place,
    broker,
    part,
    refs,
    segment,
)

from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    Claimed,
    NotClaimed,
    PartAppend,
    Replacement,
)
from ottla.storage.shared.sequencer.sequencer import Sequencer

BROKERS = 2
PARTITIONS = 3


class Append(NamedTuple):
    broker: int
    partitions: list[int]
    records: int
    shift: int  # away from where the broker believes the end


class Repeat(NamedTuple):
    """An append whose answer was lost."""

    which: int


class Claim(NamedTuple):
    broker: int
    partitions: list[int]


class Restart(NamedTuple):
    """The broker's session ends, and it begins another one."""

    broker: int


class Trim(NamedTuple):
    broker: int
    partition: int
    offset: int


class Consolidate(NamedTuple):
    """Puts one segment in the place of some runs."""

    broker: int
    partition: int
    first: int
    run_count: int


class Turn(NamedTuple):
    """Two minutes pass."""


_brokers = st.integers(0, BROKERS - 1)
_partition = st.integers(0, PARTITIONS - 1)
_partitions = st.lists(_partition, min_size=1, max_size=PARTITIONS, unique=True)
STEPS = st.lists(
    st.one_of(
        st.builds(
            Append, _brokers, _partitions, st.integers(1, 4), st.sampled_from([0, 0, 0, 1, -1])
        ),
        st.builds(Repeat, st.integers(0, 5)),
        st.builds(Claim, _brokers, _partitions),
        st.builds(Restart, _brokers),
        st.builds(Trim, _brokers, _partition, st.integers(0, 12)),
        st.builds(Consolidate, _brokers, _partition, st.integers(0, 3), st.integers(1, 4)),
        st.builds(Turn),
    ),
    min_size=5,
    max_size=30,
)


@dataclass
class ModelLog:
    """A log: its runs, and every flush that was ever appended."""

    holder: uuid.UUID | None = None
    epoch: int = 0
    start: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)
    flushes: set[tuple[uuid.UUID, int]] = field(default_factory=set)
    segments: int = 0  # as many of the runs are segments

    end: int = 0

    def append(self, flush: uuid.UUID, wanted: PartAppend) -> AppendOutcome:
        if (flush, wanted.end_offset) in self.flushes:
            return AppendOutcome.ALREADY
        if wanted.epoch != self.epoch:
            return AppendOutcome.FENCED
        if wanted.base_offset != self.end:
            return AppendOutcome.MISPLACED
        self.flushes.add((flush, wanted.end_offset))
        self.runs.append((wanted.base_offset, wanted.end_offset))
        self.end = wanted.end_offset
        return AppendOutcome.OK

    def trim(self, epoch: int, offset: int) -> bool:
        if epoch != self.epoch or offset > self.end:
            return False
        if offset > self.start:
            gone = sum(1 for _, end in self.runs if end <= offset)
            self.runs = self.runs[gone:]
            self.segments = max(0, self.segments - gone)
            self.start = offset
        return True


@dataclass
class Belief:
    """What a broker believes of a partition that it has claimed."""

    claimed: Claimed
    end: int


class Game:
    def __init__(self, backend: Backend, sequencer: Sequencer) -> None:
        self.backend = backend
        self.sequencer = sequencer
        self.logs = [ModelLog() for _ in range(PARTITIONS)]
        self.ids: dict[int, int] = {}
        self.sessions: list[uuid.UUID] = []
        self.beliefs: list[dict[int, Belief]] = [{} for _ in range(BROKERS)]
        self.lost: list[tuple[uuid.UUID, list[int], list[PartAppend]]] = []

    async def start(self) -> None:
        for number in range(BROKERS):
            registered = await self.sequencer.register(broker(f"broker-{number}"))
            self.sessions.append(registered.session)

    async def play(self, steps: list[Any]) -> None:
        for step in steps:
            await getattr(self, f"_{type(step).__name__.lower()}")(step)
        await self._compare()

    async def _append(self, step: Append) -> None:
        believed = self.beliefs[step.broker]
        numbers = [number for number in step.partitions if number in believed]
        parts = [
            part(believed[number].claimed, max(0, believed[number].end + step.shift), step.records)
            for number in numbers
        ]
        flush = uuid.uuid4()
        self.lost.append((flush, numbers, parts))
        await self._flush(step.broker, flush, numbers, parts)

    async def _flush(
        self, broker: int, flush: uuid.UUID, numbers: list[int], parts: list[PartAppend]
    ) -> None:
        answers = await self.sequencer.append(self.sessions[broker], flush, [], parts)
        expected = [
            self.logs[number].append(flush, each)
            for number, each in zip(numbers, parts, strict=True)
        ]
        assert list(answers) == expected
        for number, outcome, each in zip(numbers, answers, parts, strict=True):
            if outcome is AppendOutcome.OK:
                self.beliefs[broker][number].end = each.end_offset

    async def _repeat(self, step: Repeat) -> None:
        if step.which < len(self.lost):
            flush, numbers, parts = self.lost[-1 - step.which]
            answers = await self.sequencer.append(uuid.uuid4(), flush, [], parts)
            expected = [
                self.logs[number].append(flush, each)
                for number, each in zip(numbers, parts, strict=True)
            ]
            assert list(answers) == expected

    async def _claim(self, step: Claim) -> None:
        session = self.sessions[step.broker]
        wanted = [refs(PARTITIONS)[number] for number in step.partitions]
        answers = await self.sequencer.claim(session, wanted, 0)
        for number, answer in zip(step.partitions, answers, strict=True):
            log = self.logs[number]
            others = {each for each in self.sessions if each != session}
            if log.holder in others:
                assert answer is NotClaimed.HELD
                continue
            log.holder = session
            log.epoch += 1
            assert isinstance(answer, Claimed)
            assert (answer.epoch, answer.start_offset, answer.end_offset) == (
                log.epoch,
                log.start,
                log.end,
            )
            self.ids[number] = answer.partition_id
            self.beliefs[step.broker][number] = Belief(answer, answer.end_offset)

    async def _restart(self, step: Restart) -> None:
        """It still believes in its claims, as a broker that was suspended does."""
        await self.sequencer.end_session(self.sessions[step.broker])
        registered = await self.sequencer.register(broker(f"broker-{step.broker}"))
        self.sessions[step.broker] = registered.session

    async def _trim(self, step: Trim) -> None:
        belief = self.beliefs[step.broker].get(step.partition)
        if belief is not None:
            partition_id, epoch = belief.claimed.partition_id, belief.claimed.epoch
            answers = await self.sequencer.trim([(partition_id, epoch, step.offset)])
            assert list(answers) == [self.logs[step.partition].trim(epoch, step.offset)]

    async def _consolidate(self, step: Consolidate) -> None:
        belief = self.beliefs[step.broker].get(step.partition)
        log = self.logs[step.partition]
        chosen = log.runs[step.first : step.first + step.run_count]
        if belief is None or not chosen:
            return
        first, last = chosen[0][0], chosen[-1][1]
        partition_id, epoch = belief.claimed.partition_id, belief.claimed.epoch
        change = Replacement(partition_id, epoch, first, last, [segment(first, last)])
        fits = epoch == log.epoch and step.first <= log.segments
        assert list(await self.sequencer.replace([change], [])) == [fits]
        if fits:
            after = step.first + len(chosen)
            log.segments = 1 + step.first + max(0, log.segments - after)
            log.runs[step.first : after] = [(first, last)]

    async def _turn(self, step: Turn) -> None:
        for session in self.sessions:
            await self.sequencer.heartbeat(session, 0, 0)
        await self.backend.advance(50_000)
        assert await self.sequencer.turn_tail()
        self.lost = self.lost[-3:]  # flushes are known for a while only

    async def _compare(self) -> None:
        for number, partition_id in self.ids.items():
            log = self.logs[number]
            runs = await self.sequencer.read_runs(partition_id, 0, 1 << 30)
            assert [(run.base_offset, run.end_offset) for run in runs] == log.runs
            assert [run.epoch == -1 for run in runs].count(True) == log.segments
            found = (await self.sequencer.unclaimed([refs(PARTITIONS)[number]])).values()
            sizes = {(each.size_bytes, each.start_offset, each.end_offset) for each in found}
            assert sizes == {(100 * len(log.runs), log.start, log.end)}


async def play(backend: Backend, steps: list[Any]) -> None:
    game = Game(backend, await backend.connect())
    await game.start()
    await game.play(steps)


@given(steps=STEPS)
def test_the_sequencer_in_memory_is_like_the_model(steps: list[Any]) -> None:
    asyncio.run(play(MemoryBackend(), steps))


@pytest.fixture(scope="module")
def model_place(shared_postgres: str) -> Place:
    from tests.storage.shared.sequencer.backends import postgres_place

    return postgres_place(shared_postgres)


@settings(max_examples=12)
@given(steps=STEPS)
def test_the_sequencer_in_postgres_is_like_the_model(model_place: Place, steps: list[Any]) -> None:
    model_place.play(lambda backend: play(backend, steps))


@pytest.mark.campaign
@settings(max_examples=500)
@given(steps=STEPS)
def test_many_games_in_postgres_are_like_the_model(model_place: Place, steps: list[Any]) -> None:
    model_place.play(lambda backend: play(backend, steps))
