"""kill -9 while topics and ACLs come and go, while the broker starts, and while producer ids are given out."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.broker.security.acl_requests import (
    OPEN_TO_ANONYMOUS,
    create_acls,
    delete_acls,
    describe_acls,
    topic_acl,
)
from tests.faults.processes import BrokerProcess, fault_rng
from tests.faults.raw_calls import (
    batch_of,
    create_topic,
    delete_topic,
    new_producer_id,
    produce,
    read_partition,
    set_topic_option,
    topic_option,
    topics_of,
)

from ottla.access import AclBinding
from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.ports import PartitionRef
from ottla.storage.local import open_local_store
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NAMES = [f"topic-{number}" for number in range(4)]
ACLS = [topic_acl(f"of-{number}") for number in range(8)]
CATALOG_KILLS = 12
ID_KILLS = 20
OPTION = "retention.ms"


@dataclass
class Known:
    """A topic as its user knows it; what an unanswered request may have changed is in `maybe_`."""

    exists: bool = False
    maybe_exists: bool = False
    partition_count: int = 0
    maybe_partition_count: int = 0
    option: str = ""
    maybe_option: str = ""
    generation: int = 0
    acknowledged: list[bytes] = field(default_factory=list)
    maybe_record: bytes | None = None


class CatalogUser:
    """Creates, fills, configures and deletes topics, and checks after each kill what is left of it."""

    def __init__(self, broker: BrokerProcess, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        self._known = {name: Known() for name in NAMES}
        self._generation = 0
        # Also what an unanswered request has made of them: all that it asked for, or nothing.
        self._acls: set[AclBinding] = set()
        self._maybe_acls: set[AclBinding] = set()
        self.operations = 0

    def work_until_killed(self) -> None:
        killer = threading.Timer(self._rng.uniform(0.005, 0.15), self._broker.kill)
        killer.start()
        try:
            with RawConnection(self._broker.address) as connection:
                while True:
                    if self._rng.random() < 0.2:
                        self._change_acls(connection)
                    else:
                        self._step(connection, self._rng.choice(NAMES))
                    self.operations += 1
        except ConnectionError:
            pass
        finally:
            killer.join()

    def _step(self, connection: RawConnection, name: str) -> None:
        known = self._known[name]
        if not known.exists:
            self._create(connection, name, known)
            return
        match self._rng.choice(["produce", "produce", "configure", "delete"]):
            case "produce":
                self._produce(connection, name, known)
            case "configure":
                known.maybe_option = str(self._rng.randrange(10**6, 10**9))
                error = set_topic_option(connection, name, OPTION, known.maybe_option)
                assert error is ErrorCode.NONE
                known.option = known.maybe_option
            case _:
                known.maybe_exists = False
                assert delete_topic(connection, name) is ErrorCode.NONE
                known.exists = False

    def _change_acls(self, connection: RawConnection) -> None:
        some = self._rng.sample(ACLS, 3)
        if self._rng.random() < 0.5:
            self._maybe_acls = self._acls | set(some)
            assert {error for error, _ in create_acls(connection, *some)} == {ErrorCode.NONE}
        else:
            self._maybe_acls = self._acls - set(some)
            results = delete_acls(connection, *(acl.to_filter() for acl in some))
            assert {result.error_code for result in results} == {ErrorCode.NONE}
        self._acls = self._maybe_acls

    def _create(self, connection: RawConnection, name: str, known: Known) -> None:
        self._generation += 1
        count, option = self._rng.randint(1, 3), str(self._rng.randrange(10**6, 10**9))
        fresh = Known(
            maybe_exists=True,
            partition_count=count,
            maybe_partition_count=count,
            option=option,
            maybe_option=option,
            generation=self._generation,
        )
        self._known[name] = fresh
        result = create_topic(connection, name, count, {OPTION: option})
        assert result.error_code == ErrorCode.NONE, result.error_message
        fresh.exists = True
        # A name that was used before must not bring anything back.
        for partition in range(count):
            assert read_partition(connection, name, partition) == []

    def _produce(self, connection: RawConnection, name: str, known: Known) -> None:
        value = b"%d %d" % (known.generation, len(known.acknowledged))
        known.maybe_record = value
        error, offset = produce(connection, name, 0, batch_of([value], -1, -1))
        assert (error, offset) == (ErrorCode.NONE, len(known.acknowledged))
        known.acknowledged.append(value)
        known.maybe_record = None

    def check_and_learn(self) -> None:
        """Compares the broker with what is known, and settles what was not answered."""
        with RawConnection(self._broker.address) as connection:
            there = topics_of(connection)
            assert set(there) <= set(NAMES)
            for name, known in self._known.items():
                exists = name in there
                assert exists in (known.exists, known.maybe_exists), f"{name} {exists}"
                known.exists = known.maybe_exists = exists
                if exists:
                    self._check_topic(connection, name, known, there[name].partition_count)
            acls = set(describe_acls(connection))
            assert acls in (self._acls, self._maybe_acls)
            self._acls = self._maybe_acls = acls

    def _check_topic(
        self, connection: RawConnection, name: str, known: Known, partition_count: int
    ) -> None:
        assert partition_count == known.partition_count
        option = topic_option(connection, name, OPTION)
        assert option in (known.option, known.maybe_option)
        known.option = known.maybe_option = option
        values = [record.value for record in read_partition(connection, name, 0)]
        if known.maybe_record is not None and values[-1:] == [known.maybe_record]:
            known.acknowledged.append(known.maybe_record)
        known.maybe_record = None
        assert values == known.acknowledged
        for partition in range(1, partition_count):
            assert read_partition(connection, name, partition) == []

    def topic_folders(self) -> set[str]:
        return {
            f"{name}-{partition}"
            for name, known in self._known.items()
            if known.exists
            for partition in range(known.partition_count)
        }


@pytest.mark.timeout(400)
def test_kills_among_creations_deletions_and_changes_leave_a_consistent_catalog(
    tmp_path: Path,
) -> None:
    options = {**OPEN_TO_ANONYMOUS, "auto.create.topics.enable": "false"}
    broker = BrokerProcess(tmp_path, **options)
    with broker:
        user = CatalogUser(broker, fault_rng())
        rounds = 0
        # A slow machine gets less done before each kill.
        while rounds < CATALOG_KILLS or user.operations <= CATALOG_KILLS * 5:
            assert rounds < CATALOG_KILLS * 10, f"only {user.operations} operations"
            rounds += 1
            user.work_until_killed()
            broker.start()
            user.check_and_learn()
        assert broker.stop() == 0
    # A clean stop leaves no folder of a topic that is gone: neither as it was, nor set aside.
    folders = {entry.name for entry in broker.data.iterdir() if entry.is_dir()}
    assert folders <= user.topic_folders()


@pytest.mark.parametrize("removed", [0, 1, 3])
def test_a_deletion_that_a_crash_interrupted_is_finished_at_the_start(
    tmp_path: Path, removed: int
) -> None:
    """The topic is gone from the catalog first, then its partitions go one by one."""
    broker = BrokerProcess(tmp_path)
    with broker:
        with RawConnection(broker.address) as connection:
            create_topic(connection, "orders", 3)
            for partition in range(3):
                produce(connection, "orders", partition, batch_of([b"old"], -1, -1))
        broker.kill()
        store = open_local_store(broker.data, clock=SystemClock())
        cluster = Cluster(store, SystemClock(), SystemIds())
        topic = cluster.catalog.topics["orders"]
        cluster.commit(cluster.catalog.delete(topic, 0))
        for partition in range(removed):
            store.delete(PartitionRef("orders", partition, topic.topic_id))
        store.close()
        broker.start()
        assert not list(broker.data.glob("orders-?"))
        with RawConnection(broker.address) as connection:
            assert topics_of(connection) == {}
            assert create_topic(connection, "orders", 3).error_code == 0
            for partition in range(3):
                assert read_partition(connection, "orders", partition) == []


@pytest.mark.long
@pytest.mark.timeout(400)
def test_no_producer_id_is_given_out_twice_over_twenty_kills(tmp_path: Path) -> None:
    """Trap 11: a reused id makes new records look like duplicates, which are dropped silently."""
    rng = fault_rng()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    given: list[int] = []
    broker = BrokerProcess(tmp_path)
    with broker:
        for _ in range(ID_KILLS):
            # More than a block of 1000 now and then; killed with requests on their way.
            pipelined, taken = rng.choice([5, 50, 1500]), rng.randint(1, 5)
            with RawConnection(broker.address) as connection:
                for _ in range(pipelined):
                    connection.send(request, 4)
                for _ in range(pipelined - taken + 1):
                    answer = connection.receive(InitProducerIdResponse, 4)
                    assert (answer.error_code, answer.producer_epoch) == (0, 0)
                    given.append(answer.producer_id)
                broker.kill()
            broker.start()
    assert len(given) > ID_KILLS
    assert len(set(given)) == len(given)
    assert given == sorted(given)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_kills_during_recovery_lose_nothing(tmp_path: Path) -> None:
    rng = fault_rng()
    partitions, rounds = 8, 12
    broker = BrokerProcess(tmp_path, log_segment_bytes=50_000)
    with broker:
        with RawConnection(broker.address) as connection:
            create_topic(connection, "orders", partitions)
            producer_id = new_producer_id(connection)
        expected: list[bytes] = []
        for number in range(rounds):
            values = [b"%d.%d %s" % (number, index, b"." * 500) for index in range(60)]
            with RawConnection(broker.address) as connection:
                for partition in range(partitions):
                    batch = batch_of(values, producer_id, len(expected))
                    answer = produce(connection, "orders", partition, batch)
                    assert answer == (ErrorCode.NONE, len(expected))
            expected += values
            broker.kill()
            for _ in range(2):
                broker.launch()
                time.sleep(rng.uniform(0.05, 0.3))
                broker.kill()
            broker.start()
        with RawConnection(broker.address) as connection:
            for partition in range(partitions):
                seen = read_partition(connection, "orders", partition)
                assert [record.value for record in seen] == expected
        assert broker.stop() == 0
