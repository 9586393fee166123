"""The brokers of the pytest plugin and of `unittest`: one per module or test, seeded, reset, and quoted on failure."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.testing import Broker

pytest_plugins = ["pytester"]

SEED = """
orders:
  partitions: 2
  configs: {retention.ms: -1}
  records:
    - {key: table 4, value: {drink: tea}, headers: {source: till}, partition: 1, timestamp: 1500000000000}
    - {value: "plain"}
payments:
  records: payments.jsonl
"""
LINES = [{"value": "1"}, {"value": {"base64": "/w=="}, "topic": "elsewhere", "offset": 4}]


def run_tests(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=tests)
    return pytester.runpytest_subprocess("-W", "error", *arguments, timeout=100)


def test_a_broker_of_the_session_is_as_new_after_each_test(pytester: pytest.Pytester) -> None:
    tests = """
        def test_first(ottla_broker):
            ottla_broker.faults.add("Produce", error="UNKNOWN_SERVER_ERROR")
            ottla_broker.clock.set("2001-01-01")
            ottla_broker.clock.freeze()

        def test_second(ottla_broker):
            assert len(ottla_broker.faults) == 0
            assert not ottla_broker.clock.is_frozen
            assert ottla_broker.clock.now.year > 2001
    """
    run_tests(pytester, tests, "-p", "no:randomly").assert_outcomes(passed=2)


@pytest.mark.parametrize("arguments", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_the_requests_of_a_test_are_in_the_report_of_its_failure(
    pytester: pytest.Pytester, arguments: list[str]
) -> None:
    tests = """
        import ottla
        from ottla.testing import Broker

        def send(broker, topic):
            with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send(topic, b"tea").result(10)

        def test_passes(ottla_broker):
            send(ottla_broker, "of-the-first")

        def test_fails(ottla_broker):
            send(ottla_broker, "of-the-second")
            assert False

        def test_fails_without_a_broker():
            assert False

        def test_fails_with_a_broker_of_its_own():
            with Broker() as broker:
                send(broker, "of-the-third")
                assert broker.records("of-the-third") == []
    """
    result = run_tests(pytester, tests, *arguments)
    result.assert_outcomes(passed=1, failed=3)
    output = result.stdout.str()
    assert output.count("- requests to ") == 2
    assert "Produce v" in output
    assert "(of-the-second-0): ok after" in output
    assert "(of-the-third-0): ok after" in output
    assert "of-the-first" not in output
    assert "ottla-testing" not in output  # the client that `records` uses


def test_a_test_or_module_may_have_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("orders.yaml").write_text(SEED)
    lines = "\n".join(map(json.dumps, LINES))
    pytester.path.joinpath("payments.jsonl").write_text(lines)
    tests = """
        import pytest

        pytestmark = pytest.mark.ottla_broker(seed="payments.jsonl")

        @pytest.mark.ottla_broker(nodes=3, seed="orders.yaml", options={"num.partitions": 5})
        def test_three_nodes(ottla_test_broker):
            assert len(ottla_test_broker.node_ids) == 3
            records = ottla_test_broker.records("orders")
            first = next(record for record in records if record.partition == 1)
            assert (first.key, first.value) == (b"table 4", b'{"drink":"tea"}')
            assert (first.timestamp_ms, list(first.headers)) == (1500000000000, [("source", b"till")])
            assert b"plain" in [record.value for record in records]
            values = [record.value for record in ottla_test_broker.records("payments")]
            assert sorted(values) == [b"1", b"\\xff"]

        def test_the_mark_of_the_module(ottla_test_broker, ottla_module_broker):
            assert ottla_test_broker.bootstrap_servers != ottla_module_broker.bootstrap_servers
            for broker in (ottla_test_broker, ottla_module_broker):
                assert len(broker.records("payments")) == 2

        def test_a_seed_in_code(ottla_broker, ottla_seed, ottla_topic):
            ottla_seed({ottla_topic: {"records": [{"value": "tea"}]}})
            assert [record.value for record in ottla_broker.records(ottla_topic)] == [b"tea"]
            with pytest.raises(Exception, match="exists already"):
                ottla_seed({ottla_topic: {}})

        @pytest.mark.ottla_broker(nodes=3)
        def test_with_a_mark_that_has_no_effect(ottla_module_broker):
            pass
    """
    result = run_tests(pytester, tests, "--strict-markers")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*is for the fixture ottla_test_broker*"])


def test_a_mark_with_an_unknown_argument_says_what_there_is(pytester: pytest.Pytester) -> None:
    tests = """
        import pytest

        @pytest.mark.ottla_broker(node=3)
        def test_misspelt(ottla_test_broker):
            pass

        @pytest.mark.ottla_broker("3.6")
        def test_without_a_name(ottla_test_broker):
            pass
    """
    result = run_tests(pytester, tests)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*marker ottla_broker has no node=: there are as_version=*nodes=*", "*arguments by name*"]
    )


def test_requests_are_those_of_the_test(pytester: pytest.Pytester) -> None:
    tests = """
        import ottla

        def send(broker, topic):
            with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send(topic, b"v").result(20)

        def test_first(ottla_broker, ottla_topic):
            send(ottla_broker, ottla_topic)
            send(ottla_broker, ottla_topic)
            assert len(ottla_broker.requests("Produce")) == 2

        def test_second(ottla_broker, ottla_topic):
            assert ottla_broker.requests() == []
            send(ottla_broker, ottla_topic)
            assert len(ottla_broker.requests("Produce")) == 1
            assert len([each for each in ottla_broker.log if each.api == "Produce"]) == 3

        def test_of_a_module(ottla_module_broker):
            send(ottla_module_broker, "tea")

        def test_of_a_module_again(ottla_module_broker):
            assert ottla_module_broker.requests() == []
    """
    run_tests(pytester, tests, "-p", "no:randomly").assert_outcomes(passed=4)


def test_a_broker_for_one_test_starts_and_stops_in_less_than_50_ms() -> None:
    """Of the processor's time, of all threads: a busy machine takes longer."""
    for _ in range(2):  # imports, and what is compiled on first use
        Broker().start().stop()
    took = []
    for _ in range(9):
        began = time.process_time()
        Broker().start().stop()
        took.append(time.process_time() - began)
    assert statistics.median(took) < 0.05


