"""What a test is told of a broker is what its clients have done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from tests.broker.consumer_group_requests import ConsumerMember, settle
from tests.broker.group_requests import await_coordinator, enter
from tests.broker.requests import create

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ConfigError
from ottla.testing import Broker
from ottla.testing.inspection import Inspection, wait_for, wait_for_async


@pytest.fixture
def inspection(ottla_broker: Broker) -> Inspection:
    return ottla_broker


@pytest.fixture
def producer(ottla_broker: ottla.Broker, ottla_topic: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": ottla_broker.bootstrap_servers, "transactional.id": ottla_topic}
    )
    made.init_transactions()
    return made


def send(producer: confluent_kafka.Producer, topic: str, *values: bytes, commit: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, key=b"k")
    if commit:
        producer.commit_transaction()
    else:
        producer.flush()
        producer.abort_transaction()


def test_records_are_those_of_committed_transactions(
    inspection: Inspection, producer: confluent_kafka.Producer, ottla_topic: str
) -> None:
    send(producer, ottla_topic, b"1", b"2", commit=True)
    send(producer, ottla_topic, b"3", commit=False)
    assert [record.value for record in inspection.records(ottla_topic)] == [b"1", b"2"]
    everything = inspection.records(ottla_topic, isolation="read_uncommitted")
    assert [record.value for record in everything] == [b"1", b"2", b"3"]
    with pytest.raises(ConfigError, match="there is no topic 'nowhere'"):
        inspection.records("nowhere")
    assert inspection.transactions()[ottla_topic].state == "CompleteAbort"


def test_lag_counts_records_and_not_markers(
    inspection: Inspection,
    producer: confluent_kafka.Producer,
    ottla_broker: ottla.Broker,
    ottla_topic: str,
) -> None:
    send(producer, ottla_topic, b"1", b"2", commit=True)
    group = f"group-of-{ottla_topic}"
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ottla_broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    with pytest.raises(TimeoutError, match=f"{group} to have no lag: it has committed nothing"):
        inspection.wait_lag_zero(group, timeout="50ms")
    consumer.subscribe([ottla_topic])
    message = wait_for(lambda: consumer.poll(0.1), what="the first record")
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    assert inspection.lag(group) == {(ottla_topic, 0): 1}
    assert inspection.groups()[group].state == "Stable"
    with pytest.raises(TimeoutError, match="records not committed yet"):
        inspection.wait_lag_zero(group, timeout="50ms")
    message = wait_for(lambda: consumer.poll(0.1), what="the second record")
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    inspection.wait_lag_zero(group, topic=ottla_topic)
    consumer.close()


def test_lag_counts_partitions_that_a_group_has_not_begun(
    inspection: Inspection, ottla_broker: Broker, ottla_topic: str
) -> None:
    records: list[object] = [{"value": str(each), "partition": each} for each in (0, 1)]
    ottla_broker.seed({ottla_topic: {"partitions": 3, "records": records}})
    group = f"group-of-{ottla_topic}"
    with ottla.Consumer(
        bootstrap_servers=ottla_broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([ottla_topic])
        read = wait_for(lambda: [*consumer.poll(0.1)], what="records")
        first = ottla.TopicPartition(ottla_topic, read[0].partition)
        consumer.commit({first: read[0].offset + 1})
        other = ottla.TopicPartition(ottla_topic, 1 - first.partition)
        assert inspection.lag(group) == {
            first: 0,
            other: 1,
            ottla.TopicPartition(ottla_topic, 2): 0,
        }
        with pytest.raises(TimeoutError, match=f"not committed yet: {{'{other}': 1}}"):
            inspection.wait_lag_zero(group, timeout="50ms")
        consumer.commit({other: 1})
        inspection.wait_lag_zero(group)


def test_lag_of_a_group_without_members_is_that_of_its_commits(
    inspection: Inspection, ottla_broker: Broker, ottla_topic: str
) -> None:
    records: list[object] = [{"value": str(each), "partition": each} for each in (0, 1)]
    ottla_broker.seed({ottla_topic: {"partitions": 2, "records": records}})
    group = f"group-of-{ottla_topic}"
    with ottla.Consumer(
        bootstrap_servers=ottla_broker.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as consumer:
        chosen = ottla.TopicPartition(ottla_topic, 0)
        consumer.assign([chosen])
        consumer.commit({chosen: 1})
    assert inspection.lag(group) == {chosen: 0}
    inspection.wait_lag_zero(group)


@pytest.mark.parametrize(
    ("copied", "trouble"),
    [
        ([b"1", b"2", b"2"], None),
        ([b"1", b"2"], r"1 lost: \(b'k', b'2'\) \(1x\)"),
        ([b"1", b"1", b"2", b"2"], r"1 duplicated: \(b'k', b'1'\) \(2x\)"),
        ([b"1", b"2", b"2", b"3"], r"1 not from the source: \(b'k', b'3'\) \(1x\)"),
    ],
)
def test_exactly_once_is_asserted(
    inspection: Inspection,
    producer: confluent_kafka.Producer,
    ottla_topic: str,
    copied: list[bytes],
    trouble: str | None,
) -> None:
    source, sink = f"{ottla_topic}-in", f"{ottla_topic}-out"
    send(producer, source, b"1", b"2", b"2", commit=True)
    send(producer, source, b"aborted", commit=False)
    send(producer, sink, *copied, commit=True)
    if trouble is None:
        inspection.assert_exactly_once(source, sink)
        return
    with pytest.raises(AssertionError, match=trouble):
        inspection.assert_exactly_once(source, sink)
    values = {record.value for record in inspection.records(source)}
    if values == set(copied):
        inspection.assert_exactly_once(source, source, by=lambda record: record.value)


def test_a_wait_gives_what_the_predicate_gave_or_says_what_it_waited_for() -> None:
    answers: Iterator[int | None] = iter([None, 0, 5])
    assert wait_for(lambda: next(answers)) == 5
    with pytest.raises(TimeoutError, match=r"waited 0\.02 for tea: cold"):
        wait_for(lambda: False, timeout=0.02, what="tea", found=lambda: "cold")

    def check() -> bool:
        raise AssertionError("not yet")

    with pytest.raises(TimeoutError, match="not yet"):
        wait_for(check, timeout="20ms")


def test_a_wait_in_asyncio_lets_the_tasks_of_the_test_go_on() -> None:
    async def wait() -> object:
        done = asyncio.Event()
        task = asyncio.create_task(asyncio.sleep(0.02))
        task.add_done_callback(lambda _: done.set())
        return await wait_for_async(lambda: done.is_set() and "tea")

    assert asyncio.run(wait()) == "tea"


def test_a_wait_in_asyncio_awaits_its_predicate_no_longer_than_it_may() -> None:
    answers = iter([0, 5])

    async def answer() -> int:
        return next(answers)

    async def refuse() -> bool:
        raise AssertionError("not yet")

    async def hang() -> bool:
        return await asyncio.Event().wait()

    async def give_up() -> bool:
        raise TimeoutError("its own")

    assert asyncio.run(wait_for_async(answer)) == 5
    for predicate, said in ((refuse, "waited 20ms for tea: not yet"), (hang, "20ms for tea$")):
        with pytest.raises(TimeoutError, match=said):
            asyncio.run(wait_for_async(predicate, timeout="20ms", what="tea"))
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(wait_for_async(give_up))


def test_a_wait_for_records_returns_all_of_a_topic_that_comes_later(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def run() -> list[bytes]:
        async with ottla.aio.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
            waiting = asyncio.create_task(
                asyncio.to_thread(ottla_broker.wait_records, ottla_topic, 2)
            )
            for value in (b"tea", b"cake"):
                await (await producer.send(ottla_topic, value))
            return [record.value for record in await waiting]

    assert asyncio.run(run()) == [b"tea", b"cake"]


def test_a_wait_for_records_says_what_is_missing(
    producer: confluent_kafka.Producer, inspection: Inspection, ottla_topic: str
) -> None:
    with pytest.raises(TimeoutError, match=f"1 record.s. in topic {ottla_topic}: there is no such"):
        inspection.wait_records(ottla_topic, 1, timeout="10ms")
    send(producer, ottla_topic, b"seen", commit=True)
    send(producer, ottla_topic, b"aborted", commit=False)
    with pytest.raises(TimeoutError, match=r"2 record.s. in topic .*: it has 1"):
        inspection.wait_records(ottla_topic, 2, timeout="10ms")
    assert len(inspection.wait_records(ottla_topic, 2, isolation="read_uncommitted")) == 2
    for wrong in (0, -1, True, "2"):
        with pytest.raises(ConfigError, match="how many records to wait for"):
            inspection.wait_records(ottla_topic, wrong)  # type: ignore[arg-type]


def test_a_wait_for_members_ends_when_all_of_them_know_their_partitions(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    def member() -> ottla.Consumer:
        joining = ottla.Consumer(
            bootstrap_servers=ottla_broker.bootstrap_servers, group_id=ottla_topic
        )
        joining.subscribe([ottla_topic])
        joining.poll(0)
        return joining

    assert ottla_broker.wait_members(ottla_topic, 0) is None
    with pytest.raises(TimeoutError, match=r"1 member.s. of group .*: there is no such group"):
        ottla_broker.wait_members(ottla_topic, 1, timeout="10ms")
    ottla_broker.seed({ottla_topic: {"partitions": 2}})
    with member() as first, member() as second, ThreadPoolExecutor() as threads:
        waiting = threads.submit(ottla_broker.wait_members, ottla_topic, 2)
        while not waiting.done():
            first.poll(0.01)
            second.poll(0.01)
        found = waiting.result()
        assert found is not None
        assert [len(each.assignment) for each in found.members] == [1, 1]
        with pytest.raises(TimeoutError, match=r"1 member.s. of group .*: it has 2 and is Stable"):
            ottla_broker.wait_members(ottla_topic, 1, timeout="10ms")
    left = ottla_broker.wait_members(ottla_topic, 0)
    assert left is not None
    assert left.state == "Empty"
    with pytest.raises(ConfigError, match="how many members to wait for"):
        ottla_broker.wait_members(ottla_topic, -1)


def test_a_wait_for_something_asynchronous_is_refused() -> None:
    async def holds() -> bool:
        return False

    predicate: Callable[[], object] = holds
    with pytest.raises(ConfigError, match="write await wait_for_async"):
        wait_for(predicate, timeout="50ms")


def test_what_cannot_be_looked_up_yet_is_waited_for() -> None:
    groups: dict[str, str] = {}
    with pytest.raises(TimeoutError, match=r"waited 50ms for .*: KeyError\('billing'\)"):
        wait_for(lambda: groups["billing"], timeout="50ms")
    with pytest.raises(TimeoutError, match="IndexError"):
        asyncio.run(wait_for_async(lambda: [][0], timeout="50ms"))
    looks = iter([{}, {"billing": "Stable"}])
    assert wait_for(lambda: next(looks)["billing"]) == "Stable"


def test_members_of_both_protocols_are_waited_for() -> None:
    with Broker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        await_coordinator(connection)
        create(connection, "t", 2)
        first, second = (ConsumerMember(connection, "new", "t") for _ in range(2))
        first.join()
        described = broker.wait_members("new", 1)
        assert described is not None
        assert [member.member_id for member in described.members] == [first.member_id]
        second.join()
        settle(first, second)
        described = broker.wait_members("new", 2)
        assert described is not None
        assigned = [each for member in described.members for each in member.assignment]
        assert sorted(assigned) == [("t", 0), ("t", 1)]
        enter(connection, "old")
        assert broker.wait_members("old", 1) is not None
        assert set(broker.groups()) == {"new", "old"}
        assert broker.lag("new") == {("t", 0): 0, ("t", 1): 0}
        first.leave()
        second.leave()
        broker.wait_members("new", 0)
