"""A driver without Spark: plans micro-batches, commits each one, and keeps its progress in a checkpoint as Spark does.

A micro-batch is planned once (`offsets/N`), committed, and noted (`commits/N`). A driver that starts finds the last
plan and, unless it was noted, commits it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ottla
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.spark.sink import commit_session
from ottla.spark.sink.commit_plan import CommitPlan, PlannedOffsets
from ottla.spark.sink.commit_session import CommitPoint, DriverSender, EncodedRecords
from ottla.spark.sink.micro_batch_commit import Committer
from ottla.spark.sink.progress import ProgressError, TakenOverError, Target
from ottla.spark.source.stream_offsets import SourceRange

TAKEN_OVER = 3
REFUSED = 4
Offsets = dict[TopicPartition, int]


def read_range(servers: str, start: Offsets, end: Offsets) -> list[bytes]:
    """The values between two positions."""
    todo = {each: at for each, at in end.items() if at > start[each]}
    if not todo:
        return []
    options = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    with ottla.Consumer({**options, "auto.offset.reset": "none"}) as consumer:
        consumer.assign(list(todo))
        for each in todo:
            consumer.seek(each, start[each])
        values: dict[TopicPartition, list[bytes]] = {each: [] for each in todo}
        while any(consumer.position(each) < at for each, at in todo.items()):
            for record in consumer.poll(5.0):
                place = TopicPartition(record.topic, record.partition)
                if record.offset < todo[place]:
                    values[place].append(record.value)
    return [value for each in sorted(values) for value in values[each]]


class Driver:
    """One run of a query."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.servers: str = settings["servers"]
        self.source: str = settings["source"]
        self.sink: str = settings["sink"]
        self.folder = Path(settings["checkpoint"])
        self.random = random.Random(settings.get("seed", 0))
        kafka = {"bootstrap.servers": self.servers, **settings.get("options", {})}
        self.committer = Committer(
            Target(
                settings["pipeline"], self.sink, kafka, {"bootstrap.servers": self.servers},
                settings.get("fails_on_unknown", True),
            )
        )  # fmt: skip
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        identity = self.folder / "metadata"
        if not identity.exists():
            identity.write_text(os.urandom(8).hex())
        self.query = identity.read_text()
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            self.cluster = admin.describe_cluster().cluster_id
        self.group: str = settings["pipeline"]

    def run(self) -> None:
        """Go on until all of the source is committed."""
        while True:
            number, plan = self.next_plan()
            if plan is None:
                return
            self.commit(number, plan)
            (self.folder / "commits" / str(number)).write_text("done")

    def next_plan(self) -> tuple[int, Any]:
        planned = sorted(int(each.name) for each in (self.folder / "offsets").iterdir())
        last = planned[-1] if planned else -1
        if planned and not (self.folder / "commits" / str(last)).exists():
            return last, json.loads((self.folder / "offsets" / str(last)).read_text())
        start = self.plan_of(last)["end"] if planned else self.initial()
        end = self.end_after(start, last + 1)
        if start == end and (last + 1) % 3 != 1:
            return last + 1, None
        plan = {"start": start, "end": end, "at": time.time()}
        (self.folder / "offsets" / str(last + 1)).write_text(json.dumps(plan))
        return last + 1, plan

    def plan_of(self, number: int) -> Any:
        return json.loads((self.folder / "offsets" / str(number)).read_text())

    def initial(self) -> dict[str, int]:
        """From the group's offsets where it has some, as after the loss of a checkpoint."""
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            committed = admin.list_consumer_group_offsets([self.group])
        known = {each.partition: at for each, at in committed[self.group].items() if at}
        return {str(number): known[number].offset if number in known else 0 for number in (0, 1)}

    def end_after(self, start: dict[str, int], number: int) -> dict[str, int]:
        with ottla.Consumer(
            {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        ) as consumer:
            ends = consumer.end_offsets([(self.source, 0), (self.source, 1)])
        # Some micro-batches are empty: no record, but a marker and offsets all the same.
        most = 0 if number % 3 == 1 else 40
        return {
            str(each.partition): min(start[str(each.partition)] + most, at)
            for each, at in ends.items()
        }

    def commit(self, number: int, plan: Any) -> None:
        start, end = (
            {TopicPartition(self.source, int(each)): at for each, at in plan[name].items()}
            for name in ("start", "end")
        )
        values = read_range(self.servers, start, end)
        now_ms = time.time_ns() // 1_000_000
        records = []
        for partition in (0, 1):
            mine = [b"%d %s" % (number, each) for each in values[partition::2]]
            # Several record batches per partition.
            for part in (mine[:7], mine[7:]):
                if part:
                    made = [Record(at, now_ms, None, each) for at, each in enumerate(part)]
                    records.append(EncodedRecords(self.sink, partition, build_batch(made)))
        text = json.dumps(plan)
        digest = hashlib.sha256(text.encode()).hexdigest()
        ranges = [SourceRange(self.cluster, start, end)]
        planned = PlannedOffsets(number, digest, ranges)
        commit_plan = CommitPlan(self.query, number, offsets_at_commit=planned)
        outcome = self.committer.commit(commit_plan, DriverSender(records))
        print(number, outcome.name, flush=True)


def main() -> int:
    settings = json.loads(sys.argv[1])
    driver = Driver(settings)
    at = settings.get("at")
    if at is not None:
        point, visit, deed = at
        visits = 0

        def listen(reached: CommitPoint) -> None:
            nonlocal visits
            if reached.name == point:
                visits += 1
                if visits == visit:
                    print(f"at {point}", flush=True)
                    os.kill(os.getpid(), signal.SIGKILL if deed == "die" else signal.SIGSTOP)

        commit_session.listener = listen
    try:
        driver.run()
    except TakenOverError as error:
        print(f"taken over: {error}", flush=True)
        return TAKEN_OVER
    except ProgressError as error:
        print(f"refused: {error}", flush=True)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