UNITTEST = """
import unittest
import ottla
from ottla.testing import BrokerTestCase

class OrdersTest(BrokerTestCase):
    broker_options = {"num.partitions": 3}
    broker_nodes = 2

    def test_1_fails(self):
        self.broker.faults.add("Produce", delay="1ms")
        self.broker.clock.freeze()
        with ottla.Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.admin.NewTopic("orders")])
        self.assertEqual(len(self.broker.node_ids), 3)

    def test_2_begins_anew(self):
        self.assertEqual(len(self.broker.faults), 0)
        self.assertFalse(self.broker.clock.is_frozen)
        with ottla.Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            self.assertEqual(len(admin.describe_topics(["orders"])["orders"].partitions), 3)

unittest.main()
"""


def test_a_case_of_unittest_has_a_broker_and_prints_the_requests_of_failures(
    tmp_path: Path,
) -> None:
    path = tmp_path / "orders.py"
    path.write_text(UNITTEST)
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False
    )
    assert "FAILED (failures=1)" in ran.stderr, ran.stderr
    assert "CreateTopics v" in ran.stderr
    assert "(orders): ok after" in ran.stderr


def test_a_case_of_unittest_runs_under_pytest(pytester: pytest.Pytester) -> None:
    tests = UNITTEST.replace("unittest.main()", "")
    result = run_tests(pytester, tests)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*CreateTopics v*(orders): ok after*"])


def test_a_case_of_unittest_may_have_a_seed_and_a_version(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("orders.yaml").write_text("orders: {records: [{value: plain}]}")
    tests = """
        from ottla.testing import BrokerTestCase

        class OrdersTest(BrokerTestCase):
            broker_seed = "orders.yaml"
            broker_as_version = "3.6"

            def test_the_seed_of_the_class(self):
                self.assertIn(b"plain", [each.value for each in self.broker.records("orders")])
                with self.assertRaisesRegex(Exception, "newer than the broker's as_version"):
                    self.broker.faults.add("DescribeTopicPartitions", drop="after")
    """
    run_tests(pytester, tests).assert_outcomes(passed=1)


TROUBLE_IN_UNITTEST = """
import asyncio
import unittest
import ottla
from ottla.testing import BrokerTestCase

@unittest.skip("not today")
class SkippedTest(BrokerTestCase):
    def test_nothing(self):
        self.fail("it runs")

class OrdersTest(BrokerTestCase, unittest.IsolatedAsyncioTestCase):
    broker_nodes = 2

    async def test_1_leaves_it_killed(self):
        async with ottla.aio.Producer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            await (await producer.send("orders", b"1"))
            self.broker.kill()
            second = await producer.send("orders", b"2")
            self.broker.restart()
            await second
        self.assertEqual(len(self.broker.records("orders")), 2)
        self.broker.kill()

    def test_2_leaves_it_paused(self):
        self.assertEqual(len(self.broker.records("orders")), 2)
        self.broker.pause()

    def test_3_kills_a_node(self):
        self.assertEqual(len(self.broker.records("orders")), 2)
        self.broker.kill_node(2)

    def test_4_finds_both_running(self):
        self.assertEqual(len(self.broker.records("orders")), 2)
        self.assertEqual(self.broker.node_ids, [1, 2])

unittest.main()
"""


def test_a_case_of_unittest_finds_its_broker_running_whatever_the_last_one_did(
    tmp_path: Path,
) -> None:
    path = tmp_path / "orders.py"
    path.write_text(TROUBLE_IN_UNITTEST)
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False
    )
    assert "OK (skipped=1)" in ran.stderr, ran.stderr
    assert "Ran 5 tests" in ran.stderr
