"""One process of a run: a producer, a copier or a reader, until SIGTERM or until its client gives up.

python -m tests.history.worker '{"role": "producer", ...}'
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

from tests.history.checker import COPY_OF
from tests.history.client import Client, FailedError, Offsets, Then
from tests.history.clients import WITH_MEMBERS, make_client, make_consumer
from tests.history.consuming import GroupConsumer, NotNowError, Polled
from tests.history.digest import Place
from tests.history.events import READ_COMMITTED, Recorder

SOURCE: Final = "source"
PARTITIONS: Final = 3
MAX_SENDS, MAX_COPIES = 6, 20
ATTEMPTS = 6
ABORTS, EXTRA_SENDS, LONG_PAUSES = 0.15, 0.3, 0.02
POSITION_SECONDS = 3.0
TICK_SECONDS, HUNG_SECONDS = 0.5, 14.0


@dataclass(frozen=True)
class Task:
    """What a process is told."""

    role: str
    client: str
    name: str
    transactional_id: str
    group: str
    target: str
    isolation: str
    bootstrap_servers: str
    folder: str
    seed: int
    is_draining: bool


class EndError(Exception):
    """The client is of no use any more; a new process takes over."""


class Watchdog:
    """Ends the process when a call does not return: librdkafka's do not always (its issues 5456 and 5511)."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ticks: int | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def __enter__(self) -> None:
        self._ticks = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ticks = None

    def _watch(self) -> None:
        # Ticks and not the clock: who was stopped for a while has not been waiting all that time.
        while self._ticks is None or self._ticks * TICK_SECONDS < HUNG_SECONDS:
            time.sleep(TICK_SECONDS)
            if self._ticks is not None:
                self._ticks += 1
        self._recorder.note("hung")
        os._exit(1)


class Transactions:
    """Transactions of one client, with everything noted."""

    def __init__(self, client: Client, task: Task, recorder: Recorder) -> None:
        self._client = client
        self._id = task.transactional_id
        self._note = recorder.note
        self._name = task.name
        self._sends = 0
        self._watchdog = Watchdog(recorder)
        self.number = 0

    def begin(self) -> None:
        self.number += 1
        self._note("begin", txn=self.number, id=self._id)
        self._call("begin", self._client.begin)

    def send(self, place: Place, origin: str = "") -> None:
        """Sends a value that was never sent before."""
        number = self.number
        self._sends += 1
        value = f"{self._name}.{number}.{self._sends}{origin}"
        self._note("send", txn=number, value=value, topic=place.topic, partition=place.partition)

        def note_sent(offset: int | None, error: str) -> None:
            if offset is None:
                self._note("nack", txn=number, value=value, error=error)
            else:
                self._note("ack", txn=number, value=value, offset=offset)

        self._call("send", lambda: self._client.send(place, value, note_sent))

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        listed = [[*place, offset] for place, offset in offsets.items()]
        self._note("offsets", txn=self.number, group=group, offsets=listed)
        self._call("send_offsets", lambda: self._client.send_offsets(offsets))

    def commit(self) -> None:
        self._note("commit", txn=self.number)
        self._call("commit", self._client.commit)
        self._note("committed", txn=self.number)

    def abort(self) -> None:
        self._note("abort", txn=self.number)
        try:
            self._call("abort", self._client.abort)
        except FailedError as error:  # to abort is all that one could do
            raise EndError from error
        self._note("aborted", txn=self.number)

    def _call(self, name: str, work: Callable[[], None]) -> None:
        for _ in range(ATTEMPTS):
            try:
                with self._watchdog:
                    work()
                return
            except FailedError as error:
                self._note("failed", txn=self.number, call=name, error=str(error))
                if error.then is Then.END:
                    raise EndError from error
                if error.then is Then.ABORT:
                    raise
        raise EndError(f"{name} was tried {ATTEMPTS} times")


class Worker(ABC):
    """What producers and copiers share: when to stop, and chance."""

    def __init__(self, task: Task, recorder: Recorder) -> None:
        self.task = task
        self.recorder = recorder
        self.random = random.Random(task.seed)
        self._is_over = False
        self.is_draining = task.is_draining
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGUSR1, self._drain)

    @abstractmethod
    def run(self) -> None:
        """Works until told to stop."""

    def must_stop(self) -> bool:
        """Whether a signal has come to stop."""
        return self._is_over

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._is_over = True

    def _drain(self, number: int, frame: FrameType | None) -> None:
        self.is_draining = True

    def somewhere(self, topic: str) -> Place:
        return Place(topic, self.random.randrange(PARTITIONS))

    def pause(self) -> None:
        is_long = self.random.random() < LONG_PAUSES
        time.sleep(self.random.uniform(0, 0.8 if is_long else 0.03))


