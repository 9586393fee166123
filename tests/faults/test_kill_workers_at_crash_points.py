"""A worker dies at each place that has a name, under a copier's transactions: every record has one copy then.

The partitions are of both workers, and the coordinators are at one of them: markers and verifications go from one
process to the other, and either may die before, between and after.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.clients.confluent_kafka.driver import ConfluentKafka
from tests.clients.copying import Copier
from tests.clients.transactions_seen import open_transactions, wait_for
from tests.faults.copies import GROUP_ID, SOURCE, TARGET, Work, problems, read_target
from tests.faults.processes import BrokerProcess, first_of_free_ports

import ottla
from ottla.broker.crashpoints import CrashPoint
from ottla.testing.crash_injection import ONCE

WORK = Work(partition_count=4, records_per_partition=10)
CRASH_SECONDS, COPY_SECONDS = 40.0, 90.0
# One producer and one member reach these once, or before anything is copied.
RARE = (CrashPoint.BEFORE_EMPTY_APPEND, CrashPoint.AFTER_EMPTY_APPEND)
OPTIONS: dict[str, object] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 200,
}
# What one process has the other do.
BETWEEN_PROCESSES = (
    CrashPoint.AFTER_MARKERS_SENT,
    CrashPoint.AFTER_MARKER_APPEND,
    CrashPoint.AFTER_VERIFICATION,
)


class TwoWorkers(BrokerProcess):
    """A supervisor and two workers, one of which kills itself."""

    def __init__(self, folder: Path, point: CrashPoint) -> None:
        super().__init__(folder, **OPTIONS)
        self.address = f"127.0.0.1:{first_of_free_ports(3)}"
        self._point = point

    @property
    def workers(self) -> list[str]:
        """Where each listens alone."""
        host, _, port = self.address.rpartition(":")
        return [f"{host}:{int(port) + number}" for number in (1, 2)]

    def _program(self) -> list[str]:
        count = 1 if self._point in RARE else 2
        return ["ottla.testing.crash_injection", ONCE, self._point.name, str(count)]

    def _arguments(self) -> list[str]:
        return ["--workers", "2"]

    def has_lost_a_worker(self) -> bool:
        return "it was ended by SIGKILL" in self.log_text()


def crash_under(folder: Path, point: CrashPoint) -> None:
    failures: list[Exception] = []
    with TwoWorkers(folder, point) as broker:
        prepare(broker.address)
        copier = Copier(
            ConfluentKafka(broker.address),
            *(SOURCE, TARGET, "copier", GROUP_ID),
            *(WORK.partition_count, WORK.records_per_partition),
            prefix=b"",
            aborts_first=1,
            failures=failures,
        )
        copying = threading.Thread(target=copier.run, daemon=True)
        copying.start()
        wait_for(f"a worker died at {point.name}", broker.has_lost_a_worker, CRASH_SECONDS)
        copying.join(COPY_SECONDS)
        assert copier.is_done, failures
        wait_for("no transaction is open", lambda: not open_transactions(broker.workers))
        found = read_target(broker.address, WORK, "read_committed")
        assert problems(found, WORK) == [], failures
        # Readers of all records come to the same end: nothing is open, or held back.
        uncommitted = read_target(broker.address, WORK, "read_uncommitted")
        assert sum(map(len, uncommitted.values())) > WORK.total
        assert broker.stop() == 0


def prepare(address: str) -> None:
    """The topics, and what is to be copied."""
    with ottla.Admin(bootstrap_servers=address) as admin:
        admin.create_topics(
            [ottla.admin.NewTopic(name, WORK.partition_count) for name in (SOURCE, TARGET)]
        )
    with ottla.Producer(bootstrap_servers=address) as producer:
        for partition in range(WORK.partition_count):
            for value in WORK.values(partition):
                producer.send(SOURCE, value, partition=partition)


@pytest.mark.long
@pytest.mark.parametrize("point", BETWEEN_PROCESSES, ids=lambda point: point.name)
def test_every_record_has_one_copy_after_the_crash_of_a_worker(
    tmp_path: Path, point: CrashPoint
) -> None:
    crash_under(tmp_path, point)


@pytest.mark.campaign
@pytest.mark.parametrize("point", CrashPoint, ids=lambda point: point.name)
def test_every_record_has_one_copy_wherever_a_worker_crashes(
    tmp_path: Path, point: CrashPoint
) -> None:
    crash_under(tmp_path, point)
