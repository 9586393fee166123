"""What a read_committed fetch is told of aborted transactions; markers come from inside the broker."""

from __future__ import annotations

from pathlib import Path

from tests.broker.conftest import Starter
from tests.broker.requests import (
    FETCH_VERSION,
    create,
    eventually,
    fetch,
    fetch_request,
    fill,
    new_producer_id,
    now_ms,
    on_loop,
    records_of,
    session_with,
    values_in,
    waiter_count,
)

import ottla
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.core.append import Prepared, prepare
from ottla.core.partition import READ_COMMITTED
from ottla.core.producer_state import Verification
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.control import MarkerType
from ottla.wire.messages.fetch import FetchResponse


def send(broker: ottla.Broker, topic: str, producer_id: int, sequence: int, value: bytes) -> None:
    """A record of a transaction, past the checks that clients' requests go through."""
    data = build_batch(
        records_of(value),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        flags=BatchFlag.TRANSACTIONAL,
    )

    def append(running: RunningBroker) -> None:
        shard = running.node.partitions.shard(topic, 0)
        assert isinstance(shard, Shard)
        made = prepare(data, shard.config, now_ms(), 12)
        assert isinstance(made, Prepared)
        needed = shard.partition.verification_for(made.header, 1)
        verification = needed if isinstance(needed, Verification) else None
        assert isinstance(shard.append(made, now_ms(), verification), Appended)

    on_loop(broker, append)


def end(broker: ottla.Broker, topic: str, producer_id: int, kind: MarkerType) -> None:
    def append(running: RunningBroker) -> None:
        shard = running.node.partitions.shard(topic, 0)
        assert isinstance(shard, Shard)
        assert isinstance(shard.append_marker(kind, producer_id, 0, 0, 1, now_ms()), Appended)

    on_loop(broker, append)


def aborted(connection: RawConnection, topic: str, offset: int) -> list[tuple[int, int]]:
    found = fetch(connection, topic, offset, isolation_level=READ_COMMITTED).aborted_transactions
    assert found is not None
    return [(each.producer_id, each.first_offset) for each in found]


def test_a_reader_of_committed_records_is_told_which_were_aborted(
    start: Starter, topic: str
) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        one, two = new_producer_id(connection), new_producer_id(connection)
        fill(connection, topic, b"plain")  # 0
        send(broker, topic, one, 0, b"aborted")  # 1
        send(broker, topic, two, 0, b"committed")  # 2
        end(broker, topic, one, MarkerType.ABORT)  # 3
        end(broker, topic, two, MarkerType.COMMIT)  # 4
        send(broker, topic, one, 1, b"open")  # 5
        found = fetch(connection, topic, 0, isolation_level=READ_COMMITTED)
        assert (found.last_stable_offset, found.high_watermark) == (5, 6)
        assert aborted(connection, topic, 0) == [(one, 1)]
        assert aborted(connection, topic, 3) == [(one, 1)]
        assert aborted(connection, topic, 4) == []
        assert fetch(connection, topic, 0).aborted_transactions is None


def test_the_list_survives_restarts_of_both_kinds(start: Starter, tmp_path: Path) -> None:
    broker = start(data_dir=tmp_path / "a", log_segment_bytes=1024 * 1024)
    topic = "orders"
    with session_with(broker) as connection:
        create(connection, topic)
        producer_id = new_producer_id(connection)
        for number in range(3):
            send(broker, topic, producer_id, number, b"aborted")
            end(broker, topic, producer_id, MarkerType.ABORT)
        expected = [(producer_id, 0), (producer_id, 2), (producer_id, 4)]
        assert aborted(connection, topic, 0) == expected
        # As a crash before the entries were written would leave it.
        (tmp_path / "a" / "orders-0" / f"{0:020d}.txnindex").unlink()
    on_loop(
        broker, lambda running: running.node.partitions.open_shards()[0].fail(OSError("a test"))
    )
    with session_with(broker) as connection:
        assert aborted(connection, topic, 0) == expected
    broker.stop()
    with session_with(start(data_dir=tmp_path / "a")) as connection:
        assert aborted(connection, topic, 0) == expected


def test_a_reader_that_waits_is_not_answered_for_records_of_an_open_transaction(
    start: Starter, topic: str
) -> None:
    """It would ask again at once, for every batch that others write."""
    broker = start()
    with session_with(broker) as connection, session_with(broker) as reader:
        create(connection, topic)
        producer_id = new_producer_id(connection)
        fill(connection, topic, b"plain")
        wanted = {"max_wait_ms": 60_000, "isolation_level": READ_COMMITTED}
        reader.send(fetch_request(topic, 1, **wanted), FETCH_VERSION)
        assert eventually(lambda: waiter_count(broker) == 1)
        for sequence in range(3):
            send(broker, topic, producer_id, sequence, b"open")
        fill(connection, topic, b"behind it")
        assert waiter_count(broker) == 1
        end(broker, topic, producer_id, MarkerType.COMMIT)
        (found,) = reader.receive(FetchResponse, FETCH_VERSION).responses[0].partitions
        assert values_in(found)[:4] == [b"open", b"open", b"open", b"behind it"]


def test_a_reader_that_waits_for_many_bytes_counts_those_that_were_open(
    start: Starter, topic: str
) -> None:
    broker = start()
    with session_with(broker) as connection, session_with(broker) as reader:
        create(connection, topic)
        producer_id = new_producer_id(connection)
        wanted = {"max_wait_ms": 60_000, "min_bytes": 1000, "isolation_level": READ_COMMITTED}
        reader.send(fetch_request(topic, 0, **wanted), FETCH_VERSION)
        assert eventually(lambda: waiter_count(broker) == 1)
        fill(connection, topic, b"little")
        assert waiter_count(broker) == 1
        send(broker, topic, producer_id, 0, b"x" * 1000)
        end(broker, topic, producer_id, MarkerType.COMMIT)
        (found,) = reader.receive(FetchResponse, FETCH_VERSION).responses[0].partitions
        assert values_in(found)[0] == b"little"