class Polling:
    """A consumer's polls, noted in the order in which they and its rebalances happened."""

    def __init__(self, consumer: GroupConsumer, recorder: Recorder, isolation: str) -> None:
        self._consumer = consumer
        self._recorder = recorder
        self._isolation = isolation
        self._polled: list[Polled] = []

    def poll(self) -> list[Polled]:
        """The next records; none from before a rebalance."""
        self._polled = []
        wait_seconds = 0.1
        while len(self._polled) < MAX_COPIES:
            more = self._consumer.poll(wait_seconds)
            wait_seconds = 0
            if not more:
                break
            self._polled += more
        polled = self._polled
        self.forget()
        return polled

    def forget(self) -> None:
        """Notes what was polled until now; a rebalance calls this in the middle of a poll."""
        if self._polled:
            listed = [[*place, offset, value] for place, offset, value in self._polled]
            self._recorder.note("poll", isolation=self._isolation, records=listed)
        self._polled = []


class ProducerWorker(Worker):
    """Sends fresh values in transactions."""

    def run(self) -> None:
        client = make_client(self.task, None)
        transactions = Transactions(client, self.task, self.recorder)
        while not self.must_stop():
            transactions.begin()
            try:
                for _ in range(self.random.randint(1, MAX_SENDS)):
                    transactions.send(self.somewhere(SOURCE))
                    self.pause()
                if self.random.random() < ABORTS:
                    transactions.abort()
                else:
                    transactions.commit()
            except FailedError:
                transactions.abort()


class CopierWorker(Worker):
    """Copies what it polls, with its offsets in the same transaction, and sends values of its own in between."""

    def __init__(self, task: Task, recorder: Recorder) -> None:
        super().__init__(task, recorder)
        self._consumer = make_consumer(task)
        self._polling = Polling(self._consumer, recorder, READ_COMMITTED)

    def run(self) -> None:
        client = make_client(self.task, self._consumer)
        transactions = Transactions(client, self.task, self.recorder)
        if self.task.client in WITH_MEMBERS:
            self._consumer.subscribe(SOURCE, self._take, self._polling.forget)
        else:
            self._take([Place(SOURCE, number) for number in range(PARTITIONS)])
        while not self.must_stop():
            polled = self._polling.poll()
            if not polled:
                continue
            transactions.begin()
            try:
                self._copy(transactions, polled)
            except FailedError:
                transactions.abort()
                self._rewind()
        self._consumer.close()

    def _copy(self, transactions: Transactions, polled: list[Polled]) -> None:
        next_offsets: Offsets = {}
        for place, offset, value in polled:
            transactions.send(self.somewhere(self.task.target), f"{COPY_OF}{value}")
            next_offsets[place] = offset + 1
        if not self.is_draining and self.random.random() < EXTRA_SENDS:
            transactions.send(self.somewhere(SOURCE))
        self.pause()
        transactions.send_offsets(self.task.group, next_offsets)
        self.pause()
        if self.random.random() < ABORTS:
            transactions.abort()
            self._rewind()
        else:
            transactions.commit()

    def _take(self, places: Sequence[Place]) -> None:
        """Begins where the group has committed; what was polled before is another member's to copy."""
        self._polling.forget()
        self._consumer.begin(self._note_positions(places))

    def _rewind(self) -> None:
        """Goes back to what is committed, after an abort."""
        self._consumer.seek(self._note_positions(self._consumer.assignment()))

    def _note_positions(self, places: Sequence[Place]) -> dict[Place, int]:
        if not places:
            return {}
        while not self.must_stop():
            began = time.monotonic()
            try:
                found = self._consumer.committed(places, POSITION_SECONDS)
            except NotNowError:
                continue
            listed = [(*place, offset) for place, offset in found.items()]
            self.recorder.note("position", group=self.task.group, began=began, offsets=listed)
            offsets = {place: max(offset, 0) for place, offset in found.items()}
            for place, offset in offsets.items():
                self.recorder.note(
                    "seek", topic=place.topic, partition=place.partition, offset=offset
                )
            return offsets
        raise EndError("told to stop")


class ReaderWorker(Worker):
    """Reads everything from the beginning, again and again."""

    def run(self) -> None:
        task = self.task
        topics = [SOURCE, *task.target.split(",")]
        while not self.must_stop():
            consumer = make_consumer(task)
            places = [Place(topic, n) for topic in topics for n in range(PARTITIONS)]
            for place in places:
                self.recorder.note("seek", topic=place.topic, partition=place.partition, offset=0)
            consumer.begin(dict.fromkeys(places, 0))
            polling = Polling(consumer, self.recorder, task.isolation)
            end = time.monotonic() + self.random.uniform(3, 12)
            while not self.must_stop() and time.monotonic() < end:
                polling.poll()
            consumer.close()


ROLES: dict[str, Callable[[Task, Recorder], Worker]] = {
    "producer": ProducerWorker,
    "copier": CopierWorker,
    "reader": ReaderWorker,
}


def main(text: str) -> int:
    task = Task(**json.loads(text))
    recorder = Recorder(Path(task.folder), task.name)
    try:
        ROLES[task.role](task, recorder).run()
    except (EndError, FailedError) as error:
        recorder.note("ended", error=f"{error!r} {error.__cause__!r}")
    except Exception as error:
        recorder.note("broken", error=repr(error))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
