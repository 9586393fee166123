"""The broker dies at each place that has a name, under a copier's transactions: every record has one copy then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.aiokafka.driver import AioKafka
from tests.clients.confluent_kafka.driver import ConfluentKafka
from tests.clients.copying import Copier as StrangersCopier
from tests.clients.driver import TransactionalDriver
from tests.clients.kafka_python.driver import KafkaPython
from tests.clients.transactions_seen import OFFSETS_TOPIC, wait_for
from tests.faults.copier import Copier
from tests.faults.copies import (
    GROUP_ID,
    SOURCE,
    TARGET,
    Work,
    check,
    prepare,
    problems,
    wait_until_copied,
)
from tests.faults.processes import BrokerProcess, fault_rng

from ottla.broker.crashpoints import CrashPoint
from ottla.model import TopicPartition

WORK = Work(partition_count=2, records_per_partition=20)
CRASH_SECONDS, COPY_SECONDS = 40.0, 90.0
# Some are reached once per producer or member only.
COUNT = 2
OPTIONS: dict[str, object] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 200,
}


def crash_under(
    folder: Path,
    point: CrashPoint,
    count: int,
    run: Callable[[str], None],
    stop: Callable[[], None],
) -> None:
    """Kills the broker at a place while somebody copies, starts it again, and looks at what was copied."""
    broker = BrokerProcess(folder, **OPTIONS)
    broker.crash_at = point, count
    with broker:
        prepare(broker.address, WORK)
        copying = threading.Thread(target=run, args=(broker.address,), daemon=True)
        copying.start()
        try:
            wait_for(f"the broker died at {point.name}", broker.has_crashed, CRASH_SECONDS)
            broker.start()
            wait_until_copied(broker.address, WORK, COPY_SECONDS)
        finally:
            stop()
            copying.join(COPY_SECONDS)
        check(broker.address, WORK, TopicPartition(OFFSETS_TOPIC, 0))
        assert broker.stop() == 0


@pytest.mark.parametrize("point", CrashPoint, ids=lambda point: point.name)
def test_every_record_has_one_copy_after_a_crash(tmp_path: Path, point: CrashPoint) -> None:
    copiers: list[Copier] = []

    def run(address: str) -> None:
        copier = Copier(address, SOURCE, TARGET, GROUP_ID, "copier", aborts_first=1)
        copiers.append(copier)
        copier.run()

    began = time.monotonic()
    crash_under(tmp_path, point, COUNT, run, lambda: copiers[0].is_stopping.set())
    (copier,) = copiers
    print(f"{copier.committed} committed, {copier.aborted} aborted, {copier.failures}")
    print(f"{time.monotonic() - began:.1f} s")
    assert copier.aborted > 0


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("aborts_first", [0, 1], ids=["commit", "abort"])
@pytest.mark.parametrize(
    "driver", [ConfluentKafka, KafkaPython, AioKafka], ids=lambda one: one.name
)
@pytest.mark.parametrize("point", CrashPoint, ids=lambda point: point.name)
def test_any_client_has_one_copy_of_every_record_after_a_crash(
    tmp_path: Path, point: CrashPoint, driver: type[TransactionalDriver], aborts_first: int
) -> None:
    rng = fault_rng()
    # With one producer and one member there is one of these.
    is_rare = point in (CrashPoint.BEFORE_EMPTY_APPEND, CrashPoint.AFTER_EMPTY_APPEND)
    failures: list[Exception] = []

    def run(address: str) -> None:
        copier = StrangersCopier(
            driver(address),
            *(SOURCE, TARGET, "copier", GROUP_ID),
            *(WORK.partition_count, WORK.records_per_partition),
            prefix=b"",
            aborts_first=aborts_first,
            failures=failures,
        )
        copier.run()

    crash_under(tmp_path, point, 1 if is_rare else rng.randint(1, 3), run, lambda: None)
    print(failures)


def test_the_check_of_copies_sees_what_it_is_for() -> None:
    work = Work(1, 3)
    values = work.values(0)
    assert problems({0: values}, work) == []
    assert problems({0: values[:2]}, work) == ["partition 0: 1 lost, b'0-2'"]
    assert problems({0: [*values, values[0]]}, work) == ["partition 0: 1 duplicates"]
    assert problems({0: [values[1], values[0], values[2]]}, work) == ["partition 0: out of order"]
    assert problems({0: [*values, b"x"]}, work)[0] == "partition 0: records that were never sent"
