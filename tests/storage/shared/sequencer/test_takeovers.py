"""Takeovers that race a busy writer: what was acknowledged is in the log, once, in order."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from dataclasses import dataclass, field

import pytest
from tests.storage.shared.sequencer.backends import (
    Backend,
    Place,
    PostgresBackend,
    broker,
    claim_all,
    part,
    refs,
    story,
)

from ottla.storage.shared.sequencer.records import AppendOutcome, Claimed
from ottla.storage.shared.sequencer.sequencer import Sequencer

PARTITIONS = 4


@dataclass
class Writer:
    """Appends until it is fenced everywhere; now and then it repeats a flush, as after a lost answer."""

    sequencer: Sequencer
    session: uuid.UUID
    claimed: list[Claimed]
    choices: random.Random
    acknowledged: list[tuple[int, int, uuid.UUID]] = field(default_factory=list)
    repetitions: int = 0

    async def write(self) -> None:
        live = {each.partition_id: each for each in self.claimed}
        ends = {each.partition_id: each.end_offset for each in self.claimed}
        while live:
            flush = uuid.uuid4()
            parts = [part(each, ends[number]) for number, each in live.items()]
            answers = await self._append(flush, parts)
            for each, outcome in zip(parts, answers, strict=True):
                if outcome is AppendOutcome.FENCED:
                    del live[each.partition_id]
                    continue
                assert outcome in (AppendOutcome.OK, AppendOutcome.ALREADY)
                self.acknowledged.append((each.partition_id, each.base_offset, flush))
                ends[each.partition_id] = each.end_offset

    async def _append(self, flush: uuid.UUID, parts: list) -> list[AppendOutcome]:  # type: ignore[type-arg]
        call = self.sequencer.append(self.session, flush, [], parts)
        if self.choices.random() < 0.9:
            return list(await call)
        # The answer is lost: the call goes on while its repetition is sent.
        self.repetitions += 1
        lost = asyncio.ensure_future(call)
        await asyncio.sleep(self.choices.random() * 0.002)
        answers = await self.sequencer.append(self.session, flush, [], parts)
        await lost
        return list(answers)


async def race(place: Backend, takeovers: int, seed: int) -> list[Writer]:
    choices = random.Random(seed)
    writers: list[Writer] = []
    running: list[asyncio.Task[None]] = []
    sequencers = [await place.connect() for _ in range(3)]
    taker = await place.connect()
    for number in range(takeovers):
        sequencer = sequencers[number % 3]
        session = (await taker.register(broker(f"b{number}"))).session
        if writers:
            await taker.end_session(writers[-1].session)
        claimed = await claim_all(taker, session, refs(PARTITIONS))
        writers.append(Writer(sequencer, session, claimed, choices))
        running.append(asyncio.ensure_future(writers[-1].write()))
        await asyncio.sleep(choices.random() * 0.02)
    await taker.end_session(writers[-1].session)
    last = (await taker.register(broker("last"))).session
    final = await claim_all(taker, last, refs(PARTITIONS))
    await asyncio.gather(*running)
    await compare(taker, final, writers)
    return writers


async def compare(sequencer: Sequencer, final: list[Claimed], writers: list[Writer]) -> None:
    """The logs have no gap and no double, all that was acknowledged, and nothing after the last claim."""
    stored: dict[tuple[int, int], uuid.UUID | None] = {}
    for each in final:
        offset = 0
        while runs := await sequencer.read_runs(each.partition_id, offset, 1 << 30):
            for run in runs:
                assert run.base_offset == offset
                offset = run.end_offset
                stored[each.partition_id, run.base_offset] = run.flush
        assert offset == each.end_offset
    acknowledged = {
        (number, base): flush for w in writers for number, base, flush in w.acknowledged
    }
    assert len(acknowledged) == sum(len(writer.acknowledged) for writer in writers)
    assert acknowledged.items() <= stored.items()


@story
async def test_takeovers_that_race_a_writer_lose_nothing(place: Backend) -> None:
    writers = await race(place, 150 if isinstance(place, PostgresBackend) else 30, seed=3)
    assert sum(len(writer.acknowledged) for writer in writers) > 100
    assert sum(writer.repetitions for writer in writers) > 0


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10))
def test_many_takeovers_that_race_a_writer_lose_nothing(postgres: Place, seed: int) -> None:
    async def play(backend: PostgresBackend) -> None:
        await race(backend, 300, seed)

    postgres.play(play)


def test_ten_thousand_partitions_are_taken_over_soon(postgres: Place) -> None:
    async def play(backend: PostgresBackend) -> None:
        sequencer = await backend.connect()
        wanted = refs(10_000)
        groups = [wanted[at : at + 500] for at in range(0, len(wanted), 500)]
        seconds = []
        for name in ("a", "b"):
            session = (await sequencer.register(broker(name))).session
            began = time.perf_counter()
            for group in groups:
                await claim_all(sequencer, session, group)
            seconds.append(time.perf_counter() - began)
            await sequencer.end_session(session)
        print(f"10,000 partitions: made in {seconds[0]:.2f} s, taken over in {seconds[1]:.2f} s")
        assert max(seconds) < 30
        began = time.perf_counter()
        changes = await sequencer.holders(0)
        print(f"told of in {time.perf_counter() - began:.2f} s")
        assert len(changes.changed) == 10_000

    postgres.play(play)
