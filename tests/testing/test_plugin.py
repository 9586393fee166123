"""The pytest plugin, as a project that installed ottla uses it: in pytest runs of their own."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

PRODUCE = """
from ottla.client.raw import RawConnection
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
)

def partition_count(broker, topic):
    with RawConnection(broker.bootstrap_servers) as connection:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        return len(connection.call(asked, MetadataResponse, 12).topics[0].partitions)

def produce(broker, topic):
    partition_count(broker, topic)
    with RawConnection(broker.bootstrap_servers) as connection:
        data = [PartitionProduceData(index=0, records=build_batch([Record(0, 5, None, b"v")]))]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)
        answer = connection.call(request, ProduceResponse, 9)
        partition = answer.responses[0].partition_responses[0]
        return partition.error_code, partition.base_offset
"""


def passes(pytester: pytest.Pytester, tests: str, count: int, *arguments: str) -> list[str]:
    """Runs tests in a process of their own; answers what they printed."""
    pytester.makepyfile(produce=PRODUCE, test_it=tests)
    result = pytester.runpytest_subprocess("-s", "-W", "error", *arguments, timeout=60)
    result.assert_outcomes(passed=count)
    return result.outlines


def test_the_install_registers_the_plugin() -> None:
    names = {entry.value for entry in entry_points(group="pytest11") if entry.name == "ottla"}
    assert names == {"ottla.testing.plugin"}


def test_a_test_gets_a_broker_and_a_topic_of_its_own(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        from produce import produce

        def test_first_record(ottla_broker, ottla_topic):
            assert produce(ottla_broker, ottla_topic) == (0, 0)

        def test_the_next_topic_is_empty_again(ottla_broker, ottla_topic):
            assert produce(ottla_broker, ottla_topic) == (0, 0)
            assert produce(ottla_broker, ottla_topic) == (0, 1)
        """,
        2,
    )


def test_topic_names_are_new_legal_and_say_whose_they_are(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import pytest
        from ottla.core.catalog import check_name

        @pytest.mark.parametrize("value", ["a b/c", "ü", "x" * 500, "."])
        def test_names(ottla_topic_name, ottla_topic, value):
            names = [ottla_topic_name() for _ in range(100)] + [ottla_topic]
            assert len(set(names)) == len(names)
            for name in names:
                assert check_name(name) is None
                assert name.startswith("test-names")
        """,
        4,
    )


def test_the_session_has_one_broker_that_is_gone_afterwards(pytester: pytest.Pytester) -> None:
    lines = passes(
        pytester,
        """
        def test_one(ottla_broker):
            print("SEEN", ottla_broker.bootstrap_servers, ottla_broker.data_dir)

        def test_two(ottla_broker):
            print("SEEN", ottla_broker.bootstrap_servers, ottla_broker.data_dir)
        """,
        2,
    )
    seen = {line.split("SEEN ")[1] for line in lines if "SEEN " in line}
    (only,) = seen
    address, folder = only.split(" ")
    assert address.startswith("127.0.0.1:")
    assert not pytester.path.joinpath(folder).exists()


def test_no_broker_starts_where_no_test_wants_one(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import sys

        def test_without():
            assert "ottla.broker.embedded" not in sys.modules
            assert "asyncio" not in sys.modules or "ottla.broker.runtime" not in sys.modules
        """,
        1,
    )


def test_options_can_be_overridden(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def ottla_broker_options():
            return {"num.partitions": 7}
        """
    )
    passes(
        pytester,
        """
        from produce import partition_count

        def test_options(ottla_broker, ottla_topic):
            assert partition_count(ottla_broker, ottla_topic) == 7
        """,
        1,
    )


@pytest.mark.parametrize(("retention", "first"), [({}, 0), ({"log.retention.hours": 1}, 1)])
def test_records_of_any_age_stay_unless_options_say_how_long(
    pytester: pytest.Pytester, retention: dict[str, object], first: int
) -> None:
    pytester.makeconftest(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def ottla_broker_options():
            return {{"log.retention.check.interval.ms": 10, **{retention!r}}}
        """
    )
    passes(
        pytester,
        f"""
        from ottla import Admin, Consumer, TopicPartition
        from ottla.admin import NewTopic
        from produce import produce

        def test_an_old_record(ottla_broker, ottla_topic_name):
            asked, forgetful = ottla_topic_name(), ottla_topic_name()
            with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
                admin.create_topics([NewTopic(forgetful, configs={{"retention.ms": "1000"}})])
            for topic in (asked, forgetful):
                assert produce(ottla_broker, topic) == (0, 0)
            places = [TopicPartition(asked, 0), TopicPartition(forgetful, 0)]
            with Consumer(bootstrap_servers=ottla_broker.bootstrap_servers) as consumer:
                # It looks at the topics one after the other: at both when it has looked at one twice.
                for looked in (1, 2):
                    while consumer.beginning_offsets(places)[places[1]] < looked:
                        pass
                    produce(ottla_broker, forgetful)
                assert consumer.beginning_offsets(places)[places[0]] == {first}
        """,
        1,
    )


def test_every_xdist_worker_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    passes(
        pytester,
        """
        import os
        import pathlib
        import pytest
        from produce import produce

        @pytest.mark.parametrize("number", range(8))
        def test_worker(ottla_broker, ottla_topic, number):
            assert produce(ottla_broker, ottla_topic) == (0, 0)
            worker = os.environ["PYTEST_XDIST_WORKER"]
            seen = pathlib.Path(__file__).with_name(f"seen-{worker}-{number}")
            seen.write_text(ottla_broker.bootstrap_servers)
        """,
        8,
        "-n",
        "2",
    )
    brokers: dict[str, set[str]] = {}
    for path in pytester.path.glob("seen-*"):
        brokers.setdefault(path.name.split("-")[1], set()).add(path.read_text())
    assert sorted(brokers) == ["gw0", "gw1"]
    assert all(len(addresses) == 1 for addresses in brokers.values())
    assert brokers["gw0"] != brokers["gw1"]
